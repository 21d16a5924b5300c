"""Word n-grams as integers: those in which the texts of a pair differ, as a sparse row of counts. A word is a number of
20 bits, an n-gram's key joins up to 3. Only the part around the edit is read: elsewhere both texts agree.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ....augment.reproducible import log

ORDER = 3
BITS = 20
START = 1
END = 2
WORD = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")
CHUNK = 50_000


@dataclass
class NgramVocabulary:
    """Words and their numbers, which grow as texts are encoded; 0 is no word, 1 and 2 mark start and end of a text."""

    number: dict[str, int] = field(default_factory=lambda: {"": 0, "<s>": START, "</s>": END})

    def encode(self, texts: Sequence[str]) -> Texts:
        """The lower-cased words of texts, "A dog." as <s> a dog . </s>. ValueError for more than 2^20 words."""
        number = self.number
        flat = []
        offsets = [0]
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
    """Where the texts of pairs differ: start and end (pairs,) in `Texts.flat`, of the true texts and the negatives."""

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
    common = np.zeros(n, np.int64)
    behind = np.zeros(n, np.int64)
    for low in range(0, n, CHUNK):
        rows = np.arange(low, min(low + CHUNK, n))
        shorter = np.minimum(np.diff(true.offsets)[rows], np.diff(negative.offsets)[rows])
        front = _agreeing(true, negative, rows, shorter, 0)
        back = _agreeing(true, negative, rows, shorter, 1)
        common[rows] = front
        behind[rows] = np.minimum(back, shorter - front)
    return Windows(*((texts.offsets[:-1] + common, texts.offsets[1:] - behind) for texts in (true, negative)))


def _agreeing(true: Texts, negative: Texts, rows: np.ndarray, shorter: np.ndarray, side: int) -> np.ndarray:
    """How many words the texts of each pair in `rows` share at the start (side 0) or the end (1)."""
    steps = np.arange(int(shorter.max(initial=0)))
    columns = -1 - steps if side else steps
    first = true.offsets[rows + side]
    second = negative.offsets[rows + side]
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
    """The n-grams in which pairs differ: ((pair, n-gram, count in the true text minus that in the negative), keys),
    sorted by pair and n-gram, never 0; keys: (n-grams,) ascending.
    """
    around = windows(true, negative)
    rows = []
    keys = []
    values = []
    for order in range(1, ORDER + 1):
        for texts, window, sign in ((true, around.true, 1), (negative, around.negative, -1)):
            row, key = grams_of(texts, window, order)
            rows.append(row)
            keys.append(key)
            values.append(np.full(len(row), sign, np.int8))
    names, column = np.unique(np.concatenate(keys), return_inverse=True)
    row = np.concatenate(rows)
    value = np.concatenate(values)
    cell, where = np.unique(row * max(len(names), 1) + column, return_inverse=True)
    total = np.bincount(where, value, len(cell))
    cell = cell[total != 0]
    total = total[total != 0]
    return (cell // max(len(names), 1), cell % max(len(names), 1), total), names


DISCOUNT = 0.75


class Counts(NamedTuple):
    """Counts of the n-grams of one order (keys: ascending, first word in the low bits), by fold of all others: seen;
    follow, types: how often it is followed by a word, and by how many different ones; all (n-grams, folds).
    """

    keys: np.ndarray
    seen: np.ndarray
    follow: np.ndarray
    types: np.ndarray

    def find(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For each key, its position in `keys`, and whether it is there."""
        if not len(self.keys):
            return np.zeros(len(keys), np.int64), np.zeros(len(keys), bool)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return at, self.keys[at] == keys


class LanguageModel(NamedTuple):
    """The models of all folds: counts of unigrams, bigrams, trigrams; tokens outside each fold; vocabulary size."""

    orders: tuple[Counts, ...]
    words: np.ndarray
    entries: int

    def score(self, texts: Texts, window: tuple[np.ndarray, np.ndarray], folds: np.ndarray) -> np.ndarray:
        """(texts,): log probability of the words in each text's window and the two after it, whose trigrams overlap it.
        window: (texts,) starts and ends in `texts.flat`; folds: (texts,) whose model scores the text.
        """
        end = np.minimum(window[1] + ORDER - 1, texts.offsets[1:])
        start = np.maximum(window[0], texts.offsets[:-1] + 1)
        lengths = np.maximum(end - start, 0)
        at = ragged(start, lengths)
        row = np.repeat(np.arange(len(texts)), lengths)
        logs = log(self._probability(_keys(texts, at, texts.offsets[row]), folds[row]))
        return np.bincount(row, logs, len(texts))

    def _probability(self, keys: list[np.ndarray], fold: np.ndarray) -> np.ndarray:
        """p(last word | words before) of n-grams (keys by order) by the models without `fold`: interpolated absolute
        discounting (Ney, Essen and Kneser 1994), max(c - d, 0) / c(h) + d t(h) / c(h) p_shorter, of counts c, contexts
        h, and t(h) different words after h.
        """
        at, found = self.orders[0].find(keys[0])
        count = np.where(found, self.orders[0].seen[at, fold], 0)
        probability = (count + 1.0) / (self.words[fold] + self.entries)
        for order in range(1, ORDER):
            at, found = self.orders[order].find(keys[order])
            count = np.where(found, self.orders[order].seen[at, fold], 0)
            context = self.orders[order - 1]
            at, found = context.find(keys[order] & ((1 << BITS * order) - 1))
            follow = np.where(found, context.follow[at, fold], 0)
            types = np.where(found, context.types[at, fold], 0)
            total = np.maximum(follow, 1)
            longer = np.maximum(count - DISCOUNT, 0) / total + DISCOUNT * types / total * probability
            probability = np.where(follow > 0, longer, probability)
        return probability

    def gaps(self, true: Texts, negative: Texts, folds: np.ndarray) -> np.ndarray:
        """(pairs,): log p(true) - log p(negative), each by the model that was trained without the pair's fold."""
        around = windows(true, negative)
        return self.score(true, around.true, folds) - self.score(negative, around.negative, folds)


def train(texts: Texts, folds: np.ndarray, count: int, entries: int) -> LanguageModel:
    """Train the models of `count` folds; folds: (texts,) the fold of each text; entries: size of the vocabulary."""
    lengths = np.diff(texts.offsets) - 1
    at = ragged(texts.offsets[:-1] + 1, lengths)
    row = np.repeat(np.arange(len(texts)), lengths)
    fold = folds[row]
    tables = []
    for keys in _keys(texts, at, texts.offsets[row]):
        names, inverse = np.unique(keys, return_inverse=True)
        inside = np.bincount(inverse * count + fold, minlength=len(names) * count).reshape(len(names), count)
        tables.append((names, (inside.sum(axis=1, keepdims=True) - inside).astype(np.int32)))
    orders = []
    for order, (names, counts) in enumerate(tables):
        follow, types = np.zeros((2, len(names), count), np.int32)
        if order == 0 and START not in names:  # the start mark is only a context, never a predicted word
            names = np.append(names, START)
            at_end = np.zeros((1, count), np.int32)
            counts, follow, types = (np.concatenate([part, at_end]) for part in (counts, follow, types))
            by = np.argsort(names)
            names = names[by]
            counts = counts[by]
            follow = follow[by]
            types = types[by]
        orders.append(Counts(names, counts, follow, types))
    for order in range(1, ORDER):
        names, counts = tables[order]
        context = orders[order - 1]
        at, found = context.find(names & ((1 << BITS * order) - 1))
        for number in range(count):
            held = counts[:, number] * found
            context.follow[:, number] = np.bincount(at, held, len(context.keys))
            context.types[:, number] = np.bincount(at, held > 0, len(context.keys))
    words = np.bincount(fold, minlength=count)
    return LanguageModel(tuple(orders), words.sum() - words, entries)


def _keys(texts: Texts, at: np.ndarray, start: np.ndarray) -> list[np.ndarray]:
    """By order, keys of n-grams that end at `at` in `texts.flat`; before the text's `start` its first word repeats."""
    words = [texts.flat[np.maximum(at - back, start)].astype(np.int64) for back in range(ORDER)]
    keys = []
    for order in range(1, ORDER + 1):
        key = np.zeros(len(at), np.int64)
        for place in range(order):
            key |= words[order - 1 - place] << BITS * place
        keys.append(key)
    return keys
