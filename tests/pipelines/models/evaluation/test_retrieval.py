"""Ranks, recalls and intervals; queries by components, their average precision, and parsing with visual cues."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score
from torch import Generator, Tensor
from torch.nn.functional import normalize

from negcap.pipelines.models.data import QueryPhrase
from negcap.pipelines.models.evaluation import retrieval
from negcap.pipelines.models.evaluation.components import (
    Question,
    accuracy,
    average_precision,
    detected_queries,
    frequent_queries,
    phrase_parsing,
    read_questions,
    written_forms,
)
from negcap.pipelines.models.evaluation.retrieval import mean_over_folds, rank, recall_metrics
from negcap.pipelines.models.similarities import COSINE


def space(images: int, captions: int, seed: int, noise: float = 0.6) -> tuple[Tensor, Tensor, Tensor]:
    """Random unit vectors of captions near their images, at least one per image, and the image of each."""
    generator = Generator().manual_seed(seed)
    vectors = normalize(torch.randn(images, 4, generator=generator), dim=1)
    owner = torch.cat([torch.arange(images), torch.randint(images, (captions - images,), generator=generator)])
    near = vectors[owner] + noise * torch.randn(captions, 4, generator=generator)
    return vectors, normalize(near, dim=1), owner


def naive(images: Tensor, captions: Tensor, owner: Tensor) -> tuple[list[int], list[int]]:
    """Ranks of images and captions, each compared with the score of its best match."""
    scores = (images @ captions.T).tolist()
    of_images = []
    for i, row in enumerate(scores):
        best = max(score for score, of in zip(row, owner, strict=True) if of == i)
        of_images.append(1 + sum(score > best for score in row))
    columns = list(zip(*scores, strict=True))
    of_captions = [1 + sum(score > column[of] for score in column) for column, of in zip(columns, owner, strict=True)]
    return of_images, of_captions


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 9), st.integers(0, 20), st.integers(0, 999), st.sampled_from([4, 1 << 23]))
def test_ranks_equal_those_of_a_loop(images: int, more: int, seed: int, block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retrieval, "BLOCK", block)
        vectors, captions, owner = space(images, images + more, seed)
        ranks = rank(vectors, captions, owner)
    assert (ranks.images.tolist(), ranks.captions.tolist()) == naive(vectors, captions, owner)
    best = [max(float(vectors[i] @ c) for c, o in zip(captions, owner, strict=True) if o == i) for i in range(images)]
    assert ranks.best.tolist() == pytest.approx(best, abs=1e-5)


def test_a_tie_counts_against_the_model() -> None:
    point = torch.ones(3, 2) / 2**0.5
    ranks = rank(point, point.repeat(2, 1), torch.arange(3).repeat(2))
    assert ranks.images.tolist() == [5, 5, 5]  # 4 captions of other images
    assert ranks.captions.tolist() == [3] * 6


def test_recall_metrics() -> None:
    for ranks, expected in (
        ([1], (100, 100, 100, 1, 1)),
        ([1, 2, 6, 11], (25, 50, 75, 4, 5)),
        ([3, 1, 5], (100 / 3, 100, 100, 3, 3)),
    ):
        assert tuple(recall_metrics(torch.tensor(ranks)).values()) == pytest.approx(expected)


def test_fold_metrics_are_means_over_consecutive_images() -> None:
    vectors, captions, owner = space(25, 60, 2)
    made = mean_over_folds(vectors, captions, owner, 10)
    parts = []
    for start in (0, 10):
        inside = (owner >= start) & (owner < start + 10)
        ranks = rank(vectors[start : start + 10], captions[inside], owner[inside] - start)
        parts.append(retrieval.retrieval_metrics(ranks))
    assert made == pytest.approx({name: (parts[0][name] + parts[1][name]) / 2 for name in parts[0]})


Names = tuple[str, ...]


def graph(objects: Sequence[str], attributes: Sequence[Names] = (), relations: Sequence[Names] = ()) -> dict[str, Any]:
    return {
        "objects": [{"object": name} for name in objects],
        "attributes": [{"attribute": one, "object": other} for one, other in attributes],
        "relations": [{"subject": a, "relation": b, "object": c, "tokens": [0, 2]} for a, b, c in relations],
    }


def vocabulary(*components: Names) -> pa.Table:
    kinds = ("noun", "attribute_noun", "triple")
    return pa.Table.from_pylist([{"kind": kinds[len(words) - 1], "words": list(words)} for words in components])


def test_queries_are_components_of_enough_images() -> None:
    known = vocabulary(("dog",), ("lake",), ("cat",), ("red", "dog"), ("dog", "swim in", "lake"))
    rows = [graph(["dog", "lake"], [("red", "dog")], [("dog", "swim in", "lake")])] * 6 + [graph(["cat"])] * 4
    image, written = [0, 1, 2, 3, 3, 4, *range(4)], {"swim in": "swimming in"}
    found = frequent_queries(pa.Table.from_pylist(rows), known, image, 6, written)
    assert [phrase.words for phrase in found["object"][0]] == [("dog",), ("lake",)]  # the cat has only 4 images
    assert found["object"][1].tolist() == [[True] * 5 + [False]] * 2
    assert found["attribute"][0] == [QueryPhrase(("red", "dog"), "red dog")]
    assert found["relation"][0] == [QueryPhrase(("dog", "swim in", "lake"), "dog swimming in lake")]


def test_a_relation_gets_its_most_frequent_written_form() -> None:
    components = pa.Table.from_pylist([graph([], [], [("dog", "sit on", "mat")])] * 3)
    texts = ["sits down on", "Sitting there on", "sitting here on"]
    tokens = [[{"start": text.index(w), "end": text.index(w) + len(w)} for w in text.split()] for text in texts]
    parses = pa.table({"tokens": tokens, "text": texts})
    assert written_forms(components, parses) == {"sit on": "sitting on"}


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=12))
def test_average_precision_equals_scikit_learns(items: list[tuple[int, bool]]) -> None:
    items = [*items, (9, True)]
    distinct = torch.tensor([[float(score) + n / 100 for n, (score, _) in enumerate(items)]])
    true = torch.tensor([[flag for _, flag in items]])
    expected = average_precision_score(true[0].numpy(), distinct[0].numpy())
    assert average_precision(distinct, true).item() == pytest.approx(expected)


def test_accuracy_of_answers_and_of_chance() -> None:
    ends = [(one, other) for one in (True, False, False) for other in (True, False)]
    questions = [Question(0, [("", "", "")] * 6, ends), Question(0, [("", "", "")] * 2, [(True, True), (False, False)])]
    # chosen: the second (only its subject is right) and the first of the other two (both right)
    scores = torch.tensor([0.1, 0.9, 0.2, 0.3, 0.1, 0.0, 0.5, 0.4])
    chance = {"subject": 100 * (2 / 6 + 1 / 2) / 2, "object": 50.0, "both": 100 * (1 / 6 + 1 / 2) / 2}
    chance["either"] = (chance["subject"] + chance["object"]) / 2
    expected = {"subject": 100, "object": 50, "both": 50, "either": 75}
    made = accuracy(questions, lambda words, image: scores)
    assert {name: made[name] for name in expected} == expected
    assert {name: made[f"{name}, random"] for name in chance} == pytest.approx(chance)
    noun = Question(0, [("", "")] * 4, [(False,), (True,), (False,), (False,)])
    alone = accuracy([noun], lambda words, image: torch.tensor([0, 1, 0, 0.5]))
    assert alone == {"questions": 1, "noun": 100, "noun, random": 25}


def test_any_model_may_read_candidates_as_phrases() -> None:
    """UniVSE, Table 4: the first image has a red dog on grass, the second a red ball in front of a dog."""
    graphs = [
        graph(["dog", "grass"], [("red", "dog")], [("dog", "run on", "grass"), ("dog", "have", "grass")]),
        graph(["ball", "dog", "dog"], [("red", "ball")], [("ball", "be of", "ball")]),
    ]
    questions = read_questions(graphs, [0, 1], lambda name: True)
    assert [q.candidates for q in questions["attribute"]] == [
        [("red", "dog"), ("red", "grass")],
        [("red", "ball"), ("red", "dog")],
    ]
    (relation,) = questions["relation"]  # neither of a vague relation, nor of a thing with itself
    assert relation.candidates == [("dog", "run on", "grass"), ("grass", "run on", "dog")]
    assert relation.right == [(True, True), (False, False)]
    assert "relation" not in read_questions(graphs, [0, 1], lambda name: name != "grass")
    read: list[str] = []

    def embed(phrases: Sequence[QueryPhrase]) -> torch.Tensor:
        read.extend(phrase.text for phrase in phrases)
        liked = {"red dog": [1, 0.2], "red ball": [0, 1.0], "grass running on dog": [1, 0]}
        return torch.tensor([liked.get(phrase.text, [0.5, 0.5]) for phrase in phrases])

    split = SimpleNamespace(owner=torch.tensor([0, 1]), images=torch.eye(2))
    known = {"red", "dog", "ball", "grass", "run on"}.__contains__
    found = phrase_parsing(embed, graphs, split, COSINE, {"run on": "running on"}, known)  # type: ignore[arg-type]
    assert found["attribute"]["noun"] == 100 and found["attribute"]["noun, random"] == 50
    assert found["relation"]["either"] == 0
    assert sorted(read) == ["dog running on grass", "grass running on dog", "red ball", "red dog", "red grass"]
    few = {"red", "dog", "ball", "run on"}.__contains__
    assert phrase_parsing(embed, graphs, split, COSINE, {}, few)["attribute"]["questions"] == 1  # type: ignore[arg-type]


def test_queries_by_the_categories_that_have_boxes(tmp_path: Path) -> None:
    file = tmp_path / "instances.json"
    annotations = [(9, 5), (9, 5), (7, 3), (9, 4), (8, 4)]  # category, image; image 4 is not in the split
    content = {
        "images": [{"id": 3, "file_name": "c.jpg"}, {"id": 5, "file_name": "a.jpg"}, {"id": 4, "file_name": "z.jpg"}],
        "categories": [{"id": 7, "name": "dog"}, {"id": 8, "name": "cat"}, {"id": 9, "name": "fire hydrant"}],
        "annotations": [{"category_id": category, "image_id": image} for category, image in annotations],
    }
    file.write_text(json.dumps(content), "utf-8")
    phrases, true = detected_queries(file, ["val/a.jpg", "val/b.jpg", "val/c.jpg"])
    assert phrases == [QueryPhrase(("dog",), "dog"), QueryPhrase(("fire hydrant",), "fire hydrant")]
    assert true.tolist() == [[False, False, True], [True, False, False]]
    with pytest.raises(ValueError, match="has none, e.g. q.jpg"):
        detected_queries(file, ["q.jpg"])
    file.write_text("[]", "utf-8")
    with pytest.raises(ValueError, match="must be COCO's instance annotations"):
        detected_queries(file, ["a.jpg"])
