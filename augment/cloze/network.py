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

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..caption import cached, read_only
from .fixed_point import EXP, FOUND, GELU, HIDDEN, MEMORY, ROW, SHARE, VECTOR, buffer, rounded
from .states import Place, Recurrent, States, run, transposed

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

LONG = 48  # number of units of a caption that counts as long, of which fewer are read together
TOGETHER = 128  # number of captions that are read together, if they have at most LONG units
EDITED = 256  # the same for captions that share states, of which fewer are computed
ATTENDED = 40_000  # numbers of attention weights of a head that are computed together: they fit into a core's cache
LENGTHS = 64  # number of lengths of captions for which the biases of the attention are cached
UNSEEN = -1e4  # added to the attention to a state that has seen the place

_lock = threading.Lock()
_limits: list[Any] = []  # one limit for each call that is running; the first holds the number of threads before


@contextmanager
def single_threaded() -> Iterator[None]:
    """Let the BLAS library of this process use one thread, until all that have asked for it are done.

    Matrix products of the cloze network are small, and several threads wait for each other in them: on two busy cores a
    second thread made a batch of captions take five times as long. Other threads are limited meanwhile, too.
    """
    with _lock:
        _limits.append(_libraries().limit(limits=1, user_api="blas") if not _limits else None)
    try:
        yield
    finally:
        with _lock:
            last = _limits.pop()
            if last is not None:
                last.restore_original_limits()


@cache
def _libraries() -> ThreadpoolController:
    """The libraries with threads of their own that are loaded, found once per process."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


class Read(NamedTuple):
    """The rows of a caption's forward states (after each unit but END) and backward ones (from each unit but START),
    among the `states` of all captions that were read together.
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


class Network:
    """A trained network. arrays: its parameters, multiples of units as `read_model` gives them, in float32."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Scale the weights to the units of what they are multiplied with."""
        size = len(arrays["query.bias"])
        self.arrays, self._size = arrays, size
        self._sides = Recurrent.of(arrays, 0), Recurrent.of(arrays, 1)  # the forward and the backward GRU
        # Hidden layer of what attention finds, (states, hidden), to points of GELU; the last layer, (hidden, width).
        self._from_attended = transposed(arrays["hidden.weight"][:, 2 * size :]) * np.float32(2.0**-FOUND * GELU.scale)
        self._output = transposed(arrays["output.weight"]) * np.float32(2.0**-HIDDEN)

    @single_threaded()
    def read(
        self, captions: Sequence[Sequence[int]], places: Sequence[Sequence[Place]]
    ) -> list[tuple[np.ndarray, Read]]:
        """For each caption, the vectors of its places, (places, width of the word vectors), and its states.

        captions: the numbers of the units of each, from START to END. places: of each caption, any number. The vectors
        are multiples of 2^-VECTOR and do not depend on which other captions are read with it, see `fixed_point`.
        """
        results: dict[int, tuple[np.ndarray, Read]] = {}
        for numbers in _groups(captions, TOGETHER, [len(group) for group in places]):
            group = [captions[i] for i in numbers]
            begin = np.zeros((len(group), self._size), np.float32)
            states, ahead, behind = self._run(
                [caption[:-1] for caption in group], [caption[:0:-1] for caption in group], begin, begin
            )
            behind = [rows[::-1] for rows in behind]
            rows = [np.concatenate(both) for both in zip(ahead, behind, strict=True)]
            vectors = self._vectors(group, [places[i] for i in numbers], states, rows)
            for number, vectors_of_places, forward, backward in zip(numbers, vectors, ahead, behind, strict=True):
                results[number] = vectors_of_places, Read(states, forward, backward)
        return [results[i] for i in range(len(captions))]

    @single_threaded()
    def read_edited(self, captions: Sequence[Sequence[int]], shared: Sequence[Shared]) -> list[np.ndarray]:
        """For each caption, the vectors of the places of its units: (units without START and END, width), as `read`
        gives them in more time. shared: what each caption has in common with another.
        """
        results: dict[int, np.ndarray] = {}
        for numbers in _groups(captions, EDITED):
            group, known = [captions[i] for i in numbers], [shared[i] for i in numbers]
            reads = {id(one.read): one.read for one in known}
            at, used = dict[int, int](), 0  # the first row of the states of each other caption, forward ones first
            for key, read in reads.items():
                at[key], used = used, used + 2 * len(read.forward)
            # Neither the forward state before END nor the backward one after START is needed.
            states, ahead, behind = self._run(
                [caption[start:-2] for caption, (_, start, _) in zip(group, known, strict=True)],
                [caption[2 : len(caption) - end][::-1] for caption, (_, _, end) in zip(group, known, strict=True)],
                np.stack([read.states.state[read.forward[start - 1]] for read, start, _ in known]),
                np.stack([read.states.state[read.backward[-end]] for read, _, end in known]),
                after=used,
            )
            for key, read in reads.items():
                theirs = np.concatenate([read.forward, read.backward])
                for rows_of, values in zip(states, read.states, strict=True):
                    np.take(values, theirs, axis=0, out=rows_of[at[key] : at[key] + len(theirs)], mode="clip")
            rows = []
            for caption, (read, start, end), forward, backward in zip(group, known, ahead, behind, strict=True):
                first, size = at[id(read)], len(caption) - 1
                last = first + 2 * len(read.forward)
                row = np.zeros(2 * size, np.int64)
                row[:start] = np.arange(first, first + start)
                row[start : start + len(forward)] = forward
                row[2 * size - end :] = np.arange(last - end, last)
                row[2 * size - end - len(backward) : 2 * size - end] = backward[::-1]
                rows.append(row)
            results |= zip(
                numbers, self._vectors(group, [singles(len(one)) for one in group], states, rows), strict=True
            )
        return [results[i] for i in range(len(captions))]

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
        sequence. after: number of rows for other states in front; if given, the next such call overwrites the memory.
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

    def _vectors(
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
        total, size = sum(map(len, places)), self._size
        around = buffer("both", (total, states.around.shape[1]))
        attended = buffer("attended", (total, size))
        start = done = 0
        while start < len(captions):
            shape = units, count = len(captions[start]), len(places[start])
            most = max(1, ATTENDED // (2 * units * max(count, 1)))
            end = start + 1
            while end < min(len(captions), start + most) and (len(captions[end]), len(places[end])) == shape:
                end += 1
            state_rows = np.array(rows[start:end])
            beside = np.array(places[start:end], int).reshape(end - start, count, 2)
            rows_of_group = slice(done, done + (end - start) * count)
            if count:
                self._attend(state_rows, beside, states, around[rows_of_group], attended[rows_of_group])
            start, done = end, rows_of_group.stop
        hidden = np.matmul(attended, self._from_attended, out=buffer("hidden", (total, self._from_attended.shape[1])))
        hidden += around[:, size:]
        GELU.take(hidden, out=hidden)
        vectors = np.matmul(hidden, self._output)
        vectors += self.arrays["output.bias"]
        rounded(vectors, VECTOR)
        vectors *= np.float32(2.0**-VECTOR)
        return np.split(vectors, np.cumsum([len(of_caption) for of_caption in places])[:-1]) if len(places) else []

    def _attend(
        self, rows: np.ndarray, beside: np.ndarray, states: States, around: np.ndarray, attended: np.ndarray
    ) -> None:
        """Write what the places of captions get from the states next to them, and what their attention finds.

        rows: (captions, 2 (units - 1)) numbers of states, forward, then backward ones. beside: (captions, places, 2).
        around: (captions * places, states + hidden). attended: (captions * places, states).
        """
        count, places, _ = beside.shape
        units, size = rows.shape[1] // 2 + 1, self._size
        heads, width = len(self.arrays["distance"]), size // len(self.arrays["distance"])
        number = np.arange(count)[:, None]
        np.take(states.around, rows[number, beside[..., 0]].ravel(), axis=0, out=around, mode="clip")
        behind = rows[number, units - 2 + beside[..., 1]].ravel()
        around += np.take(states.around, behind, axis=0, out=buffer("behind", around.shape), mode="clip")
        memory = buffer("seen", (count, 2 * units - 2, 2 * size))
        np.take(states.memory, rows, axis=0, out=memory, mode="clip")
        memory = memory.reshape(count, 2 * units - 2, heads, 2 * width)
        query, bits = around[:, :size] * np.float32(width**-0.5), int(np.log2(ROW // width))
        rounded(query, bits, ROW // width)  # the query of a head is a row, too
        query = query.reshape(count, places, heads, width).transpose(0, 2, 1, 3)
        weights = query @ memory[..., :width].transpose(0, 2, 3, 1)
        weights *= np.float32(2.0 ** -(bits + MEMORY))
        weights += self._biases(beside, units)
        weights -= weights.max(-1, keepdims=True)
        weights *= np.float32(EXP.scale)
        weights += np.float32(EXP.offset)
        EXP.take(weights, out=weights)
        weights /= weights.sum(-1, keepdims=True, dtype=np.float64).astype(np.float32)
        rounded(weights, SHARE, ROW)
        out = attended.reshape(count, places, heads, width).transpose(0, 2, 1, 3)
        np.matmul(weights, memory[..., width:].transpose(0, 2, 1, 3), out=out)
        attended *= np.float32(2.0 ** -(SHARE + MEMORY))
        rounded(attended, FOUND)

    def _biases(self, beside: np.ndarray, units: int) -> np.ndarray:
        """What the distance of a place to a state adds to the attention: (captions or 1, heads, places, states)."""
        before, after = self._near(units)
        if (beside == beside[:1]).all():
            beside = beside[:1]
        biases = np.concatenate([before[:, beside[..., 0]], after[:, beside[..., 1] - 1]], -1)
        return biases.transpose(1, 0, 2, 3)

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


def singles(units: int) -> list[Place]:
    """The places of the units of a caption with this number of units, without START and END."""
    return [(i - 1, i + 1) for i in range(1, units - 1)]


def _groups(captions: Sequence[Sequence[int]], most: int, also: Sequence[int] | None = None) -> Iterator[list[int]]:
    """The numbers of captions in groups of at most `most`, fewer if long, each sorted by numbers of units, then by
    `also`.
    """

    def order(i: int) -> tuple[int, int]:
        return len(captions[i]), also[i] if also else 0

    group: list[int] = []
    units = 0  # without START and END
    for i, caption in enumerate(captions):
        units += len(caption) - 2
        if len(group) == most or (group and units > most * (LONG - 2)):
            yield sorted(group, key=order)
            group, units = [], len(caption) - 2
        group.append(i)
    if group:
        yield sorted(group, key=order)
