"""The protocols against explicit loops over small sets."""

from typing import Any

import numpy as np
import pytest

from negcap.pipelines.models.figures import ratios_with_intervals
from negcap.pipelines.score.protocols import Vectors, measure, unit
from negcap.pipelines.score.test_set import (
    CAPTION,
    FALSE,
    NEGATIVE,
    OF_TWO,
    SECOND,
    TRUE,
    Row,
    TestSet,
    build,
    only_adds,
    table,
)

OPERATORS = {"noun": "noun", "preposition": "relation", "relation": "relation"}


def items(images: int = 7, seed: int = 0) -> list[list[Row]]:
    """Two captions an image, each the other's second one; up to three negatives a caption; one is of two images."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(images):
        both = [f"caption {i} {n}" for n in range(2)]
        for n, text in enumerate(both):
            text = "shared" if n and i < 2 else text
            texts = [(CAPTION, text, "", ""), *([(SECOND, both[1 - n], "", "")] if i % 3 else [])]
            for name, family in OPERATORS.items():
                false = [f"false {name} {draw} of {text}" for draw in range(int(rng.integers(0, 3)))]
                texts += [(NEGATIVE, one, name, family) for one in false]
            made.append([Row(f"i{i}", None, *one, one[2] == "relation") for one in texts])
    return made


def random_vectors(tests: TestSet, seed: int = 1, d: int = 5) -> Vectors:
    rng = np.random.default_rng(seed)
    images, texts = (unit(rng.normal(size=(len(some), d)), "x") for some in (tests.image_ids, tests.texts))
    return Vectors.of_each(images, texts)


def expected(made: list[list[Row]], tests: TestSet, scores: np.ndarray, operators: set[str]) -> dict[str, list[bool]]:
    """The cases of every protocol for negatives of some operators, one at a time."""
    image = {name: n for n, name in enumerate(tests.image_ids)}
    text = {name: n for n, name in enumerate(tests.texts)}
    cases: dict[str, list[bool]] = {"pairs": [], "half-truth": [], "two captions": []}
    true: dict[str, set[str]] = {}
    own: dict[str, set[str]] = {}
    every: set[str] = set()
    for item in made:
        name = item[0].image_id
        captions = [row.text for row in item if row.role != NEGATIVE]
        true.setdefault(name, set()).update(captions)
        for foil in (row for row in item if row.label in operators):
            own.setdefault(name, set()).add(foil.text)
            every.add(foil.text)
            right = [bool(scores[image[name], text[one]] > scores[image[name], text[foil.text]]) for one in captions]
            if " 0 of " in foil.text:
                cases["pairs"].append(right[0])
                if foil.adds:
                    cases["half-truth"].append(right[0])
                if len(captions) > 1:
                    cases["two captions"].append(all(right))
    captions = [*set().union(*true.values())]
    for protocol, added in (("own", own), ("all", dict.fromkeys(own, every))):
        cases[f"image to text, {protocol} negatives"] = [
            max(scores[image[name], text[t]] for t in true[name])
            > max(scores[image[name], text[t]] for t in ({*captions} | added[name]) - true[name])
            for name in sorted(own)
        ]
    return cases


@pytest.mark.parametrize("seed", range(4))
def test_every_protocol_is_what_it_says(seed: int) -> None:
    made = items(seed=seed)
    tests = build(table(made))
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
    tests = build(table(items(9)))
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
    two = [Row(name, None, OF_TWO, text, "swap") for name, text in (("a", "mug in grass"), ("b", "grass in mug"))]
    tests = build(table([two]))
    vectors = Vectors.of_each(np.eye(2, dtype=np.float32), np.array(texts, np.float32))
    got = {one.protocol: int(one.right[0]) for one in measure(vectors, tests)}
    assert (got["text"], got["image"], got["group"]) == wanted


def test_a_tie_counts_against_the_model() -> None:
    tests = build(table(items()))
    same = (np.ones((len(some), 3), np.float32) / np.sqrt(3) for some in (tests.image_ids, tests.texts))
    measured = measure(Vectors.of_each(*same), tests)
    assert measured and not any(one.right.any() or np.any(one.blind) for one in measured)


def test_intervals_are_those_of_whole_images() -> None:
    rng = np.random.default_rng(0)
    same = 20.0 * (rng.random(100) < 0.6)  # all 20 pairs of an image are right, or none
    free = rng.binomial(20, 0.6, 100)
    counts, sizes = np.stack([same, free], 1), np.full((100, 1), 20.0)
    together, apart = ratios_with_intervals(counts, sizes, 0)
    assert together.value == 5 * same.mean()
    for one, cases in ((together, 100), (apart, 2000)):
        assert np.diff(one.interval)[0] == pytest.approx(2 * 196 * np.sqrt(0.24 / cases), rel=0.2)
    assert ratios_with_intervals(counts[:, :1], sizes, 0) == [together]


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
        false = [f"false {i} {n}" for n in range(3 if i % 4 else 2)]
        texts = [(TRUE, f"caption {i}" if i % 2 else f"caption {i} with no dog"), *((FALSE, text) for text in false)]
        made.append([Row(f"i{i}", None, *text, ("positive", "hybrid")[i % 2]) for text in texts])
    tests = build(table(made))
    vectors = random_vectors(tests, 3, 3)
    scores = vectors.images @ vectors.texts.T
    text = {name: n for n, name in enumerate(tests.texts)}
    of_texts = [[scores[i, text[one.text]] for one in item] for i, item in enumerate(made)]
    right = [true > max(false) for true, *false in of_texts]
    near = [(scores[:, text[item[0].text]] > of_texts[i][0]).sum() < 5 for i, item in enumerate(made)]
    measured = {(one.protocol, one.group): one.right.tolist() for one in measure(vectors, tests)}
    assert measured == {
        ("multiple choice", "all"): right,
        ("multiple choice", "positive"): right[::2],
        ("multiple choice", "hybrid"): right[1::2],
        ("text to image, R@5", "all"): near[1::2],
        ("text to image, R@5, denials", "all"): near[::2],
    }


def test_a_share_at_its_limit_has_an_interval_as_wide_as_its_cases_allow() -> None:
    for cases, low in ((6, 61.0), (60, 94.0), (1, 20.7)):
        sizes = np.zeros((80, 1))
        sizes[:cases] = 4  # pairs of one image are no independent cases
        all_right, none = (ratios_with_intervals(share * sizes, sizes, 0)[0] for share in (1, 0))
        assert all_right.value == 100.0 and all_right.interval == pytest.approx((low, 100.0), abs=0.05)
        assert none.value == 0.0 and none.interval == pytest.approx((0.0, 100 - low), abs=0.05)
    sizes = np.ones((6, 1))
    (share,) = ratios_with_intervals(np.array([[1], [1], [1], [1], [1], [0]]), sizes, 0)
    assert share.interval == pytest.approx((50.0, 100.0), abs=0.1)  # of the bootstrap
