"""Attributes of nouns: where they stand in a caption, and which exclude one another (data/attributes.toml)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import combinations
from typing import NamedTuple

from augment.caption import Caption, Token, remembered
from augment.language.overlaps import is_person
from augment.language.places import NOUN_TAGS, after, before
from augment.language.wordnet import WordNet

ADJECTIVE_TAGS = {"JJ", "JJR", "JJS"}
DEGREES = {"JJR", "JJS"}
# What captions say of persons in another sense, or of their size by age: "a black man", "a little boy".
NOT_OF_PERSONS = {"colour", "pattern", "size", "material", "lightness", "years"}
INTENSIFIERS = {"very", "too", "more", "most", "less", "so", "as", "light", "dark", "bright", "pale", "half"}


class AttributeSlot(NamedTuple):
    """An adjective at token `index` said of the noun at token `noun`: "a **red** car", "the car is **red**".

    `form` is "attributive" or "predicative".
    """

    index: int  # type: ignore[assignment]  # hides tuple.index
    noun: int
    entry: str
    form: str
    places: tuple[str, ...]


@dataclass(frozen=True)
class Attributes:
    """The table: `groups` of words that may be said of one thing, `dimensions` of words that measure the same."""

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
    table = tomllib.loads((files("augment") / "data" / "attributes.toml").read_text("utf-8"))
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
    """Whether saying `other` of a thing may mean `one`: the same word, one of its group, or a synonym."""
    return one == other or (one, other) in attributes().compatible


def _owner(caption: Caption, token: Token) -> tuple[Token, str] | None:
    """The noun that a token is said of, and in which form; conjuncts follow the first."""
    while token.dep == "conj" and caption.tokens[token.head].tag in ADJECTIVE_TAGS and token.head != token.index:
        token = caption.tokens[token.head]
    head = caption.tokens[token.head]
    if token.dep in ("amod", "compound") and head.tag in NOUN_TAGS and token.index < head.index:
        return head, "attributive"
    if token.dep == "acomp" and head.lemma == "be":
        subject = next(caption.dependents(head.index, "nsubj"), None)
        if subject is not None and subject.tag in NOUN_TAGS:
            return subject, "predicative"
    return None


@remembered
def attribute_slots(caption: Caption) -> tuple[AttributeSlot, ...]:
    """Adjectives said of common nouns, with the materials among noun modifiers: "a **metal** bench"."""
    slots = []
    table, lowered = attributes(), caption.lowered
    for token in caption.tokens:
        word = lowered[token.index]
        if token.tag not in ADJECTIVE_TAGS and not (word in table.dimensions and token.dep in ("amod", "compound")):
            continue
        if token.tag in DEGREES and word not in table.dimensions:
            continue
        if not word.replace("-", "").isalpha() or word in table.vague:
            continue
        owner = _owner(caption, token)
        if owner is None or any(lowered[c] in INTENSIFIERS for c in caption.children[token.index]):
            continue
        noun, form = owner
        if _hyphened(caption, token.index) or (is_person(noun.lemma) and _said_otherwise(word)):
            continue
        if token.dep == "compound" and WordNet.load().senses(f"{word} {noun.lemma}", "n"):
            continue
        places = (
            f"noun:{noun.lemma}",
            f"left:{before(caption, token.index)}",
            f"right:{after(caption, token.index + 1)}",
        )
        slots.append(AttributeSlot(token.index, noun.index, word, form, places))
    return tuple(slots)


def _said_otherwise(word: str) -> bool:
    """Whether a word has another sense, or says an age, when it is said of persons."""
    dimensions = attributes().dimensions.get(word)
    return dimensions is not None and dimensions <= NOT_OF_PERSONS


def _hyphened(caption: Caption, index: int) -> bool:
    """Whether a word is part of another: "red-haired", "light blue"."""
    lowered = caption.lowered
    around = (lowered[index - 1] if index else "", after(caption, index + 1))
    return "-" in around or around[0] in INTENSIFIERS or around[1] in ("haired", "colored", "eyed", "headed", "sleeved")
