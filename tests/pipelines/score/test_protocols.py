"""The protocols against explicit loops over small sets."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from negcap.pipelines.score.intervals import Cases, percents
from negcap.pipelines.score.protocols import Vectors, measure, unit
from negcap.pipelines.score.test_set import Foil, Item, Quad, Question, TestSet, build, only_adds

OPERATORS = {"noun": "noun", "preposition": "relation", "relation": "relation"}


def items(images: int = 7, seed: int = 0) -> list[Item | Quad]:
    """Two captions an image, each the other's second one; up to three negatives a caption; one is of two images."""
    rng = np.random.default_rng(seed)
    made: list[Item | Quad] = []
    for i in range(images):
        both = [f"caption {i} {n}" for n in range(2)]
        for n, text in enumerate(both):
            text = "shared" if n and i < 2 else text
            foils = [
                Foil(name, family, f"false {name} {draw} of {text}", name == "relation", draw)
                for name, family in OPERATORS.items()
                for draw in range(int(rng.integers(0, 3)))
            ]
            made.append(Item(f"i{i}", Path(f"i{i}.jpg"), text, both[1 - n] if i % 3 else None, tuple(foils)))
    return made


def found(tests: TestSet, seed: int = 1, d: int = 5) -> tuple[Vectors, np.ndarray]:
    rng = np.random.default_rng(seed)
    vectors = Vectors(
        unit(rng.normal(size=(len(tests.image_ids), d)), "images"),
        unit(rng.normal(size=(len(tests.texts), d)), "texts"),
    )
    return vectors, vectors.images @ vectors.texts.T


def expected(made: list[Item | Quad], tests: TestSet, scores: np.ndarray, operators: set[str]) -> dict[str, list[bool]]:
    """The cases of every protocol for negatives of some operators, one at a time."""
    image = {name: n for n, name in enumerate(tests.image_ids)}
    text = {name: n for n, name in enumerate(tests.texts)}
    cases: dict[str, list[bool]] = {"pairs": [], "half-truth": [], "two captions": []}
    true: dict[str, set[str]] = {}
    own: dict[str, set[str]] = {}
    every: set[str] = set()
    for item in made:
        assert isinstance(item, Item)
        true.setdefault(item.image_id, set()).update({item.text, item.second} - {None})
        for foil in item.negatives:
            if foil.operator not in operators:
                continue
            own.setdefault(item.image_id, set()).add(foil.text)
            every.add(foil.text)
            row = scores[image[item.image_id]]
            right = bool(row[text[item.text]] > row[text[foil.text]])
            if foil.draw == 0:
                cases["pairs"].append(right)
                if foil.adds:
                    cases["half-truth"].append(right)
                if item.second is not None:
                    cases["two captions"].append(right and bool(row[text[item.second]] > row[text[foil.text]]))
    captions = set().union(*true.values())
    for protocol, added in (("own", own), ("all", dict.fromkeys(own, every))):
        cases[f"image to text, {protocol} negatives"] = [
            max(scores[image[name], text[t]] for t in true[name])
            > max(scores[image[name], text[t]] for t in (captions | added[name]) - true[name])
            for name in sorted(own)
        ]
    return cases


@pytest.mark.parametrize("seed", range(4))
def test_every_protocol_is_what_it_says(seed: int) -> None:
    made = items(seed=seed)
    tests = build(made)
    vectors, scores = found(tests, seed)
    groups: dict[str, set[str]] = {name: {name} for name in OPERATORS}
    groups |= {"all": set(OPERATORS)}
    families = {one.group for one in measure(vectors, tests)} - set(groups)
    assert not families  # the family "relation" has the name of an operator
    measured = {(one.protocol, one.group): one for one in measure(vectors, tests)}
    for group, operators in groups.items():
        for protocol, cases in expected(made, tests, scores, operators).items():
            if cases:
                got = measured.pop((protocol, group)).model.right.tolist()
                assert sorted(got) == sorted(map(float, cases)), (protocol, group)
            else:
                assert (protocol, group) not in measured
    assert {protocol for protocol, _ in measured} == {"image to text", "two captions, text only"}


def test_without_images_all_images_of_a_half_are_one() -> None:
    made = items(9)
    tests = build(made)
    vectors, _ = found(tests)
    blind = vectors.without_images()
    assert np.allclose(blind[::2], vectors.images[1::2].mean(0)) and np.allclose(
        blind[1::2], vectors.images[::2].mean(0)
    )
    for one in measure(vectors, tests):  # ranks that are counted by sorting are those of a full comparison
        shown = [other for other in measure(Vectors(blind, vectors.texts), tests) if other[:2] == one[:2]]
        assert shown[0].model.right.tolist() == one.blind.right.tolist(), one[:2]


def test_winoground() -> None:
    quad = Quad((("a", None), ("b", None)), ("mug in grass", "grass in mug"), "swap")
    tests = build([quad])
    images = np.eye(2, dtype=np.float32)
    cases = {
        "both": ([[1, 0], [0, 1]], (1, 1, 1)),
        "neither": ([[0.9, 0.1], [0.95, 0.2]], (0, 0, 0)),
        "text only": ([[0.9, 0.5], [0.8, 0.6]], (1, 0, 0)),
        "image only": ([[0.9, 0.5], [0.95, 0.99]], (0, 1, 0)),
        "ties": ([[1, 1], [1, 1]], (0, 0, 0)),
    }
    for name, (texts, wanted) in cases.items():
        vectors = Vectors(images, np.array(texts, np.float32))
        got = {one.protocol: float(one.model.right[0]) for one in measure(vectors, tests)}
        assert (got["text"], got["image"], got["group"]) == wanted, name


def test_a_tie_counts_against_the_model() -> None:
    tests = build(items())
    vectors = Vectors(*(np.ones((n, 3), np.float32) / np.sqrt(3) for n in (len(tests.image_ids), len(tests.texts))))
    assert not any(one.model.right.any() or one.blind.right.any() for one in measure(vectors, tests))


def test_intervals_are_those_of_whole_images() -> None:
    rng = np.random.default_rng(0)
    image = np.repeat(np.arange(100), 20)
    same = np.repeat(rng.random(100) < 0.6, 20).astype(float)  # all pairs of an image are right, or none
    free = (rng.random(2000) < 0.6).astype(float)
    together, apart = percents([Cases(same, image), Cases(free, image)], 100, 2000, 0)
    assert together.value == 100 * same.mean() and together.n == 2000
    assert together.high - together.low == pytest.approx(2 * 196 * np.sqrt(0.24 / 100), rel=0.15)
    assert apart.high - apart.low == pytest.approx(2 * 196 * np.sqrt(0.24 / 2000), rel=0.2)
    assert percents([Cases(same, image)], 100, 2000, 0)[0] == together


@pytest.mark.parametrize(
    ("caption", "negative", "adds"),
    [
        ("A dog runs.", "A black dog runs.", True),
        ("A dog runs.", "A dog and a cat runs on grass.", True),
        ("A dog runs.", "A cat runs fast.", False),
        ("A dog runs.", "A dog runs.", False),
        ("A dog runs on grass.", "A dog runs.", False),
    ],
)
def test_what_only_adds(caption: str, negative: str, adds: bool) -> None:
    assert only_adds(caption, negative) == adds


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0])
def test_vectors_must_have_a_direction(bad: Any) -> None:
    rows = np.ones((3, 2))
    rows[1] = bad
    with pytest.raises(ValueError, match="x must be finite and not zero, row 1 is not"):
        unit(rows, "x")


def test_multiple_choice_and_queries_with_denials_one_at_a_time() -> None:
    rng, made = np.random.default_rng(3), []
    for i in range(12):
        false = tuple(f"false {i} {n}" for n in range(3 if i % 4 else 2))
        said = f"caption {i}" if i % 2 else f"caption {i} with no dog"
        made.append(Question(f"i{i}", None, said, false, ("positive", "hybrid")[i % 2]))
    tests = build(made)
    vectors = Vectors(unit(rng.normal(size=(12, 3)), "images"), unit(rng.normal(size=(len(tests.texts), 3)), "texts"))
    scores = vectors.images @ vectors.texts.T
    text = {name: n for n, name in enumerate(tests.texts)}
    right = [scores[i, text[one.text]] > max(scores[i, text[t]] for t in one.false) for i, one in enumerate(made)]
    near = [
        sorted(scores[:, text[one.text]], reverse=True).index(scores[i, text[one.text]]) < 5
        for i, one in enumerate(made)
    ]
    wanted = {
        ("multiple choice", "all"): right,
        ("multiple choice", "positive"): right[::2],
        ("multiple choice", "hybrid"): right[1::2],
        ("text to image, R@5", "all"): near[1::2],
        ("text to image, R@5, denials", "all"): near[::2],
    }
    measured = {(one.protocol, one.group): one.model.right for one in measure(vectors, tests)}
    assert {key: list(map(bool, found)) for key, found in measured.items()} == wanted
