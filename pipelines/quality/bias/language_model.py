"""Trigram language models of true captions, one per fold, each trained on the captions of the other folds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....augment.elementary import log
from .ngrams import BITS, ORDER, START, Texts, Windows, ragged, windows

DISCOUNT = 0.75


class Counts(NamedTuple):
    """Counts of the n-grams of one order; column f of each table counts in the captions of all folds but f.

    keys: (n-grams,) ascending, with the first word in the low bits; seen: (n-grams, folds) occurrences; follow, types:
    (n-grams, folds) how often the n-gram is followed by a word, and by how many different words.
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
    """The models of all folds.

    orders: the counts of unigrams, bigrams and trigrams; words: (folds,) number of tokens in the other folds; entries:
    size of the vocabulary.
    """

    orders: tuple[Counts, ...]
    words: np.ndarray
    entries: int

    def score(self, texts: Texts, window: tuple[np.ndarray, np.ndarray], folds: np.ndarray) -> np.ndarray:
        """(texts,): log probability of the words in each text's window and of the two words after it.

        window: start and end positions in `texts.flat`, (texts,) each; those two words have trigrams that overlap it.
        folds: (texts,) the fold whose model scores the text.
        """
        end = np.minimum(window[1] + ORDER - 1, texts.offsets[1:])
        start = np.maximum(window[0], texts.offsets[:-1] + 1)
        lengths = np.maximum(end - start, 0)
        at = ragged(start, lengths)
        row = np.repeat(np.arange(len(texts)), lengths)
        logs = log(self._probability(_keys(texts, at, texts.offsets[row]), folds[row]))
        return np.bincount(row, logs, len(texts))

    def _probability(self, keys: list[np.ndarray], fold: np.ndarray) -> np.ndarray:
        """p(last word | words before) of n-grams (`keys`, one array per order) by the models trained without `fold`.

        Interpolated absolute discounting (Ney, Essen and Kneser 1994): max(c - d, 0) / c(h) + d t(h) / c(h) p_shorter,
        where c counts the n-gram, c(h) its context h, and t(h) the different words that follow h.
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

    def gaps(self, true: Texts, negative: Texts, folds: np.ndarray, around: Windows | None = None) -> np.ndarray:
        """(pairs,): log p(true) - log p(negative), each by the model that was trained without the pair's fold.

        around: the windows where the texts differ, None to compute them.
        """
        around = around or windows(true, negative)
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
            names, counts, follow, types = names[by], counts[by], follow[by], types[by]
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
    """For every order, the keys of the n-grams that end at positions `at` of `texts.flat`.

    start: where the text of each position begins; an n-gram that would begin before it repeats the first word.
    """
    words = [texts.flat[np.maximum(at - back, start)].astype(np.int64) for back in range(ORDER)]
    keys = []
    for order in range(1, ORDER + 1):
        key = np.zeros(len(at), np.int64)
        for place in range(order):
            key |= words[order - 1 - place] << BITS * place
        keys.append(key)
    return keys
