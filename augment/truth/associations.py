"""Associations: how much a word in one caption raises the probability that another caption makes an entry true.

    gain(x, y) = log p(y | x) / p(y)

where p(y | x) is the share of pairs of captions of one image, the first of which mentions x, whose second makes y true.
It is smoothed with p', in which x has the same lift for all entries of y's semantic class k(y); p(k(y) | x) is smoothed
in turn with that given the class of x:

    p(y | x) = (n(x, y) + SMOOTHING * p'(y | x)) / (n(x) + SMOOTHING),   p'(y | x) = p(y) * p(k(y) | x) / p(k(y))
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from negcap.augment.language.semantic_classes import CLASSES, PERSON, semantic_class

SMOOTHING = 20.0


@dataclass(frozen=True)
class Pairs:
    """Counts of ordered pairs of captions of one image.

    together: those whose first mentions word i and whose second makes entry j true, shape (words, entries); mentioned:
    those whose first mentions a word, shape (words,); true: those whose second makes an entry true, shape (entries,);
    all: all of them.
    """

    together: np.ndarray
    mentioned: np.ndarray
    true: np.ndarray
    all: float


def count(images: Iterable[Sequence[tuple[np.ndarray, np.ndarray]]], words: int, entries: int) -> Pairs:
    """Count images, each a list of captions: the numbers of the words one mentions and of the entries it makes true."""
    together, mentioned, true = np.zeros((words, entries)), np.zeros(words), np.zeros(entries)
    pairs = 0
    for captions in images:
        others = len(captions) - 1
        one, own = _tally([words for words, _ in captions])
        two, made = _tally([true for _, true in captions])
        both = own[:, None] * made
        for first, second in captions:
            both[np.searchsorted(one, first)[:, None], np.searchsorted(two, second)] -= 1
        together[one[:, None], two] += both
        mentioned[one] += own * others
        true[two] += made * others
        pairs += len(captions) * others
    return Pairs(together, mentioned, true, float(pairs))


def _tally(numbers: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    return np.unique(np.concatenate(numbers), return_counts=True)


class Associations:
    """The gains of words and entries, from counts of pairs of captions.

    odds: the log odds of p(y), person: 1 for words for persons, both of shape (entries,).
    """

    def __init__(self, pairs: Pairs, words: Sequence[str], entries: Sequence[str]) -> None:
        """Work out the gains; `words` and `entries` name the rows and columns of the counts."""
        self.words = {word: row for row, word in enumerate(words)}
        self.entries = {entry: column for column, entry in enumerate(entries)}
        usual = (pairs.true + 0.5) / (pairs.all + 1.0)
        self.odds = np.log(usual / (1 - usual))
        self.person = np.array([float(semantic_class(entry) == PERSON) for entry in entries])
        self._gains = _gains(
            pairs, usual, [semantic_class(word) for word in words], [semantic_class(entry) for entry in entries]
        )

    def score(self, mentioned: Iterable[str]) -> np.ndarray:
        """The evidence of mentioned words for every entry, in nats, shape (entries,).

        The sum of their gains over the root of their number, since the words of an image are not independent.
        """
        rows = sorted(self.words[word] for word in mentioned if word in self.words)
        if not rows:
            return np.zeros(len(self.odds))
        return self._gains[rows].sum(axis=0) / np.float32(np.sqrt(len(rows)))


def _gains(pairs: Pairs, usual: np.ndarray, words: Sequence[int], entries: Sequence[int]) -> np.ndarray:
    """The gain of every word and entry, given their semantic classes; float32 of shape (words, entries)."""
    of_word = np.zeros((CLASSES, len(words)))
    of_word[words, np.arange(len(words))] = 1
    of_entry = np.zeros((len(entries), CLASSES))
    of_entry[np.arange(len(entries)), entries] = 1
    given = pairs.mentioned[:, None] + SMOOTHING
    by_class = (of_word @ pairs.together + SMOOTHING * usual) / ((of_word @ pairs.mentioned)[:, None] + SMOOTHING)
    share = by_class[words]
    of_class = (pairs.together @ of_entry + SMOOTHING * (share @ of_entry)) / given
    of_class /= np.maximum(usual @ of_entry, 1e-12)
    expected = of_class[:, entries] * usual
    return np.log((pairs.together + SMOOTHING * expected) / given / usual).astype(np.float32)
