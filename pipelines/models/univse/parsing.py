"""Semantic parsing with visual cues: the image decides to which noun an attribute or relation belongs.

UniVSE (Wu et al. 2019), Table 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import permutations
from typing import Any, NamedTuple

import torch
from torch import Tensor

from negcap.pipelines.models.components import component_ids
from negcap.pipelines.models.univse.model import UniVSE
from negcap.pipelines.models.vocabulary import UNKNOWN_ID, WordVocabulary

AT_ONCE = 1 << 11  # candidates scored at a time
Score = Callable[[Tensor, Tensor], Tensor]  # candidates (m, k) as word ids, their images (m,) -> (m,)


class EmbeddedImages(NamedTuple):
    """Unit vectors of images (I, d) and of their regions (I, R, d)."""

    images: Tensor
    regions: Tensor


class Question(NamedTuple):
    """The question to which noun, or pair of nouns, of a caption one of its attributes or relations belongs.

    image: the index of the caption's image. candidates: word ids, (noun, attribute) or (subject, relation, object).
    right: per candidate, whether its noun is right, or whether its subject and its object are.
    """

    image: int
    candidates: Sequence[tuple[int, ...]]
    right: Sequence[tuple[bool, ...]]


def parsing_accuracy(
    model: UniVSE,
    vocabulary: WordVocabulary,
    graphs: Sequence[dict[str, Any]],
    image: Sequence[int],
    embedded: EmbeddedImages,
) -> dict[str, Any]:
    """How often, in %, the image decides correctly which nouns an attribute or a relation belongs to.

    graphs: the rows of the table `components`, one per caption. image: (n,) the image index of each caption. A question
    comes from a caption with at least two different known nouns; each noun, or each ordered pair of nouns, is a
    candidate. An attributed noun scores its highest similarity to a region, a triple its similarity to the whole image;
    for "attribute alone", the noun's own highest similarity to a region is subtracted. The parser's reading counts as
    right. "…, random" is the expected accuracy of a uniform choice. The score of relations in the paper's Table 4 is
    the mean of `subject` and `object`.
    """
    attributes: list[Question] = []
    relations: list[Question] = []
    for at, graph in zip(image, graphs, strict=True):
        attributes += _attribute_questions(vocabulary, at, graph)
        relations += _relation_questions(vocabulary, at, graph)
    images, regions = embedded

    def in_best_region(vectors: Tensor, at: Tensor) -> Tensor:
        return torch.bmm(regions[at], vectors[:, :, None])[:, :, 0].amax(1)

    def of_pairs(words: Tensor, at: Tensor) -> Tensor:
        return in_best_region(model.word_encoder(words[:, 0], words[:, 1]), at)

    def of_attributes(words: Tensor, at: Tensor) -> Tensor:
        return of_pairs(words, at) - in_best_region(model.word_encoder(words[:, 0]), at)

    def of_triples(words: Tensor, at: Tensor) -> Tensor:
        return (images[at] * model.triples(words)).sum(1)

    return {
        name: _accuracy(questions, _score_candidates(questions, score, images.device))
        for name, questions, score in (
            ("attribute", attributes, of_pairs),
            ("attribute alone", attributes, of_attributes),
            ("relation", relations, of_triples),
        )
        if questions
    }


def _attribute_questions(vocabulary: WordVocabulary, image: int, graph: dict[str, Any]) -> list[Question]:
    nouns = _known_ids(vocabulary, (item["object"] for item in graph["objects"]))
    words = _known_ids(vocabulary, (item["attribute"] for item in graph["attributes"]))
    return [
        Question(
            image,
            [(id, words[item["attribute"]]) for id in nouns.values()],
            [(noun == item["object"],) for noun in nouns],
        )
        for item in graph["attributes"]
        if len(nouns) > 1 and item["attribute"] in words and item["object"] in nouns
    ]


def _relation_questions(vocabulary: WordVocabulary, image: int, graph: dict[str, Any]) -> list[Question]:
    nouns = _known_ids(vocabulary, (item["object"] for item in graph["objects"]))
    words = _known_ids(vocabulary, (item["relation"] for item in graph["relations"]))
    pairs = list(permutations(nouns, 2))
    return [
        Question(
            image,
            [(nouns[subject], words[item["relation"]], nouns[object]) for subject, object in pairs],
            [(subject == item["subject"], object == item["object"]) for subject, object in pairs],
        )
        for item in graph["relations"]
        if item["relation"] in words
        and item["subject"] != item["object"]
        and nouns.keys() >= {item["subject"], item["object"]}
    ]


def _known_ids(vocabulary: WordVocabulary, names: Iterable[str]) -> dict[str, int]:
    """The word ids of distinct names, sorted by name, without unknown ones."""
    distinct = sorted(set(names))
    ids = component_ids(vocabulary, distinct)
    return {name: id for name, id in zip(distinct, ids, strict=True) if id != UNKNOWN_ID}


def _score_candidates(questions: Sequence[Question], score: Score, device: torch.device) -> list[float]:
    """The scores of all candidates, in the order of the questions."""
    words = torch.tensor([ids for question in questions for ids in question.candidates])
    image = torch.tensor([question.image for question in questions for _ in question.candidates])
    parts = zip(words.split(AT_ONCE), image.split(AT_ONCE), strict=True)
    with torch.inference_mode():
        return torch.cat([score(some.to(device), at.to(device)) for some, at in parts]).tolist()


def _accuracy(questions: Sequence[Question], scores: list[float]) -> dict[str, Any]:
    """The accuracy, in %, of the candidates with the highest scores and of a uniform choice.

    For triples: of the subject, of the object, and of both together.
    """
    answers, random, start = [], [], 0
    for question in questions:
        own = scores[start : start + len(question.candidates)]
        start += len(own)
        answers.append(question.right[own.index(max(own))])
        random.append([sum(flags) / len(own) for flags in zip(*question.right, strict=True)] + [1 / len(own)])
    names = ("subject", "object") if len(answers[0]) == 2 else ("noun",)
    accuracy: dict[str, Any] = {"questions": len(questions)}
    for n, name in enumerate(names):
        accuracy[name] = 100 * sum(flags[n] for flags in answers) / len(answers)
        accuracy[f"{name}, random"] = 100 * sum(shares[n] for shares in random) / len(random)
    if len(names) > 1:
        accuracy["both"] = 100 * sum(all(flags) for flags in answers) / len(answers)
        accuracy["both, random"] = 100 * sum(shares[-1] for shares in random) / len(random)
    return accuracy
