"""Semantic parsing with visual cues: the image decides to which noun an attribute or relation belongs.

UniVSE (Wu et al. 2019), Table 4. The questions and their score are the same for all models; models without vectors of
components read a candidate as a phrase.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import permutations
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ....augment.language.semantic_classes import attributes
from ..data import Phrase
from ..similarities import Similarity
from .retrieval import EmbeddedSplit

AT_ONCE = 1 << 11  # candidates scored at a time
Words = tuple[str, ...]
Score = Callable[[Sequence[Words], Tensor], Tensor]  # candidates (m), their images (m,) -> (m,)


class Question(NamedTuple):
    """The question to which noun, or pair of nouns, of a caption one of its attributes or relations belongs.

    image: the index of the caption's image. candidates: (attribute, noun) or (subject, relation, object). right: per
    candidate, whether its noun is right, or whether its subject and its object are.
    """

    image: int
    candidates: Sequence[Words]
    right: Sequence[tuple[bool, ...]]


def phrase_parsing(
    embed: Callable[[Sequence[Phrase]], Tensor],
    graphs: Sequence[dict[str, Any]],
    split: EmbeddedSplit,
    similarity: Similarity,
    written: Mapping[str, str],
) -> dict[str, Any]:
    """The accuracies of a model that reads a candidate as a phrase: "white clock", "dog running on grass".

    embed: maps phrases to vectors (Q, d). graphs: the rows of the table `components` of the split's captions. written:
    the written form of each relation. Returns entries `attribute` and `relation`, see `accuracy`.
    """
    found = {}
    for kind, questions in read_questions(graphs, split.owner.tolist(), lambda word: True).items():
        distinct = {words: n for n, words in enumerate(dict.fromkeys(w for q in questions for w in q.candidates))}
        phrases = [Phrase(words, " ".join(written.get(word, word) for word in words)) for words in distinct]
        vectors = torch.cat([embed(phrases[n : n + AT_ONCE]) for n in range(0, len(phrases), AT_ONCE)])

        def score(
            words: Sequence[Words], at: Tensor, vectors: Tensor = vectors, distinct: Mapping[Words, int] = distinct
        ) -> Tensor:
            rows = torch.tensor([distinct[one] for one in words], device=vectors.device)
            return similarity.pairs(split.images[at.to(vectors.device)], vectors[rows])

        found[kind] = accuracy(questions, score_candidates(questions, score))
    return found


def read_questions(
    graphs: Sequence[dict[str, Any]], image: Sequence[int], known: Callable[[str], bool]
) -> dict[str, list[Question]]:
    """The questions of captions, by kind: `attribute` and `relation`; kinds without questions are left out.

    graphs: the rows of the table `components`, one per caption. image: (n,) the image index of each caption. known:
    whether a model knows a name. A question comes from a caption with at least two different known nouns; each noun, or
    each ordered pair of nouns, is a candidate. Relations of vague meaning ("of", "have") are not asked about; the list
    is in attributes.toml.
    """
    found: dict[str, list[Question]] = {"attribute": [], "relation": []}
    for at, graph in zip(image, graphs, strict=True):
        found["attribute"] += _attribute_questions(at, graph, known)
        found["relation"] += _relation_questions(at, graph, known)
    return {kind: questions for kind, questions in found.items() if questions}


def _attribute_questions(image: int, graph: dict[str, Any], known: Callable[[str], bool]) -> list[Question]:
    nouns = _known_names((item["object"] for item in graph["objects"]), known)
    return [
        Question(image, [(item["attribute"], noun) for noun in nouns], [(noun == item["object"],) for noun in nouns])
        for item in graph["attributes"]
        if len(nouns) > 1 and known(item["attribute"]) and item["object"] in nouns
    ]


def _relation_questions(image: int, graph: dict[str, Any], known: Callable[[str], bool]) -> list[Question]:
    nouns = _known_names((item["object"] for item in graph["objects"]), known)
    pairs, vague = list(permutations(nouns, 2)), attributes().vague_relations
    return [
        Question(
            image,
            [(subject, item["relation"], object) for subject, object in pairs],
            [(subject == item["subject"], object == item["object"]) for subject, object in pairs],
        )
        for item in graph["relations"]
        if known(item["relation"])
        and item["relation"] not in vague
        and item["subject"] != item["object"]
        and {item["subject"], item["object"]} <= set(nouns)
    ]


def _known_names(names: Iterable[str], known: Callable[[str], bool]) -> list[str]:
    """The distinct names that are known, sorted."""
    return sorted(name for name in set(names) if known(name))


def score_candidates(questions: Sequence[Question], score: Score) -> list[float]:
    """The scores of all candidates, in the order of the questions."""
    words = [candidate for question in questions for candidate in question.candidates]
    image = torch.tensor([question.image for question in questions for _ in question.candidates])
    with torch.inference_mode():
        parts = [score(words[n : n + AT_ONCE], image[n : n + AT_ONCE]) for n in range(0, len(words), AT_ONCE)]
        return torch.cat(parts).tolist()


def accuracy(questions: Sequence[Question], scores: list[float]) -> dict[str, Any]:
    """The accuracy, in %, of the candidates with the highest scores, and ", random" of a uniform choice.

    The parser's reading counts as right. For triples: of the subject, of the object, of `either`, half a point each,
    which is the score of the paper's Table 4, and of both together.
    """
    answers, random, start = [], [], 0
    for question in questions:
        own = scores[start : start + len(question.candidates)]
        start += len(own)
        answers.append(question.right[own.index(max(own))])
        random.append([sum(flags) / len(own) for flags in zip(*question.right, strict=True)] + [1 / len(own)])
    names = ("subject", "object") if len(answers[0]) == 2 else ("noun",)
    found: dict[str, Any] = {"questions": len(questions)}
    for n, name in enumerate(names):
        found[name] = 100 * sum(flags[n] for flags in answers) / len(answers)
        found[f"{name}, random"] = 100 * sum(shares[n] for shares in random) / len(random)
    if len(names) > 1:
        for suffix in ("", ", random"):
            found[f"either{suffix}"] = (found[f"subject{suffix}"] + found[f"object{suffix}"]) / 2
        found["both"] = 100 * sum(all(flags) for flags in answers) / len(answers)
        found["both, random"] = 100 * sum(shares[-1] for shares in random) / len(random)
    return found
