"""The cloze network in NumPy: a vector for each place of a caption, computed from the rest of the caption.

`negcap.pipelines.resources.cloze.network` is the same network in PyTorch, for training. One GRU reads a caption
forward, another backward. From the forward state before a place and the backward state after it, attention looks at all
earlier forward and all later backward states; two linear layers make the vector of the place from the three. No state
has seen what stands in the place. A place is whatever lies between two units of the caption: one unit, several, or
none; it is written as the positions of these two, (before, after), where START has position 0.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

Place = tuple[int, int]  # the numbers of the units before and after a place, START being 0
BLOCK = 32  # number of captions that are read together, if they have at most LONG units
LONG = 48
STEP = 4  # their length is padded to a multiple of this


@dataclass(frozen=True, eq=False)
class Network:
    """A trained network. arrays: its parameters in float32, named as in the PyTorch module."""

    arrays: Mapping[str, np.ndarray]

    @cached_property
    def heads(self) -> int:
        """The number of heads of the attention."""
        return len(self.arrays["distance"])

    @cached_property
    def _memory(self) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Weights (states, 2 states) and biases of keys and values: of forward states, and of backward states."""
        a = self.arrays
        return tuple((_transposed(a[f"memory.{side}.weight"]), a[f"memory.{side}.bias"]) for side in (0, 1))

    @cached_property
    def _linear(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Transposed weights and biases of the linear layers, by name."""
        a = self.arrays
        return {name: (_transposed(a[f"{name}.weight"]), a[f"{name}.bias"]) for name in ("query", "hidden", "output")}

    @cached_property
    def _gru(self) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Of each GRU: what each unit adds to its gates, (units, 3 states), and its recurrent weights and bias."""
        a = self.arrays
        made: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
        for name in ("forward_gru", "backward_gru"):
            gates = a["embedding.weight"] @ _transposed(a[f"{name}.weight_ih_l0"]) + a[f"{name}.bias_ih_l0"]
            made[name] = gates, _transposed(a[f"{name}.weight_hh_l0"]), a[f"{name}.bias_hh_l0"]
        return made

    def contexts(self, captions: Sequence[Sequence[int]], places: Sequence[Sequence[Place]]) -> list[np.ndarray]:
        """For each caption, the vectors of its places, (places, width of the word vectors).

        captions: the numbers of the units of each caption, from START to END. places: of each caption, any number. The
        vectors do not depend on which other captions are read with it: blocks are padded to fixed sizes, so that the
        order in which numbers are added, and with it the rounding, is always the same.
        """
        made: list[np.ndarray] = [np.zeros((0, 0), np.float32)] * len(captions)
        sizes = [max(len(caption), len(own)) for caption, own in zip(captions, places, strict=True)]
        for rows, count, size in _blocks(sizes):
            lengths = _padded([len(captions[i]) for i in rows], count, 2)
            units, reversed_units = (np.zeros((count, size), np.int64) for _ in range(2))
            at = np.zeros((2, count, size), np.int64)
            at[1] = 1
            for number, i in enumerate(rows):
                units[number, : len(captions[i])] = captions[i]
                reversed_units[number, : len(captions[i])] = captions[i][::-1]
                if places[i]:
                    at[:, number, : len(places[i])] = np.array(places[i]).T
            before = self._states("forward_gru", units)
            after = self._states("backward_gru", reversed_units)
            mirrored = lengths[:, None] - 1 - np.arange(size)  # where a unit stands in the reversed caption
            after = after[np.arange(count)[:, None], np.maximum(mirrored, 0)]
            vectors = self._vectors(before, after, at, lengths)
            for number, i in enumerate(rows):
                made[i] = vectors[number, : len(places[i])].copy()
        return made

    def _vectors(self, before: np.ndarray, after: np.ndarray, at: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """The context vectors of places, from the states around them: (captions, places, width)."""
        count, most = at.shape[1:]
        row, states = np.arange(count)[:, None], before.shape[2]
        joined = _buffer("joined", (count, most, 3 * states))
        joined[..., :states] = before[row, at[0]]
        joined[..., states : 2 * states] = after[row, at[1]]
        joined[..., 2 * states :] = self._attend(joined[..., : 2 * states], before, after, at, lengths)
        hidden = self._apply("hidden", joined.reshape(count * most, -1))
        return self._apply("output", _gelu(hidden)).reshape(count, most, -1)

    def _apply(self, name: str, rows: np.ndarray) -> np.ndarray:
        """A linear layer: (rows, outputs), in a buffer of its own."""
        weight, bias = self._linear[name]
        made = np.matmul(rows, weight, out=_buffer(name, (len(rows), weight.shape[1])))
        made += bias
        return made

    def _states(self, name: str, units: np.ndarray) -> np.ndarray:
        """The states of one GRU after each unit: (captions, length, states)."""
        gates_of, recurrent, bias = self._gru[name]
        count, length = units.shape
        size = recurrent.shape[0]
        gates = _buffer("gates", (count, 3 * size))
        states = _buffer(name, (length, count, size))
        own, state = _buffer("own", (count, 3 * size)), np.zeros((count, size), np.float32)
        for step in range(length):
            np.matmul(state, recurrent, out=own)
            own += bias
            np.take(gates_of, units[:, step], axis=0, out=gates)
            states[step] = state = _next_state(gates, own, state)
        return states.transpose(1, 0, 2)

    def _attend(
        self, both: np.ndarray, before: np.ndarray, after: np.ndarray, at: np.ndarray, lengths: np.ndarray
    ) -> np.ndarray:
        """What the attention of each place finds: (captions, places, states)."""
        count, most, _ = both.shape
        longest, size = before.shape[1], before.shape[2]
        heads, width = self.heads, size // self.heads
        query = self._apply("query", both.reshape(count * most, -1)).reshape(count, most, heads, width)
        memory = _buffer("memory", (count, 2 * longest, 2 * size))
        for start, side, (weight, bias) in zip((0, longest), (before, after), self._memory, strict=True):
            made = np.matmul(
                side.reshape(count * longest, size), weight, out=_buffer("side", (count * longest, 2 * size))
            )
            np.add(made.reshape(count, longest, -1), bias, out=memory[:, start : start + longest])
        memory = memory.reshape(count, 2 * longest, heads, 2 * width)
        query = query.transpose(0, 2, 1, 3)
        keys = memory[..., :width].transpose(0, 2, 3, 1)
        values = memory[..., width:].transpose(0, 2, 1, 3)
        position = np.arange(longest)
        distance = np.concatenate(
            [at[0][:, :, None] - position, position - at[1][:, :, None]], -1
        )  # (captions, places, 2 longest)
        table = self.arrays["distance"]
        near = np.clip(distance, 0, table.shape[2] - 1)
        bias_of = np.concatenate([table[:, 0][:, near[..., :longest]], table[:, 1][:, near[..., longest:]]], -1)
        weights = (query @ keys) * np.float32(width**-0.5) + bias_of.transpose(1, 0, 2, 3)
        unseen = (distance < 0) | (np.tile(position, 2) >= lengths[:, None])[:, None]
        weights[np.broadcast_to(unseen[:, None], weights.shape)] = -np.inf
        weights -= weights.max(-1, keepdims=True)
        np.exp(weights, out=weights)
        weights /= weights.sum(-1, keepdims=True)
        return (weights @ values).transpose(0, 2, 1, 3).reshape(count, most, size)


def _blocks(sizes: Sequence[int]) -> Iterator[tuple[list[int], int, int]]:
    """Blocks of captions: their numbers, the number of rows of the block, and the length to pad to."""
    by_size: dict[int, list[int]] = {}
    for i, size in enumerate(sizes):
        by_size.setdefault(-(-size // STEP) * STEP, []).append(i)
    for size, numbers in by_size.items():
        count = max(1, min(BLOCK, BLOCK * LONG**2 // size**2))  # the attention's memory grows with the square
        for start in range(0, len(numbers), count):
            yield numbers[start : start + count], count, size


def _padded(numbers: Sequence[int], count: int, fill: int) -> np.ndarray:
    """An array of `count` integers: `numbers`, then `fill`."""
    return np.array([*numbers, *[fill] * (count - len(numbers))], np.int64)


_buffers = threading.local()


def _buffer(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """An array for intermediate results, used again by the next block: fresh memory costs more than filling it."""
    size = math.prod(shape)
    known: np.ndarray | None = getattr(_buffers, name, None)
    if known is None or known.size < size:
        known = np.empty(size, np.float32)
        setattr(_buffers, name, known)
    return known[:size].reshape(shape)


def _transposed(matrix: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(matrix.T)


def _next_state(gates: np.ndarray, own: np.ndarray, state: np.ndarray) -> np.ndarray:
    """The states of a GRU after one more unit: (captions, states).

    gates: what the units add to the gates; own: what the states add; both (captions, 3 states).
    """
    size = state.shape[1]
    mixed = _sigmoid(gates[:, : 2 * size] + own[:, : 2 * size])
    new = np.tanh(gates[:, 2 * size :] + mixed[:, :size] * own[:, 2 * size :])
    return new + mixed[:, size:] * (state - new)


def _sigmoid(values: np.ndarray) -> np.ndarray:
    return np.float32(0.5) * np.tanh(np.float32(0.5) * values) + np.float32(0.5)


def _gelu(values: np.ndarray) -> np.ndarray:
    """The tanh approximation of the Gaussian error linear unit."""
    inner = np.float32(0.7978845608) * (values + np.float32(0.044715) * values * values * values)
    return np.float32(0.5) * values * (np.float32(1.0) + np.tanh(inner))
