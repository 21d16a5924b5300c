"""Fixed-point arithmetic: exact sums, and what is refused because its sums would not be."""

from __future__ import annotations

import math

import numpy as np
import pytest

from negcap.augment.cloze.fixed_point import EXP, GELU, HALF_WAY, LARGEST, ROW, SIGMOID, TANH, Quantised, round_units
from negcap.augment.cloze.model import cloze_model


def weights(rows: int = 40, inputs: int = 300, scale: float = 0.3) -> np.ndarray:
    return np.random.default_rng(1).normal(0, scale, (rows, inputs)).astype(np.float32)


def test_sums_of_the_largest_numbers_are_exact_in_any_order():
    rows = Quantised.from_weights(weights()).units.astype(np.float32)
    largest = LARGEST * np.sign(rows[0])
    exact = (rows.astype(np.int64) @ largest.astype(np.int64)).tolist()
    assert 2**23 < max(exact) <= 2**24
    for order in (np.arange(300), np.arange(300)[::-1], np.argsort(rows[0])):
        assert (rows[:, order] @ largest[order]).tolist() == exact
        assert np.cumsum(rows[:, order] * largest[order], axis=1, dtype=np.float32)[:, -1].tolist() == exact


@pytest.mark.parametrize("scale", [1e-6, 0.01, 0.3, 2.0])
def test_each_row_has_the_smallest_unit_that_its_sum_allows(scale):
    matrix = weights(scale=scale)
    made = Quantised.from_weights(matrix)
    made.check()
    assert np.abs(made.values - matrix).max() <= 2.0 ** -(int(made.bits.min()) + 1)
    sums = np.abs(made.units.astype(int)).sum(1)
    assert (made.bits == 15).all() if scale == 1e-6 else (sums > 0.49 * ROW).all()
    assert np.array_equal(Quantised.from_weights(made.values).values, made.values)


def test_activations_are_rounded_to_units_and_cut():
    made = round_units(np.array([0.3, -0.3, 7.9999, 9.0, -40.0], np.float32), 7)
    assert made.tolist() == [38, -38, 1024, 1024, -1024]
    made = Quantised.from_weights(np.array([[0.5, 0.0, 0.0], [0.0, 0.0, 0.0]]), LARGEST)
    made.check(LARGEST)
    assert made.units.tolist() == [[1024, 0, 0], [0, 0, 0]] and made.bits.tolist() == [11, 15]


def test_what_cannot_be_exact_is_refused():
    full, fuller = np.full((2, 20), 800, np.int16), np.full((2, 20), 820, np.int16)
    Quantised(full, np.zeros(2, np.int8)).check()
    for message, refused in {
        "must be finite": lambda: Quantised.from_weights(np.array([[1.0, math.nan]])),
        "row 1 must sum to at most 4096 in absolute value, was: 5000": lambda: Quantised.from_weights(
            np.array([[0.1, 0.2], [3000.0, -2000.0]])
        ),
        "row 0 sums to 16400": lambda: Quantised(fuller, np.zeros(2, np.int8)).check(),
        "at most 1023 units, the largest has 1024": lambda: Quantised.from_weights(
            np.array([[0.5, 0.0]]), LARGEST
        ).check(1023),
    }.items():
        with pytest.raises(ValueError, match=message):
            refused()


def gelu(x: float) -> float:
    return 0.5 * x * (1 + math.tanh(0.7978845608 * (x + 0.044715 * x**3)))


TABLES = [
    (TANH, math.tanh, 1.6),
    (SIGMOID, lambda x: 1 / (1 + math.exp(-x)), 2.6),
    (EXP, lambda x: math.exp(min(x, 0)), 4.6),
    (GELU, gelu, 0.8),
]


@pytest.mark.parametrize(("table", "function", "error"), TABLES)
def test_a_table_is_near_its_function(table, function, error):
    """Within some units: half the step between its points times the slope, and half a unit. No value hangs on the last
    digits, so that it is the same with every mathematical library.
    """
    numbers = np.linspace(-7.9, 7.9, 9973, dtype=np.float32)
    points = numbers * np.float32(table.scale) + np.float32(table.offset)
    found = table.take(points, np.empty_like(points))
    expected = np.array([function(x) for x in numbers.tolist()]) * 2**table.unit
    assert np.abs(found - expected).max() < error
    assert table.take(np.float32([-1e7, 1e7]), np.empty(2, np.float32)).tolist() == table.values[[0, -1]].tolist()
    points = (np.arange(len(table.values)) + 0.5 - table.offset) / table.scale
    above = np.array([function(point) for point in points.tolist()]) * 2**table.unit + 0.5 - HALF_WAY
    assert np.abs(above - np.rint(above)).min() > 1e-8


def test_the_shipped_word_vectors_are_as_fine_as_sums_of_them_allow():
    made = Quantised.from_weights(cloze_model().embedding, LARGEST)
    assert made.bits.min() >= 9 and np.array_equal(made.values, cloze_model().embedding)
