"""The states of the cloze network's GRUs, and what attention and the hidden layer need of each of them.

What depends on a single state is computed once for it, however many places look at it: its key and value (`memory`),
and its share of the query and of the hidden layer of the places next to it (`around`).
"""

from __future__ import annotations

import heapq
import math
import threading
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

Place = tuple[int, int]  # the numbers of the units before and after a place, START being 0
LONG = 48  # number of units of a caption that counts as long, of which fewer are read together
ROWS = 64  # number of rows that are multiplied at once: rounding may depend on it, so it is always the same


class Recurrent(NamedTuple):
    """A GRU and the layers that read its states, S being their size.

    gates: what each unit adds to the gates, with the biases of the first two, (units, 3 S). weight, bias: what a state
    adds to the gates, (S, 3 S), and the bias of that for the third, (S,). memory, memory_bias: keys and values of each
    head in turn, (S, 2 S). around, around_bias: of the query and of the hidden layer, (S, S + hidden). For speed, all
    that is added within a sigmoid, 0.5 tanh(x / 2) + 0.5, is halved, and `weight` and `bias` are halved throughout; the
    query is divided by the square root of a head's size.
    """

    gates: np.ndarray
    weight: np.ndarray
    bias: np.ndarray
    memory: np.ndarray
    memory_bias: np.ndarray
    around: np.ndarray
    around_bias: np.ndarray

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray], side: int) -> Recurrent:
        """The forward (side 0) or backward (side 1) GRU of a network with these parameters."""
        name = ("forward_gru", "backward_gru")[side]
        size = len(arrays["query.bias"])
        scale = np.float32((size // len(arrays["distance"])) ** -0.5)
        half = np.float32(0.5)
        from_state, to_gates = arrays[f"{name}.bias_hh_l0"], arrays[f"{name}.bias_ih_l0"].copy()
        to_gates[: 2 * size] += from_state[: 2 * size]
        gates = arrays["embedding.weight"] @ transposed(arrays[f"{name}.weight_ih_l0"]) + to_gates
        gates[:, : 2 * size] *= half
        part = slice(side * size, (side + 1) * size)
        biases = np.concatenate([arrays["query.bias"] * scale, arrays["hidden.bias"]])
        return cls(
            gates,
            transposed(arrays[f"{name}.weight_hh_l0"]) * half,
            from_state[2 * size :] * half,
            transposed(arrays[f"memory.{side}.weight"]),
            arrays[f"memory.{side}.bias"],
            transposed(np.concatenate([arrays["query.weight"][:, part] * scale, arrays["hidden.weight"][:, part]])),
            biases if side == 0 else np.zeros_like(biases),
        )

    def step(self, state: np.ndarray, units: np.ndarray, new: np.ndarray) -> None:
        """Write the states after one more unit to `new`: state, new (ROWS, S), units (ROWS,)."""
        size = state.shape[1]
        made = np.matmul(state, self.weight, out=buffer("recurrent", (ROWS, 3 * size)))
        gates = np.take(self.gates, units, axis=0, out=buffer("gates", made.shape), mode="clip")
        both = made[:, : 2 * size]
        both += gates[:, : 2 * size]
        np.tanh(both, out=both)
        reset, update, candidate = both[:, :size], both[:, size:], made[:, 2 * size :]
        candidate += self.bias
        reset *= candidate
        candidate += reset
        candidate += gates[:, 2 * size :]
        np.tanh(candidate, out=candidate)
        update *= np.float32(0.5)
        update += np.float32(0.5)
        np.subtract(state, candidate, out=new)
        new *= update
        new += candidate


class States(NamedTuple):
    """States of the GRUs in rows: `state` (rows, S), `memory` (rows, 2 S), `around` (rows, S + hidden).

    memory, around: what the layers of `Recurrent` make of each state.
    """

    state: np.ndarray
    memory: np.ndarray
    around: np.ndarray

    def every(self, start: int, end: int, step: int = ROWS) -> States:
        """A view of every `step`-th row from `start` to `end` (exclusive)."""
        return States(*(rows[start:end:step] for rows in self))


class Steps(NamedTuple):
    """The units that a GRU reads one after the other, and the state that it begins with; None: zero."""

    units: Sequence[int]
    state: np.ndarray | None = None

    def rows(self, first: int) -> range:
        """The rows of the states after each unit, if `first` is that after the first unit; see `run`."""
        return range(first, first + len(self.units) * ROWS, ROWS)


class Schedule(NamedTuple):
    """In which column and at which step a GRU that reads ROWS sequences at once begins each sequence.

    columns, starts: of each sequence. steps: the number of steps until all are read.
    """

    columns: list[int]
    starts: list[int]
    steps: int


def schedule(lengths: Sequence[int]) -> Schedule:
    """Distribute sequences of these numbers of units over ROWS columns: the longest first, each to the column that is
    free first. A column reads its sequences one after the other, so few columns are ever idle.
    """
    free = [(0, column) for column in range(ROWS)]
    columns, starts = [0] * len(lengths), [0] * len(lengths)
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        starts[i], columns[i] = free[0]
        heapq.heapreplace(free, (starts[i] + lengths[i], columns[i]))
    return Schedule(columns, starts, max(end for end, _ in free))


def run(
    side: Recurrent, sequences: Sequence[Steps], order: Schedule, states: States, row: int
) -> tuple[list[int], int]:
    """Run a GRU over sequences, in the `order` of their schedule, and write all states to `states` from `row` on.

    Returns the row of the first state of each sequence, whose next ones are in every ROWS-th row after it, and the row
    behind all that were written.
    """
    units = np.zeros((order.steps, ROWS), np.int64)
    beginning: list[list[int]] = [[] for _ in range(order.steps)]
    for i, (own, column, start) in enumerate(zip(sequences, order.columns, order.starts, strict=True)):
        if own.units:
            units[start : start + len(own.units), column] = own.units
            beginning[start].append(i)
    state = np.zeros((ROWS, states.state.shape[1]), np.float32)
    for step, (now, begun) in enumerate(zip(units, beginning, strict=True)):
        here = row + step * ROWS
        if begun and step:
            state = state.copy()
        for i in begun:
            begin = sequences[i].state
            state[order.columns[i]] = 0.0 if begin is None else begin
        new = states.state[here : here + ROWS]
        side.step(state, now, new)
        state = new
    end = row + order.steps * ROWS
    made = states.every(row, end, 1)
    product(made.state, side.memory, made.memory)
    product(made.state, side.around, made.around)
    np.add(made.memory, side.memory_bias, out=made.memory)
    np.add(made.around, side.around_bias, out=made.around)
    return [row + start * ROWS + column for column, start in zip(order.columns, order.starts, strict=True)], end


def product(rows: np.ndarray, weight: np.ndarray, out: np.ndarray) -> np.ndarray:
    """A matrix product in blocks of ROWS rows, written to `out`: rows (n, inputs), n a multiple of ROWS."""
    for start in range(0, len(rows), ROWS):
        np.matmul(rows[start : start + ROWS], weight, out=out[start : start + ROWS])
    return out


_buffers = threading.local()


def buffer(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """An array for intermediate results, used again by the next block: fresh memory costs more than filling it."""
    size = math.prod(shape)
    known: np.ndarray | None = getattr(_buffers, name, None)
    if known is None or known.size < size:
        known = np.empty(size, np.float32)
        setattr(_buffers, name, known)
    return known[:size].reshape(shape)


def transposed(matrix: np.ndarray) -> np.ndarray:
    """The transpose in memory order."""
    return np.ascontiguousarray(matrix.T)
