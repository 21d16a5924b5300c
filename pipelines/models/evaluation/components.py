"""Components of captions: as queries for images, and as questions that an image answers.

Unified text-to-image retrieval (UniVSE, Wu et al. 2019, Table 3): objects, attributed objects and triples as queries.
They are frequent components of the train captions; the captions of the evaluated split say which images are right.

Semantic parsing with visual cues (Table 4): the image decides to which noun an attribute or relation belongs. The
questions and their score are the same for all models; models without vectors of components read a candidate as a
phrase.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ....augment.language.semantic_classes import attributes
from ..data import PARTS, QueryPhrase
from ..similarities import COSINE, VectorSimilarity
from .retrieval import EmbeddedSplit

Embed = Callable[[Sequence[QueryPhrase]], Tensor]  # phrases -> (Q, d)

QUERIES = {  # by kind: column of `components`, kind in the table component_vocabulary, least number of images
    "object": ("objects", "noun", 5),
    "attribute": ("attributes", "attribute_noun", 3),
    "relation": ("relations", "triple", 3),
}


Queries = tuple[list[QueryPhrase], Tensor]  # Q phrases, and (Q, I) bool, images with a caption that has the component


def frequent_queries(
    components: pa.Table, vocabulary: pa.Table, image: Sequence[int], images: int, written: Mapping[str, str]
) -> dict[str, Queries]:
    """The components of a vocabulary that captions of enough images have, by kind as in QUERIES, sorted by their words.
    components: one row per caption of the split. vocabulary: the table component_vocabulary, counted on train captions.
    image: (n,) the image index of each caption. images: I. written: see `written_forms`.
    """
    known = set(zip(vocabulary["kind"].to_pylist(), map(tuple, vocabulary["words"].to_pylist()), strict=True))
    queries = {}
    for kind, (column, called, least) in QUERIES.items():
        found: dict[tuple[str, ...], set[int]] = {}
        for at, items in zip(image, components[column].to_pylist(), strict=True):
            for item in items:
                found.setdefault(tuple(item[part] for part in PARTS[column]), set()).add(at)
        kept = sorted(words for words, its in found.items() if len(its) >= least and (called, words) in known)
        true = torch.zeros(len(kept), images, dtype=torch.bool)
        for row, words in enumerate(kept):
            true[row, sorted(found[words])] = True
        queries[kind] = [phrase(words, written) for words in kept], true
    return queries


def phrase(words: tuple[str, ...], written: Mapping[str, str]) -> QueryPhrase:
    """A component as people write it; written: the written form of each relation."""
    return QueryPhrase(words, " ".join(written.get(word, word) for word in words))


def written_forms(components: pa.Table, parses: pa.Table) -> dict[str, str]:
    """The most frequent written form of each relation: "run on" -> "running on". Both tables: one row per caption."""
    counts: dict[str, Counter[str]] = {}
    columns = (components["relations"].to_pylist(), parses["tokens"].to_pylist(), parses["text"].to_pylist())
    for relations, tokens, text in zip(*columns, strict=True):
        for item in relations:
            form = " ".join(text[tokens[at]["start"] : tokens[at]["end"]] for at in item["tokens"]).lower()
            counts.setdefault(item["relation"], Counter())[form or item["relation"]] += 1
    return {word: max(sorted(forms), key=forms.__getitem__) for word, forms in counts.items()}


def average_precision(scores: Tensor, true: Tensor) -> Tensor:
    """The average precision (Q,), 0 to 1, of scores (Q, I); true: (Q, I) bool. A false image wins a tie."""
    order = true.long().argsort(dim=1, stable=True)
    order = order.gather(1, scores.gather(1, order).argsort(dim=1, descending=True, stable=True))
    found = true.gather(1, order).double()
    precision = found.cumsum(1) / torch.arange(1, scores.shape[1] + 1, device=scores.device)
    return (precision * found).sum(1) / found.sum(1)


def unified_retrieval(
    queries: Mapping[str, Queries], embed: Embed, images: Tensor, similarity: VectorSimilarity = COSINE
) -> dict[str, dict[str, float]]:
    """By kind of query, if there are any: how many, mAP in %, and the mean share of true images (of (I, d)) in %."""
    found = {}
    for kind, (phrases, true) in queries.items():
        if phrases:
            precision = average_precision(similarity.by_text(embed(phrases), images), true.to(images.device))
            share = 100 * true.double().mean().item()
            found[kind] = {"queries": len(phrases), "mAP": 100 * precision.mean().item(), "images": share}
    return found


DETECTED = "detected object"  # the kind of these queries


def detected_queries(instances: Path, images: Sequence[str]) -> Queries:
    """The names of all categories that some image has a box of, in the file's order; true: images with such a box.
    instances: COCO's instances_*.json. images: (I,) the files of the images, of which only the names count. Raises
    ValueError for a file of another kind, or one that has none of the images.
    """
    index = {PurePosixPath(image).name: n for n, image in enumerate(images)}
    try:
        content = json.loads(instances.read_text("utf-8"))
        place = {item["id"]: index[item["file_name"]] for item in content["images"] if item["file_name"] in index}
        categories = {item["id"]: n for n, item in enumerate(content["categories"])}
        names = [str(item["name"]) for item in content["categories"]]
        boxes = [(categories[item["category_id"]], item["image_id"]) for item in content["annotations"]]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{instances} must be COCO's instance annotations, is not: {error}") from None
    if not place:
        rule = f"{instances} must have the images of the split by their file names"
        raise ValueError(f"{rule}, has none, e.g. {images[0]}")
    true = torch.zeros(len(names), len(images), dtype=torch.bool)
    for category, image in boxes:
        if image in place:
            true[category, place[image]] = True
    some = true.any(1)
    return [QueryPhrase((name,), name) for name, kept in zip(names, some.tolist(), strict=True) if kept], true[some]


AT_ONCE = 1 << 11  # candidates scored at a time
Words = tuple[str, ...]
Score = Callable[[Sequence[Words], Tensor], Tensor]  # candidates (m), their images (m,) -> (m,)


class Question(NamedTuple):
    """The question to which noun, or pair of nouns, of a caption one of its attributes or relations belongs. image: the
    index of the caption's image. candidates: (attribute, noun) or (subject, relation, object). right: per candidate,
    whether its noun is right, or whether its subject and its object are.
    """

    image: int
    candidates: Sequence[Words]
    right: Sequence[tuple[bool, ...]]


def phrase_parsing(
    embed: Embed,
    graphs: Sequence[dict[str, Any]],
    split: EmbeddedSplit,
    similarity: VectorSimilarity,
    written: Mapping[str, str],
    known: Callable[[str], bool],
) -> dict[str, Any]:
    """The accuracies of a model that reads a candidate as a phrase: "white clock", "dog running on grass". graphs: rows
    of `components` of the split's captions. written: the form of each relation. known: as of `read_questions`. Returns
    entries `attribute` and `relation`, see `accuracy`.
    """
    found = {}
    for kind, questions in read_questions(graphs, split.owner.tolist(), known).items():
        distinct = {words: n for n, words in enumerate(dict.fromkeys(w for q in questions for w in q.candidates))}
        phrases = [phrase(words, written) for words in distinct]
        vectors = torch.cat([embed(phrases[n : n + AT_ONCE]) for n in range(0, len(phrases), AT_ONCE)])

        def score(
            words: Sequence[Words], at: Tensor, vectors: Tensor = vectors, distinct: Mapping[Words, int] = distinct
        ) -> Tensor:
            rows = torch.tensor([distinct[one] for one in words], device=vectors.device)
            return similarity.pairs(split.images[at.to(vectors.device)], vectors[rows])

        found[kind] = accuracy(questions, score)
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
    vague = attributes().vague_relations
    for at, graph in zip(image, graphs, strict=True):
        nouns = sorted(name for name in {item["object"] for item in graph["objects"]} if known(name))
        pairs = [*permutations(nouns, 2)]
        for item in graph["attributes"]:
            name = item["attribute"]
            of = item["object"]
            if len(nouns) > 1 and of in nouns and known(name):
                right = [(noun == of,) for noun in nouns]
                found["attribute"].append(Question(at, [(name, noun) for noun in nouns], right))
        for item in graph["relations"]:
            subject = item["subject"]
            name = item["relation"]
            object = item["object"]
            if (subject, object) in pairs and name not in vague and known(name):
                right_ends = [(one == subject, other == object) for one, other in pairs]
                found["relation"].append(Question(at, [(one, name, other) for one, other in pairs], right_ends))
    return {kind: questions for kind, questions in found.items() if questions}


def accuracy(questions: Sequence[Question], score: Score) -> dict[str, Any]:
    """The accuracy, in %, of the candidates with the highest scores, and ", random" of a uniform choice. The parser's
    reading counts as right. For triples: of the subject, of the object, of `either`, half a point each, which is the
    score of the paper's Table 4, and of both together.
    """
    words = [candidate for question in questions for candidate in question.candidates]
    image = torch.tensor([question.image for question in questions for _ in question.candidates])
    with torch.inference_mode():
        parts = [score(words[n : n + AT_ONCE], image[n : n + AT_ONCE]) for n in range(0, len(words), AT_ONCE)]
        scores = torch.cat(parts).cpu().numpy()
    ends = np.cumsum([len(question.candidates) for question in questions])
    best = [int(own.argmax()) for own in np.split(scores, ends[:-1])]
    chosen = np.array([question.right[at] for question, at in zip(questions, best, strict=True)])
    chance = np.array([np.mean(question.right, 0) for question in questions])
    names = ("subject", "object") if chosen.shape[1] == 2 else ("noun",)
    found: dict[str, Any] = {"questions": len(questions)}
    for name, right, random in zip(names, chosen.T, chance.T, strict=True):
        found |= {name: 100 * right.mean().item(), f"{name}, random": 100 * random.mean().item()}
    if len(names) > 1:
        for suffix in ("", ", random"):
            found[f"either{suffix}"] = (found[f"subject{suffix}"] + found[f"object{suffix}"]) / 2
        found["both"] = 100 * chosen.all(1).mean().item()
        found["both, random"] = 100 * np.mean([1 / len(question.candidates) for question in questions]).item()
    return found
