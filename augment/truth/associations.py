"""Associations: how much a word in one caption raises the probability that another caption entails an entry.

    gain(x, y) = log p(y | x) / p(y)

where p(y | x) is estimated over ordered pairs of captions of one image: of those whose first caption mentions word x,
the share whose second caption entails entry y. It is smoothed with p', in which x has the same lift for all entries of
y's semantic class k(y); p(k(y) | x) is in turn smoothed with its value given the class of x:

    p(y | x) = (n(x, y) + SMOOTHING * p'(y | x)) / (n(x) + SMOOTHING),   p'(y | x) = p(y) * p(k(y) | x) / p(k(y))
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ..elementary import exp, log
from ..language.semantic_classes import CLASSES, PERSON, semantic_class

SMOOTHING = 20.0
STEPS = 50  # of Newton's method, at most


@dataclass(frozen=True)
class Pairs:
    """Counts of ordered pairs of captions of one image.

    together: pairs whose first caption mentions word i and whose second entails entry j, shape (words, entries).
    mentioned: pairs whose first mentions word i, shape (words,). true: pairs whose second entails entry j, shape
    (entries,). all: all pairs.
    """

    together: np.ndarray
    mentioned: np.ndarray
    true: np.ndarray
    all: float


def count(images: Iterable[Sequence[tuple[np.ndarray, np.ndarray]]], words: int, entries: int) -> Pairs:
    """Count, over images, how often one caption mentions a word and another one entails an entry of the lexicon.

    images: for each caption of an image, the ids of the words that it mentions, and of the entries that must be true of
    the image if it is. words, entries: the sizes of the two vocabularies.
    """
    together, mentioned, true = np.zeros((words, entries)), np.zeros(words), np.zeros(entries)
    pairs = 0
    for captions in images:
        others = len(captions) - 1
        said, entailed = map(np.concatenate, zip(*captions, strict=True))
        word, word_captions = np.unique(said, return_counts=True)
        entry, entry_captions = np.unique(entailed, return_counts=True)
        both = word_captions[:, None] * entry_captions
        for first, second in captions:
            both[np.searchsorted(word, first)[:, None], np.searchsorted(entry, second)] -= 1
        together[word[:, None], entry] += both
        mentioned[word] += word_captions * others
        true[entry] += entry_captions * others
        pairs += len(captions) * others
    return Pairs(together, mentioned, true, float(pairs))


class Associations:
    """The gains of words and entries, from counts of pairs of captions.

    log_odds: of p(y), shape (entries,). is_person: 1 for words for persons, else 0, shape (entries,). The gains of a
    word are computed when first needed, since a few captions mention few of thousands of words.
    """

    def __init__(self, pairs: Pairs, words: Sequence[str], entries: Sequence[str]) -> None:
        """`words` and `entries` name the rows and columns of `pairs.together`."""
        self.words = {word: row for row, word in enumerate(words)}
        self.entries = {entry: column for column, entry in enumerate(entries)}
        self._pairs, self._usual = pairs, (pairs.true + 0.5) / (pairs.all + 1.0)
        self.log_odds = log(self._usual / (1 - self._usual))
        self._class_of_word, of_word = _classes(words)
        self._class_of_entry = _classes(entries)[0]
        self.is_person = (self._class_of_entry == PERSON).astype(float)
        mentioned = (of_word @ pairs.mentioned)[:, None]
        self._by_class = (of_word @ pairs.together + SMOOTHING * self._usual) / (mentioned + SMOOTHING)
        self._gains = np.zeros(pairs.together.shape, np.float32)
        self._known = np.zeros(len(words), bool)

    def score(self, mentioned: Iterable[str]) -> np.ndarray:
        """The evidence of mentioned words for each entry, in nats: shape (entries,). Unknown words are ignored.

        It is the sum of their gains divided by the square root of their number, since the words of an image are not
        independent.
        """
        rows = sorted(self.words[word] for word in mentioned if word in self.words)
        if not rows:
            return np.zeros(len(self.log_odds))
        for row in rows:
            if not self._known[row]:
                self._gains[row], self._known[row] = self._gain(row), True
        return self._gains[rows].sum(axis=0) / np.float32(np.sqrt(len(rows)))

    def _gain(self, row: int) -> np.ndarray:
        """The gain of a word and each entry, smoothed by their semantic classes: shape (entries,)."""
        together, given = self._pairs.together[row], self._pairs.mentioned[row] + SMOOTHING
        share = self._by_class[self._class_of_word[row]]
        seen, likely, usual = (
            np.bincount(self._class_of_entry, values, CLASSES) for values in (together, share, self._usual)
        )
        of_class = (seen + SMOOTHING * likely) / given / np.maximum(usual, 1e-12)
        expected = of_class[self._class_of_entry] * self._usual
        return log((together + SMOOTHING * expected) / given / self._usual)


def _classes(words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The semantic class of each word, and the words of each class as 0 and 1: shape (classes, words)."""
    numbers = np.array([semantic_class(word) for word in words], int)
    return numbers, (np.arange(CLASSES)[:, None] == numbers).astype(float)


def fit(features: np.ndarray, labels: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """The maximum a posteriori coefficients, shape (d,), for features (n, d) and labels (n,), by Newton's method.

    The prior is normal with the given mean, shape (d,), and variance 1.
    """
    coefficients = mean.copy()
    for _ in range(STEPS):
        # Sums in a fixed order, unlike those of products of matrices: where the slope is 0 decides the result.
        likely = sigmoid(np.add.reduce(features * coefficients, axis=1))
        slope = np.add.reduce(features * (labels - likely)[:, None]) - (coefficients - mean)
        curve = (features * (likely * (1 - likely))[:, None]).T @ features + np.eye(len(mean))
        step = np.linalg.solve(curve, slope)
        coefficients += step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < 1e-9:
            break
    return coefficients


def sigmoid(log_odds: np.ndarray) -> np.ndarray:
    """The probabilities that belong to log odds."""
    return 1.0 / (1.0 + exp(-log_odds))
