"""The protocols against explicit loops over small sets."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from negcap.pipelines.score.items import only_adds
from negcap.pipelines.score.protocols import Vectors, measure, percents, unit
from negcap.pipelines.score.test_set import Foil, Image, Item, Quad, Question, TestSet, build

OPERATORS = {"noun": "noun", "preposition": "relation", "relation": "relation"}


def image(name: str) -> tuple[Image, ...]:
    return (Image(name, Path(f"{name}.jpg")),)


def items(images: int = 7, seed: int = 0) -> list[Item]:
    """Two captions an image, each the other's second one; up to three negatives a caption; one is of two images."""
    rng = np.random.default_rng(seed)
    made: list[Item] = []
    for i in range(images):
        both = [f"caption {i} {n}" for n in range(2)]
        for n, text in enumerate(both):
            text = "shared" if n and i < 2 else text
            foils = [
                Foil(name, family, f"false {name} {draw} of {text}", name == "relation")
                for name, family in OPERATORS.items()
                for draw in range(int(rng.integers(0, 3)))
            ]
            made.append(Item(image(f"i{i}"), text, both[1 - n] if i % 3 else None, tuple(foils)))
    return made


def random_vectors(tests: TestSet, seed: int = 1, d: int = 5) -> Vectors:
    rng = np.random.default_rng(seed)
    images, texts = (unit(rng.normal(size=(len(some), d)), "x") for some in (tests.image_ids, tests.texts))
    return Vectors.of_each(images, texts)


def expected(made: list[Item], tests: TestSet, scores: np.ndarray, operators: set[str]) -> dict[str, list[bool]]:
    """The cases of every protocol for negatives of some operators, one at a time."""
    image = {name: n for n, name in enumerate(tests.image_ids)}
    text = {name: n for n, name in enumerate(tests.texts)}
    cases: dict[str, list[bool]] = {"pairs": [], "half-truth": [], "two captions": []}
    true: dict[str, set[str]] = {}
    own: dict[str, set[str]] = {}
    every: set[str] = set()
    for item in made:
        name = item.images[0].image_id
        true.setdefault(name, set()).update({item.text, item.second} - {None})
        for foil in (foil for foil in item.negatives if foil.operator in operators):
            own.setdefault(name, set()).add(foil.text)
            every.add(foil.text)
            row = scores[image[name]]
            right = bool(row[text[item.text]] > row[text[foil.text]])
            if " 0 of " in foil.text:
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
    vectors = random_vectors(tests, seed)
    groups: dict[str, set[str]] = {name: {name} for name in OPERATORS}
    groups |= {"all": set(OPERATORS)}  # and no family: "relation" has the name of an operator
    measured = {(one.protocol, one.group): one for one in measure(vectors, tests)}
    assert {group for _, group in measured} == set(groups)
    for group, operators in groups.items():
        for protocol, cases in expected(made, tests, vectors.images @ vectors.texts.T, operators).items():
            if cases:
                got = measured.pop((protocol, group)).right.tolist()
                assert sorted(got) == sorted(cases), (protocol, group)
            else:
                assert (protocol, group) not in measured
    assert {protocol for protocol, _ in measured} == {"image to text", "two captions, text only"}


def test_without_images_all_images_of_a_half_are_one() -> None:
    tests = build(items(9))
    vectors = random_vectors(tests)
    blind = vectors.without_images()
    each = blind.images[blind.of]
    assert np.allclose(each[::2], vectors.images[1::2].mean(0)) and np.allclose(each[1::2], vectors.images[::2].mean(0))
    same = measure(Vectors.of_each(each, vectors.texts), tests)
    for one, other in zip(measure(vectors, tests), same, strict=True):  # as if each image had that vector of its own
        assert one.blind is not None and one.blind.tolist() == other.right.tolist(), one[:2]


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [
        ([[1, 0], [0, 1]], (1, 1, 1)),
        ([[0.9, 0.1], [0.95, 0.2]], (0, 0, 0)),
        ([[0.9, 0.5], [0.8, 0.6]], (1, 0, 0)),
        ([[0.9, 0.5], [0.95, 0.99]], (0, 1, 0)),
        ([[1, 1], [1, 1]], (0, 0, 0)),
    ],
)
def test_winoground(texts: list[list[float]], wanted: tuple[int, ...]) -> None:
    tests = build([Quad((Image("a", None), Image("b", None)), ("mug in grass", "grass in mug"), "swap")])
    vectors = Vectors.of_each(np.eye(2, dtype=np.float32), np.array(texts, np.float32))
    got = {one.protocol: int(one.right[0]) for one in measure(vectors, tests)}
    assert (got["text"], got["image"], got["group"]) == wanted


def test_a_tie_counts_against_the_model() -> None:
    tests = build(items())
    same = (np.ones((len(some), 3), np.float32) / np.sqrt(3) for some in (tests.image_ids, tests.texts))
    measured = measure(Vectors.of_each(*same), tests)
    assert measured and not any(one.right.any() or np.any(one.blind) for one in measured)


def test_intervals_are_those_of_whole_images() -> None:
    rng = np.random.default_rng(0)
    image = np.repeat(np.arange(100), 20)
    same = np.repeat(rng.random(100) < 0.6, 20).astype(float)  # all pairs of an image are right, or none
    free = (rng.random(2000) < 0.6).astype(float)
    together, apart = percents([(image, same), (image, free)], 100, 2000, 0)
    assert together.value == 100 * same.mean() and together.n == 2000
    assert together.high - together.low == pytest.approx(2 * 196 * np.sqrt(0.24 / 100), rel=0.15)
    assert apart.high - apart.low == pytest.approx(2 * 196 * np.sqrt(0.24 / 2000), rel=0.2)
    assert percents([(image, same)], 100, 2000, 0)[0] == together


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
    made = []
    for i in range(12):
        false = tuple(f"false {i} {n}" for n in range(3 if i % 4 else 2))
        said = f"caption {i}" if i % 2 else f"caption {i} with no dog"
        made.append(Question(image(f"i{i}"), said, false, ("positive", "hybrid")[i % 2]))
    tests = build(made)
    vectors = random_vectors(tests, 3, 3)
    scores = vectors.images @ vectors.texts.T
    text = {name: n for n, name in enumerate(tests.texts)}
    right = [scores[i, text[one.text]] > max(scores[i, text[t]] for t in one.false) for i, one in enumerate(made)]
    near = [(scores[:, text[one.text]] > scores[i, text[one.text]]).sum() < 5 for i, one in enumerate(made)]
    measured = {(one.protocol, one.group): one.right.tolist() for one in measure(vectors, tests)}
    assert measured == {
        ("multiple choice", "all"): right,
        ("multiple choice", "positive"): right[::2],
        ("multiple choice", "hybrid"): right[1::2],
        ("text to image, R@5", "all"): near[1::2],
        ("text to image, R@5, denials", "all"): near[::2],
    }
