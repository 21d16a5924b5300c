"""Attributes of nouns: which are incompatible (data/attributes.toml), and which are part of a name ("hot dog")."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from itertools import combinations, permutations

from ..data import data_path
from .wordnet import WordNet

# Dimensions whose words mean something else, or age, when they describe persons: "a black man", "a little boy".
NOT_OF_PERSONS = {"colour", "pattern", "size", "material", "lightness", "years"}
WARMTH = frozenset({"heat"})


@dataclass(frozen=True)
class Attributes:
    """The table: the dimensions (colour, size, …) of each word, pairs that may both be true, and vague words.

    univse: the attributes of UniVSE's attack in its paper. univse_groups: pairs that do not replace each other in it.
    vague_relations: relations about which its Table 4 does not ask.
    """

    dimensions: dict[str, frozenset[str]]
    compatible: frozenset[tuple[str, str]]
    vague: frozenset[str]
    univse: tuple[str, ...] = ()
    univse_groups: frozenset[tuple[str, str]] = frozenset()
    vague_relations: frozenset[str] = frozenset()

    @property
    def words(self) -> frozenset[str]:
        """All words that have a dimension, except vague ones."""
        return frozenset(self.dimensions) - self.vague


@cache
def attributes() -> Attributes:
    """The shipped table data/attributes.toml, read once per process."""
    table = tomllib.loads(data_path("attributes.toml").read_text("utf-8"))
    dimensions: dict[str, set[str]] = {}
    compatible: set[tuple[str, str]] = set()
    for name, groups in table["dimensions"].items():
        for group in groups:
            for word in group:
                dimensions.setdefault(word, set()).add(name)
    lists = [group for groups in table["dimensions"].values() for group in groups]
    for words in lists + table["overlaps"]["lists"]:
        for one, other in combinations(words, 2):
            compatible.update([(one, other), (other, one)])
    return Attributes(
        {word: frozenset(names) for word, names in dimensions.items()},
        frozenset(compatible),
        frozenset(table["vague"]["words"]),
        tuple(table["univse"]["words"]),
        frozenset(pair for group in table["univse"]["groups"] for pair in permutations(group, 2)),
        frozenset(table["univse"]["vague_relations"]),
    )


@cache
def are_incompatible(one: str, other: str) -> bool:
    """Whether two attributes cannot both be true of a thing: red~blue, wet~dry; not red~pink, young~tall.

    True for words of a common dimension, unless the table lists them as compatible; for a word that is not in the
    table, only if they are direct antonyms in WordNet.
    """
    table = attributes()
    if one == other or (one, other) in table.compatible or not table.vague.isdisjoint((one, other)):
        return False
    mine, theirs = table.dimensions.get(one), table.dimensions.get(other)
    if mine is not None and theirs is not None:
        return not mine.isdisjoint(theirs)
    return other in _opposites(one) or one in _opposites(other)


@cache
def _opposites(word: str) -> frozenset[str]:
    return WordNet.load().antonyms(word, "a")


def may_be_same(one: str, other: str) -> bool:
    """Whether a thing that is described as `other` may also be `one`: equal words, or compatible by the table."""
    return one == other or (one, other) in attributes().compatible


@cache
def has_other_sense_of_persons(word: str) -> bool:
    """Whether a word means something else, or age, when it describes persons: "black", "little"."""
    dimensions = attributes().dimensions.get(word)
    return dimensions is not None and dimensions <= NOT_OF_PERSONS


@cache
def is_part_of_name(word: str, noun: str) -> bool:
    """Whether an adjective and its noun are a WordNet compound such as "hot dog"; never for a visible attribute ("young
    man").
    """
    dimensions = attributes().dimensions.get(word, WARMTH)
    return dimensions == WARMTH and bool(WordNet.load().senses(f"{word} {noun}", "n"))
