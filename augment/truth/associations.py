"""Words that come with words: how much what a caption says speaks for an entry being true by another of the image.

    gain(x, y) = log p(y | x) / p(y)

where p(y | x) is the share of pairs of captions of one image, the first of which says x, whose second makes y true. It
is shrunk to what it would be if x spoke for y as it does for all of y's kind, and that to what x's kind says:

    p(y | x) = (n(x, y) + SMOOTHING * p'(y | x)) / (n(x) + SMOOTHING),   p'(y | x) = p(y) * p(k(y) | x) / p(k(y))
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from negcap.augment.language.kinds import KINDS, PERSON, kind

SMOOTHING = 20.0


@dataclass(frozen=True)
class Pairs:
    """Counts of ordered pairs of captions of one image.

    together: those where the first says word i and the second makes entry j true, shape (words, entries); said, true:
    those where the first says a word, and where the second makes an entry true; all: all of them.
    """

    together: np.ndarray
    said: np.ndarray
    true: np.ndarray
    all: float


def count(images: Iterable[Sequence[tuple[np.ndarray, np.ndarray]]], words: int, entries: int) -> Pairs:
    """Count images, each a sequence of captions: the numbers of the words it says and of the entries it makes true."""
    together, said, true = np.zeros((words, entries)), np.zeros(words), np.zeros(entries)
    pairs = 0
    for captions in images:
        others = len(captions) - 1
        one, own = _tally([said for said, _ in captions])
        two, made = _tally([true for _, true in captions])
        both = own[:, None] * made
        for first, second in captions:
            both[np.searchsorted(one, first)[:, None], np.searchsorted(two, second)] -= 1
        together[one[:, None], two] += both
        said[one] += own * others
        true[two] += made * others
        pairs += len(captions) * others
    return Pairs(together, said, true, float(pairs))


def _tally(numbers: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    return np.unique(np.concatenate(numbers), return_counts=True)


class Associations:
    """What words say of entries, read from pairs of captions."""

    def __init__(self, pairs: Pairs, words: Sequence[str], entries: Sequence[str]) -> None:
        """Work out the gains; `words` and `entries` name the rows and columns of the counts."""
        self.words = {word: row for row, word in enumerate(words)}
        self.entries = {entry: column for column, entry in enumerate(entries)}
        usual = (pairs.true + 0.5) / (pairs.all + 1.0)
        self.odds = np.log(usual / (1 - usual))
        self.person = np.array([float(kind(entry) == PERSON) for entry in entries])
        self._gains = _gains(pairs, usual, [kind(word) for word in words], [kind(entry) for entry in entries])

    def score(self, said: Iterable[str]) -> np.ndarray:
        """How much what is said speaks for every entry, shape (entries,).

        The sum of the gains over the root of their number: the words of an image say much the same.
        """
        rows = sorted(self.words[word] for word in said if word in self.words)
        if not rows:
            return np.zeros(len(self.odds))
        return self._gains[rows].sum(axis=0) / np.float32(np.sqrt(len(rows)))


def _gains(pairs: Pairs, usual: np.ndarray, words: Sequence[int], entries: Sequence[int]) -> np.ndarray:
    """The gain of every word and entry, given their kinds; float32 of shape (words, entries)."""
    of_word = np.zeros((KINDS, len(words)))
    of_word[words, np.arange(len(words))] = 1
    of_entry = np.zeros((len(entries), KINDS))
    of_entry[np.arange(len(entries)), entries] = 1
    said = pairs.said[:, None] + SMOOTHING
    by_kind = (of_word @ pairs.together + SMOOTHING * usual) / ((of_word @ pairs.said)[:, None] + SMOOTHING)
    share = by_kind[words]
    likes = (pairs.together @ of_entry + SMOOTHING * (share @ of_entry)) / said
    likes /= np.maximum(usual @ of_entry, 1e-12)
    expected = likes[:, entries] * usual
    return np.log((pairs.together + SMOOTHING * expected) / said / usual).astype(np.float32)
