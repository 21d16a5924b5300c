"""Unified text-to-image retrieval: objects, attributed objects and triples as queries (UniVSE, Table 3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import torch
from torch import Tensor

from negcap.pipelines.models.vocabulary import Vocabulary

LEAST = {"object": 5, "attribute": 3, "relation": 3}  # images that a query must be said of


class Phrase(NamedTuple):
    """A query: ("dog",), ("black", "dog") or ("dog", "run on", "grass"), and as text: "dog running on grass"."""

    words: tuple[str, ...]
    text: str


class Said(NamedTuple):
    """What is said of a split's images: rows of `components` and `parses` of its captions; features (I, …)."""

    vocabulary: Vocabulary
    components: pa.Table
    parses: pa.Table
    features: Tensor


class Queries(NamedTuple):
    """Queries of a level and the images they are said of, (Q, I) bool."""

    phrases: list[Phrase]
    true: Tensor


def frequent(components: pa.Table, image: Sequence[int], images: int, written: Mapping[str, str]) -> dict[str, Queries]:
    """The queries of each level, in order of their words.

    components: of the captions asked about; image: the row of each one's image. written: how a relation word is most
    often written ("run on": running on).
    """
    said: dict[str, dict[tuple[str, ...], set[int]]] = {name: {} for name in LEAST}
    columns = [components[name].to_pylist() for name in ("objects", "attributes", "relations")]
    for at, objects, attributes, relations in zip(image, *columns, strict=True):
        for item in objects:
            said["object"].setdefault((item["object"],), set()).add(at)
        for item in attributes:
            said["attribute"].setdefault((item["attribute"], item["object"]), set()).add(at)
        for item in relations:
            said["relation"].setdefault((item["subject"], item["relation"], item["object"]), set()).add(at)
    made = {}
    for level, least in LEAST.items():
        kept = sorted((words, where) for words, where in said[level].items() if len(where) >= least)
        true = torch.zeros(len(kept), images, dtype=torch.bool)
        for row, (_, where) in enumerate(kept):
            true[row, sorted(where)] = True
        phrases = [Phrase(words, " ".join(written.get(word, word) for word in words)) for words, _ in kept]
        made[level] = Queries(phrases, true)
    return made


def written_forms(components: pa.Table, parses: pa.Table) -> dict[str, str]:
    """How each relation word is most often written: "wear" -> wearing. Rows of the two tables are of one caption."""
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
    """Of each query the mean precision at its true images, (Q,); scores, true: (Q, I). A tie counts against it."""
    order = true.long().argsort(dim=1, stable=True)
    order = order.gather(1, scores.gather(1, order).argsort(dim=1, descending=True, stable=True))
    found = true.gather(1, order).double()
    precision = found.cumsum(1) / torch.arange(1, scores.shape[1] + 1, device=scores.device)
    return (precision * found).sum(1) / found.sum(1)


def unified(
    queries: Mapping[str, Queries], embed: Callable[[Sequence[Phrase]], Tensor], images: Tensor
) -> dict[str, dict[str, float]]:
    """Of each level mAP in %, and the share of the images that a query is said of; images: (I, d); embed: to (Q, d)."""
    return {
        level: {
            "queries": len(phrases),
            "mAP": 100 * average_precision(embed(phrases) @ images.T, true.to(images.device)).mean().item(),
            "images": 100 * true.double().mean().item(),
        }
        for level, (phrases, true) in queries.items()
        if phrases
    }
