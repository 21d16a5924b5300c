"""The layers of the cloze network that look at states: attention, and the vectors of places that come of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..cache import cached, read_only
from .fixed_point import (
    EXP,
    FOUND,
    GELU,
    HIDDEN,
    MEMORY,
    ROW,
    SHARE,
    VECTOR,
    rounded,
)
from .memory import buffer
from .states import Place, States, transposed

ATTENDED = 40_000  # numbers of attention weights of a head that are computed together: they fit into a core's cache
LENGTHS = 64  # number of lengths of captions for which the biases of the attention are cached
UNSEEN = -1e4  # added to the attention to a state that has seen the place


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
        """The weights of the hidden layer for what attention finds: (states, hidden), from units to points of GELU."""
        return transposed(self.arrays["hidden.weight"][:, 2 * self.size :]) * np.float32(2.0**-FOUND * GELU.scale)

    @cached_property
    def _output(self) -> np.ndarray:
        """The weights of the last layer: (hidden, width), from units."""
        return transposed(self.arrays["output.weight"]) * np.float32(2.0**-HIDDEN)

    def vectors(
        self,
        captions: Sequence[Sequence[int]],
        places: Sequence[Sequence[Place]],
        states: States,
        rows: Sequence[np.ndarray],
    ) -> list[np.ndarray]:
        """The vectors of the places of captions, each (places, width), of multiples of 2^-VECTOR.

        rows: for each caption of n units, the rows of its n - 1 forward and of its n - 1 backward states. It is fastest
        if captions with the same numbers of units and of places are consecutive.
        """
        total = sum(map(len, places))
        size = self.size
        around = buffer("both", (total, states.around.shape[1]))
        found = buffer("found", (total, size))
        start = done = 0
        while start < len(captions):
            shape = units, count = len(captions[start]), len(places[start])
            most = max(1, ATTENDED // (2 * units * max(count, 1)))
            end = start + 1
            while end < min(len(captions), start + most) and (len(captions[end]), len(places[end])) == shape:
                end += 1
            own, at = np.array(rows[start:end]), np.array(places[start:end], int).reshape(end - start, count, 2)
            here = slice(done, done + (end - start) * count)
            if count:
                self._look(own, at, states, around[here], found[here])
            start, done = end, here.stop
        hidden = np.matmul(found, self._found, out=buffer("hidden", (total, self._found.shape[1])))
        hidden += around[:, size:]
        GELU.take(hidden, out=hidden)
        vectors = np.matmul(hidden, self._output)
        vectors += self.arrays["output.bias"]
        rounded(vectors, VECTOR)
        vectors *= np.float32(2.0**-VECTOR)
        return np.split(vectors, np.cumsum([len(own) for own in places])[:-1]) if len(places) else []

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
        query, bits = around[:, :size] * np.float32(width**-0.5), int(np.log2(ROW // width))
        rounded(query, bits, ROW // width)  # the query of a head is a row, too
        query = query.reshape(count, places, heads, width).transpose(0, 2, 1, 3)
        weights = query @ memory[..., :width].transpose(0, 2, 3, 1)
        weights *= np.float32(2.0 ** -(bits + MEMORY))
        weights += self._biases(at, units)
        weights -= weights.max(-1, keepdims=True)
        weights *= np.float32(EXP.scale)
        weights += np.float32(EXP.offset)
        EXP.take(weights, out=weights)
        weights /= weights.sum(-1, keepdims=True, dtype=np.float64).astype(np.float32)
        rounded(weights, SHARE, ROW)
        out = found.reshape(count, places, heads, width).transpose(0, 2, 1, 3)
        np.matmul(weights, memory[..., width:].transpose(0, 2, 1, 3), out=out)
        found *= np.float32(2.0 ** -(SHARE + MEMORY))
        rounded(found, FOUND)

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

        UNSEEN for states that have seen the place.
        """
        table = self.arrays["distance"]
        distance = np.arange(units - 1)[:, None] - np.arange(units - 1)
        last = table.shape[2] - 1
        before, after = table[:, 0][:, np.clip(distance, 0, last)], table[:, 1][:, np.clip(-distance, 0, last)]
        before[:, distance < 0] = UNSEEN
        after[:, distance > 0] = UNSEEN
        return read_only(before), read_only(after)
