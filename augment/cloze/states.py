"""The units that the cloze network reads, and the states of its GRUs after each of them.

A unit is a word in lower case, or a phrase ("tennis racket", "in front of"), so that the probability of either at a
place is one number. "An" is read as "a", so which article stands before a place says nothing about the word there. A
final full stop or exclamation mark is left out. Units are numbered by their position in the vocabulary. A text becomes
START, its units, END; the place of a unit is its position in this sequence, so that START has place 0.

Results that depend on a single state are computed once, however many places look at it: its key and value (`memory`),
and its share of the query and of the hidden layer of the places next to it (`around`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from threading import Lock
from typing import NamedTuple

import numpy as np

from .fixed_point import GELU, MEMORY, SIGMOID, STATE, TANH, round_units, scratch_array

Place = tuple[int, int]  # the numbers of the units before and after a place, START being 0
START = "<s>"
END = "</s>"
UNKNOWN = "<unk>"
SPECIAL = (START, END, UNKNOWN)
FINAL = frozenset({".", "!"})
TOGETHER = 256  # number of states that are computed together: they fit into a core's cache


def normalise_word(word: str) -> str:
    """A word as the model reads it: in lower case, "an" as "a"."""
    return "a" if (lower := word.lower()) == "an" else lower


@dataclass(frozen=True, eq=False)
class Units:
    """The vocabulary of a cloze model: `names` are its units; the first three are START, END and UNKNOWN.

    A name that contains a space is a phrase.
    """

    names: tuple[str, ...]

    @cached_property
    def number(self) -> Mapping[str, int]:
        """The number of each unit, by name."""
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def phrases(self) -> Mapping[str, tuple[tuple[str, ...], ...]]:
        """The phrases by their first word, each as its words; longer ones first."""
        return group_by_first_word(name for name in self.names if " " in name)

    def number_of(self, word: str) -> int | None:
        """The number of the unit of a word or phrase, None if the model does not know it."""
        return self.number.get(normalise_word(word))

    def number_of_head(self, name: str) -> int | None:
        """The number of the unit of a word or phrase, or of its last word if it is no unit: "beach umbrella" -> that of
        "umbrella"; None: neither is known.
        """
        number = self.number_of(name)
        return self.number_of(name.rpartition(" ")[2]) if number is None else number

    def to_units(self, words: Sequence[str]) -> UnitsOfText:
        """Group the words of a tokenised text, in lower case, into units; those not in the vocabulary become UNKNOWN.

        "two dogs in front of it", with the phrase "in front of", has 4 units between START and END, and its words
        belong to the units 1, 2, 3, 3, 3, 4. A final full stop is counted to END.
        """
        number = self.number
        unknown = number[UNKNOWN]
        units = [number[START]]
        unit_of_token = []
        words = ["a" if word == "an" else word for word in words]  # as `normalise_word` does with words in lower case
        start = 0
        for size in words_per_unit(words, self.phrases):
            unit_of_token += [len(units)] * max(size, 1)  # size 0: a final full stop, a token that is no unit
            if size:
                name = words[start] if size == 1 else " ".join(words[start : start + size])
                units.append(number.get(name, unknown))
                start += size
        units.append(number[END])
        return UnitsOfText(units, unit_of_token)


class UnitsOfText(NamedTuple):
    """A text's units from START to END, as numbers in the vocabulary; and the index of each token's unit among them."""

    units: list[int]
    unit_of_token: list[int]


def group_by_first_word(phrases: Iterable[str]) -> dict[str, tuple[tuple[str, ...], ...]]:
    """Phrases by their first word, each as a tuple of its words; of one first word, longer ones first."""
    by_word: dict[str, tuple[tuple[str, ...], ...]] = {}
    for words in sorted((tuple(phrase.split(" ")) for phrase in phrases), key=lambda words: (-len(words), words)):
        by_word[words[0]] = (*by_word.get(words[0], ()), words)
    return by_word


def words_per_unit(words: Sequence[str], phrases: Mapping[str, tuple[tuple[str, ...], ...]]) -> list[int]:
    """Group normalised words into units, from left to right, each the longest phrase that matches.

    Args:
        words: of a text, "an" as "a".
        phrases: by their first word, longer ones first, see `group_by_first_word`.

    Returns:
        The number of words of each unit; at the end 0 for a final full stop.
    """
    sizes: list[int] = []
    ends_with_stop = len(words) > 0 and words[-1] in FINAL
    start = 0
    end = len(words) - 1 if ends_with_stop else len(words)
    while start < end:
        size = 1
        for phrase in phrases.get(words[start], ()) if start + 1 < end else ():
            # The second word first: most phrases fail there, and a slice for each would take long.
            phrase_size = len(phrase)
            if phrase[1] == words[start + 1] and start + phrase_size <= end:
                if phrase_size == 2 or tuple(words[start : start + phrase_size]) == phrase:
                    size = phrase_size
                    break
        sizes.append(size)
        start += size
    return [*sizes, 0] if ends_with_stop else sizes


class Gates:
    """What each unit adds to the gates of a GRU whose state has S numbers, as points of the tables SIGMOID and TANH.

    The numbers of a unit are computed when it is first met, as most units never are.
    """

    def __init__(self, embedding: np.ndarray, weight: np.ndarray, points: np.ndarray) -> None:
        """Keep the parameters, and compute nothing yet.

        Args:
            embedding: the word vectors, (units, width).
            weight: from a word vector to the gates, (width, 3 S).
            points: the bias of the gates, and the scale and offset that make a point of its table of each, (3, 3 S).
        """
        self._embedding = embedding
        self._weight = weight
        self._points = points
        self._lock = Lock()
        self._row = np.full(len(embedding), -1)  # of each unit, its row in `_met`; -1: not met
        self._count = 0  # how many rows of `_met` are filled; the others are spare
        self._met = np.empty((0, points.shape[1]), np.float32)

    def take(self, units: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Write what some units add to `out`, (units, 3 S), and return it."""
        if (self._row[units] < 0).any():
            with self._lock:
                self._compute_new_units(np.unique(units[self._row[units] < 0]))
        # Read before `_met`: another thread may replace that by a larger one, in which these rows are the same.
        rows = self._row[units]
        return np.take(self._met, rows, axis=0, out=out, mode="clip")

    def _compute_new_units(self, new: np.ndarray) -> None:
        """Add a row to `_met` for each of some new units, by their numbers. The caller holds the lock."""
        bias, scale, offset = self._points
        old = self._count
        self._count = self._count + len(new)
        if self._count > len(self._met):  # twice the room, so that rows are copied seldom
            larger = np.empty((min(2 * self._count, len(self._row)), len(bias)), np.float32)
            larger[:old] = self._met[:old]
            self._met = larger
        self._met[old : self._count] = (self._embedding[new] @ self._weight + bias) * scale + offset
        self._row[new] = np.arange(old, self._count)


class Recurrent(NamedTuple):
    """A GRU and the layers that read its states, S being their size.

    The weights expect states in units of 2^-STATE.

    gates: what units add to the three gates (reset, update, candidate), with the biases of the first two.
    weight: what a state adds to the gates, (S, 3 S).
    bias: what is added to that for the third gate, (S,).
    memory, memory_bias: from a state to its keys and values, those of each head in turn, in units of 2^-MEMORY,
        (S, 2 S) and (2 S,).
    around, around_bias: from a state to its share of the query of the places next to it, and of their hidden layer in
        points of GELU, (S, S + hidden) and (S + hidden,).
    """

    gates: Gates
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
        unit = np.float32(2.0**-STATE)
        # Both biases of the reset and update gates can be added at once. That of the candidate's state cannot: it is
        # multiplied with the reset gate first.
        from_state = arrays[f"{name}.bias_hh_l0"]
        to_gates = arrays[f"{name}.bias_ih_l0"].copy()
        to_gates[: 2 * size] += from_state[: 2 * size]
        # The scale and offset of the table that each gate is looked up in: two gates in SIGMOID, the candidate in TANH.
        tables = np.array([(SIGMOID.scale, TANH.scale), (SIGMOID.offset, TANH.offset)], np.float32)
        scales, offsets = np.repeat(tables, [2 * size, size], axis=1)
        points = np.stack([to_gates, scales, offsets])
        # Query and hidden layer read forward and backward states side by side; this is the part of this GRU.
        part = slice(side * size, (side + 1) * size)
        to_points = np.repeat(np.array([1.0, GELU.scale], np.float32), [size, len(arrays["hidden.bias"])])
        biases = np.concatenate([arrays["query.bias"], arrays["hidden.bias"]]) * to_points
        biases[size:] += np.float32(GELU.offset)
        around = np.concatenate([arrays["query.weight"][:, part], arrays["hidden.weight"][:, part]])
        return cls(
            gates=Gates(arrays["embedding.weight"], transposed(arrays[f"{name}.weight_ih_l0"]), points),
            weight=transposed(arrays[f"{name}.weight_hh_l0"]) * unit * scales,
            bias=from_state[2 * size :] * np.float32(TANH.scale),
            memory=transposed(arrays[f"memory.{side}.weight"]) * unit * np.float32(2.0**MEMORY),
            memory_bias=arrays[f"memory.{side}.bias"] * np.float32(2.0**MEMORY),
            around=transposed(around) * unit * to_points,
            # The parts of both GRUs are added up for a place, so only one of them has the bias.
            around_bias=biases if side == 0 else np.zeros_like(biases),
        )

    def step(self, state: np.ndarray, units: np.ndarray, new: np.ndarray, state_of: np.ndarray | None = None) -> None:
        """Write the states after one more unit to `new`.

        Args:
            state: the states before the unit, (rows, S), or (states, S) if several rows have one state.
            units: the unit that each row reads, (rows,).
            new: is overwritten with the states after it, (rows, S).
            state_of: for each row, the number of its state; None if each has its own.
        """
        # h' = update * (h - candidate) + candidate, in whole units of 2^-STATE.
        from_state = np.matmul(state, self.weight, out=scratch_array("recurrent", (len(state), 3 * state.shape[1])))
        if state_of is not None:
            state = _take_rows(state, state_of, "repeated")
            from_state = _take_rows(from_state, state_of, "repeated recurrent")
        rows, size = state.shape
        gates = self.gates.take(units, out=scratch_array("gates", from_state.shape))
        reset_and_update = np.add(
            from_state[:, : 2 * size], gates[:, : 2 * size], out=scratch_array("both gates", (rows, 2 * size))
        )
        SIGMOID.take(reset_and_update, out=reset_and_update)
        reset_and_update *= np.float32(2.0**-SIGMOID.unit)  # from whole units to numbers from 0 to 1
        reset = reset_and_update[:, :size]
        update = reset_and_update[:, size:]
        candidate = np.add(from_state[:, 2 * size :], self.bias, out=scratch_array("candidate", (rows, size)))
        candidate *= reset
        candidate += gates[:, 2 * size :]
        TANH.take(candidate, out=candidate)
        np.subtract(state, candidate, out=new)
        new *= update
        new += candidate
        np.rint(new, out=new)


def _take_rows(states: np.ndarray, row: np.ndarray, name: str) -> np.ndarray:
    """Some rows of an array, copied to scratch memory of this name; row: their numbers, (rows,)."""
    return np.take(states, row, axis=0, out=scratch_array(name, (len(row), states.shape[1])), mode="clip")


class States(NamedTuple):
    """States of the GRUs, one a row, and what the layers of `Recurrent` make of each.

    state: in units of 2^-STATE, (rows, S).
    memory: keys and values of the attention, in units of 2^-MEMORY, (rows, 2 S).
    around: query and hidden layer, (rows, S + hidden).
    """

    state: np.ndarray
    memory: np.ndarray
    around: np.ndarray


class Trie(NamedTuple):
    """All prefixes of sequences of units, and where the state of each is: equal prefixes have the same.

    units: the sequences, -1 behind the end of each, (sequences, length). rows: of the same shape; rows[i, j] is the row
    in `States` of the prefix that ends with units[i, j].
    """

    units: np.ndarray
    rows: np.ndarray


class Level(NamedTuple):
    """Prefixes of one length that are new: their last unit, and the row of the state before it, -1 for none."""

    unit: np.ndarray
    parent: np.ndarray


class NewPrefixes(NamedTuple):
    """The prefixes of sequences, and those whose state is to be computed: by length, shorter ones first."""

    trie: Trie
    levels: list[Level]

    @property
    def size(self) -> int:
        """The number of states that are to be computed."""
        return sum(len(level.unit) for level in self.levels)


def find_new_prefixes(units: np.ndarray, row: int, known: Trie | None = None) -> NewPrefixes:
    """The prefixes of sequences, and which of them are not in `known`.

    Args:
        units: as in `Trie`, at least one column.
        row: the row of `States` of the first new prefix; the others follow it.
        known: prefixes that have rows.
    """
    # Sorted, sequences with a common prefix stand together, and a prefix is new where a sequence differs from the one
    # before it. Prefixes are numbered by length, shorter ones first, and within a length in sorted order:
    #     a b c     ->   0 2 4
    #     a b d          0 2 5
    #     a e            0 3
    #     f              1
    sequences = units  # all of them, the known ones first
    if known is not None:
        length = max(known.units.shape[1], units.shape[1])
        sequences = np.full((len(known.units) + len(units), length), -1, units.dtype)
        sequences[: len(known.units), : known.units.shape[1]] = known.units
        sequences[len(known.units) :, : units.shape[1]] = units
    order = np.lexsort(sequences.T[::-1])
    ordered = sequences[order]
    is_first = np.ones(ordered.shape, bool)  # whether a prefix is not that of the sequence before
    np.logical_or.accumulate(ordered[1:] != ordered[:-1], axis=1, out=is_first[1:])
    is_first &= ordered >= 0
    # The number of the first prefix of each length, and at the end the count of all.
    first_of_length = np.concatenate([[0], np.cumsum(is_first.sum(0))])
    prefix = np.empty(sequences.shape, np.int64)  # the number of each; not used behind the end of a sequence
    prefix[order] = np.cumsum(is_first, axis=0) - 1 + first_of_length[:-1]
    prefixes = first_of_length[-1]
    row_of = np.full(prefixes, -1)  # the row in `States` of each; -1 so far for one that is not known
    if known is not None:
        is_known = known.units >= 0
        row_of[prefix[: len(is_known), : is_known.shape[1]][is_known]] = known.rows[is_known]
        prefix = prefix[len(is_known) :, : units.shape[1]]
    new = np.flatnonzero(row_of < 0)
    row_of[new] = np.arange(row, row + len(new))
    inside = units >= 0
    last_unit = np.empty(prefixes, np.int64)
    last_unit[prefix[inside]] = units[inside]
    parent = np.full(prefixes, -1)  # the prefix without its last unit
    parent[prefix[:, 1:][inside[:, 1:]]] = prefix[:, :-1][inside[:, 1:]]
    # The new prefixes are in ascending order of their numbers, so that those of one length are neighbours.
    levels = []
    for start, end in pairwise(np.searchsorted(new, first_of_length).tolist()):
        if end > start:
            level = new[start:end]
            parent_row = np.where(parent[level] < 0, -1, row_of[parent[level]])
            levels.append(Level(last_unit[level], parent_row))
    rows = np.where(inside, row_of[np.where(inside, prefix, 0)], 0)
    return NewPrefixes(Trie(units, rows), levels)


def run_gru(side: Recurrent, levels: Sequence[Level], states: States, row: int) -> None:
    """Run a GRU over the new prefixes of a trie, and write their states to `states`, from `row` on.

    Whatever is computed together, the result is the same, see `fixed_point`.

    Args:
        side: the GRU.
        levels: the new prefixes by length, shorter ones first, since a prefix needs the state of the one before it.
        states: is written to.
        row: the first row of the new states; they follow in the order of `levels`.
    """
    start = row
    for unit, parent in levels:
        for first in range(0, len(unit), TOGETHER):
            block = slice(first, first + TOGETHER)
            old = scratch_array("old", (len(unit[block]), states.state.shape[1]))
            if parent[0] < 0:  # prefixes of one unit, which extend none; all of a level have one length
                old[:] = 0.0
            else:
                np.take(states.state, parent[block], axis=0, out=old, mode="clip")
            side.step(old, unit[block], states.state[row : row + len(old)])
            row += len(old)
    for first in range(start, row, TOGETHER):
        state, memory, around = (rows[first : min(first + TOGETHER, row)] for rows in states)
        np.matmul(state, side.memory, out=memory)
        memory += side.memory_bias
        round_units(memory)
        np.matmul(state, side.around, out=around)
        around += side.around_bias


def transposed(matrix: np.ndarray) -> np.ndarray:
    """The transpose in memory order."""
    return np.ascontiguousarray(matrix.T)
