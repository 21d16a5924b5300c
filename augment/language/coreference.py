"""Which nouns may name the same thing in an image: related in WordNet, or overlapping by data/noun_overlaps.toml.

`may_corefer` answers for two nouns; `CoreferenceIndex`, which is wider, for all entries of a lexicon at once. It
represents a set of entries as an int whose bit n stands for entry n, so that union is a bitwise or.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple, TypeVar

import numpy as np

from ..caption import cached
from .semantic_classes import (
    head_word,
    is_person,
    may_be_person,
    noun_overlap_table,
    other_persons,
    persons_may_be_same,
)
from .wordnet import WordNet

Coreference = Literal["related", "overlap"]
Key = TypeVar("Key")
CAPTIONS = 64  # number of captions whose results are cached
NOUNS = 4096  # number of nouns whose results are cached; a large corpus has far more
PAIRS = 1 << 14  # number of pairs of nouns whose results are cached
COMPARED = 512  # number of nouns for which it is cached which others say less


class Meaning(NamedTuple):
    """What a noun may name.

    words: the noun and its head.
    synsets: their WordNet senses in use.
    above: these and all their hypernyms.
    same: nouns that the table puts in a group with it ("couch" and "sofa").
    implied: nouns that the table says it implies ("rider" implies "horse").
    """

    words: frozenset[str]
    synsets: frozenset[int]
    above: frozenset[int]
    same: frozenset[str]
    implied: frozenset[str]


@lru_cache(maxsize=NOUNS)
def meaning(noun: str) -> Meaning:
    """What WordNet and the table of overlaps say that a noun or compound may name; the fields: see `Meaning`."""
    wordnet = WordNet.load()
    table = noun_overlap_table()
    nothing = frozenset[str]()
    words = frozenset({noun, head_word(noun)})
    synsets = frozenset(synset for word in words for synset in wordnet.senses_in_use(word, "n"))
    above = frozenset[int]().union(*map(wordnet.closure, synsets))
    same = nothing.union(*(table.groups.get(word, nothing) for word in words))
    # A rider implies a horse; and whatever "person" implies, such as a face, a rider implies, too.
    implying = {*words, "person"} if is_person(noun) else words
    implied = (table.implied.get(word, nothing) for word in implying)
    return Meaning(words=words, synsets=synsets, above=above, same=same, implied=nothing.union(*implied))


def related(one: str, other: str) -> bool:
    """Whether two nouns, or their heads, share a WordNet sense in use, or one is a hypernym of the other.

    Senses in use: see negcap.augment.language.wordnet.WordNet.senses_in_use.
    """
    first = meaning(one)
    second = meaning(other)
    if not first.words.isdisjoint(second.words):
        return True
    return not (first.synsets.isdisjoint(second.above) and second.synsets.isdisjoint(first.above))


@lru_cache(maxsize=PAIRS)
def related_or_same_person(one: str, other: str) -> bool:
    """Whether two nouns are related in WordNet, or are words for persons that may be the same person."""
    return related(one, other) or persons_may_be_same(one, other)


@lru_cache(maxsize=PAIRS)
def says_less(general: str, noun: str) -> bool:
    """Whether `general` is a more general name for what `noun` names: "animal" for a dog, "person" for a man.

    It is if it is a hypernym in WordNet, or a word for persons of any kind ("player") that may be the same person.
    """
    wide = meaning(general)
    narrow = meaning(noun)
    is_above = not wide.synsets.isdisjoint(narrow.above)
    if is_above:  # and they are no synonyms, nor above each other
        return wide.synsets.isdisjoint(narrow.synsets) and narrow.synsets.isdisjoint(wide.above)
    return (
        head_word(general) in noun_overlap_table().persons["any"]
        and general != noun
        and persons_may_be_same(general, noun)
    )


@lru_cache(maxsize=PAIRS)
def may_corefer(one: str, other: str) -> bool:
    """Whether two nouns may name the same thing in an image: dog and animal, couch and sofa, man and player."""
    return related_or_same_person(one, other) or not meaning(one).words.isdisjoint(meaning(other).same)


def more_general(nouns: frozenset[str], noun: str) -> frozenset[str]:
    """Those of `nouns` that name what `noun` names, but less specifically (see `says_less`)."""
    # The nouns of one image are mostly those of another, so the results for pairs are kept.
    compared = _compared(noun)
    new = nouns - compared.asked
    if new:
        compared.less.update(other for other in new if says_less(other, noun))
        compared.asked.update(new)
    return nouns & compared.less


class Compared(NamedTuple):
    """The nouns that `more_general` has compared with a noun, and those of them that say less; both grow."""

    asked: set[str]
    less: set[str]


@lru_cache(maxsize=COMPARED)
def _compared(noun: str) -> Compared:
    """What `more_general` knows of a noun; empty at first."""
    return Compared(asked=set(), less=set())


class Coreferent(NamedTuple):
    """Two sets of entries, as bits: those `related` in WordNet to mentioned nouns, and `all` that may be true."""

    related: int
    all: int

    def reason(self, entry: int) -> Coreference | None:
        """Why entry number `entry` may be true, "related" before "overlap"; None if it is in neither set."""
        if not self.all >> entry & 1:
            return None
        return "related" if self.related >> entry & 1 else "overlap"


class CoreferenceIndex:
    """Which of the entries `names` may be true of an image that shows a noun: those that are related to it in WordNet,
    overlap by the table, are implied by it ("rider" implies "horse"), or may name the same person.
    """

    def __init__(self, names: Sequence[str]) -> None:
        """Index the names by their meanings."""
        meanings = [meaning(name) for name in names]
        # For each word, synset or head, the set of the entries that have it: bit i is entry i.
        self._words = _entries_by(meaning.words for meaning in meanings)
        self._synsets = _entries_by(meaning.synsets for meaning in meanings)
        self._above = _entries_by(meaning.above for meaning in meanings)
        # Of the two sets, that of the names which may be persons (True).
        self._persons = _entries_by({may_be_person(name)} for name in names).get(True, 0)
        self._heads = _entries_by({head_word(name)} for name in names)

    @cached(NOUNS)
    def with_noun(self, mentioned: str) -> Coreferent:
        """The entries that may be true of an image if a caption mentions this noun."""
        noun = meaning(mentioned)
        # Up and down the taxonomy: an entry above the noun has a sense among the noun's `above`, and an entry below it
        # has one of the noun's senses among its own `above`.
        related = _entries_with_any_key(self._words, noun.words)
        related |= _entries_with_any_key(self._synsets, noun.above) | _entries_with_any_key(self._above, noun.synsets)
        overlap = _entries_with_any_key(self._words, noun.same | noun.implied)
        if is_person(mentioned):
            # Two words for persons may name one, whatever WordNet says, unless their gender or age forbids it.
            overlap |= self._persons & ~_entries_with_any_key(self._heads, other_persons(head_word(mentioned)))
        return Coreferent(related, related | overlap)

    @cached(CAPTIONS)
    def with_any(self, mentioned: frozenset[str]) -> Coreferent:
        """The entries that may be true of an image if its captions mention these nouns."""
        return union(map(self.with_noun, mentioned))


def union(sets: Iterable[Coreferent]) -> Coreferent:
    """The union of several results, whose sets are numbers with a bit for each entry."""
    related = all_entries = 0
    for coreferent in sets:
        related |= coreferent.related
        all_entries |= coreferent.all
    return Coreferent(related, all_entries)


def _entries_by(keys: Iterable[Iterable[Key]]) -> Mapping[Key, int]:
    """For each key, the set of the entries that have it, as bits; `keys` are those of entry 0, 1, …"""
    entries: dict[Key, int] = {}
    for entry, keys_of_entry in enumerate(keys):
        for key in keys_of_entry:
            entries[key] = entries.get(key, 0) | 1 << entry
    return entries


def _entries_with_any_key(entries: Mapping[Key, int], keys: Iterable[Key]) -> int:
    """The set of the entries that have any of some keys, as bits: bit i is entry i."""
    union = 0
    for key in keys:
        union |= entries.get(key, 0)
    return union


def entry_numbers(bits: int) -> np.ndarray:
    """The positions of the bits that are set in a number, ascending: 0b101 -> [0, 2]."""
    raw = np.frombuffer(bits.to_bytes((bits.bit_length() + 7) // 8, "little"), np.uint8)
    return np.flatnonzero(np.unpackbits(raw, bitorder="little"))
