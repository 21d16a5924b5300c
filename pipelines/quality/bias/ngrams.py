"""Word n-grams as integers, and what is counted of them: differences between the texts of a pair, and a language model.

A word is a number of 20 bits; the key of an n-gram joins up to 3 of them, the first word in the lowest bits:

    bits   40…59        20…39         0…19
           third word   second word   first word

Only the part of a pair around its edit is read, its window: outside of it both texts agree.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ....augment.reproducible import log

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

ORDER = 3  # words in the longest n-grams
# The bits of a word's number; three numbers fit into 64 bits.
BITS = 20
START = 1  # the number of the mark before a text
END = 2  # the number of the mark after a text
WORD = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")
# The number of pairs that are compared at once, to bound memory.
CHUNK = 50_000
DISCOUNT = 0.75  # d of absolute discounting, which the language model takes off each count


@dataclass
class NgramVocabulary:
    """Words and their numbers, which grow as texts are encoded; 0 is no word, 1 and 2 mark start and end of a text."""

    number: dict[str, int] = field(default_factory=lambda: {"": 0, "<s>": START, "</s>": END})
    max_words: int = 1 << BITS

    def encode(self, texts: Sequence[str]) -> NumberedTexts:
        """The lower-cased words of texts, "A dog." as <s> a dog . </s>. ValueError for more than 2^20 words."""
        number = self.number
        flat = []
        offsets = [0]
        for text in texts:
            flat.append(START)
            flat += [number.setdefault(word, len(number)) for word in WORD.findall(text.lower())]
            flat.append(END)
            offsets.append(len(flat))
        if len(number) > self.max_words:
            raise ValueError(f"texts must have at most {self.max_words:,} different words, have: {len(number):,}")
        return NumberedTexts(np.array(flat, np.int32), np.array(offsets, np.int64))

    def spell(self, keys: np.ndarray) -> list[str]:
        """The n-grams as text, "a dog .", from their keys (see the top of this file)."""
        words = list(self.number)
        word_mask = (1 << BITS) - 1
        spelt = []
        for key in keys.tolist():
            numbers = [(key >> BITS * place) & word_mask for place in range(ORDER)]
            # A shorter n-gram has 0, no word, in its last places.
            spelt.append(" ".join(words[number] for number in numbers if number))
        return spelt


class NumberedTexts(NamedTuple):
    """Texts as word numbers: text i is flat[offsets[i] : offsets[i + 1]]."""

    flat: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def take(self, rows: np.ndarray) -> NumberedTexts:
        """The texts of these rows, in this order."""
        lengths = np.diff(self.offsets)[rows]
        positions = ragged(self.offsets[rows], lengths)  # in `flat`, of all words of these texts
        return NumberedTexts(self.flat[positions], np.concatenate([[0], np.cumsum(lengths)]))


class Window(NamedTuple):
    """A part of each text: start and end (texts,) are positions in `NumberedTexts.flat`."""

    start: np.ndarray
    end: np.ndarray


class Windows(NamedTuple):
    """The parts in which the two texts of each pair differ: of the true texts, and of the negatives."""

    true: Window
    negative: Window


def ragged(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The numbers start, start + 1, … of all ranges, concatenated: starts (3, 7), lengths (2, 1) -> 3 4 7."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    starts_in_result = ends - lengths
    # arange counts through all ranges; what is added to a range makes it begin at its own start.
    return np.repeat(starts - starts_in_result, lengths) + np.arange(total)


def windows(true: NumberedTexts, negative: NumberedTexts) -> Windows:
    """For each pair, the smallest windows outside of which its two texts agree.

    "a red cup" and "a blue cup" agree in <s> a and in cup </s>: their windows are "red" and "blue".
    """
    pairs = len(true)
    words_before = np.zeros(pairs, np.int64)
    words_after = np.zeros(pairs, np.int64)
    for low in range(0, pairs, CHUNK):
        rows = np.arange(low, min(low + CHUNK, pairs))
        shorter = np.minimum(np.diff(true.offsets)[rows], np.diff(negative.offsets)[rows])
        from_start = _count_shared_words(true, negative, rows, shorter, from_end=False)
        from_end = _count_shared_words(true, negative, rows, shorter, from_end=True)
        words_before[rows] = from_start
        # In "a a" and "a a a" both words agree from either side; a word is counted only once.
        words_after[rows] = np.minimum(from_end, shorter - from_start)
    return Windows(
        Window(true.offsets[:-1] + words_before, true.offsets[1:] - words_after),
        Window(negative.offsets[:-1] + words_before, negative.offsets[1:] - words_after),
    )


def _count_shared_words(
    true: NumberedTexts, negative: NumberedTexts, rows: np.ndarray, shorter: np.ndarray, *, from_end: bool
) -> np.ndarray:
    """(rows,): how many words the texts of each pair share at the start or the end.

    Args:
        true, negative: the texts of all pairs.
        rows: the pairs that are compared.
        shorter: (rows,) the number of words in the shorter text of each pair.
        from_end: whether they are compared from the end.
    """
    steps = np.arange(int(shorter.max(initial=0)))
    # How far each compared word is from the boundary of its text.
    distance = -1 - steps if from_end else steps
    true_boundary = true.offsets[rows + from_end]
    negative_boundary = negative.offsets[rows + from_end]
    # (rows, steps) words. A shorter row reads on into other texts, whose words are not used; `clip` keeps it from
    # reading beyond the array.
    true_words = true.flat.take(true_boundary[:, None] + distance, mode="clip")
    negative_words = negative.flat.take(negative_boundary[:, None] + distance, mode="clip")
    is_outside_text = steps >= shorter[:, None]
    ends_agreement = (true_words != negative_words) | is_outside_text
    # argmax is the first column that ends the agreement; a last column of True ends it in any case.
    return np.column_stack([ends_agreement, np.ones(len(rows), bool)]).argmax(axis=1)


class Occurrences(NamedTuple):
    """The text and the key of each occurrence of an n-gram: both (occurrences,)."""

    text: np.ndarray
    key: np.ndarray


def grams_of(texts: NumberedTexts, window: Window, order: int) -> Occurrences:
    """Every n-gram of `order` words that overlaps its text's window, or spans an empty window."""
    # An n-gram overlaps the window if it begins at most order - 1 words before the window, and before the window's end.
    # So its first word is at a position in texts.flat from `low` to before `high`, both (texts,).
    low = np.maximum(window.start - order + 1, texts.offsets[:-1])
    high = np.minimum(window.end, texts.offsets[1:] - order + 1)
    ngrams_of_text = np.maximum(high - low, 0)
    first_word = ragged(low, ngrams_of_text)
    # The key of an n-gram: the numbers of its words side by side, BITS bits each.
    key = np.zeros(len(first_word), np.int64)
    for place in range(order):
        key |= texts.flat[first_word + place].astype(np.int64) << BITS * place
    return Occurrences(np.repeat(np.arange(len(texts)), ngrams_of_text), key)


class NgramDifferences(NamedTuple):
    """The n-gram counts of each pair's true text minus those of its negative.

    matrix: (pairs, n-grams), sparse, sorted by pair and n-gram, without zeros. keys: (n-grams,), ascending.
    """

    matrix: csr_matrix
    keys: np.ndarray

    def single_words(self) -> np.ndarray:
        """The columns of n-grams that are single words: their keys have only the bits of the first word."""
        return np.flatnonzero(self.keys < 1 << BITS)

    def take(self, columns: np.ndarray) -> NgramDifferences:
        """Only these columns."""
        return NgramDifferences(self.matrix[:, columns], self.keys[columns])


def ngram_differences(true: NumberedTexts, negative: NumberedTexts) -> NgramDifferences:
    """The n-grams of up to 3 words in which the texts of pairs differ."""
    from scipy.sparse import coo_array, csr_matrix

    changed_part = windows(true, negative)
    # For each occurrence of an n-gram: its pair, its key, and 1 if it is in the true text, -1 if in the negative.
    pairs = []
    keys = []
    signs = []
    for order in range(1, ORDER + 1):
        for texts, window, sign in ((true, changed_part.true, 1), (negative, changed_part.negative, -1)):
            occurrences = grams_of(texts, window, order)
            pairs.append(occurrences.text)
            keys.append(occurrences.key)
            signs.append(np.full(len(occurrences.text), sign, np.int8))
    distinct, column = np.unique(np.concatenate(keys), return_inverse=True)
    width = max(len(distinct), 1)
    # Each (pair, n-gram) is the number pair * width + column, so that occurrences of the same cell can be summed.
    cell, cell_of_occurrence = np.unique(np.concatenate(pairs) * width + column, return_inverse=True)
    total = np.bincount(cell_of_occurrence, np.concatenate(signs), len(cell))
    cell = cell[total != 0]
    total = total[total != 0]
    matrix = coo_array((total, (cell // width, cell % width)), (len(true), len(distinct)))
    return NgramDifferences(csr_matrix(matrix), distinct)


class Lookup(NamedTuple):
    """Where keys are in a table: `position`, and whether they are there at all, `known`; both (keys,)."""

    position: np.ndarray
    known: np.ndarray

    def values(self, table: np.ndarray, folds: np.ndarray) -> np.ndarray:
        """table[position, fold] of each key, 0 where it is not known; table: (n-grams, folds)."""
        return np.where(self.known, table[self.position, folds], 0)


def _find(table: np.ndarray, keys: np.ndarray) -> Lookup:
    """Find keys in a table of ascending keys."""
    if not len(table):
        return Lookup(np.zeros(len(keys), np.int64), np.zeros(len(keys), bool))
    position = np.minimum(np.searchsorted(table, keys), len(table) - 1)
    return Lookup(position, table[position] == keys)


class Counts(NamedTuple):
    """Counts of the n-grams of one order; column f counts in all texts outside fold f.

    keys: (n-grams,) ascending. seen: (n-grams, folds) how often an n-gram occurs. follow, types: (n-grams, folds) how
    often a word follows it, and how many different ones do; 0 for the longest n-grams, where they are not needed.
    """

    keys: np.ndarray
    seen: np.ndarray
    follow: np.ndarray
    types: np.ndarray


class LanguageModel(NamedTuple):
    """Trigram models, one for each fold, trained on all texts outside the fold.

    orders: counts of unigrams, bigrams, trigrams. words: (folds,) the number of words outside each fold. entries: the
    size of the vocabulary.
    """

    orders: tuple[Counts, ...]
    words: np.ndarray
    entries: int

    def score(self, texts: NumberedTexts, window: Window, folds: np.ndarray) -> np.ndarray:
        """(texts,): log probability of the words in each text's window and the two after it, whose trigrams overlap it.

        folds: (texts,) the fold of each text, whose model has not seen it.
        """
        # The start mark is not predicted: a text's first word after it is the first that has a probability.
        start = np.maximum(window.start, texts.offsets[:-1] + 1)
        end = np.minimum(window.end + ORDER - 1, texts.offsets[1:])
        lengths = np.maximum(end - start, 0)
        position = ragged(start, lengths)
        text = np.repeat(np.arange(len(texts)), lengths)
        keys = _keys_ending_at(texts, position, texts.offsets[text])
        return np.bincount(text, log(self._word_probability(keys, folds[text])), len(texts))

    def _word_probability(self, keys: Sequence[np.ndarray], folds: np.ndarray) -> np.ndarray:
        """(words,): how probable each word is after the two before it.

        keys: of the 1-, 2- and 3-grams that end with each word. folds: the fold whose model is asked. All (words,).

        Interpolated absolute discounting (Ney, Essen and Kneser 1994): with counts c, contexts h of one or two words,
        the number c(h) of words after h and the number t(h) of different ones,
        p(w | h) = max(c(h w) - d, 0) / c(h) + d t(h) / c(h) p(w | h without its first word). Without context, each
        word counts one occurrence more than it has. If h was never seen, p(w | h) is that of the shorter context.
        """
        unigrams = self.orders[0]
        seen = _find(unigrams.keys, keys[0]).values(unigrams.seen, folds)
        probability = (seen + 1.0) / (self.words[folds] + self.entries)
        for order in range(1, ORDER):
            longer = self.orders[order]
            context = self.orders[order - 1]
            seen = _find(longer.keys, keys[order]).values(longer.seen, folds)
            in_context = _find(context.keys, _without_last_word(keys[order], order))
            follow = in_context.values(context.follow, folds)
            types = in_context.values(context.types, folds)
            total = np.maximum(follow, 1)  # avoids a division by 0, of values that are not used
            discounted = np.maximum(seen - DISCOUNT, 0) / total + DISCOUNT * types / total * probability
            probability = np.where(follow > 0, discounted, probability)
        return probability

    def gaps(self, true: NumberedTexts, negative: NumberedTexts, folds: np.ndarray) -> np.ndarray:
        """(pairs,): log p(true) - log p(negative), each by the model that was trained without the pair's fold."""
        window = windows(true, negative)
        return self.score(true, window.true, folds) - self.score(negative, window.negative, folds)


def train(texts: NumberedTexts, folds: np.ndarray, count: int, entries: int) -> LanguageModel:
    """Train a trigram model for each fold, on the texts of all other folds.

    Args:
        texts: to train on.
        folds: (texts,) the fold of each text.
        count: how many folds there are.
        entries: the number of words in the vocabulary.
    """
    # Every word is predicted except the start mark. For each predicted word: its position, its text and its fold.
    lengths = np.diff(texts.offsets) - 1
    position = ragged(texts.offsets[:-1] + 1, lengths)
    text = np.repeat(np.arange(len(texts)), lengths)
    fold = folds[text]
    # By order: the distinct n-grams, ascending, and how often each occurs outside each fold, (n-grams, folds).
    keys = []
    seen = []
    for key_of_occurrence in _keys_ending_at(texts, position, texts.offsets[text]):
        distinct, column = np.unique(key_of_occurrence, return_inverse=True)
        inside = np.bincount(column * count + fold, minlength=len(distinct) * count).reshape(len(distinct), count)
        outside = inside.sum(axis=1, keepdims=True) - inside
        keys.append(distinct)
        seen.append(outside.astype(np.int32))
    # The start mark needs a row, as the context of first words, although it is never predicted and so not counted.
    if START not in keys[0]:
        row = np.searchsorted(keys[0], START)
        keys[0] = np.insert(keys[0], row, START)
        seen[0] = np.insert(seen[0], row, 0, axis=0)
    orders = []
    for order in range(ORDER):
        follow = np.zeros_like(seen[order])
        types = np.zeros_like(seen[order])
        if order + 1 < ORDER:
            longer = seen[order + 1]
            context = _find(keys[order], _without_last_word(keys[order + 1], order + 1))
            # Each longer n-gram adds its occurrences to its context, and itself as one different word after it.
            for number in range(count):
                occurrences = longer[:, number] * context.known
                follow[:, number] = np.bincount(context.position, occurrences, len(keys[order]))
                types[:, number] = np.bincount(context.position, occurrences > 0, len(keys[order]))
        orders.append(Counts(keys[order], seen[order], follow, types))
    words = np.bincount(fold, minlength=count)
    return LanguageModel(tuple(orders), words.sum() - words, entries)


def _without_last_word(keys: np.ndarray, words: int) -> np.ndarray:
    """The keys of n-grams of `words` + 1 words without the last word, whose bits, the highest, are masked out."""
    return keys & ((1 << BITS * words) - 1)


def _keys_ending_at(texts: NumberedTexts, positions: np.ndarray, text_start: np.ndarray) -> list[np.ndarray]:
    """For each order from 1 to ORDER, the keys of the n-grams that end at some positions: an array (positions,).

    positions: of the last words of the n-grams, indices in `texts.flat`. text_start: (positions,), where the text of
    each begins. An n-gram that would reach beyond it has the text's first word, the start mark, several times.
    """
    # words[k] is the word k places before the position
    words = [texts.flat[np.maximum(positions - back, text_start)].astype(np.int64) for back in range(ORDER)]
    keys = []
    for order in range(1, ORDER + 1):
        key = np.zeros(len(positions), np.int64)
        for place in range(order):
            key |= words[order - 1 - place] << BITS * place
        keys.append(key)
    return keys
