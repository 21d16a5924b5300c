"""Semantic parsing with visual cues by UniVSE, which scores components: UniVSE (Wu et al. 2019), Table 4."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..components import component_ids
from ..evaluation.parsing import Score, Words, accuracy, read_questions, score_candidates
from ..vocabulary import UNKNOWN_ID, WordVocabulary
from .model import UniVSE


class EmbeddedImages(NamedTuple):
    """Unit vectors of images (I, d) and of their regions (I, R, d)."""

    images: Tensor
    regions: Tensor


def parsing_accuracy(
    model: UniVSE,
    vocabulary: WordVocabulary,
    graphs: Sequence[dict[str, Any]],
    image: Sequence[int],
    embedded: EmbeddedImages,
) -> dict[str, Any]:
    """How often, in %, the image decides correctly which nouns an attribute or a relation belongs to.

    graphs, image: see `read_questions`. An attributed noun scores its highest similarity to a region, a triple its
    similarity to the whole image; for "attribute alone", the noun's own highest similarity to a region is subtracted.
    """
    images, regions = embedded

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
        name: accuracy(own, score_candidates(own, of_names(score)))
        for name, score in scores.items()
        if (own := questions.get(name.split()[0], []))
    }


def _names(graphs: Sequence[dict[str, Any]]) -> set[str]:
    """The names of all objects, attributes and relations."""
    parts = (("objects", "object"), ("attributes", "attribute"), ("relations", "relation"))
    return {item[name] for graph in graphs for column, name in parts for item in graph[column]}
