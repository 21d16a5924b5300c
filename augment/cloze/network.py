"""The cloze network in NumPy: a vector for each place of a caption, computed from the rest of the caption.

`negcap.pipelines.resources.cloze.network` is the same network in PyTorch, for training. One GRU reads a caption
forward, another backward. From the forward state before a place and the backward state after it, attention looks at all
earlier forward and all later backward states; two linear layers make the vector of the place from the three. No state
has seen what stands in the place. A place is whatever lies between two units of the caption: one unit, several, or
none; it is written as the positions of these two, (before, after), where START has position 0.

A caption that differs from another in a few units has the same forward states before the first of these, and the same
backward states after the last: they are not computed again (see `Shared`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from negcap.augment.cache import cached, read_only
from negcap.augment.cloze.states import ROWS, Recurrent, States, Steps, buffer, in_blocks, product, run, transposed

Place = tuple[int, int]  # the numbers of the units before and after a place, START being 0
TOGETHER = 2 * ROWS  # number of captions that are read together, if they have at most LONG units
EDITED = 8 * ROWS  # the same for captions that share states, of which fewer are computed
ATTENDED = 16  # number of captions whose attention is computed together, if they have at most LONG units
LONG = 48
LENGTHS = 64  # number of lengths of captions for which the biases of the attention are cached


class Read(NamedTuple):
    """A caption's states: the forward ones after each unit but END, and the backward ones from each unit but START."""

    forward: States
    backward: States


class Shared(NamedTuple):
    """What a caption has in common with another, which has been read: its first `start` and its last `end` units.

    read: the states of the other caption. The units in common include START and END and do not overlap.
    """

    read: Read
    start: int
    end: int


@dataclass(frozen=True, eq=False)
class Network:
    """A trained network. arrays: its parameters in float32, named as in the PyTorch module."""

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
    def _sides(self) -> tuple[Recurrent, Recurrent]:
        """The forward and the backward GRU."""
        return Recurrent.of(self.arrays, 0), Recurrent.of(self.arrays, 1)

    @cached_property
    def _found(self) -> np.ndarray:
        """The weights of the hidden layer for what attention finds: (states, hidden)."""
        return transposed(self.arrays["hidden.weight"][:, 2 * self.size :])

    @cached_property
    def _output(self) -> np.ndarray:
        """The weights of the last layer: (hidden, width)."""
        return transposed(self.arrays["output.weight"])

    def contexts(self, captions: Sequence[Sequence[int]], places: Sequence[Sequence[Place]]) -> list[np.ndarray]:
        """For each caption, the vectors of its places, (places, width of the word vectors); see `read`."""
        return [vectors for vectors, _ in self.read(captions, places)]

    def read(
        self, captions: Sequence[Sequence[int]], places: Sequence[Sequence[Place]]
    ) -> list[tuple[np.ndarray, Read]]:
        """For each caption, the vectors of its places, (places, width of the word vectors), and its states.

        captions: the numbers of the units of each caption, from START to END. places: of each caption, any number. The
        vectors do not depend on which other captions are read with it: matrices are multiplied in blocks of a fixed
        size, so that the order in which numbers are added, and with it the rounding, is always the same.
        """
        made: dict[int, tuple[np.ndarray, Read]] = {}
        for numbers in _groups(captions, TOGETHER, [len(own) for own in places]):
            own = [captions[i] for i in numbers]
            ahead, behind = [Steps(one[:-1]) for one in own], [Steps(one[:0:-1]) for one in own]
            states = self._empty(0, ahead, behind)
            first, last = self._run(states, 0, ahead, behind)
            rows = []
            for caption, start, end in zip(own, first, last, strict=True):
                steps = range(0, (len(caption) - 1) * ROWS, ROWS)
                rows.append([*(start + step for step in steps), *(end + step for step in reversed(steps))])
            vectors = self._vectors(own, [places[i] for i in numbers], states, rows)
            for number, caption, start, end, found in zip(numbers, own, first, last, vectors, strict=True):
                size = (len(caption) - 1) * ROWS
                forward, backward = states.every(start, start + size), states.every(end, end + size)
                made[number] = found, Read(forward, States(*(rows[::-1] for rows in backward)))
        return [made[i] for i in range(len(captions))]

    def read_edited(self, captions: Sequence[Sequence[int]], shared: Sequence[Shared]) -> list[np.ndarray]:
        """For each caption, the vectors of the places of its units: (units without START and END, width).

        captions: as for `read`, which gives the same vectors but takes longer. shared: what each caption has in common
        with another.
        """
        made: dict[int, np.ndarray] = {}
        for numbers in _groups(captions, EDITED):
            own, known = [captions[i] for i in numbers], [shared[i] for i in numbers]
            ahead, behind = [], []  # neither the forward state before END nor the backward one after START is needed
            for caption, (read, start, end) in zip(own, known, strict=True):
                ahead.append(Steps(caption[start:-2], read.forward.state[start - 1]))
                behind.append(Steps(caption[2 : len(caption) - end][::-1], read.backward.state[-end]))
            at: dict[int, tuple[int, int]] = {}
            reads = {id(one.read): one.read for one in known}
            used = 0
            for key, read in reads.items():
                count = len(read.forward.state)
                at[key] = used, used + count
                used += 2 * count
            states = self._empty(used, ahead, behind, again=True)
            for key, read in reads.items():
                for start, states_of in zip(at[key], read, strict=True):
                    for rows_of, values in zip(states, states_of, strict=True):
                        rows_of[start : start + len(values)] = values
            first, last = self._run(states, used, ahead, behind)
            rows = []
            for i, (caption, (read, start, end)) in enumerate(zip(own, known, strict=True)):
                forward, backward = at[id(read)]
                backward += len(read.backward.state)
                before = [*range(forward, forward + start), *ahead[i].rows(first[i])]
                after = [*behind[i].rows(last[i])[::-1], *range(backward - end, backward)]
                unknown = [0] * (len(caption) - 1)
                rows.append((before + unknown)[: len(unknown)] + (unknown + after)[-len(unknown) :])
            made |= zip(numbers, self._vectors(own, [singles(len(one)) for one in own], states, rows), strict=True)
        return [made[i] for i in range(len(captions))]

    def _empty(self, used: int, ahead: Sequence[Steps], behind: Sequence[Steps], *, again: bool = False) -> States:
        """Room for the states of sequences of both GRUs behind `used` rows; again: in memory that is used again."""
        rows = used + sum(ROWS * len(own[block[0]].units) for own in (ahead, behind) for block in in_blocks(own))
        hidden = len(self.arrays["hidden.bias"])
        shapes = {"state": self.size, "memory": 2 * self.size, "around": self.size + hidden}
        if again:
            return States(*(buffer(name, (rows, width)) for name, width in shapes.items()))
        return States(*(np.empty((rows, width), np.float32) for width in shapes.values()))

    def _run(
        self, states: States, row: int, ahead: Sequence[Steps], behind: Sequence[Steps]
    ) -> tuple[list[int], list[int]]:
        """Run both GRUs and write their states, from `row` on; returns the first row of each sequence."""
        forward, backward = self._sides
        first, row = run(forward, ahead, states, row)
        last, _ = run(backward, behind, states, row)
        return first, last

    def _vectors(
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
            units, count = len(captions[start]), len(places[start])
            end = start + 1
            most = max(1, ATTENDED * LONG**2 // max(units, count, LONG) ** 2)
            while end < min(len(captions), start + most) and (len(captions[end]), len(places[end])) == (units, count):
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
        weights = buffer("weights", (count, heads, places, 2 * units - 2))
        np.matmul(query, memory[..., :width].transpose(0, 2, 3, 1), out=weights)
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
        before, after = (
            table[:, side][:, np.clip(own, 0, table.shape[2] - 1)] for side, own in enumerate((distance, -distance))
        )
        before[:, distance < 0] = -np.inf
        after[:, distance > 0] = -np.inf
        return read_only(before), read_only(after)


def singles(units: int) -> list[Place]:
    """The places of the units of a caption with this number of units, without START and END."""
    return [(i - 1, i + 1) for i in range(1, units - 1)]


def _groups(captions: Sequence[Sequence[int]], most: int, also: Sequence[int] | None = None) -> Iterator[list[int]]:
    """The numbers of captions in groups of at most `most`, or fewer if they are long.

    Each group is sorted by the captions' numbers of units and then by `also`.
    """
    group: list[int] = []
    units = 0
    for i, caption in enumerate(captions):
        units += len(caption)
        if len(group) == most or (group and units > most * LONG):
            yield sorted(group, key=lambda i: (len(captions[i]), also[i] if also else 0))
            group, units = [], len(caption)
        group.append(i)
    if group:
        yield sorted(group, key=lambda i: (len(captions[i]), also[i] if also else 0))


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
