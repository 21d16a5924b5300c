"""The table of prepositions (data/prepositions.toml): which may be replaced, and which may be true at the same time."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache

from ..data import data_path


@dataclass(frozen=True)
class Prepositions:
    """The table of prepositions, read from augment/data/prepositions.toml; an entry is a preposition that may be
    replaced.

    entries: all of them. phrases: by first word, prepositions of several words. same: variant -> entry. idioms,
    adverbs, governors, owned: words that form a set phrase with a preposition. worn, visible: nouns that WordNet fails
    to class as clothing or things. directional: entries of direction ("into"), which are only exchanged for their
    opposites. opposites: pairs of entries. unfit: by class of object, entries that do not fit it. sets: the numbers of
    the sets in VSE-C's Table 8 that contain an entry. overlaps: pairs that may both be true. only: entry -> the only
    entries that it may be exchanged with. places: noun -> entries that may all be true of it at once.
    """

    entries: frozenset[str]
    phrases: dict[str, tuple[tuple[str, ...], ...]]
    same: dict[str, str]
    idioms: frozenset[str]
    adverbs: frozenset[str]
    governors: frozenset[str]
    owned: dict[str, frozenset[str]]
    worn: frozenset[str]
    visible: frozenset[str]
    directional: frozenset[str]
    opposites: frozenset[tuple[str, str]]
    unfit: dict[str, frozenset[str]]
    sets: dict[str, tuple[int, ...]]
    overlaps: frozenset[tuple[str, str]]
    only: dict[str, frozenset[str]]
    places: dict[str, frozenset[str]]

    def may_replace(self, old: str, new: str, noun: str) -> bool:
        """Whether `new` is incompatible with `old` before this noun and may replace it there."""
        if not self.directional.isdisjoint((old, new)) and (old, new) not in self.opposites:
            return False
        if new not in self.only.get(old, {new}) or old not in self.only.get(new, {old}):
            return False
        return not self.may_both_hold(old, new, noun)

    def may_both_hold(self, one: str, other: str, noun: str) -> bool:
        """Whether both prepositions may be true of the same thing and this noun."""
        return self.overlap(one, other) or self.places.get(noun, frozenset()).issuperset((one, other))

    def overlap(self, a: str, b: str) -> bool:
        """Whether two prepositions may both be true of the same two things."""
        return a == b or (a, b) in self.overlaps

    def table8_sets(self, entry: str) -> str | None:
        """The sets in VSE-C's Table 8 that contain `entry`, as provenance: "prepositions:5"; None if there is none."""
        numbers = self.sets.get(entry)
        return f"prepositions:{','.join(map(str, numbers))}" if numbers else None


@cache
def prepositions() -> Prepositions:
    """The shipped table data/prepositions.toml, read once per process."""
    table = tomllib.loads(data_path("prepositions.toml").read_text("utf-8"))
    entries = frozenset(table["entries"])
    phrases: dict[str, list[tuple[str, ...]]] = {}
    for phrase in {*table["phrases"], *table["same"], *(entry for entry in entries if " " in entry)}:
        words = tuple(phrase.split())
        phrases.setdefault(words[0], []).append(words)
    pairs: set[tuple[str, str]] = set()
    sets: dict[str, list[int]] = {}
    for number, words in enumerate(table["table8"], start=1):
        for word in words:
            sets.setdefault(word, []).append(number)
            pairs.update((word, other) for other in words)
    for word, others in table["overlaps"].items():
        for other in others:
            pairs.update([(word, other), (other, word)])
    return Prepositions(
        entries,
        {first: tuple(sorted(options, key=len, reverse=True)) for first, options in phrases.items()},
        table["same"],
        frozenset(table["idioms"]),
        frozenset(table["adverbs"]),
        frozenset(table["governors"]),
        {word: frozenset(own) for word, own in table["owned"].items()},
        frozenset(table["worn"]),
        frozenset(table["visible"]),
        frozenset(table["ways"]),
        frozenset(pair for one, other in table["opposites"] for pair in ((one, other), (other, one))),
        {kind: frozenset(names) for kind, names in table["unfit"].items()},
        {word: tuple(numbers) for word, numbers in sets.items()},
        frozenset(pairs),
        {word: frozenset(others) for word, others in table["only"].items()},
        {noun: frozenset(place["overlaps"]) for place in table["places"] for noun in place["nouns"]},
    )
