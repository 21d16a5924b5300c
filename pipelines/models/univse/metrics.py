"""The metrics of UniVSE alone: retrieval by the weight α of the sentence, and semantic parsing with visual cues."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..data import Texts, component_ids
from ..device import take
from ..evaluation.components import Score, Words, accuracy, read_questions
from ..evaluation.protocols import Attacks
from ..evaluation.retrieval import (
    TOP,
    EmbeddedSplit,
    count_outranking,
    embed_in_batches,
    embed_sentences,
    images_at_once,
    rank,
    recall_metrics,
    retrieval_metrics,
)
from ..vocabulary import UNKNOWN_ID, WordVocabulary
from .model import UniVSE, blend

ALPHAS = tuple(n / 10 for n in range(11))


def univse_metrics(
    model: UniVSE,
    split: EmbeddedSplit,
    attacks: Attacks,
    graphs: Sequence[dict[str, Any]],
) -> dict[str, Any]:
    """Two groups of metrics: `alpha`, see `alpha_curve`, and `parsing`, see `parsing_accuracy`.

    graphs: the rows of the table `components` of the split's captions.
    """
    features, device = split.corpus.features.values, split.images.device
    with torch.inference_mode():
        parts = (take(features, rows, device) for rows in split.image.split(images_at_once(features)))
        regions = torch.cat([model.image.with_regions(part)[1] for part in parts])
    owner = split.owner.tolist()
    return {
        "alpha": alpha_curve(model, split, attacks),
        "parsing": parsing_accuracy(model, split.corpus.vocabulary, graphs, owner, split.images, regions),
    }


def alpha_curve(model: UniVSE, split: EmbeddedSplit, attacks: Attacks) -> dict[str, dict[str, float]]:
    """By α from "0.0" to "1.0": rsum without attack, and image-to-text R@1 under each attack, in %.

    The entry `attacked` is the sum of R@1, R@5 and R@10 over all attacks. Every text is embedded only once.
    """
    parts = partial(_concatenated_parts, model)
    captions = embed_sentences(parts, split.corpus.texts, split.captions)
    owner = split.owner.to(split.images.device)
    plain = {alpha: rank(split.images, _blend_parts(captions, alpha), owner) for alpha in ALPHAS}
    curve = {alpha: {"rsum": retrieval_metrics(ranks)["rsum"], "attacked": 0.0} for alpha, ranks in plain.items()}
    for name, rows in attacks.items():
        if not name.startswith("univse:"):
            continue
        above = {alpha: torch.zeros_like(plain[alpha].images) for alpha in ALPHAS}
        for _, vectors in embed_in_batches(parts, split.corpus.texts, split.corpus.texts.captions + rows):
            for alpha in ALPHAS:
                above[alpha] += count_outranking(split.images, plain[alpha].best, _blend_parts(vectors, alpha))
        for alpha in ALPHAS:
            attacked = recall_metrics(plain[alpha].images + above[alpha])
            curve[alpha][f"{name.removeprefix('univse:')} R@1"] = attacked["R@1"]
            curve[alpha]["attacked"] += sum(attacked[f"R@{k}"] for k in TOP)
    return {f"{alpha:.1f}": values for alpha, values in curve.items()}


def _concatenated_parts(model: UniVSE, texts: Texts, rows: Tensor) -> Tensor:
    """Sentence vector, component vector, and 1 or 0 for texts with or without components, joined: (B, 2 d + 1)."""
    sentences, components, present = model.sentences_and_components(texts, rows)
    return torch.cat([sentences, components, present[:, None].to(sentences.dtype)], 1)


def _blend_parts(parts: Tensor, alpha: float) -> Tensor:
    d = (parts.shape[1] - 1) // 2
    return blend(parts[:, :d], parts[:, d : 2 * d], parts[:, -1] > 0, alpha)


def parsing_accuracy(
    model: UniVSE,
    vocabulary: WordVocabulary,
    graphs: Sequence[dict[str, Any]],
    image: Sequence[int],
    images: Tensor,
    regions: Tensor,
) -> dict[str, Any]:
    """How often, in %, the image decides correctly which nouns an attribute or a relation belongs to (Table 4).

    graphs, image: see `read_questions`. images, regions: unit vectors of images (I, d) and of their regions (I, R, d).
    An attributed noun scores its highest similarity to a region, a triple its similarity to the whole image; for
    "attribute alone", the noun's own highest similarity to a region is subtracted.
    """

    def in_best_region(vectors: Tensor, at: Tensor) -> Tensor:
        return torch.bmm(regions[at], vectors[:, :, None])[:, :, 0].amax(1)

    def of_pairs(words: Tensor, at: Tensor) -> Tensor:
        return in_best_region(model.word_encoder(words[:, 1], words[:, 0]), at)

    def of_attributes(words: Tensor, at: Tensor) -> Tensor:
        return of_pairs(words, at) - in_best_region(model.word_encoder(words[:, 1]), at)

    def of_triples(words: Tensor, at: Tensor) -> Tensor:
        return (images[at] * model.triples(words)).sum(1)

    def of_names(score: Callable[[Tensor, Tensor], Tensor]) -> Score:
        def scored(names: Sequence[Words], at: Tensor) -> Tensor:
            ids = torch.tensor([component_ids(vocabulary, words) for words in names], device=images.device)
            return score(ids, at.to(images.device))

        return scored

    known = {name: component_ids(vocabulary, [name])[0] != UNKNOWN_ID for name in _names(graphs)}
    questions = read_questions(graphs, image, known.__getitem__)
    scores = {"attribute": of_pairs, "attribute alone": of_attributes, "relation": of_triples}
    return {
        name: accuracy(own, of_names(score))
        for name, score in scores.items()
        if (own := questions.get(name.split()[0], []))
    }


def _names(graphs: Sequence[dict[str, Any]]) -> set[str]:
    """The names of all objects, attributes and relations."""
    parts = (("objects", "object"), ("attributes", "attribute"), ("relations", "relation"))
    return {item[name] for graph in graphs for column, name in parts for item in graph[column]}
