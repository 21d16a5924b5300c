"""The metrics of UniVSE alone: retrieval by the weight α of the sentence, and semantic parsing with visual cues."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from ..data import RunTexts, component_ids
from ..device import rows_to_device
from ..evaluation import retrieval
from ..evaluation.components import Score, Words, accuracy, read_questions
from ..evaluation.protocols import Attacks
from ..evaluation.retrieval import EmbeddedSplit
from ..vocabulary import UNKNOWN_ID
from .model import UniVSE, blend

ALPHAS = tuple(n / 10 for n in range(11))


def alpha_curve(model: UniVSE, split: EmbeddedSplit, attacks: Attacks) -> dict[str, dict[str, float]]:
    """By α from "0.0" to "1.0": rsum without attack, and image-to-text R@1 under each attack, in %. The entry
    `attacked` is the sum of R@1, R@5 and R@10 over all attacks. Every text is embedded only once.
    """
    images = split.images
    texts = split.corpus.texts
    d = split.images.shape[1]

    def parts(texts: RunTexts, rows: Tensor) -> Tensor:
        """Sentence vector, component vector, and 1 or 0 for texts with or without components, joined: (B, 2 d + 1)."""
        sentences, components, present = model.sentences_and_components(texts, rows)
        return torch.cat([sentences, components, present[:, None].to(sentences.dtype)], 1)

    def blended(vectors: Tensor, alpha: float) -> Tensor:
        return blend(vectors[:, :d], vectors[:, d : 2 * d], vectors[:, -1] > 0, alpha)

    captions = retrieval.embed_sentences(parts, texts, split.captions)
    owner = split.owner.to(images.device)
    plain = {alpha: retrieval.rank(images, blended(captions, alpha), owner) for alpha in ALPHAS}
    rsum = {alpha: retrieval.retrieval_metrics(ranks)["rsum"] for alpha, ranks in plain.items()}
    curve = {alpha: {"rsum": value, "attacked": 0.0} for alpha, value in rsum.items()}
    for name, rows in attacks.items():
        if not name.startswith("univse:"):
            continue
        above = {alpha: torch.zeros_like(plain[alpha].images) for alpha in ALPHAS}
        for _, vectors in retrieval.embed_in_batches(parts, texts, texts.captions + rows):
            for alpha, ranks in plain.items():
                above[alpha] += retrieval.count_outranking(images, ranks.best, blended(vectors, alpha))
        for alpha, ranks in plain.items():
            attacked = retrieval.recall_metrics(ranks.images + above[alpha])
            curve[alpha][f"{name.removeprefix('univse:')} R@1"] = attacked["R@1"]
            curve[alpha]["attacked"] += sum(attacked[f"R@{k}"] for k in retrieval.TOP)
    return {f"{alpha:.1f}": values for alpha, values in curve.items()}


def parsing_accuracy(model: UniVSE, split: EmbeddedSplit, graphs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How often, in %, the image decides correctly which nouns an attribute or a relation belongs to (Table 4). graphs:
    rows of `components`. An attributed noun scores its highest similarity to a region, less the noun's own for
    "attribute alone"; a triple its similarity to the image.
    """
    images = split.images
    features = split.corpus.features.values
    vocabulary = split.corpus.vocabulary
    with torch.inference_mode():
        parts = (
            rows_to_device(features, rows, images.device)
            for rows in split.image.split(retrieval.images_at_once(features))
        )
        regions = torch.cat([model.image.with_regions(part)[1] for part in parts])

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

    @cache
    def known(name: str) -> bool:
        return component_ids(vocabulary, [name])[0] != UNKNOWN_ID

    questions = read_questions(graphs, split.owner.tolist(), known)
    scores = {"attribute": of_pairs, "attribute alone": of_attributes, "relation": of_triples}
    asked = ((name, score, questions.get(name.split()[0], [])) for name, score in scores.items())
    return {name: accuracy(own, of_names(score)) for name, score, own in asked if own}
