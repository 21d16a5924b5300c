"""Nouns that may name the same thing in a photo although WordNet does not relate them (data/noun_overlaps.toml)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Literal

import numpy as np

from ..cache import read_only
from ..data import data_path
from .wordnet import WordNet

Gender = Literal["male", "female", "any", "thing"]


@dataclass(frozen=True)
class Overlaps:
    """The table as sets.

    groups: for each noun, the nouns that may name the same thing. implied: for each noun, the nouns that it implies
    ("rider" implies "horse"). male, female, child, adult, any: words for persons. vague: nouns that name no particular
    thing.
    """

    groups: dict[str, frozenset[str]]
    implied: dict[str, frozenset[str]]
    male: frozenset[str]
    female: frozenset[str]
    child: frozenset[str]
    adult: frozenset[str]
    any: frozenset[str]
    vague: frozenset[str]


@cache
def overlaps() -> Overlaps:
    """The shipped table data/noun_overlaps.toml, read once per process."""
    table = tomllib.loads(data_path("noun_overlaps.toml").read_text("utf-8"))
    groups: dict[str, set[str]] = {}
    for members in table["groups"]:
        for noun in members:
            groups.setdefault(noun, set()).update(members)
    for names, members in table["general"].items():
        for general, noun in product(names.split(", "), members):
            groups.setdefault(noun, set()).add(general)
            groups.setdefault(general, set()).add(noun)
    persons = {name: frozenset(words) for name, words in table["persons"].items()}
    return Overlaps(
        {noun: frozenset(others) for noun, others in groups.items()},
        {noun: frozenset(others) for noun, others in table["implies"].items()},
        vague=frozenset(table["vague"]["words"]),
        **persons,
    )


def head(entry: str) -> str:
    """The last word of a noun or compound: "tennis racket" -> "racket"."""
    return entry.rpartition(" ")[2]


@cache
def _persons() -> np.ndarray:
    """For each synset, whether it is a person or a kind of person: shape (synsets,)."""
    wordnet = WordNet.load()
    return read_only(wordnet.first_above([wordnet.synset("person.n.01")]) == 0)


@cache
def is_person(noun: str) -> bool:
    """Whether a noun names persons: listed, or by the first WordNet sense of the compound, else of its head."""
    table = overlaps()
    if any(noun in words for words in (table.male, table.female, table.child, table.adult, table.any)):
        return True
    wordnet = WordNet.load()
    senses = wordnet.senses_in_use(noun, "n")
    if not senses:
        return noun != head(noun) and is_person(head(noun))
    return bool(_persons()[senses[0]])


@cache
def gender(noun: str) -> Gender:
    """The gender of pronouns for a noun: male, female, any (a person of unknown gender) or thing."""
    table = overlaps()
    for word in (noun, head(noun)):
        if word in table.male:
            return "male"
        if word in table.female:
            return "female"
    return "any" if is_person(noun) else "thing"


def persons_may_be_same(a: str, b: str) -> bool:
    """Whether two words for persons may name the same person: player and man, child and boy; not man and woman."""
    return is_person(a) and is_person(b) and head(a) not in other_persons(head(b))


@cache
def other_persons(word: str) -> frozenset[str]:
    """The words for persons that are incompatible with `word`: of the other gender, or of another age."""
    table = overlaps()
    pairs = ((table.male, table.female), (table.child, table.adult))
    return frozenset().union(*(b for one, other in pairs for a, b in ((one, other), (other, one)) if word in a))
