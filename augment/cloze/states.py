"""What the cloze network reads, units, and the states of its GRUs after each.

A unit is a word in lower case, or a phrase ("tennis racket", "in front of"), so that the probability of either at a
place is one number. "An" is read as "a", so which article stands before a place says nothing about the word there. A
final full stop or exclamation mark is left out. Units are numbered by their position in the vocabulary. A text becomes
START, its units, END; the place of a unit is its position in this sequence, so that START has place 0.

What depends on a single state is computed once for it, however many places look at it: its key and value (`memory`),
and its share of the query and of the hidden layer of the places next to it (`around`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .fixed_point import GELU, MEMORY, SIGMOID, STATE, TANH, buffer, rounded

Place = tuple[int, int]  # the numbers of the units before and after a place, START being 0
START, END, UNKNOWN = "<s>", "</s>", "<unk>"
SPECIAL = (START, END, UNKNOWN)
FINAL = frozenset({".", "!"})


def normalised(word: str) -> str:
    """A word as the model reads it: in lower case, "an" as "a"."""
    lower = word.lower()
    return "a" if lower == "an" else lower


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
        return by_first_word(name for name in self.names if " " in name)

    def of(self, word: str) -> int | None:
        """The number of the unit of a word or phrase, None if the model does not know it."""
        return self.number.get(normalised(word))

    def read(self, words: Sequence[str]) -> tuple[list[int], list[int]]:
        """Group the words of a tokenised text into units; those that are not in the vocabulary become UNKNOWN.

        Returns the numbers of the units, from START to END, and for each token the place of its unit: of "two dogs in
        front of it", with the phrase "in front of", 6 numbers and the places 1, 2, 3, 3, 3, 4. A final full stop has
        the place of END.
        """
        unknown, number = self.number[UNKNOWN], self.number
        units, places = [0], []
        for words_of_unit in joined([normalised(word) for word in words], self.phrases):
            places.extend([len(units)] * (len(words_of_unit) or 1))
            if words_of_unit:
                units.append(number.get(" ".join(words_of_unit), unknown))
        return [*units, 1], places


def by_first_word(phrases: Iterable[str]) -> dict[str, tuple[tuple[str, ...], ...]]:
    """Phrases by their first word, each as a tuple of its words; longer ones first."""
    by_word: dict[str, tuple[tuple[str, ...], ...]] = {}
    for words in sorted((tuple(phrase.split(" ")) for phrase in phrases), key=lambda words: (-len(words), words)):
        by_word[words[0]] = (*by_word.get(words[0], ()), words)
    return by_word


def joined(words: Sequence[str], phrases: Mapping[str, tuple[tuple[str, ...], ...]]) -> list[tuple[str, ...]]:
    """Group normalised words into units, from left to right, each the longest phrase that matches; a final full stop
    becomes an empty tuple.
    """
    units: list[tuple[str, ...]] = []
    final = len(words) > 0 and words[-1] in FINAL
    start, end = 0, len(words) - final
    while start < end:
        unit: tuple[str, ...] = (words[start],)
        for phrase in phrases.get(words[start], ()):
            if start + len(phrase) <= end and tuple(words[start : start + len(phrase)]) == phrase:
                unit = phrase
                break
        units.append(unit)
        start += len(unit)
    return [*units, ()] if final else units


class Recurrent(NamedTuple):
    """A GRU and the layers that read its states, S being their size.

    gates: what each unit adds to the gates, with the biases of the first two, (units, 3 S). weight, bias: what a state
    adds to the gates, (S, 3 S), and the bias of that for the third, (S,). The gates are points of the tables SIGMOID
    and TANH. memory, memory_bias: keys and values of each head in turn, (S, 2 S). around, around_bias: of the query,
    and of the hidden layer in points of GELU, (S, S + hidden). The weights expect states in units of 2^-STATE.
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
        unit = np.float32(2.0**-STATE)
        from_state, to_gates = arrays[f"{name}.bias_hh_l0"], arrays[f"{name}.bias_ih_l0"].copy()
        to_gates[: 2 * size] += from_state[: 2 * size]
        gates = arrays["embedding.weight"] @ transposed(arrays[f"{name}.weight_ih_l0"])
        gates += to_gates
        for table, columns in ((SIGMOID, slice(0, 2 * size)), (TANH, slice(2 * size, None))):
            gates[:, columns] *= np.float32(table.scale)
            gates[:, columns] += np.float32(table.offset)
        scales = np.repeat(np.array([SIGMOID.scale, TANH.scale], np.float32), [2 * size, size])
        part = slice(side * size, (side + 1) * size)
        to_points = np.repeat(np.array([1.0, GELU.scale], np.float32), [size, len(arrays["hidden.bias"])])
        biases = np.concatenate([arrays["query.bias"], arrays["hidden.bias"]]) * to_points
        biases[size:] += np.float32(GELU.offset)
        around = np.concatenate([arrays["query.weight"][:, part], arrays["hidden.weight"][:, part]])
        return cls(
            gates,
            transposed(arrays[f"{name}.weight_hh_l0"]) * unit * scales,
            from_state[2 * size :] * np.float32(TANH.scale),
            transposed(arrays[f"memory.{side}.weight"]) * unit,
            arrays[f"memory.{side}.bias"],
            transposed(around) * unit * to_points,
            biases if side == 0 else np.zeros_like(biases),
        )

    def step(self, state: np.ndarray, units: np.ndarray, new: np.ndarray) -> None:
        """Write the states after one more unit to `new`: state, new (rows, S), units (rows,)."""
        rows, size = state.shape
        from_state = np.matmul(state, self.weight, out=buffer("recurrent", (rows, 3 * size)))
        gates = np.take(self.gates, units, axis=0, out=buffer("gates", from_state.shape), mode="clip")
        both = np.add(from_state[:, : 2 * size], gates[:, : 2 * size], out=buffer("both gates", (rows, 2 * size)))
        SIGMOID.take(both, out=both)
        both *= np.float32(2.0**-SIGMOID.unit)
        reset, update = both[:, :size], both[:, size:]
        candidate = np.add(from_state[:, 2 * size :], self.bias, out=buffer("candidate", (rows, size)))
        candidate *= reset
        candidate += gates[:, 2 * size :]
        TANH.take(candidate, out=candidate)
        np.subtract(state, candidate, out=new)
        new *= update
        new += candidate
        np.rint(new, out=new)


class States(NamedTuple):
    """States of the GRUs in rows, in units of 2^-STATE (rows, S), and what the layers of `Recurrent` make of each:
    `memory` (rows, 2 S), in units of 2^-MEMORY, and `around` (rows, S + hidden).
    """

    state: np.ndarray
    memory: np.ndarray
    around: np.ndarray


def run(
    side: Recurrent, sequences: Sequence[Sequence[int]], begin: np.ndarray, states: States, row: int
) -> list[np.ndarray]:
    """Run a GRU over sequences of units, and write the states after each unit to `states`, from `row` on.

    begin: the state before the first unit of each sequence, (sequences, S). Returns the rows of the states of each. The
    rows of one step are adjacent, those of the longest sequences first, so that the sequences that go on are always the
    first rows of the step before.
    """
    lengths = np.array([len(sequence) for sequence in sequences], np.int64)
    order = np.argsort(-lengths, kind="stable")
    longest = int(lengths.max(initial=0))
    going_on = len(lengths) - np.searchsorted(np.sort(lengths), np.arange(longest), side="right")
    starts = row + np.concatenate([[0], np.cumsum(going_on)])
    units = np.zeros((longest, len(sequences)), np.int64)
    for rank, i in enumerate(order.tolist()):
        units[: lengths[i], rank] = sequences[i]
    state = begin[order]
    for step, (start, count) in enumerate(zip(starts.tolist(), going_on.tolist(), strict=False)):
        new = states.state[start : start + count]
        side.step(state[:count], units[step, :count], new)
        state = new
    new_states = States(*(rows[row : starts[-1]] for rows in states))
    np.matmul(new_states.state, side.memory, out=new_states.memory)
    np.add(new_states.memory, side.memory_bias, out=new_states.memory)
    rounded(new_states.memory, MEMORY)
    np.matmul(new_states.state, side.around, out=new_states.around)
    np.add(new_states.around, side.around_bias, out=new_states.around)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return [starts[:length] + rank for length, rank in zip(lengths.tolist(), ranks.tolist(), strict=True)]


def transposed(matrix: np.ndarray) -> np.ndarray:
    """The transpose in memory order."""
    return np.ascontiguousarray(matrix.T)
