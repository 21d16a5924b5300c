"""Word n-grams as integers: the n-grams in which the two texts of a pair differ, as one sparse row of counts.

Each word is a number of 20 bits; an n-gram of up to 3 words is a 64-bit number that joins them, its key. Only the part
around the edit is read, since the two texts agree elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

ORDER = 3
BITS = 20
START, END = 1, 2
WORD = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")
CHUNK = 50_000


@dataclass
class NgramVocabulary:
    """Words and their numbers, which grow as texts are encoded; 0 is no word, 1 and 2 mark start and end of a text."""

    number: dict[str, int] = field(default_factory=lambda: {"": 0, "<s>": START, "</s>": END})

    def encode(self, texts: Sequence[str]) -> Texts:
        """Encode the lower-cased words of texts between the start and end marks: "A dog." -> <s> a dog . </s>.

        Raises ValueError if there are more than 2^20 different words.
        """
        number, flat, offsets = self.number, [], [0]
        for text in texts:
            flat.append(START)
            flat += [number.setdefault(word, len(number)) for word in WORD.findall(text.lower())]
            flat.append(END)
            offsets.append(len(flat))
        if len(number) > 1 << BITS:
            raise ValueError(f"texts must have at most {1 << BITS:,} different words, have: {len(number):,}")
        return Texts(np.array(flat, np.int32), np.array(offsets, np.int64))

    def spell(self, keys: np.ndarray) -> list[str]:
        """The n-grams as text, from their keys."""
        words = list(self.number)
        mask = (1 << BITS) - 1
        parts = [[words[k] for k in (keys >> BITS * place) & mask] for place in range(ORDER)]
        return [" ".join(filter(None, gram)) for gram in zip(*parts, strict=True)]


class Texts(NamedTuple):
    """Texts as word numbers: text i is flat[offsets[i] : offsets[i + 1]]."""

    flat: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def take(self, rows: np.ndarray) -> Texts:
        """The texts of these rows, in this order."""
        lengths = np.diff(self.offsets)[rows]
        positions = ragged(self.offsets[rows], lengths)
        return Texts(self.flat[positions], np.concatenate([[0], np.cumsum(lengths)]))


class Windows(NamedTuple):
    """Where the texts of pairs differ: start and end (exclusive), each (pairs,), as positions in `Texts.flat`.

    One window is in the true texts, one in the negatives.
    """

    true: tuple[np.ndarray, np.ndarray]
    negative: tuple[np.ndarray, np.ndarray]


def ragged(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The numbers start, start + 1, … of all ranges, concatenated: starts (3, 7), lengths (2, 1) -> 3 4 7."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(total)


def windows(true: Texts, negative: Texts) -> Windows:
    """For each pair, the smallest window outside of which its two texts agree."""
    n = len(true)
    common, behind = np.zeros(n, np.int64), np.zeros(n, np.int64)
    for low in range(0, n, CHUNK):
        rows = np.arange(low, min(low + CHUNK, n))
        shorter = np.minimum(np.diff(true.offsets)[rows], np.diff(negative.offsets)[rows])
        front = _agreeing(true, negative, rows, shorter, 0)
        back = _agreeing(true, negative, rows, shorter, 1)
        common[rows], behind[rows] = front, np.minimum(back, shorter - front)
    bounds = []
    for texts in (true, negative):
        bounds.append((texts.offsets[:-1] + common, texts.offsets[1:] - behind))
    return Windows(bounds[0], bounds[1])


def _agreeing(true: Texts, negative: Texts, rows: np.ndarray, shorter: np.ndarray, side: int) -> np.ndarray:
    """How many words the two texts of each pair share at the start (side 0) or at the end (1).

    rows: indices of pairs; shorter: the length of each pair's shorter text.
    """
    steps = np.arange(int(shorter.max(initial=0)))
    columns = -1 - steps if side else steps
    first, second = true.offsets[rows + side], negative.offsets[rows + side]
    inside = steps < shorter[:, None]
    left = true.flat.take(first[:, None] + columns, mode="clip")
    right = negative.flat.take(second[:, None] + columns, mode="clip")
    differ = np.column_stack([(left != right) | ~inside, np.ones(len(rows), bool)])
    return differ.argmax(axis=1)


def grams_of(texts: Texts, window: tuple[np.ndarray, np.ndarray], order: int) -> tuple[np.ndarray, np.ndarray]:
    """(row, key) of every n-gram of `order` words that overlaps its text's window, or spans an empty window."""
    low = np.maximum(window[0] - order + 1, texts.offsets[:-1])
    high = np.minimum(window[1], texts.offsets[1:] - order + 1)
    lengths = np.maximum(high - low, 0)
    first = ragged(low, lengths)
    key = np.zeros(len(first), np.int64)
    for place in range(order):
        key |= texts.flat[first + place].astype(np.int64) << BITS * place
    return np.repeat(np.arange(len(texts)), lengths), key


def differences(true: Texts, negative: Texts) -> tuple[Sequence[np.ndarray], np.ndarray]:
    """The n-grams in which the texts of pairs differ, as ((row, column, value), keys).

    row: the pair; column: the n-gram; value: its count in the true text minus that in the negative, never 0. They are
    sorted by row and column; keys: (n-grams,) the n-gram of each column, ascending.
    """
    around = windows(true, negative)
    rows, keys, values = [], [], []
    for order in range(1, ORDER + 1):
        for texts, window, sign in ((true, around.true, 1), (negative, around.negative, -1)):
            row, key = grams_of(texts, window, order)
            rows.append(row)
            keys.append(key)
            values.append(np.full(len(row), sign, np.int8))
    names, column = np.unique(np.concatenate(keys), return_inverse=True)
    row, value = np.concatenate(rows), np.concatenate(values)
    cell, where = np.unique(row * max(len(names), 1) + column, return_inverse=True)
    total = np.bincount(where, value, len(cell))
    cell, total = cell[total != 0], total[total != 0]
    return (cell // max(len(names), 1), cell % max(len(names), 1), total), names
