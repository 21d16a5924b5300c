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

from .attention import Attention
from .memory import buffer
from .states import Place, Recurrent, States, run
from .threads import single_threaded

LONG = 48  # number of units of a caption that counts as long, of which fewer are read together
TOGETHER = 128  # number of captions that are read together, if they have at most LONG units
EDITED = 256  # the same for captions that share states, of which fewer are computed


class Read(NamedTuple):
    """Where a caption's states are: the rows of the forward ones, after each unit but END, and of the backward ones,
    from each unit but START, among the `states` of all captions that were read together.
    """

    states: States
    forward: np.ndarray
    backward: np.ndarray


class Shared(NamedTuple):
    """What a caption has in common with another, which has been read: its first `start` and its last `end` units.

    read: the states of the other caption. The units in common include START and END and do not overlap.
    """

    read: Read
    start: int
    end: int


@dataclass(frozen=True, eq=False)
class Network:
    """A trained network. arrays: its parameters, multiples of units as `read_model` gives them, in float32."""

    arrays: Mapping[str, np.ndarray]

    @cached_property
    def _sides(self) -> tuple[Recurrent, Recurrent]:
        """The forward and the backward GRU."""
        return Recurrent.of(self.arrays, 0), Recurrent.of(self.arrays, 1)

    @cached_property
    def _attention(self) -> Attention:
        """The layers behind the GRUs."""
        return Attention(self.arrays)

    @single_threaded()
    def read(
        self, captions: Sequence[Sequence[int]], places: Sequence[Sequence[Place]]
    ) -> list[tuple[np.ndarray, Read]]:
        """For each caption, the vectors of its places, (places, width of the word vectors), and its states.

        captions: the numbers of the units of each caption, from START to END. places: of each caption, any number. The
        vectors are multiples of 2^-VECTOR and do not depend on which other captions are read with it, see
        `negcap.augment.cloze.fixed_point`.
        """
        made: dict[int, tuple[np.ndarray, Read]] = {}
        for numbers in _groups(captions, TOGETHER, [len(own) for own in places]):
            own = [captions[i] for i in numbers]
            begin = np.zeros((len(own), self._size), np.float32)
            states, ahead, behind = self._run(
                [caption[:-1] for caption in own], [caption[:0:-1] for caption in own], begin, begin
            )
            behind = [rows[::-1] for rows in behind]
            rows = [np.concatenate(both) for both in zip(ahead, behind, strict=True)]
            vectors = self._attention.vectors(own, [places[i] for i in numbers], states, rows)
            for number, found, forward, backward in zip(numbers, vectors, ahead, behind, strict=True):
                made[number] = found, Read(states, forward, backward)
        return [made[i] for i in range(len(captions))]

    @single_threaded()
    def read_edited(self, captions: Sequence[Sequence[int]], shared: Sequence[Shared]) -> list[np.ndarray]:
        """For each caption, the vectors of the places of its units: (units without START and END, width).

        captions: as for `read`, which gives the same vectors but takes longer. shared: what each caption has in common
        with another.
        """
        made: dict[int, np.ndarray] = {}
        for numbers in _groups(captions, EDITED):
            own, known = [captions[i] for i in numbers], [shared[i] for i in numbers]
            reads = {id(one.read): one.read for one in known}
            at, used = dict[int, int](), 0  # the first row of the states of each other caption, forward ones first
            for key, read in reads.items():
                at[key], used = used, used + 2 * len(read.forward)
            # Neither the forward state before END nor the backward one after START is needed.
            states, ahead, behind = self._run(
                [caption[start:-2] for caption, (_, start, _) in zip(own, known, strict=True)],
                [caption[2 : len(caption) - end][::-1] for caption, (_, _, end) in zip(own, known, strict=True)],
                np.stack([read.states.state[read.forward[start - 1]] for read, start, _ in known]),
                np.stack([read.states.state[read.backward[-end]] for read, _, end in known]),
                after=used,
            )
            for key, read in reads.items():
                theirs = np.concatenate([read.forward, read.backward])
                for rows_of, values in zip(states, read.states, strict=True):
                    np.take(values, theirs, axis=0, out=rows_of[at[key] : at[key] + len(theirs)], mode="clip")
            rows = []
            for caption, (read, start, end), forward, backward in zip(own, known, ahead, behind, strict=True):
                first, size = at[id(read)], len(caption) - 1
                last = first + 2 * len(read.forward)
                row = np.zeros(2 * size, np.int64)
                row[:start] = np.arange(first, first + start)
                row[start : start + len(forward)] = forward
                row[2 * size - end :] = np.arange(last - end, last)
                row[2 * size - end - len(backward) : 2 * size - end] = backward[::-1]
                rows.append(row)
            made |= zip(
                numbers, self._attention.vectors(own, [singles(len(one)) for one in own], states, rows), strict=True
            )
        return [made[i] for i in range(len(captions))]

    @cached_property
    def _size(self) -> int:
        """The size of a state."""
        return len(self.arrays["query.bias"])

    def _run(
        self,
        ahead: Sequence[Sequence[int]],
        behind: Sequence[Sequence[int]],
        forward: np.ndarray,
        backward: np.ndarray,
        *,
        after: int | None = None,
    ) -> tuple[States, list[np.ndarray], list[np.ndarray]]:
        """Run the forward GRU over the sequences `ahead`, and the backward one over `behind`.

        forward, backward: the states they begin with, (sequences, S). Returns all states, and the rows of those of each
        sequence. after: number of rows for other states in front of them; if given, the states lie in memory that the
        next such call overwrites.
        """
        used = after or 0
        middle = used + sum(map(len, ahead))
        total, hidden = middle + sum(map(len, behind)), len(self.arrays["hidden.bias"])
        shapes = {"state": self._size, "memory": 2 * self._size, "around": self._size + hidden}
        if after is None:
            states = States(*(np.empty((total, width), np.float32) for width in shapes.values()))
        else:
            states = States(*(buffer(name, (total, width)) for name, width in shapes.items()))
        first, second = self._sides
        return states, run(first, ahead, forward, states, used), run(second, behind, backward, states, middle)


def singles(units: int) -> list[Place]:
    """The places of the units of a caption with this number of units, without START and END."""
    return [(i - 1, i + 1) for i in range(1, units - 1)]


def _groups(captions: Sequence[Sequence[int]], most: int, also: Sequence[int] | None = None) -> Iterator[list[int]]:
    """The numbers of captions in groups of at most `most`, or fewer if they are long.

    Each group is sorted by the captions' numbers of units and then by `also`.
    """
    group: list[int] = []
    units = 0  # without START and END
    for i, caption in enumerate(captions):
        units += len(caption) - 2
        if len(group) == most or (group and units > most * (LONG - 2)):
            yield sorted(group, key=lambda i: (len(captions[i]), also[i] if also else 0))
            group, units = [], len(caption) - 2
        group.append(i)
    if group:
        yield sorted(group, key=lambda i: (len(captions[i]), also[i] if also else 0))
