"""Fixed-point arithmetic: exact sums, and what is refused because its sums would not be."""

from __future__ import annotations

import math

import numpy as np
import pytest

from negcap.augment.cloze.fixed_point import EXP, GELU, HALF_WAY, LARGEST, ROW, SIGMOID, TANH, Quantised, round_units
from negcap.augment.cloze.model import cloze_model


def weights(scale: float) -> np.ndarray:
    return np.random.default_rng(1).normal(0, scale, (40, 300)).astype(np.float32)


def test_sums_of_the_largest_numbers_are_exact_in_any_order():
    rows = Quantised.from_weights(weights(0.3)).units.astype(np.float32)
    largest = LARGEST * np.sign(rows[0])
    exact = (rows.astype(np.int64) @ largest.astype(np.int64)).tolist()
    assert 2**23 < max(exact) <= 2**24
    for order in (np.arange(300)[::-1], np.argsort(rows[0])):
        assert (rows[:, order] @ largest[order]).tolist() == exact
        assert np.cumsum(rows[:, order] * largest[order], axis=1, dtype=np.float32)[:, -1].tolist() == exact


@pytest.mark.parametrize("scale", [1e-6, 0.01, 0.3, 2.0])
def test_each_row_has_the_smallest_unit_that_its_sum_allows(scale):
    quantised = Quantised.from_weights(weights(scale))
    quantised.check()
    assert np.abs(quantised.values - weights(scale)).max() <= 2.0 ** -(int(quantised.bits.min()) + 1)
    sums = np.abs(quantised.units.astype(int)).sum(1)
    assert (quantised.bits == 15).all() if scale == 1e-6 else (sums > 0.49 * ROW).all()
    assert np.array_equal(Quantised.from_weights(quantised.values).values, quantised.values)


def test_activations_are_rounded_to_units_and_cut():
    units = round_units(np.array([0.3, -0.3, 7.9999, 9.0, -40.0], np.float32), 7)
    assert units.tolist() == [38, -38, 1024, 1024, -1024]
    quantised = Quantised.from_weights(np.array([[0.5, 0.0, 0.0], [0.0, 0.0, 0.0]]), LARGEST)
    assert quantised.units.tolist() == [[1024, 0, 0], [0, 0, 0]] and quantised.bits.tolist() == [11, 15]


def test_what_cannot_be_exact_is_refused():
    Quantised(np.full((2, 20), 800, np.int16), np.zeros(2, np.int8)).check()
    with pytest.raises(ValueError, match="row 0 sums to 16400"):
        Quantised(np.full((2, 20), 820, np.int16), np.zeros(2, np.int8)).check()
    with pytest.raises(ValueError, match="at most 1023 units, the largest has 1024"):
        Quantised.from_weights(np.array([[0.5, 0.0]]), LARGEST).check(1023)
    for matrix, message in (
        ([[1.0, math.nan]], "must be finite"),
        ([[0.1, 0.2], [3000.0, -2000.0]], "row 1 must sum to at most 4096 in absolute value, was: 5000"),
    ):
        with pytest.raises(ValueError, match=message):
            Quantised.from_weights(np.array(matrix))


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def exp_below_zero(x: np.ndarray) -> np.ndarray:
    return np.exp(np.minimum(x, 0))


def gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))


@pytest.mark.parametrize(
    ("table", "function", "error"),
    [(TANH, np.tanh, 1.6), (SIGMOID, sigmoid, 2.6), (EXP, exp_below_zero, 4.6), (GELU, gelu, 0.8)],
)
def test_a_table_is_near_its_function(table, function, error):
    """Within some units: half the step between its points times the slope, and half a unit. No value hangs on the last
    digits, so that it is the same with every mathematical library.
    """
    numbers = np.linspace(-7.9, 7.9, 9973, dtype=np.float32)
    points = numbers * np.float32(table.scale) + np.float32(table.offset)
    found = table.take(points, np.empty_like(points))
    assert np.abs(found - function(numbers.astype(float)) * 2**table.unit).max() < error
    assert table.take(np.float32([-1e7, 1e7]), np.empty(2, np.float32)).tolist() == table.values[[0, -1]].tolist()
    middles = (np.arange(len(table.values)) + 0.5 - table.offset) / table.scale
    above = function(middles) * 2**table.unit + 0.5 - HALF_WAY
    assert np.abs(above - np.rint(above)).min() > 1e-8


def test_the_shipped_word_vectors_are_as_fine_as_sums_of_them_allow():
    quantised = Quantised.from_weights(cloze_model().embedding, LARGEST)
    assert quantised.bits.min() >= 9 and np.array_equal(quantised.values, cloze_model().embedding)
