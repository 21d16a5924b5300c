"""Pairs of a slot and an entry are drawn by weight, without replacement."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest

from negcap.augment.lexicon.lexicon import sample

WEIGHTS = [np.array([1.0, 2.0, 0.0, 4.0]), np.array([]), np.array([2.5, 0.5])]
PAIRS = {(0, 0): 1.0, (0, 1): 2.0, (0, 3): 4.0, (2, 0): 2.5, (2, 1): 0.5}


def test_the_first_is_drawn_by_weight_and_none_twice() -> None:
    drawn = [list(sample(WEIGHTS, Random(seed), 9)) for seed in range(4000)]
    assert all(len(pairs) == len(PAIRS) and set(pairs) == set(PAIRS) for pairs in drawn)
    first = Counter(pairs[0] for pairs in drawn)
    for pair, weight in PAIRS.items():
        assert first[pair] / 4000 == pytest.approx(weight / 10, abs=0.03)
    # Of the others, the second is drawn by weight again.
    second = Counter(pairs[1] for pairs in drawn if pairs[0] == (0, 3))
    assert second[2, 0] / second.total() == pytest.approx(2.5 / 6, abs=0.06)


@pytest.mark.parametrize("limit", [0, 1, 3, 9])
@pytest.mark.parametrize("out", [{(0, 3)}, {(0, 0), (0, 3), (2, 0)}, set(PAIRS) - {(2, 1)}, set(PAIRS)])
def test_what_is_refused_changes_nothing_else(limit: int, out: set[tuple[int, int]]) -> None:
    refused = [np.array([(slot, entry) in out for entry in range(len(its))], bool) for slot, its in enumerate(WEIGHTS)]
    for seed in range(20):
        one, other = Random(seed), Random(seed)
        left = [pair for pair in sample(WEIGHTS, one, limit) if pair not in out]
        assert list(sample(WEIGHTS, other, limit, refused)) == left
        assert one.random() == other.random()
