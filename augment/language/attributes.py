"""Attributes of nouns: which exclude one another (data/attributes.toml), and which are part of a name."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from itertools import combinations

from negcap.augment.data import data_path
from negcap.augment.language.wordnet import WordNet

# Dimensions whose words have another sense of persons, or mean their age: "a black man", "a little boy".
NOT_OF_PERSONS = {"colour", "pattern", "size", "material", "lightness", "years"}
WARMTH = frozenset({"heat"})


@dataclass(frozen=True)
class Attributes:
    """The table: the dimensions (colour, size, …) of each word, pairs of words that may both be true, vague words."""

    dimensions: dict[str, frozenset[str]]
    compatible: frozenset[tuple[str, str]]
    vague: frozenset[str]

    @property
    def words(self) -> frozenset[str]:
        """Every word that stands in some dimension, vague ones excepted."""
        return frozenset(self.dimensions) - self.vague


@cache
def attributes() -> Attributes:
    """The shipped table, once a process."""
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
    )


@cache
def exclude(one: str, other: str) -> bool:
    """Whether two attributes cannot both be true of a thing: red~blue, wet~dry; not red~pink, young~tall.

    By the table: of one dimension and in no common group. A word the table lacks has only WordNet's direct opposites.
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
    """Whether a caption that says `other` of a thing may mean `one`: the same word, or a pair that may both be true."""
    return one == other or (one, other) in attributes().compatible


@cache
def has_other_sense_of_persons(word: str) -> bool:
    """Whether a word has another sense of persons, or means their age: "black", "little"."""
    dimensions = attributes().dimensions.get(word)
    return dimensions is not None and dimensions <= NOT_OF_PERSONS


@cache
def is_part_of_name(word: str, noun: str) -> bool:
    """Whether an adjective and its noun are a compound of WordNet, as "hot dog"; not "young man", who looks young."""
    dimensions = attributes().dimensions.get(word, WARMTH)
    return dimensions == WARMTH and bool(WordNet.load().senses(f"{word} {noun}", "n"))
