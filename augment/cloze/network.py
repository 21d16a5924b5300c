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

from negcap.augment.cloze.attention import Attention
from negcap.augment.cloze.states import LONG, ROWS, Place, Recurrent, States, Steps, buffer, run, schedule
from negcap.augment.cloze.threads import single_threaded

TOGETHER = 2 * ROWS  # number of captions that are read together, if they have at most LONG units
EDITED = 4 * ROWS  # the same for captions that share states, of which fewer are computed


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
        vectors do not depend on which other captions are read with it: matrices are multiplied in blocks of a fixed
        size, so that the order in which numbers are added, and with it the rounding, is always the same.
        """
        made: dict[int, tuple[np.ndarray, Read]] = {}
        for numbers in _groups(captions, TOGETHER, [len(own) for own in places]):
            own = [captions[i] for i in numbers]
            ahead, behind = [Steps(one[:-1]) for one in own], [Steps(one[:0:-1]) for one in own]
            states, first, last = self._run(ahead, behind)
            rows = [[*ahead[i].rows(first[i]), *behind[i].rows(last[i])[::-1]] for i in range(len(own))]
            vectors = self._attention.vectors(own, [places[i] for i in numbers], states, rows)
            for number, caption, start, end, found in zip(numbers, own, first, last, vectors, strict=True):
                size = (len(caption) - 1) * ROWS
                forward, backward = states.every(start, start + size), states.every(end, end + size)
                made[number] = found, Read(forward, States(*(rows[::-1] for rows in backward)))
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
            # Neither the forward state before END nor the backward one after START is needed.
            ahead, behind = list[Steps](), list[Steps]()
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
            states, first, last = self._run(ahead, behind, after=used, again=True)
            for key, read in reads.items():
                for start, states_of in zip(at[key], read, strict=True):
                    for rows_of, values in zip(states, states_of, strict=True):
                        rows_of[start : start + len(values)] = values
            rows = []
            for i, (caption, (read, start, end)) in enumerate(zip(own, known, strict=True)):
                forward, backward = at[id(read)]
                backward += len(read.backward.state)
                before = [*range(forward, forward + start), *ahead[i].rows(first[i])]
                after = [*behind[i].rows(last[i])[::-1], *range(backward - end, backward)]
                unknown = [0] * (len(caption) - 1)
                rows.append((before + unknown)[: len(unknown)] + (unknown + after)[-len(unknown) :])
            made |= zip(
                numbers, self._attention.vectors(own, [singles(len(one)) for one in own], states, rows), strict=True
            )
        return [made[i] for i in range(len(captions))]

    def _run(
        self, ahead: Sequence[Steps], behind: Sequence[Steps], *, after: int = 0, again: bool = False
    ) -> tuple[States, list[int], list[int]]:
        """Run the forward GRU over the sequences `ahead`, and the backward one over `behind`.

        Returns their states, with room for `after` other states in front of them, and the row of the first state of
        each sequence (see `run`). again: in memory that the next call with `again` overwrites.
        """
        orders = [schedule([len(one.units) for one in sequences]) for sequences in (ahead, behind)]
        rows = after + ROWS * sum(order.steps for order in orders)
        size, hidden = len(self.arrays["query.bias"]), len(self.arrays["hidden.bias"])
        shapes = {"state": size, "memory": 2 * size, "around": size + hidden}
        if again:
            states = States(*(buffer(name, (rows, width)) for name, width in shapes.items()))
        else:
            states = States(*(np.empty((rows, width), np.float32) for width in shapes.values()))
        forward, backward = self._sides
        first, row = run(forward, ahead, orders[0], states, after)
        last, _ = run(backward, behind, orders[1], states, row)
        return states, first, last


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
