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

from ....augment.language.semantic_classes import attribute_table
from ..data import PARTS, QueryPhrase
from ..similarities import COSINE, VectorSimilarity
from .retrieval import EmbeddedSplit

Embed = Callable[[Sequence[QueryPhrase]], Tensor]  # phrases -> (Q, d)
Words = tuple[str, ...]
GraphRow = Mapping[str, Any]  # a row of the table `components`: lists of objects, attributes and relations, with words


class QueryKind(NamedTuple):
    """A kind of query. column: of the table `components`. vocabulary_kind: in the table component_vocabulary. images:
    how many must have the component, at least; the average precision of rarer ones is noisy.
    """

    column: str
    vocabulary_kind: str
    images: int


QUERIES = {
    "object": QueryKind("objects", "noun", 5),
    "attribute": QueryKind("attributes", "attribute_noun", 3),
    "relation": QueryKind("relations", "triple", 3),
}


class Queries(NamedTuple):
    """Q phrases as queries. true: (Q, I) bool, the images with a caption that has the component."""

    phrases: list[QueryPhrase]
    true: Tensor


def frequent_queries(
    components: pa.Table, vocabulary: pa.Table, image: Sequence[int], images: int, written: Mapping[str, str]
) -> dict[str, Queries]:
    """The components of a vocabulary that captions of enough images have, by kind, sorted by their words.

    Args:
        components: one row per caption of the split.
        vocabulary: the table component_vocabulary, counted on train captions.
        image: (n,) the image index of each caption.
        images: I, how many there are.
        written: the written form of each relation, "run on" -> "running on".
    """
    # such as ("triple", ("dog", "run on", "grass")); a component that is rare in train captions is no fair query
    known = set(zip(vocabulary["kind"].to_pylist(), map(tuple, vocabulary["words"].to_pylist()), strict=True))
    queries = {}
    for kind, query_kind in QUERIES.items():
        images_with: dict[Words, set[int]] = {}
        for image_of_caption, items in zip(image, components[query_kind.column].to_pylist(), strict=True):
            for item in items:
                words = tuple(item[part] for part in PARTS[query_kind.column])
                images_with.setdefault(words, set()).add(image_of_caption)
        frequent = []
        for words, having in sorted(images_with.items()):
            if len(having) >= query_kind.images and (query_kind.vocabulary_kind, words) in known:
                frequent.append(words)
        true = torch.zeros(len(frequent), images, dtype=torch.bool)
        for row, words in enumerate(frequent):
            true[row, sorted(images_with[words])] = True
        queries[kind] = Queries([query_phrase(words, written) for words in frequent], true)
    return queries


def query_phrase(words: Words, written: Mapping[str, str]) -> QueryPhrase:
    """A component as people write it: ("dog", "run on", "grass") -> "dog running on grass".

    written: the written form of each relation, "run on" -> "running on".
    """
    return QueryPhrase(words, " ".join(written.get(word, word) for word in words))


def written_forms(components: pa.Table, parses: pa.Table) -> dict[str, str]:
    """The most frequent written form of each relation: "run on" -> "running on". Both tables: one row per caption."""
    counts: dict[str, Counter[str]] = {}  # by relation, how often each form of it is written
    columns = (components["relations"].to_pylist(), parses["tokens"].to_pylist(), parses["text"].to_pylist())
    for relations, tokens, text in zip(*columns, strict=True):
        for item in relations:
            # the tokens of a relation, such as "running" and "on", need not stand side by side
            words = [text[tokens[number]["start"] : tokens[number]["end"]] for number in item["tokens"]]
            form = " ".join(words).lower()
            counts.setdefault(item["relation"], Counter())[form or item["relation"]] += 1
    # Sorted first, so that among equally frequent forms the first in the alphabet is taken.
    return {relation: max(sorted(forms), key=forms.__getitem__) for relation, forms in counts.items()}


def average_precision(scores: Tensor, true: Tensor) -> Tensor:
    """The average precision (Q,), 0 to 1, of scores (Q, I); true: (Q, I) bool. A false image wins a tie."""
    # Stable sorts: false images first, then by descending score, which keeps false before true where scores are equal.
    false_first = true.long().argsort(dim=1, stable=True)
    by_score = scores.gather(1, false_first).argsort(dim=1, descending=True, stable=True)
    ranked = true.gather(1, false_first.gather(1, by_score)).double()  # (Q, I): 1 where the next image is true
    precision = ranked.cumsum(1) / torch.arange(1, scores.shape[1] + 1, device=scores.device)
    return (precision * ranked).sum(1) / ranked.sum(1)


def unified_retrieval(
    queries: Mapping[str, Queries], embed: Embed, images: Tensor, similarity: VectorSimilarity = COSINE
) -> dict[str, dict[str, float]]:
    """How well images are found by each kind of query: the number of queries, mAP (mean average precision) in %, and
    the mean share of images that are right, in %.

    Args:
        queries: by kind; a kind without queries is left out.
        embed: maps phrases to vectors (Q, d).
        images: (I, d) their vectors.
        similarity: of a query and an image.
    """
    metrics = {}
    for kind, (phrases, true) in queries.items():
        if phrases:
            precision = average_precision(similarity.by_text(embed(phrases), images), true.to(images.device))
            share = 100 * true.double().mean().item()
            metrics[kind] = {"queries": len(phrases), "mAP": 100 * precision.mean().item(), "images": share}
    return metrics


DETECTED = "detected object"  # the kind of these queries


def detected_queries(instances: Path, images: Sequence[str]) -> Queries:
    """The names of all categories that some image has a box of, in the file's order; true: images with such a box.

    Args:
        instances: COCO's instances_*.json.
        images: (I,) the files of the images, of which only the names count.

    Raises:
        ValueError: the file is of another kind, or has none of the images.
    """
    index = {PurePosixPath(image).name: n for n, image in enumerate(images)}
    try:
        content = json.loads(instances.read_text("utf-8"))
        image_of_id = {item["id"]: index[item["file_name"]] for item in content["images"] if item["file_name"] in index}
        categories = {item["id"]: n for n, item in enumerate(content["categories"])}
        names = [str(item["name"]) for item in content["categories"]]
        boxes = [(categories[item["category_id"]], item["image_id"]) for item in content["annotations"]]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{instances} must be COCO's instance annotations, is not: {error}") from None
    if not image_of_id:
        rule = f"{instances} must have the images of the split by their file names"
        raise ValueError(f"{rule}, has none, e.g. {images[0]}")
    true = torch.zeros(len(names), len(images), dtype=torch.bool)
    for category, image_id in boxes:
        if image_id in image_of_id:
            true[category, image_of_id[image_id]] = True
    has_boxes = true.any(1)
    phrases = [QueryPhrase((name,), name) for name, kept in zip(names, has_boxes.tolist(), strict=True) if kept]
    return Queries(phrases, true[has_boxes])


AT_ONCE = 1 << 11  # candidates scored at a time


class AttachmentQuestion(NamedTuple):
    """A question: to which noun of a caption does an attribute belong, or to which two nouns a relation?

    image: the index of the caption's image. candidates: (attribute, noun) or (subject, relation, object). right: for
    each candidate (whether its noun is right,) or (whether its subject is right, whether its object is).
    """

    image: int
    candidates: Sequence[Words]
    right: Sequence[tuple[bool, ...]]


class QuestionCandidates(NamedTuple):
    """The m candidates of some questions, one question after the other, and the image (m,) that each is compared with,
    an index in the split.
    """

    words: list[Words]
    image: Tensor

    @classmethod
    def of(cls, questions: Sequence[AttachmentQuestion]) -> QuestionCandidates:
        """The candidates of these questions."""
        words = [candidate for question in questions for candidate in question.candidates]
        images = [question.image for question in questions for _ in question.candidates]
        return cls(words, torch.tensor(images))


def phrase_parsing(
    embed: Embed,
    graphs: Sequence[GraphRow],
    split: EmbeddedSplit,
    similarity: VectorSimilarity,
    written: Mapping[str, str],
    known: Callable[[str], bool],
) -> dict[str, dict[str, float]]:
    """The accuracies of a model that reads a candidate as a phrase: "white clock", "dog running on grass".

    Args:
        embed: phrases to vectors.
        graphs: of the split's captions.
        split: whose images decide.
        similarity: how vectors are compared.
        written: the written form of each relation, "run on" -> "running on".
        known: whether the name of a component is asked about.

    Returns:
        Entries `attribute` and `relation`, see `answer_accuracy`.
    """
    accuracies = {}
    for kind, questions in read_questions(graphs, split.image_of_caption.tolist(), known).items():
        candidates = QuestionCandidates.of(questions)
        # A phrase is embedded once, however many questions have it as a candidate.
        row_of_words = {words: row for row, words in enumerate(dict.fromkeys(candidates.words))}
        phrases = [query_phrase(words, written) for words in row_of_words]
        vectors = torch.cat([embed(phrases[start : start + AT_ONCE]) for start in range(0, len(phrases), AT_ONCE)])
        rows = torch.tensor([row_of_words[words] for words in candidates.words]).to(vectors.device)
        image = candidates.image.to(vectors.device)
        with torch.inference_mode():
            scores = [
                similarity.pairs(split.image_vectors[image[part]], vectors[rows[part]])
                for part in torch.arange(len(rows)).split(AT_ONCE)
            ]
        accuracies[kind] = answer_accuracy(questions, torch.cat(scores))
    return accuracies


def read_questions(
    graphs: Sequence[GraphRow], image: Sequence[int], known: Callable[[str], bool]
) -> dict[str, list[AttachmentQuestion]]:
    """The questions of captions, by kind: `attribute` and `relation`; kinds without questions are left out.

    A question comes from a caption with at least two different known nouns; each noun, or each ordered pair of nouns,
    is a candidate. Relations of vague meaning ("of", "have") are not asked about; the list is in attributes.toml.

    Args:
        graphs: one per caption.
        image: (n,) the image index of each caption.
        known: whether a model knows a name.
    """
    of_attributes: list[AttachmentQuestion] = []
    of_relations: list[AttachmentQuestion] = []
    vague = attribute_table().vague_relations
    for image_of_caption, graph in zip(image, graphs, strict=True):
        nouns = sorted(name for name in {item["object"] for item in graph["objects"]} if known(name))
        pairs = [*permutations(nouns, 2)]
        for item in graph["attributes"]:
            attribute = item["attribute"]
            owner = item["object"]
            if len(nouns) > 1 and owner in nouns and known(attribute):
                candidates: list[Words] = [(attribute, noun) for noun in nouns]
                right: list[tuple[bool, ...]] = [(noun == owner,) for noun in nouns]
                of_attributes.append(AttachmentQuestion(image_of_caption, candidates, right))
        for item in graph["relations"]:
            relation = item["relation"]
            ends = (item["subject"], item["object"])
            if ends in pairs and relation not in vague and known(relation):
                candidates = [(subject, relation, thing) for subject, thing in pairs]
                right = [(subject == ends[0], thing == ends[1]) for subject, thing in pairs]
                of_relations.append(AttachmentQuestion(image_of_caption, candidates, right))
    questions = {"attribute": of_attributes, "relation": of_relations}
    return {kind: of_kind for kind, of_kind in questions.items() if of_kind}


def answer_accuracy(questions: Sequence[AttachmentQuestion], scores: Tensor) -> dict[str, float]:
    """How often, in %, the candidate with the highest score is right, and ", random" how often a uniform choice is.

    What the parser read in the caption counts as right. For triples there are accuracies of the subject, of the object,
    of `both` together, and `either`, which is the paper's score (Table 4): half a point for each end.

    Args:
        questions: all of attributes, or all of relations.
        scores: (m,) of all their candidates, see `QuestionCandidates`.
    """
    ends = np.cumsum([len(question.candidates) for question in questions])
    right_by_model = []  # of each question: (whether its noun is right,), or (whether its subject is, its object is)
    right_by_chance = []  # the same for a uniform choice: the shares of candidates that are right
    for question, of_question in zip(questions, np.split(scores.cpu().numpy(), ends[:-1]), strict=True):
        # `argmax` takes the first of equal scores, and candidates are sorted by name: the alphabet decides a tie.
        right_by_model.append(question.right[int(of_question.argmax())])
        right_by_chance.append(np.mean(question.right, 0))
    chosen = np.array(right_by_model)  # (questions, 1 or 2)
    chance = np.array(right_by_chance)

    names = ("subject", "object") if chosen.shape[1] == 2 else ("noun",)
    metrics: dict[str, float] = {"questions": len(questions)}
    for column, name in enumerate(names):
        metrics[name] = 100 * chosen[:, column].mean().item()
        metrics[f"{name}, random"] = 100 * chance[:, column].mean().item()
    if len(names) > 1:
        for suffix in ("", ", random"):
            metrics[f"either{suffix}"] = (metrics[f"subject{suffix}"] + metrics[f"object{suffix}"]) / 2
        metrics["both"] = 100 * chosen.all(1).mean().item()
        # of the candidates of a question, exactly one has both ends right
        chance_of_both = [1 / len(question.candidates) for question in questions]
        metrics["both, random"] = 100 * np.mean(chance_of_both).item()
    return metrics
