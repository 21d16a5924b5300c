"""Fixed-point arithmetic: sums that are the same on every processor.

A sum of floats depends on the order of its terms, and so on the kernel of the BLAS library, the shape of the matrices
and the number of threads. A sum of whole numbers does not, as long as no partial sum exceeds 2^24, up to which float32
holds every whole number. So whatever the cloze network multiplies is a whole number of units of 2^-n:

- An activation (a state, a word vector, …) is at most LARGEST = 2^10 units; `round_units` makes it so.
- The weights of one output, a row of a matrix, are whole numbers whose absolute values sum to at most ROW = 2^14.
  `Quantised.from_weights` gives each row the smallest unit that allows this. A row times activations is then at most
  2^24 units.

As units are powers of two, numbers in different units are multiplied and scaled without error. What is added,
multiplied or rounded number by number, such as biases, is the same everywhere by IEEE 754. Functions such as tanh are
not, since mathematical libraries differ in the last bit: they are looked up in a `Table`.

Quantised weights with exact products are those of Jacob et al., "Quantization and Training of Neural Networks for
Efficient Integer-Arithmetic-Only Inference", 2018; the bounds that let float32 do the work are negcap's.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

LARGEST = 2**10  # units of an activation, at most
ROW = 2**14  # units of all weights of a row, at most
# Bits after the point of the activations. The ranges that LARGEST leaves (1, 8, 4, 8, 16) hold nearly all that captions
# give: of the shipped model's keys and values, hidden units and vectors, fewer than one in 10,000 is cut.
STATE = 10  # of the states of the GRUs
MEMORY = 7  # of the keys and values of the attention
FOUND = 8  # of what attention finds
HIDDEN = 7  # of the hidden layer
VECTOR = 6  # of the vectors of places
SHARE = 13  # of the shares of attention, which are a row: they sum to 2^13, and a little more by rounding
HALF_WAY = 1e-6  # what is so near to half-way between two units is rounded down
TAKEN = 2**15  # values of a table that are looked up at once: their numbers fit into a core's cache
FEWEST_BITS = 2
MOST_BITS = 15  # of weights; rows of larger ones are not the result of a training that went well
_buffers = threading.local()


def scratch_array(name: str, shape: tuple[int, ...], dtype: DTypeLike = np.float32) -> np.ndarray:
    """An array whose content the next call with this name, in the same thread, overwrites."""
    size = math.prod(shape)
    buffer: np.ndarray | None = getattr(_buffers, name, None)
    if buffer is None or buffer.size < size:
        buffer = np.empty(size, dtype)
        setattr(_buffers, name, buffer)
    return buffer[:size].reshape(shape)


def round_units(numbers: np.ndarray, bits: int = 0, largest: int = LARGEST) -> np.ndarray:
    """Round numbers to whole units of 2^-bits, cut at `largest` units, in place; returns the number of units."""
    if bits:
        numbers *= np.float32(2.0**bits)
    np.rint(numbers, out=numbers)
    return np.clip(numbers, -largest, largest, out=numbers)


class Quantised(NamedTuple):
    """A matrix whose rows are whole numbers of units of their own: units (rows, inputs) int16, bits (rows,) int8. Row i
    is units[i] * 2^-bits[i].
    """

    units: np.ndarray
    bits: np.ndarray

    @classmethod
    def from_weights(cls, weights: np.ndarray, largest: int = ROW) -> Quantised:
        """Round each row of a matrix, (rows, inputs), to whole multiples of a unit 2^-bits.

        It is the smallest unit for which the absolute multiples of the row sum to at most ROW, and none is above
        `largest`. Raises ValueError if a weight is not finite, or a row's unit is more than 2^-FEWEST_BITS.
        """
        if not np.isfinite(weights).all():
            raise ValueError("must be finite, is not")
        magnitudes = np.abs(weights, dtype=np.float32)
        sums = magnitudes.sum(1)
        # The least unit that each row's sum, and its largest weight, allow; a power of two is at least as large.
        least_unit = np.maximum(sums / ROW, magnitudes.max(1, initial=0.0) / largest)
        bits = np.floor(-np.log2(np.maximum(least_unit, 2.0**-MOST_BITS))).astype(np.int32)
        units = np.rint(np.ldexp(magnitudes, bits[:, None]))
        is_too_full = (units.sum(1) > ROW) | (units.max(1, initial=0.0) > largest)  # rounding may add to a full row
        bits = np.where(is_too_full, bits - 1, bits)
        if len(bits) and bits.min() < FEWEST_BITS:
            row = int(bits.argmin())
            largest_sum = ROW / 2**FEWEST_BITS
            raise ValueError(f"row {row} must sum to at most {largest_sum:g} in absolute value, was: {sums[row]:g}")
        return cls(np.rint(np.ldexp(weights, bits[:, None])).astype(np.int16), bits.astype(np.int8))

    @property
    def values(self) -> np.ndarray:
        """The matrix in float32, without error: (rows, inputs)."""
        return np.ldexp(self.units.astype(np.float32), -self.bits[:, None].astype(np.int32))

    def check(self, largest: int = ROW) -> None:
        """Raise ValueError unless each row sums to at most ROW units, and no weight exceeds `largest` units."""
        magnitudes = np.abs(self.units.astype(np.int64))
        sums = magnitudes.sum(1)
        if len(sums) and sums.max() > ROW:
            raise ValueError(f"each row must sum to at most {ROW} units, row {sums.argmax()} sums to {sums.max()}")
        if magnitudes.max(initial=0) > largest:
            raise ValueError(f"each number must have at most {largest} units, the largest has {magnitudes.max()}")


class Table(NamedTuple):
    """A function of one number x, whose values are looked up: x has the value of point number `x * scale + offset`,
    without the fraction of this number, or of the nearest point if x is outside of the table.

    values: at each point, in whole units of 2^-unit, (points,) float32.
    """

    values: np.ndarray
    unit: int
    scale: float
    offset: float

    @classmethod
    def tabulate(cls, function: Callable[[float], float], low: float, high: float, bits: int, unit: int) -> Table:
        """Tabulate a function from `low` to `high`: its values at multiples of 2^-bits, as whole units of 2^-unit."""
        points = np.arange(round(low * 2**bits), round(high * 2**bits) + 1) / 2**bits
        exact = np.array([function(point) for point in points.tolist()]) * 2**unit
        # The mathematical libraries of systems differ in the last digits. What is up to HALF_WAY above the middle of
        # two units is rounded down, so that the table is the same on all of them.
        values = np.floor(exact + 0.5 - HALF_WAY).astype(np.float32)
        # The offset has 0.5 more than the distance from `low`, so that x is rounded to the nearest point.
        return cls(values, unit, scale=float(2**bits), offset=0.5 - low * 2**bits)

    def take(self, points: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Look up the values at points, `x * scale + offset` still with its fraction, and write them to `out`.

        points, out: arrays of one shape, in memory order. Returns `out`.
        """
        flat = points.reshape(-1)
        values = out.reshape(-1)
        for start in range(0, len(flat), TAKEN):
            part = flat[start : start + TAKEN]
            index = scratch_array("index", part.shape, np.int32)
            np.copyto(index, part, casting="unsafe")  # which cuts off the fractions
            np.take(self.values, index, out=values[start : start + TAKEN], mode="clip")
        return out


def _gelu(x: float) -> float:
    """The tanh approximation of the Gaussian error linear unit."""
    return 0.5 * x * (1 + math.tanh(0.7978845608 * (x + 0.044715 * x**3)))


SIGMOID = Table.tabulate(lambda x: 1 / (1 + math.exp(-x)), -8, 8, bits=9, unit=12)
TANH = Table.tabulate(math.tanh, -8, 8, bits=9, unit=STATE)
GELU = Table.tabulate(_gelu, -8, 8, bits=8, unit=HIDDEN)
EXP = Table.tabulate(math.exp, -10, 0, bits=9, unit=12)
