"""The layers of the cloze network that look at states: attention, and the vectors of places that come of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from negcap.augment.cache import cached, read_only
from negcap.augment.cloze.states import LONG, ROWS, Place, States, buffer, product, transposed

ATTENDED = 16  # number of captions whose attention is computed together, if they have at most LONG units
LENGTHS = 64  # number of lengths of captions for which the biases of the attention are cached


@dataclass(frozen=True, eq=False)
class Attention:
    """The attention of a trained network, and its two layers behind it. arrays: as in `Network`."""

    arrays: Mapping[str, np.ndarray]

    @cached_property
    def heads(self) -> int:
        """The number of heads of the attention."""
        return len(self.arrays["distance"])

    @cached_property
    def size(self) -> int:
        """The size of a state."""
        return len(self.arrays["query.bias"])

    @cached_property
    def _found(self) -> np.ndarray:
        """The weights of the hidden layer for what attention finds: (states, hidden)."""
        return transposed(self.arrays["hidden.weight"][:, 2 * self.size :])

    @cached_property
    def _output(self) -> np.ndarray:
        """The weights of the last layer: (hidden, width)."""
        return transposed(self.arrays["output.weight"])

    def vectors(
        self,
        captions: Sequence[Sequence[int]],
        places: Sequence[Sequence[Place]],
        states: States,
        rows: Sequence[Sequence[int]],
    ) -> list[np.ndarray]:
        """The vectors of the places of captions, each (places, width).

        Captions with the same numbers of units and of places must be consecutive. rows: for each caption of n units,
        the rows of its n - 1 forward and of its n - 1 backward states.
        """
        total = sum(map(len, places))
        size = self.size
        room = -(-total // ROWS) * ROWS
        around = buffer("both", (room, states.around.shape[1]))
        found = buffer("found", (room, size))
        around[total:] = 0.0
        found[total:] = 0.0
        start = done = 0
        while start < len(captions):
            shape = units, count = len(captions[start]), len(places[start])
            most = max(1, ATTENDED * LONG**2 // max(units, count, LONG) ** 2)
            end = start + 1
            while end < min(len(captions), start + most) and (len(captions[end]), len(places[end])) == shape:
                end += 1
            own, at = np.array(rows[start:end]), np.array(places[start:end], int).reshape(end - start, count, 2)
            here = slice(done, done + (end - start) * count)
            if count:
                self._look(own, at, states, around[here], found[here])
            start, done = end, here.stop
        hidden = product(found, self._found, buffer("hidden", (room, self._found.shape[1])))
        hidden += around[:, size:]
        vectors = product(_gelu(hidden), self._output, buffer("output", (room, self._output.shape[1])))
        vectors += self.arrays["output.bias"]
        bounds = np.cumsum([0, *map(len, places)]).tolist()
        return [vectors[a:b].copy() for a, b in zip(bounds, bounds[1:], strict=False)]

    def _look(self, rows: np.ndarray, at: np.ndarray, states: States, around: np.ndarray, found: np.ndarray) -> None:
        """Write what the places of captions get from the states next to them, and what their attention finds.

        rows: (captions, 2 (units - 1)) numbers of states, forward and then backward ones. at: (captions, places, 2).
        around: (captions * places, states + hidden). found: (captions * places, states).
        """
        count, places, _ = at.shape
        units, size = rows.shape[1] // 2 + 1, self.size
        heads, width = self.heads, size // self.heads
        number = np.arange(count)[:, None]
        np.take(states.around, rows[number, at[..., 0]].ravel(), axis=0, out=around, mode="clip")
        behind = rows[number, units - 2 + at[..., 1]].ravel()
        around += np.take(states.around, behind, axis=0, out=buffer("behind", around.shape), mode="clip")
        memory = buffer("seen", (count, 2 * units - 2, 2 * size))
        np.take(states.memory, rows, axis=0, out=memory, mode="clip")
        memory = memory.reshape(count, 2 * units - 2, heads, 2 * width)
        query = around[:, :size].reshape(count, places, heads, width).transpose(0, 2, 1, 3)
        weights = query @ memory[..., :width].transpose(0, 2, 3, 1)
        weights += self._biases(at, units)
        weights -= weights.max(-1, keepdims=True)
        np.exp(weights, out=weights)
        weights /= weights.sum(-1, keepdims=True)
        out = found.reshape(count, places, heads, width).transpose(0, 2, 1, 3)
        np.matmul(weights, memory[..., width:].transpose(0, 2, 1, 3), out=out)

    def _biases(self, at: np.ndarray, units: int) -> np.ndarray:
        """What the distance of a place to a state adds to the attention: (captions or 1, heads, places, states)."""
        before, after = self._near(units)
        if (at == at[:1]).all():
            at = at[:1]
        made = np.concatenate([before[:, at[..., 0]], after[:, at[..., 1] - 1]], -1)
        return made.transpose(1, 0, 2, 3)

    @cached(LENGTHS)
    def _near(self, units: int) -> tuple[np.ndarray, np.ndarray]:
        """For each place and state, by the unit before (after) the place: (heads, units - 1, units - 1), read-only.

        -inf for states that have seen the place.
        """
        table = self.arrays["distance"]
        distance = np.arange(units - 1)[:, None] - np.arange(units - 1)
        last = table.shape[2] - 1
        before, after = table[:, 0][:, np.clip(distance, 0, last)], table[:, 1][:, np.clip(-distance, 0, last)]
        before[:, distance < 0] = -np.inf
        after[:, distance > 0] = -np.inf
        return read_only(before), read_only(after)


def _gelu(values: np.ndarray) -> np.ndarray:
    """The tanh approximation of the Gaussian error linear unit, in place."""
    inner = np.square(values, out=buffer("inner", values.shape))
    inner *= np.float32(0.7978845608 * 0.044715)
    inner += np.float32(0.7978845608)
    inner *= values
    np.tanh(inner, out=inner)
    inner += np.float32(1.0)
    values *= inner
    values *= np.float32(0.5)
    return values
