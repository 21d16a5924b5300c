"""The protocols against explicit loops over small sets."""

from collections import defaultdict
from collections.abc import Callable

import numpy as np
import pytest

from negcap.pipelines.readers.pairs import CaptionWithNegatives, MultipleChoice, NamedImage, Negative, TwoImages
from negcap.pipelines.score.protocols import Vectors, measure, unit
from negcap.pipelines.score.test_set import TestSet, build_test_set, only_adds

OPERATORS = {"noun": "noun", "preposition": "relation", "relation": "relation"}


def items(images: int = 7, seed: int = 0) -> list[CaptionWithNegatives]:
    """Two captions an image, each maybe the other's second one; up to two negatives of an operator; one shared text."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(images):
        both = [f"caption {i} 0", "shared" if i < 2 else f"caption {i} 1"]
        for text, other in (both, both[::-1]):
            negatives = tuple(
                Negative(f"false {name} {draw} of {text}", name, family, only_adds=family == "relation")
                for name, family in OPERATORS.items()
                for draw in range(int(rng.integers(0, 3)))
            )
            captions = (text, other) if i % 3 else (text,)
            made.append(CaptionWithNegatives(f"i{i}.jpg", captions, negatives, image_id=f"i{i}"))
    return made


def random_vectors(tests: TestSet, seed: int = 1, d: int = 5) -> Vectors:
    rng = np.random.default_rng(seed)
    images, texts = (unit(rng.normal(size=(n, d)), "x") for n in (len(tests.images), len(tests.texts)))
    return Vectors.of_each(images, texts)


Score = Callable[[str, str], float]  # of the names of an image and a text


def scores_by_name(vectors: Vectors, tests: TestSet) -> Score:
    every = vectors.images @ vectors.texts.T
    return lambda image, text: every[tests.image_ids.index(image), tests.texts.index(text)]


def expected(made: list[CaptionWithNegatives], score: Score, operators: set[str]) -> dict[str, list[bool]]:
    """The cases of every protocol for negatives of some operators, one at a time."""
    cases: dict[str, list[bool]] = defaultdict(list)
    true: dict[str, set[str]] = defaultdict(set)
    own: dict[str, set[str]] = defaultdict(set)
    for item in made:
        image = item.image_id
        true[image] |= {*item.captions}
        for negative in (negative for negative in item.negatives if negative.label in operators):
            own[image].add(negative.text)
            right = [bool(score(image, text) > score(image, negative.text)) for text in item.captions]
            if " 0 of " in negative.text:
                cases["pairs"].append(right[0])
                if negative.only_adds:
                    cases["half-truth"].append(right[0])
                if len(item.captions) > 1:
                    cases["two captions"].append(all(right))
    captions = set().union(*true.values())
    every = set().union(*own.values())
    for protocol, added in (("own", own), ("all", dict.fromkeys(own, every))):
        for image in sorted(own):
            best = max(score(image, text) for text in true[image])
            others = (captions | added[image]) - true[image]
            wins = best > max(score(image, text) for text in others)
            cases[f"image to text, {protocol} negatives"].append(wins)
    return cases


@pytest.mark.parametrize("seed", range(2))
def test_every_protocol_is_what_it_says(seed: int) -> None:
    made = items(seed=seed)
    tests = build_test_set(made)
    vectors = random_vectors(tests, seed)
    score = scores_by_name(vectors, tests)
    groups = {name: {name} for name in OPERATORS} | {"all": set(OPERATORS)}  # "relation" is no family: an operator is
    measured = {(outcome.protocol, outcome.group): outcome for outcome in measure(vectors, tests)}
    assert {group for _, group in measured} == set(groups)
    for group, operators in groups.items():
        for protocol, cases in expected(made, score, operators).items():
            assert sorted(measured.pop((protocol, group)).right.tolist()) == sorted(cases), (protocol, group)
    assert {protocol for protocol, _ in measured} == {"image to text", "two captions, text only"}


def test_without_images_all_images_of_a_half_are_one() -> None:
    tests = build_test_set(items(9))
    vectors = random_vectors(tests)
    blind = vectors.without_images()
    each = blind.images[blind.vector_of]
    assert np.allclose(each[::2], vectors.images[1::2].mean(0)) and np.allclose(each[1::2], vectors.images[::2].mean(0))
    same = measure(Vectors.of_each(each, vectors.texts), tests)
    for one, other in zip(measure(vectors, tests), same, strict=True):  # as if each image had that vector of its own
        assert one.blind is not None and one.blind.tolist() == other.right.tolist(), one[:2]


@pytest.mark.parametrize(("texts", "wanted"), [
    ([[1, 0], [0, 1]], (1, 1, 1)),
    ([[0.9, 0.1], [0.95, 0.2]], (0, 0, 0)),
    ([[0.9, 0.5], [0.8, 0.6]], (1, 0, 0)),
    ([[0.9, 0.5], [0.95, 0.99]], (0, 1, 0)),
    ([[1, 1], [1, 1]], (0, 0, 0)),
])  # fmt: skip
def test_winoground(texts: list[list[float]], wanted: tuple[int, ...]) -> None:
    images = (NamedImage("a", "a.jpg"), NamedImage("b", "b.jpg"))
    tests = build_test_set([TwoImages(images, ("mug in grass", "grass in mug"), "swap")])
    vectors = Vectors.of_each(np.eye(2, dtype=np.float32), np.array(texts, np.float32))
    right = {outcome.protocol: int(outcome.right[0]) for outcome in measure(vectors, tests)}
    assert (right["text"], right["image"], right["group"]) == wanted


def test_a_tie_counts_against_the_model() -> None:
    tests = build_test_set(items())
    same = (np.ones((n, 3), np.float32) / np.sqrt(3) for n in (len(tests.images), len(tests.texts)))
    outcomes = measure(Vectors.of_each(*same), tests)
    assert outcomes and not any(outcome.right.any() or np.any(outcome.blind) for outcome in outcomes)


def test_multiple_choice_and_queries_with_denials_one_at_a_time() -> None:
    made = []
    for i in range(12):
        true = f"caption {i}" if i % 2 else f"caption {i} with no dog"
        false = tuple(f"false {i} {n}" for n in range(3 if i % 4 else 2))
        made.append(MultipleChoice(NamedImage(f"i{i}", f"i{i}.jpg"), true, false, ("positive", "hybrid")[i % 2]))
    tests = build_test_set(made)
    vectors = random_vectors(tests, 3, 3)
    score = scores_by_name(vectors, tests)
    own = [score(item.image.id, item.true) for item in made]
    right = [own[i] > max(score(item.image.id, text) for text in item.false) for i, item in enumerate(made)]
    near = [sum(score(image, item.true) > own[i] for image in tests.image_ids) < 5 for i, item in enumerate(made)]
    assert {(outcome.protocol, outcome.group): outcome.right.tolist() for outcome in measure(vectors, tests)} == {
        ("multiple choice", "all"): right,
        ("multiple choice", "positive"): right[::2],
        ("multiple choice", "hybrid"): right[1::2],
        ("text to image, R@5", "all"): near[1::2],
        ("text to image, R@5, denials", "all"): near[::2],
    }


def test_what_only_adds() -> None:
    caption = "A dog runs."
    assert only_adds(caption, "A black dog runs.") and only_adds(caption, "A dog and a cat runs on grass.")
    assert not any(only_adds(caption, text) for text in ("A cat runs fast.", caption, "A dog.", "Runs a dog fast."))


def test_vectors_must_have_a_direction() -> None:
    for bad in (np.nan, np.inf, 0.0):
        with pytest.raises(ValueError, match="x must be finite and not zero, row 1 is not"):
            unit(np.array([[1.0, 1.0], [bad, bad]]), "x")
