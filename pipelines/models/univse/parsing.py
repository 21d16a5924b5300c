"""Semantic parsing with visual cues: what an attribute or relation is said of, told by the image (UniVSE, Table 4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations
from typing import Any, NamedTuple

import torch
from torch import Tensor

from negcap.pipelines.models.components import lookup
from negcap.pipelines.models.texts import UNKNOWN_ID
from negcap.pipelines.models.univse.model import UniVSE
from negcap.pipelines.models.vocabulary import Vocabulary

AT_ONCE = 1 << 11  # candidates


class Question(NamedTuple):
    """What may be meant: candidates as ids (noun, attribute) or triples, and for each which of its parts are right."""

    image: int
    candidates: Sequence[tuple[int, ...]]
    right: Sequence[tuple[bool, ...]]


def recover(
    model: UniVSE,
    vocabulary: Vocabulary,
    graphs: Sequence[dict[str, Any]],
    image: Sequence[int],
    images: Tensor,
    regions: Tensor,
) -> dict[str, Any]:
    """How often, in %, the image tells the noun of an attribute, and the subject and the object of a relation word.

    graphs: rows of `components`; image: the row of each one's image in images (I, d) and regions (I, R, d), unit
    vectors. A caption takes part with words that are known and at least two different nouns; each of them, or each
    ordered pair, is a candidate: an attributed noun scores as in its best region, a triple as with the image; for
    "attribute alone" the noun's own score, in its best region, is taken off. Right is what the parser read; random:
    what a choice by chance gets.
    """
    attributes: list[Question] = []
    relations: list[Question] = []
    for at, graph in zip(image, graphs, strict=True):
        nouns = _known(vocabulary, (item["object"] for item in graph["objects"]))
        if len(nouns) < 2:
            continue
        words = _known(vocabulary, (item["attribute"] for item in graph["attributes"]))
        for item in graph["attributes"]:
            if item["attribute"] in words and item["object"] in nouns:
                candidates = [(id, words[item["attribute"]]) for id in nouns.values()]
                attributes.append(Question(at, candidates, [(noun == item["object"],) for noun in nouns]))
        words = _known(vocabulary, (item["relation"] for item in graph["relations"]))
        for item in graph["relations"]:
            ends = (item["subject"], item["object"])
            if item["relation"] in words and ends[0] != ends[1] and nouns.keys() >= set(ends):
                pairs = list(permutations(nouns, 2))
                triples = [(nouns[one], words[item["relation"]], nouns[other]) for one, other in pairs]
                relations.append(Question(at, triples, [(one == ends[0], other == ends[1]) for one, other in pairs]))

    def best(vectors: Tensor, at: Tensor) -> Tensor:
        return torch.bmm(regions[at], vectors[:, :, None])[:, :, 0].amax(1)

    def of_pairs(words: Tensor, at: Tensor) -> Tensor:
        return best(model.word(words[:, 0], words[:, 1]), at)

    def of_attributes(words: Tensor, at: Tensor) -> Tensor:
        return of_pairs(words, at) - best(model.word(words[:, 0]), at)

    def of_triples(words: Tensor, at: Tensor) -> Tensor:
        return (images[at] * model.triples(words)).sum(1)

    made = {}
    for name, questions, score in (
        ("attribute", attributes, of_pairs),
        ("attribute alone", attributes, of_attributes),
        ("relation", relations, of_triples),
    ):
        if questions:
            made[name] = _answered(questions, _scores(questions, score, images.device))
    return made


def _known(vocabulary: Vocabulary, names: Iterable[str]) -> dict[str, int]:
    """The ids of distinct names, those that are known."""
    distinct = sorted(set(names))
    return {name: id for name, id in zip(distinct, lookup(vocabulary, distinct), strict=True) if id != UNKNOWN_ID}


def _scores(questions: Sequence[Question], score: Any, device: torch.device) -> list[float]:
    """The score of every candidate, question by question."""
    words = torch.tensor([ids for question in questions for ids in question.candidates])
    at = torch.tensor([question.image for question in questions for _ in question.candidates])
    parts = zip(words.split(AT_ONCE), at.split(AT_ONCE), strict=True)
    with torch.inference_mode():
        return torch.cat([score(some.to(device), of.to(device)) for some, of in parts]).tolist()


def _answered(questions: Sequence[Question], scores: list[float]) -> dict[str, Any]:
    """The share in % of questions answered right, by the scores and by chance; for triples also by their ends."""
    won, chance, start = [], [], 0
    for question in questions:
        mine = scores[start : start + len(question.candidates)]
        start += len(mine)
        won.append(question.right[mine.index(max(mine))])
        chance.append([sum(flags) / len(mine) for flags in zip(*question.right, strict=True)] + [1 / len(mine)])
    names = ("subject", "object") if len(won[0]) == 2 else ("noun",)
    made: dict[str, Any] = {"questions": len(questions)}
    for n, name in enumerate(names):
        made[name] = 100 * sum(flags[n] for flags in won) / len(won)
        made[f"{name}, random"] = 100 * sum(shares[n] for shares in chance) / len(chance)
    if len(names) > 1:
        made["both"] = 100 * sum(all(flags) for flags in won) / len(won)
        made["both, random"] = 100 * sum(shares[-1] for shares in chance) / len(chance)
    return made
