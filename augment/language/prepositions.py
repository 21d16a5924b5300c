"""The table of prepositions (data/prepositions.toml): which are edited, which are one unit, which may hold at once."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache

from negcap.augment.data import data_path


@dataclass(frozen=True)
class Prepositions:
    """The preposition table.

    entries: those that are edited; phrases: by first word, those of several words; same: variants by what they stand
    for; idioms, adverbs, governors, owned: words that make a set phrase with a preposition; worn, visible: nouns that
    WordNet fails to class as clothing or things; directional: entries of direction ("into"); unfit: entries that do
    not go with a class of objects; sets: the sets of Table 8 of VSE-C, by number, that hold an entry; overlaps: pairs
    that may both be true; only: the only entries that one is exchanged with; places: entries that may all be true of
    a noun at once.
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
    unfit: dict[str, frozenset[str]]
    sets: dict[str, tuple[int, ...]]
    overlaps: frozenset[tuple[str, str]]
    only: dict[str, frozenset[str]]
    places: dict[str, frozenset[str]]

    def exchanged(self, old: str, new: str, noun: str) -> bool:
        """Whether one excludes the other before a noun, and may replace it there."""
        if self.overlap(old, new) or new not in self.only.get(old, {new}) or old not in self.only.get(new, {old}):
            return False
        return not self.places.get(noun, frozenset()).issuperset((old, new))

    def overlap(self, a: str, b: str) -> bool:
        """Whether both may be true of the same two things."""
        return a == b or (a, b) in self.overlaps

    def name(self, entry: str) -> str | None:
        """The sets of Table 8 that hold `entry`, as provenance: "prepositions:5" or None."""
        numbers = self.sets.get(entry)
        return f"prepositions:{','.join(map(str, numbers))}" if numbers else None


@cache
def prepositions() -> Prepositions:
    """The table of augment/data/prepositions.toml; once a process."""
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
        {kind: frozenset(names) for kind, names in table["unfit"].items()},
        {word: tuple(numbers) for word, numbers in sets.items()},
        frozenset(pairs),
        {word: frozenset(others) for word, others in table["only"].items()},
        {noun: frozenset(place["overlaps"]) for place in table["places"] for noun in place["nouns"]},
    )
