"""Unified text-to-image retrieval: objects, attributed objects and triples as queries (UniVSE, Table 3).

Queries are frequent components of the train captions; the captions of the evaluated split say which images are right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import torch
from torch import Tensor

from ..similarities import COSINE, Similarity
from ..texts import Phrase
from ..vocabulary import WordVocabulary

MIN_IMAGES = {"object": 5, "attribute": 3, "relation": 3}  # minimum number of images per query
KINDS = {"object": "noun", "attribute": "attribute_noun", "relation": "triple"}  # in the table component_vocabulary


class SplitComponents(NamedTuple):
    """The components of a split's captions, one table row per caption, and the features (I, …) of its images."""

    vocabulary: WordVocabulary
    components: pa.Table
    features: Tensor


class Queries(NamedTuple):
    """Q queries of one kind; true: (Q, I) bool, True for images with a caption that has the query's component."""

    phrases: list[Phrase]
    true: Tensor


def frequent_queries(
    components: pa.Table, vocabulary: pa.Table, image: Sequence[int], images: int, written: Mapping[str, str]
) -> dict[str, Queries]:
    """The components of a vocabulary that captions of at least MIN_IMAGES images have, by kind, sorted by their words.

    components: one row per caption of the split. vocabulary: the table component_vocabulary, counted on train captions.
    image: (n,) the image index of each caption. images: I. written: the written form of each relation, see
    `written_forms`.
    """
    known: dict[str, set[tuple[str, ...]]] = {kind: set() for kind in KINDS.values()}
    for kind, words in zip(vocabulary["kind"].to_pylist(), vocabulary["words"].to_pylist(), strict=True):
        known.setdefault(kind, set()).add(tuple(words))
    images_of: dict[str, dict[tuple[str, ...], set[int]]] = {kind: {} for kind in MIN_IMAGES}
    columns = [components[name].to_pylist() for name in ("objects", "attributes", "relations")]
    for at, objects, attributes, relations in zip(image, *columns, strict=True):
        for item in objects:
            images_of["object"].setdefault((item["object"],), set()).add(at)
        for item in attributes:
            images_of["attribute"].setdefault((item["attribute"], item["object"]), set()).add(at)
        for item in relations:
            words = (item["subject"], item["relation"], item["object"])
            images_of["relation"].setdefault(words, set()).add(at)
    queries = {}
    for kind, least in MIN_IMAGES.items():
        frequent = known[KINDS[kind]]
        kept = sorted(
            (words, where) for words, where in images_of[kind].items() if len(where) >= least and words in frequent
        )
        true = torch.zeros(len(kept), images, dtype=torch.bool)
        for row, (_, where) in enumerate(kept):
            true[row, sorted(where)] = True
        phrases = [Phrase(words, " ".join(written.get(word, word) for word in words)) for words, _ in kept]
        queries[kind] = Queries(phrases, true)
    return queries


def written_forms(components: pa.Table, parses: pa.Table) -> dict[str, str]:
    """The most frequent written form of each relation: "run on" -> "running on". Both tables: one row per caption."""
    counts: dict[str, dict[str, int]] = {}
    for relations, tokens, text in zip(
        components["relations"].to_pylist(), parses["tokens"].to_pylist(), parses["text"].to_pylist(), strict=True
    ):
        for item in relations:
            form = " ".join(text[tokens[at]["start"] : tokens[at]["end"]] for at in item["tokens"]).lower()
            forms = counts.setdefault(item["relation"], {})
            forms[form or item["relation"]] = forms.get(form or item["relation"], 0) + 1
    return {word: max(sorted(forms), key=forms.__getitem__) for word, forms in counts.items()}


def average_precision(scores: Tensor, true: Tensor) -> Tensor:
    """The average precision (Q,), 0 to 1, of scores (Q, I); true: (Q, I) bool. A false image wins a tie."""
    order = true.long().argsort(dim=1, stable=True)
    order = order.gather(1, scores.gather(1, order).argsort(dim=1, descending=True, stable=True))
    found = true.gather(1, order).double()
    precision = found.cumsum(1) / torch.arange(1, scores.shape[1] + 1, device=scores.device)
    return (precision * found).sum(1) / found.sum(1)


def unified_retrieval(
    queries: Mapping[str, Queries],
    embed: Callable[[Sequence[Phrase]], Tensor],
    images: Tensor,
    similarity: Similarity = COSINE,
) -> dict[str, dict[str, float]]:
    """For each kind of query: the number of queries, mAP in %, and the mean share of true images in %.

    embed: maps phrases to vectors (Q, d). images: (I, d). Kinds without queries are left out.
    """
    metrics = {}
    for kind, (phrases, true) in queries.items():
        if phrases:
            scores = similarity.by_text(embed(phrases), images)
            metrics[kind] = {
                "queries": len(phrases),
                "mAP": 100 * average_precision(scores, true.to(images.device)).mean().item(),
                "images": 100 * true.double().mean().item(),
            }
    return metrics
