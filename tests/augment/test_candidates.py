"""The weights of replacements, and drawing from them."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest

from negcap.augment.edits import Candidate
from negcap.augment.operators.replacement import Choice, Open, draw, weigh
from tests.augment.fixtures import sample_lexicon


def log_probabilities(**known: float) -> np.ndarray:
    nouns = sample_lexicon().nouns
    found = np.full(len(nouns.names), -np.inf)
    for name, value in known.items():
        found[nouns.number[name]] = value
    return found


def test_weights_are_the_probabilities_above_the_floor() -> None:
    nouns = sample_lexicon().nouns
    some = Open.of(log_probabilities(cat=-1.0, man=-2.0, table=-2.01)[None], -2.0)
    weights = weigh(nouns, ["dog"], some)
    assert not some.slot.any() and dict(zip(some.new.tolist(), weights.tolist(), strict=True)) == {
        nouns.number["cat"]: pytest.approx(np.exp(-1.0)),
        nouns.number["man"]: pytest.approx(np.exp(-2.0)),
    }
    two = Open.of(np.stack([log_probabilities(), log_probabilities(cat=-1.0)]), -2.0)
    assert list(two.parts(3)) == [slice(0, 0), slice(0, 1), slice(1, 1)]


def test_balance_multiplies_by_the_ratio_of_the_factors() -> None:
    factors = {("dog", False): 2.0, ("cat", False): 3.0, ("dog", True): 5.0, ("cat", True): 0.5}
    nouns = sample_lexicon().nouns.rebalanced(factors)
    some = Open.of(log_probabilities(cat=-1.0, man=-1.0, table=-9.0)[None], -2.0)
    assert [nouns.names[number] for number in some.new] == ["cat", "man"]
    for plural, entry, ratios in ((False, "dog", (1.5, 0.5)), (True, "dog", (0.1, 0.2)), (False, "yak", (3.0, 1.0))):
        weights = weigh(nouns, [entry], some, plural=plural)
        assert weights == pytest.approx([ratio * np.exp(-1.0) for ratio in ratios])


def choice(entry: str, weights: list[float], log_odds: list[float] | None = None) -> Choice:
    """A choice among the names x0, x1, …; x2 has no suitable form."""

    def candidate(name: str) -> Candidate | None:
        return None if name == "x2" else Candidate("noun", (), (0,), entry, name)

    names = [f"x{n}" for n in range(len(weights))]
    odds = None if log_odds is None else np.array(log_odds)
    return Choice((0,), entry, names, np.array(weights), odds, candidate, np.full(len(weights), ""))


def test_candidates_of_all_slots_are_drawn_once_and_have_their_log_odds() -> None:
    some = [choice("a", [1.0, 2.0, 3.0, 0.0], [-1.0, -2.0, -3.0, -4.0]), choice("b", [0.0, 5.0])]
    for seed in range(5):
        made = {(one.replaced, one.replacement): one.plausibility for one in draw(some, Random(seed), 99)}
        assert made == {("a", "x0"): -1.0, ("a", "x1"): -2.0, ("b", "x1"): None}
        assert len(list(draw(some, Random(seed), 2))) <= 2
    assert list(draw([], Random(0), 9)) == list(draw([choice("a", [0.0, 0.0])], Random(0), 9)) == []


def test_candidates_are_drawn_by_weight_over_all_slots() -> None:
    some = [choice("a", [1.0, 3.0]), choice("b", [6.0])]
    first = Counter(next(draw(some, Random(seed), 1))[3:5] for seed in range(3000))
    assert list(draw(some, Random(3), 9)) == list(draw(some, Random(3), 9))
    shares = {key: count / 3000 for key, count in first.items()}
    assert shares == pytest.approx({("a", "x0"): 0.1, ("a", "x1"): 0.3, ("b", "x0"): 0.6}, abs=0.04)
