"""The cloze network in NumPy: a vector for each place of a caption, computed from the rest of the caption.

`negcap.pipelines.resources.cloze.network` is the same network in PyTorch, for training. One GRU reads a caption
forward, another backward. From the forward state before a place and the backward state after it, attention looks at all
earlier forward and all later backward states; two linear layers make the vector of the place from the three. No state
has seen what stands in the place. A place is whatever lies between two units of the caption: one unit, several, or
none; it is written as the positions of these two, (before, after), where START has position 0.

Captions that begin alike have the same forward states, and those that end alike the same backward states: each is
computed once for all captions that are read together, and not again for texts that differ from them in a few units.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..caption import cached, read_only
from .fixed_point import EXP, FOUND, GELU, HIDDEN, MEMORY, ROW, SHARE, VECTOR, round_units, scratch_array
from .states import Recurrent, States, Trie, find_new_prefixes, run_gru, transposed

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

ATTENDED = 10_000  # attention weights of a head that are computed together: they fit into a core's cache
ROOM = 2  # rows of states are allocated for so many times the captions' own; those never written take no memory
LENGTHS = 64  # number of lengths of captions for which the biases of the attention are cached
UNSEEN = -1e4  # added to the attention to a state that has seen the place

_lock = threading.Lock()
# An entry for each call that is running: the first holds the number of threads before, to be restored; others are None.
_limits: list[Any] = []


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
            earlier_limits = _limits.pop()  # that of the first call is popped when the last one ends
            if earlier_limits is not None:
                earlier_limits.restore_original_limits()


@cache
def _libraries() -> ThreadpoolController:
    """The loaded libraries that have their own threads, such as BLAS; found once per process."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


class Read(NamedTuple):
    """The states of captions that were read together.

    ahead: the prefixes of the captions.
    behind: the prefixes of the captions reversed, which the backward GRU reads.
    states: of both; the first `used` rows are filled, the others are room for the states of edited texts.
    """

    ahead: Trie
    behind: Trie
    states: States
    used: int


class Network:
    """A trained network. arrays: its parameters, multiples of units as `read_model` gives them, in float32."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Scale the weights to the units of what they are multiplied with."""
        size = len(arrays["query.bias"])
        self.arrays = arrays
        self._size = size
        self.sides = Recurrent.of(arrays, 0), Recurrent.of(arrays, 1)  # the forward and the backward GRU
        # Hidden layer of what attention finds, (states, hidden), to points of GELU; the last layer, (hidden, width).
        self._from_attended = transposed(arrays["hidden.weight"][:, 2 * size :]) * np.float32(2.0**-FOUND * GELU.scale)
        self._output = transposed(arrays["output.weight"]) * np.float32(2.0**-HIDDEN)

    @single_threaded()
    def read(
        self, captions: Sequence[Sequence[int]], places: Sequence[np.ndarray], known: Read | None = None
    ) -> tuple[list[np.ndarray], Read]:
        """For each caption, the vectors of its places, (places, width of the word vectors); and the GRU states of all.

        The vectors are multiples of 2^-VECTOR and do not depend on what is read together, see `fixed_point`.

        Args:
            captions: the numbers of the units of each, from START to END.
            places: of each caption, any number, (places, 2): the positions of the units before and after each place,
                (1, 3) for unit 2.
            known: what was read before. Its states are not computed again, and the next such call overwrites the memory
                of those that are returned.
        """
        lengths = np.array([len(units) for units in captions], np.int64)
        counts = np.array([len(of_caption) for of_caption in places], np.int64)
        no_places = np.zeros((0, 2), np.int64)
        beside = np.concatenate([no_places, *(of_caption for of_caption in places if len(of_caption))])
        reach = _states_looked_at(lengths, counts, beside)
        read = self._states(captions, lengths, reach, known)
        vectors = self._vectors_of_all(lengths, counts, reach, beside, read)
        return np.split(vectors, np.cumsum(counts)[:-1]) if len(counts) else [], read

    def _states(
        self, captions: Sequence[Sequence[int]], lengths: np.ndarray, reach: np.ndarray, known: Read | None
    ) -> Read:
        """The states of both GRUs after each prefix of the captions; those that are `known` are not computed again.

        Args:
            captions: the numbers of the units of each.
            lengths: their numbers of units, (captions,).
            reach: how many states of each caption are needed from either end, (captions,).
            known: what was read before; the new states are written behind it into the same arrays if these have room.
        """
        # The first `reach` units of each caption forward, and its last ones backward; -1 behind these.
        column = np.arange(reach.max(initial=1))
        inside = column < reach[:, None]
        flat = np.fromiter(chain.from_iterable(captions), np.int64, lengths.sum())
        first = (np.cumsum(lengths) - lengths)[:, None]
        last = first + lengths[:, None] - 1
        units_ahead = np.where(inside, flat[np.where(inside, first + column, 0)], -1)
        units_behind = np.where(inside, flat[np.where(inside, last - column, 0)], -1)
        # Captions that begin alike share their forward states, and those that end alike their backward states. The rows
        # of states are: those that are known, new ones of the forward GRU, new ones of the backward GRU.
        used = 0 if known is None else known.used
        ahead = find_new_prefixes(units_ahead, used, None if known is None else known.ahead)
        middle = used + ahead.size
        behind = find_new_prefixes(units_behind, middle, None if known is None else known.behind)
        total = middle + behind.size
        if known is not None and total <= len(known.states.state):
            states = known.states
        else:
            hidden = len(self.arrays["hidden.bias"])
            # The width of a state, of its keys and values, and of what it adds to the query and the hidden layer.
            widths = self._size, 2 * self._size, self._size + hidden
            states = States(*(np.empty((ROOM * total, width), np.float32) for width in widths))
            if known is not None:
                for rows, known_rows in zip(states, known.states, strict=True):
                    rows[:used] = known_rows[:used]
        forward, backward = self.sides
        run_gru(forward, ahead.levels, states, used)
        run_gru(backward, behind.levels, states, middle)
        return Read(ahead=ahead.trie, behind=behind.trie, states=states, used=total)

    def _vectors_of_all(
        self, lengths: np.ndarray, counts: np.ndarray, reach: np.ndarray, beside: np.ndarray, read: Read
    ) -> np.ndarray:
        """The vectors of the places of all captions: (places, width). Captions of one shape are computed together.

        Args:
            lengths: the number of units of each caption, (captions,).
            counts: the number of places of each, (captions,).
            reach: how many states from either end the places of each look at, (captions,).
            beside: the places, those of a caption together, (places, 2).
            read: the states of the captions.
        """
        vectors = np.empty((len(beside), self._output.shape[1]), np.float32)
        # Captions are sorted by shape and cut where it changes.
        first_place = np.cumsum(counts) - counts
        order = np.lexsort((reach, counts, lengths))
        shapes = np.stack([lengths, counts, reach])[:, order]
        cuts = np.flatnonzero((shapes[:, 1:] != shapes[:, :-1]).any(0)) + 1
        for same_shape in np.split(order, cuts):  # numbers of captions
            if not len(same_shape) or not counts[same_shape[0]]:
                continue
            length = int(lengths[same_shape[0]])
            count = int(counts[same_shape[0]])
            states = int(reach[same_shape[0]])
            # How many captions are computed together: they have about ATTENDED pairs of a place and a state.
            most = max(1, ATTENDED // (2 * states * count))
            for start in range(0, len(same_shape), most):
                captions = same_shape[start : start + most]
                place = first_place[captions][:, None] + np.arange(count)
                ahead = read.ahead.rows[captions, :states]
                behind = read.behind.rows[captions, :states][:, ::-1]  # read backwards, turned to the text's order
                rows = np.concatenate([ahead, behind], axis=1)
                vectors[place.ravel()] = self._vectors(length, rows, beside[place], read.states)
        return vectors

    def _vectors(self, units: int, rows: np.ndarray, beside: np.ndarray, states: States) -> np.ndarray:
        """The vectors of the places of captions of `units` units, (captions * places, width): multiples of 2^-VECTOR.

        rows: (captions, 2 reach) rows of states, forward ones of the first units, then backward ones of the last.
        beside: the units before and after each place, (captions, places, 2).
        """
        count, places, _ = beside.shape
        reach = rows.shape[1] // 2
        size = self._size
        total = count * places
        heads = len(self.arrays["distance"])
        width = size // heads
        number = np.arange(count)[:, None]
        # Query and hidden layer of each place: what the forward state before it and the backward state after it add.
        around = scratch_array("both", (total, states.around.shape[1]))
        np.take(states.around, rows[number, beside[..., 0]].ravel(), axis=0, out=around, mode="clip")
        # The backward states are those of the last `reach` units: that of unit u is in column 2 reach - units + u.
        after = rows[number, 2 * reach - units + beside[..., 1]].ravel()
        around += np.take(states.around, after, axis=0, out=scratch_array("after", around.shape), mode="clip")
        # Keys and values of the states that places look at, each (captions, states, heads, width).
        memory = scratch_array("seen", (count, 2 * reach, 2 * size))
        np.take(states.memory, rows, axis=0, out=memory, mode="clip")
        memory = memory.reshape(count, 2 * reach, heads, 2 * width)
        keys = memory[..., :width]
        values = memory[..., width:]
        # Attention of each place to each state: query, in units of 2^-bits, times key, plus a bias by their distance;
        # then the softmax.
        bits = int(np.log2(ROW // width))
        query = around[:, :size] * np.float32(width**-0.5 * 2.0**bits)
        round_units(query, largest=ROW // width)  # the query of a head is a row, too
        query = query.reshape(count, places, heads, width).transpose(0, 2, 1, 3)
        weights = query @ keys.transpose(0, 2, 3, 1)  # (captions, heads, places, states)
        weights *= np.float32(2.0 ** -(bits + MEMORY))
        weights += self._biases_at_places(beside, units, reach)
        weights -= weights.max(-1, keepdims=True)
        weights *= np.float32(EXP.scale)
        weights += np.float32(EXP.offset)
        EXP.take(weights, out=weights)
        weights /= weights.sum(-1, keepdims=True, dtype=np.float64).astype(np.float32)
        round_units(weights, SHARE, ROW)
        attended = scratch_array("attended", (total, size))
        out = attended.reshape(count, places, heads, width).transpose(0, 2, 1, 3)
        np.matmul(weights, values.transpose(0, 2, 1, 3), out=out)
        round_units(attended, FOUND - SHARE - MEMORY)
        # Two linear layers make the vector of what is attended to and of the states around the place.
        hidden = scratch_array("hidden", (total, self._from_attended.shape[1]))
        np.matmul(attended, self._from_attended, out=hidden)
        hidden += around[:, size:]
        GELU.take(hidden, out=hidden)
        vectors = np.matmul(hidden, self._output, out=scratch_array("vectors", (total, self._output.shape[1])))
        vectors += self.arrays["output.bias"]
        round_units(vectors, VECTOR)
        vectors *= np.float32(2.0**-VECTOR)
        return vectors

    def _biases_at_places(self, beside: np.ndarray, units: int, reach: int) -> np.ndarray:
        """What the distance of a place to a state adds to the attention: (captions or 1, heads, places, 2 reach).

        The 1 stands for all captions, where their places are the same, as they mostly are. beside: the units before and
        after each place, (captions, places, 2). units: the number of units of each caption. reach: how many states from
        either end the places look at.
        """
        near = self._distance_biases(units)
        before = near.before[..., :reach]
        after = near.after[..., -reach:]
        if (beside == beside[:1]).all():
            beside = beside[:1]
        # Indexed by head, by the unit beside the place (that after it is counted from 1) and by state.
        biases = np.concatenate([before[:, beside[..., 0]], after[:, beside[..., 1] - 1]], -1)
        return biases.transpose(1, 0, 2, 3)  # captions before heads

    @cached(LENGTHS)
    def _distance_biases(self, units: int) -> DistanceBiases:
        """The biases of captions with this number of units; UNSEEN for states that have seen the place."""
        table = self.arrays["distance"]  # (heads, 2, distances): of states before a place, and of those behind it
        # From the unit that a state has read last to the unit beside the place, (units - 1, units - 1).
        distance = np.arange(units - 1)[:, None] - np.arange(units - 1)
        last = table.shape[2] - 1  # all that is farther away has the bias of this distance
        before = table[:, 0][:, np.clip(distance, 0, last)]
        after = table[:, 1][:, np.clip(-distance, 0, last)]
        before[:, distance < 0] = UNSEEN
        after[:, distance > 0] = UNSEEN
        return DistanceBiases(read_only(before), read_only(after))


class DistanceBiases(NamedTuple):
    """What the distance of a place to a state adds to the attention, for the states before and behind the place.

    Indexed by head, by the unit before (after) the place, and by the state: (heads, units - 1, units - 1), read-only.
    """

    before: np.ndarray
    after: np.ndarray


def _states_looked_at(lengths: np.ndarray, counts: np.ndarray, beside: np.ndarray) -> np.ndarray:
    """How many states from either end the places of each caption look at, at least 1: (captions,).

    Args:
        lengths: the number of units of each caption, (captions,).
        counts: the number of places of each, (captions,).
        beside: the units before and after each place, those of a caption together, (places, 2).
    """
    reach = np.ones(len(lengths), np.int64)
    caption = np.repeat(np.arange(len(lengths)), counts)  # of each place
    # The units up to the one before the place, or those from the one after it on, whichever are more.
    needed = np.maximum(beside[:, 0] + 1, lengths[caption] - beside[:, 1])
    np.maximum.at(reach, caption, needed)
    return reach


@cached(LENGTHS)
def places_of_units(units: int) -> np.ndarray:
    """The places of the units of a caption with this number of units, without START and END: (places, 2), read-only."""
    inner = np.arange(1, units - 1)
    return read_only(np.stack([inner - 1, inner + 1], axis=1))
