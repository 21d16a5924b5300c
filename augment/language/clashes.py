"""Which nouns may be true where another is said: related in WordNet, or overlapping by the noun table.

`clash` judges one pair. `Clashes` judges all entries of a lexicon at once against what is said: a set of entries is an
int whose bit n is entry n, so that what the many nouns of an image refuse is the union of a few numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple, TypeVar

import numpy as np

from negcap.augment.language.overlaps import head, is_person, other_persons, overlaps, persons_may_be_same
from negcap.augment.language.wordnet import WordNet

Clash = Literal["related", "overlap"]
Key = TypeVar("Key")
CAPTIONS = 64
MEANINGS = 4096  # how many are kept: the rare nouns of a large corpus have no end


class Meaning(NamedTuple):
    """What a noun may name: itself and its head, their synsets in use and all above, and what the noun table adds."""

    words: frozenset[str]
    synsets: frozenset[int]
    above: frozenset[int]
    same: frozenset[str]
    implied: frozenset[str]


@lru_cache(maxsize=MEANINGS)
def meaning(noun: str) -> Meaning:
    """The meaning of a noun or compound."""
    wordnet, table = WordNet.load(), overlaps()
    words = frozenset({noun, head(noun)})
    synsets = frozenset(synset for word in words for synset in wordnet.senses_in_use(word, "n"))
    implied = frozenset().union(*(table.implied.get(word, frozenset()) for word in words))
    return Meaning(
        words,
        synsets,
        frozenset().union(*(wordnet.closure(synset) for synset in synsets)),
        frozenset().union(*(table.groups.get(word, frozenset()) for word in words)),
        implied | table.implied["person"] if is_person(noun) else implied,
    )


def related(one: str, other: str) -> bool:
    """Whether two nouns, or their heads, share a sense in use, or one lies above the other in WordNet."""
    a, b = meaning(one), meaning(other)
    return not (a.words.isdisjoint(b.words) and a.synsets.isdisjoint(b.above) and b.synsets.isdisjoint(a.above))


def clash(replacement: str, said: str) -> Clash | None:
    """Whether `replacement` may be true where `said` is: related in WordNet, or overlapping by the noun table.

    Both are checked as compounds and by their heads: "tennis racket" clashes with "racket".
    """
    if related(replacement, said):
        return "related"
    a, b = meaning(replacement), meaning(said)
    if not (a.words.isdisjoint(b.same) and a.words.isdisjoint(b.implied)):
        return "overlap"
    return "overlap" if persons_may_be_same(replacement, said) else None


class Clashing(NamedTuple):
    """The entries that clash with what is said, as bits: `related` are those of the graver kind, `all` of either."""

    related: int
    all: int

    def of(self, entry: int) -> Clash | None:
        """The gravest clash of an entry, by its number."""
        if not self.all >> entry & 1:
            return None
        return "related" if self.related >> entry & 1 else "overlap"


class Clashes:
    """The `clash` of every one of `names` with what is said; answers are kept."""

    def __init__(self, names: Sequence[str]) -> None:
        """Index the names by their meanings."""
        meanings = [meaning(name) for name in names]
        self._words = _entries_by(one.words for one in meanings)
        self._synsets = _entries_by(one.synsets for one in meanings)
        self._above = _entries_by(one.above for one in meanings)
        self._persons = _entries_by({is_person(name)} for name in names).get(True, 0)
        self._heads = _entries_by({head(name)} for name in names)
        self._known: dict[str, Clashing] = {}
        self.with_any = lru_cache(maxsize=CAPTIONS)(self._with_any)

    def with_noun(self, said: str) -> Clashing:
        """The entries that clash with one noun."""
        found = self._known.get(said)
        if found is None:
            noun = meaning(said)
            related = _union(self._words, noun.words)
            related |= _union(self._synsets, noun.above) | _union(self._above, noun.synsets)
            overlap = _union(self._words, noun.same | noun.implied)
            if is_person(said):
                overlap |= self._persons & ~_union(self._heads, other_persons(head(said)))
            found = self._known[said] = Clashing(related, related | overlap)
        return found

    def _with_any(self, said: frozenset[str]) -> Clashing:
        """The entries that clash with any of some nouns; kept for the captions met last."""
        return union(map(self.with_noun, said))


def union(clashing: Iterable[Clashing]) -> Clashing:
    """The entries that clash with this or that."""
    related = both = 0
    for one in clashing:
        related |= one.related
        both |= one.all
    return Clashing(related, both)


def _entries_by(keys: Iterable[Iterable[Key]]) -> Mapping[Key, int]:
    """For each key the entries that have it; `keys` holds those of entry 0, 1, …"""
    found: dict[Key, int] = {}
    for entry, own in enumerate(keys):
        for key in own:
            found[key] = found.get(key, 0) | 1 << entry
    return found


def _union(entries: Mapping[Key, int], keys: Iterable[Key]) -> int:
    union = 0
    for key in keys:
        union |= entries.get(key, 0)
    return union


def numbers(bits: int) -> np.ndarray:
    """The entries in a set of them, in order: 0b101 -> [0, 2]."""
    raw = np.frombuffer(bits.to_bytes((bits.bit_length() + 7) // 8, "little"), np.uint8)
    return np.flatnonzero(np.unpackbits(raw, bitorder="little"))
