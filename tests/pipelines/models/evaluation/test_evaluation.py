"""Ranks, recalls and intervals; queries by components; and protocols on a few texts whose vectors are given."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score
from torch import Generator, Tensor
from torch.nn.functional import normalize

from negcap.pipelines.models import ranking
from negcap.pipelines.models.config import EvaluateConfig
from negcap.pipelines.models.data import Captions, Corpus, RunTexts
from negcap.pipelines.models.evaluation import components, protocols, retrieval
from negcap.pipelines.models.similarities import COSINE
from negcap.pipelines.models.vocabulary import SPECIALS, WordVocabulary


def space(images: int, captions: int, seed: int, noise: float = 0.6) -> tuple[Tensor, Tensor, Tensor]:
    """Random unit vectors of captions near their images, at least one per image, and the image of each."""
    generator = Generator().manual_seed(seed)
    vectors = normalize(torch.randn(images, 4, generator=generator), dim=1)
    owner = torch.cat([torch.arange(images), torch.randint(images, (captions - images,), generator=generator)])
    near = vectors[owner] + noise * torch.randn(captions, 4, generator=generator)
    return vectors, normalize(near, dim=1), owner


@settings(deadline=None, max_examples=15)
@given(st.integers(1, 9), st.integers(0, 20), st.integers(0, 999), st.sampled_from([4, 1 << 23]))
def test_ranks_equal_those_of_a_loop(images: int, more: int, seed: int, numbers: int) -> None:
    vectors, captions, owner = space(images, images + more, seed)
    ranks = retrieval.rank(vectors, captions, owner, numbers=numbers)
    scores = (vectors @ captions.T).tolist()
    best = [max(score for score, of in zip(row, owner, strict=True) if of == i) for i, row in enumerate(scores)]
    assert ranks.best.tolist() == pytest.approx(best, abs=1e-5)
    assert ranks.images.tolist() == [1 + sum(score > best[i] for score in row) for i, row in enumerate(scores)]
    columns = zip(zip(*scores, strict=True), owner.tolist(), strict=True)
    assert ranks.captions.tolist() == [1 + sum(score > column[own] for score in column) for column, own in columns]


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 9), st.integers(1, 9), st.integers(0, 99), st.sampled_from([1, 7, 1 << 23]))
def test_arrays_tensors_and_sorted_lists_count_alike(candidates: int, queries: int, seed: int, numbers: int) -> None:
    rng = np.random.default_rng(seed)
    false, query = (rng.integers(-2, 3, (n, 2)).astype(np.float32) for n in (candidates, queries))  # with many ties
    true = rng.integers(-2, 3, queries).astype(np.float32)
    counts = [sum(score >= own for score in false @ vector) for vector, own in zip(query, true, strict=True)]
    assert ranking.count_outranking(false, query, true, lambda left, right: left @ right.T, numbers).tolist() == counts
    tensors = (torch.from_numpy(array) for array in (false, query, true))
    assert ranking.count_outranking(*tensors, lambda left, right: left @ right.T, numbers).tolist() == counts
    for vector, own, count in zip(query, true, counts, strict=True):
        assert ranking.count_outranking_in_list(false @ vector, np.array([own])).tolist() == [count]


def test_a_tie_counts_against_the_model() -> None:
    point = torch.ones(3, 2) / 2**0.5
    ranks = retrieval.rank(point, point.repeat(2, 1), torch.arange(3).repeat(2))
    assert ranks.images.tolist() == [5, 5, 5] and ranks.captions.tolist() == [3] * 6  # 4 captions of other images
    near = np.array([1 - ranking.TIE / 2, 1 - 2 * ranking.TIE])
    assert ranking.outranks(near, np.ones(2)).tolist() == [True, False]


def test_recall_metrics_and_their_means_over_consecutive_folds() -> None:
    for ranks, expected in (
        ([1], (100, 100, 100, 1, 1)),
        ([1, 2, 6, 11], (25, 50, 75, 4, 5)),
        ([3, 1, 5], (100 / 3, 100, 100, 3, 3)),
    ):
        assert tuple(retrieval.recall_metrics(torch.tensor(ranks)).values()) == pytest.approx(expected)
    vectors, captions, owner = space(25, 60, 2)
    parts = []
    for start in (0, 10):
        inside = (owner >= start) & (owner < start + 10)
        ranks = retrieval.rank(vectors[start : start + 10], captions[inside], owner[inside] - start)
        parts.append(retrieval.retrieval_metrics(ranks))
    means = {name: (parts[0][name] + parts[1][name]) / 2 for name in parts[0]}
    assert retrieval.mean_over_folds(vectors, captions, owner, 10) == pytest.approx(means)


Names = tuple[str, ...]


def graph(objects: Sequence[str], attributes: Sequence[Names] = (), relations: Sequence[Names] = ()) -> dict[str, Any]:
    return {
        "objects": [{"object": name} for name in objects],
        "attributes": [{"attribute": one, "object": other} for one, other in attributes],
        "relations": [{"subject": a, "relation": b, "object": c, "tokens": [0, 2]} for a, b, c in relations],
    }


def test_queries_are_components_of_enough_images() -> None:
    words = (("dog",), ("lake",), ("cat",), ("red", "dog"), ("dog", "swim in", "lake"))
    kinds = ("noun", "attribute_noun", "triple")
    known = pa.Table.from_pylist([{"kind": kinds[len(names) - 1], "words": list(names)} for names in words])
    rows = [graph(["dog", "lake"], [("red", "dog")], [("dog", "swim in", "lake")])] * 6 + [graph(["cat"])] * 4
    image, written = [0, 1, 2, 3, 3, 4, *range(4)], {"swim in": "swimming in"}
    queries = components.frequent_queries(pa.Table.from_pylist(rows), known, image, 6, written)
    texts = {kind: [phrase.text for phrase in of_kind.phrases] for kind, of_kind in queries.items()}
    assert texts == {"object": ["dog", "lake"], "attribute": ["red dog"], "relation": ["dog swimming in lake"]}
    assert queries["object"].true.tolist() == [[True] * 5 + [False]] * 2  # the cat has only 4 images


def test_a_relation_gets_its_most_frequent_written_form() -> None:
    graphs = pa.Table.from_pylist([graph([], [], [("dog", "sit on", "mat")])] * 3)
    texts = ["sits down on", "Sitting there on", "sitting here on"]
    tokens = [[{"start": text.index(w), "end": text.index(w) + len(w)} for w in text.split()] for text in texts]
    assert components.written_forms(graphs, pa.table({"tokens": tokens, "text": texts})) == {"sit on": "sitting on"}


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=12))
def test_average_precision_equals_scikit_learns(items: list[tuple[int, bool]]) -> None:
    items = [*items, (9, True)]
    distinct = torch.tensor([[float(score) + n / 100 for n, (score, _) in enumerate(items)]])
    true = torch.tensor([[flag for _, flag in items]])
    expected = average_precision_score(true[0].numpy(), distinct[0].numpy())
    assert components.average_precision(distinct, true).item() == pytest.approx(expected)


def test_accuracy_of_answers_and_of_chance() -> None:
    ends = [(one, other) for one in (True, False, False) for other in (True, False)]
    six = components.AttachmentQuestion(0, [("", "", "")] * 6, ends)
    two = components.AttachmentQuestion(0, [("", "", "")] * 2, [(True, True), (False, False)])
    # chosen: the second (only its subject is right) and the first of the other two (both right)
    scores = torch.tensor([0.1, 0.9, 0.2, 0.3, 0.1, 0.0, 0.5, 0.4])
    assert components.answer_accuracy([six, two], scores) == pytest.approx(
        {"questions": 2, "subject": 100, "subject, random": 100 * (2 / 6 + 1 / 2) / 2, "object": 50,
         "object, random": 50, "either": 75, "either, random": 100 * (2 / 6 + 3 / 2) / 4, "both": 50,
         "both, random": 100 * (1 / 6 + 1 / 2) / 2}
    )  # fmt: skip
    noun = components.AttachmentQuestion(0, [("", "")] * 4, [(False,), (True,), (False,), (False,)])
    alone = components.answer_accuracy([noun], torch.tensor([0, 1, 0, 0.5]))
    assert alone == {"questions": 1, "noun": 100, "noun, random": 25}


def test_questions_about_what_attributes_and_relations_belong_to() -> None:
    """UniVSE, Table 4: the first image has a red dog on grass, the second a red ball in front of a dog."""
    graphs = [
        graph(["dog", "grass"], [("red", "dog")], [("dog", "run on", "grass"), ("dog", "have", "grass")]),
        graph(["ball", "dog", "dog"], [("red", "ball")], [("ball", "be of", "ball")]),
    ]
    questions = components.read_questions(graphs, [0, 1], lambda name: True)
    of_attributes = [question.candidates for question in questions["attribute"]]
    assert of_attributes == [[("red", "dog"), ("red", "grass")], [("red", "ball"), ("red", "dog")]]
    (relation,) = questions["relation"]  # neither of a vague relation, nor of a thing with itself
    assert relation.candidates == [("dog", "run on", "grass"), ("grass", "run on", "dog")]
    assert relation.right == [(True, True), (False, False)]
    assert "relation" not in components.read_questions(graphs, [0, 1], lambda name: name != "grass")


def test_queries_by_the_categories_that_have_boxes(tmp_path: Path) -> None:
    file = tmp_path / "instances.json"
    names = {3: "c.jpg", 5: "a.jpg", 4: "z.jpg"}  # image 4 is not in the split
    boxes = [(9, 5), (9, 5), (7, 3), (9, 4), (8, 4)]  # category, image
    content = {
        "images": [{"id": number, "file_name": name} for number, name in names.items()],
        "categories": [{"id": 7, "name": "dog"}, {"id": 8, "name": "cat"}, {"id": 9, "name": "fire hydrant"}],
        "annotations": [{"category_id": category, "image_id": image} for category, image in boxes],
    }
    file.write_text(json.dumps(content), "utf-8")
    phrases, true = components.detected_queries(file, ["val/a.jpg", "val/b.jpg", "val/c.jpg"])
    assert [phrase.text for phrase in phrases] == ["dog", "fire hydrant"]
    assert true.tolist() == [[False, False, True], [True, False, False]]
    with pytest.raises(ValueError, match="has none, e.g. q.jpg"):
        components.detected_queries(file, ["q.jpg"])
    file.write_text("[]", "utf-8")
    with pytest.raises(ValueError, match="must be COCO's instance annotations"):
        components.detected_queries(file, ["a.jpg"])


OPERATORS = ("numeral", "noun", "uniform_noun", "uniform_object", "object", "shuffle")
CAPTIONS = torch.arange(6)  # two of each of three images


def corpus_of(negatives: Sequence[tuple[int, str, bool, bool]]) -> Corpus:
    """Two captions of each of three images, and negatives as (caption, operator, replaced and put in a plural)."""
    caption, operator, was, becomes = zip(*negatives, strict=True)
    ids, image_ids = ([f"{kind}{n}" for n in range(count)] for kind, count in (("c", 6), ("i", 3)))
    human, language = torch.ones(6, dtype=torch.bool), torch.zeros(6, dtype=torch.long)
    captions = Captions(ids, pa.array(ids), pa.array(["test"] * 6), image_ids, CAPTIONS // 2, human, language, ("en",))
    texts = torch.arange(7 + len(negatives))
    number = torch.tensor([OPERATORS.index(name) for name in operator])
    return Corpus(
        captions=captions,
        vocabularies={"en": WordVocabulary(SPECIALS)},
        texts=RunTexts(torch.zeros(len(texts) - 1, dtype=torch.int32), texts, 6),
        negative_caption=torch.tensor(caption),
        operator=number,
        family=number,
        draw=torch.arange(len(negatives), dtype=torch.int32),
        was_plural=torch.tensor(was),
        is_plural=torch.tensor(becomes),
        concreteness=torch.zeros(len(negatives)),
        known=torch.ones(len(negatives), dtype=torch.bool),
        row=torch.arange(len(negatives)),
        starts=torch.searchsorted(torch.tensor(caption), torch.arange(7)),
        operators=OPERATORS,
        families=OPERATORS,
        unknown_words={},
    )


def test_the_plural_split_has_all_captions_of_an_image_and_swaps_numbers_above_one() -> None:
    """VSE-C, Table 4: image 0 counts in one caption only, image 1 in none, image 2 in the other."""
    corpus = corpus_of(
        [
            (0, "numeral", True, True),  # the only one of caption 0 that may attack
            (0, "numeral", True, False),
            (1, "numeral", False, True),  # "a" -> plural, of a caption of a counting image
            (0, "noun", False, False),
            (2, "numeral", False, True),
            (5, "numeral", True, True),
        ]
    )
    of_captions = [[0.3, 0, 0], [0.6, 0, 0], [0.9, 0.5, 0], [0.9, 0.5, 0], [0.7, 0, 0.1], [0, 0, 0.5]]
    of_negatives = [[0.65, 0, 0], [1.0, 0, 0], [1.0, 0, 0], [1.0, 0, 0], [1.0, 1.0, 0], [0, 0, 0.4]]
    vectors = torch.tensor(of_captions + of_negatives)  # similarities with the images, which are the axes
    model: Any = SimpleNamespace(similarity=COSINE, sentences=lambda texts, rows: vectors[rows])
    image = corpus.captions.image
    split = retrieval.EmbeddedSplit(model, corpus, CAPTIONS, torch.arange(3), image, torch.eye(3), vectors[:6])
    metrics, lists, _ = protocols.run_protocols(split, protocols.choose_attacks(corpus, CAPTIONS, EvaluateConfig()))
    plural = metrics["plural"]
    assert (plural["images"], plural["captions"], plural["negatives"]) == (2, 4, 2)
    ranks = {name: dict(zip(rows["query"], rows["rank"], strict=True)) for name, rows in lists.groupby("candidates")}
    # image 0: its best caption has 0.6; of image 2's captions one is above (0.7); image 1's (0.9) are not candidates
    assert ranks["plural"] == {"i0": 2, "i2": 1} and ranks["plural:numeral"] == {"i0": 3, "i2": 1}
    assert plural["plain"]["mean rank"] == 1.5 and plural["numeral"]["mean rank"] == pytest.approx(2)


def test_complete_keeps_images_all_of_whose_captions_have_negatives_of_each_family() -> None:
    owners = [0, 0, 1, 1, 2, 2, 3, 4, 4, 5, 5]  # caption 3 has one of each family, the others two
    kinds = ("numeral", "uniform_noun", "shuffle")
    corpus = corpus_of([(owner, kind, False, False) for kind in kinds for owner in owners])
    for least, complete in ((1, [0, 1, 2, 3, 4, 5]), (2, [0, 1, 4, 5])):
        assert protocols.complete_captions(corpus, CAPTIONS, least).tolist() == complete
    with pytest.raises(ValueError, match="none has captions with 3 negatives of noun, numeral, relation each"):
        protocols.complete_captions(corpus, CAPTIONS, 3)


def test_the_first_negative_of_each_operator_comes_before_the_second_ones() -> None:
    kinds = [(0, "noun"), (0, "noun"), (0, "uniform_noun"), (2, "noun")]
    corpus = corpus_of([(caption, kind, False, False) for caption, kind in kinds])
    corpus = replace(corpus, draw=torch.tensor([0, 1, 0, 0], dtype=torch.int32))
    every = torch.ones(4, dtype=torch.bool)
    for captions, wanted, limit, first in (
        (CAPTIONS, every, 9, [0, 2, 1, 3]),
        (CAPTIONS, every, 2, [0, 2, 3]),
        (CAPTIONS, corpus.made_by(["noun"]), 1, [0, 3]),
        (torch.tensor([2, 3]), every, 2, [3]),
    ):
        assert protocols.first_negatives(corpus, captions, wanted, limit).tolist() == first
