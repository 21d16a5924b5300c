"""Which nouns do not go with the words that stay beside them: attributes, ages, kin, prepositions.

"Leather" of a couch does not go with "floor", "three-legged" of a stool not with "television", and no child is
"elderly". Such nouns are never put into a slot.
"""

from __future__ import annotations

import numpy as np

from ..caption import Caption, Token, cached, read_only
from ..language.boundaries import HYPHENS
from ..language.grammar import is_said_to_be_there
from ..language.negation import number_of
from ..language.semantic_classes import (
    attribute_table,
    head_word,
    is_person,
    noun_overlap_table,
    preposition_table,
    semantic_class,
)
from ..lexicon.lexicon import Lexicon
from ..slots.nouns import Slot, attribute_slots

ADULT = 16  # years
KIN = frozenset("wife husband fiance fiancee son daughter grandson granddaughter grandchild bride groom spouse".split())
# Words before a noun that say how old or of what sex somebody is: no child is "elderly", no woman "bearded".
OF_ADULTS = frozenset("old elderly older senior aged bearded balding bald pregnant middle-aged mustached".split())
OF_MEN = frozenset("bearded mustached".split())


def does_not_fit(caption: Caption, slot: Slot, lexicon: Lexicon) -> np.ndarray:
    """Which nouns of the lexicon do not go with what stays beside a slot, "leather" with "floor": (nouns,), bool.

    Those of which the corpus never says this attribute (`Entries.avoids`). An attribute that it has too rarely to tell,
    or one with a hyphen, goes only with nouns of the class of the old one: "a three-legged stool", but not "a
    three-legged television"; readers call 52 % of 62 nouns of another class odd behind such an attribute, and 14 % of
    14 of the same class.

    Neither do these: a noun that brings an attribute with it, behind another one ("a gray haired **brunette woman**");
    nouns that form a set phrase with the preposition before them ("on a **leash**"); things that stand in the
    background of many photos, if the caption has no verb ("**a tree** behind a fence" may be there as well); women
    behind "bearded", and children behind "elderly" or "90-year-old", or beside "his wife".
    """
    names = lexicon.nouns.names
    is_unfit = np.zeros(len(names), bool)
    is_of_other_class = lexicon.nouns.layout.classes != semantic_class(slot.entry)
    before = caption.lowered[caption.phrase_start(slot.noun) : slot.noun]
    if any(word in HYPHENS for word in before):
        is_unfit |= is_of_other_class
    if slot.start > caption.phrase_start(slot.noun) + 1:  # "a gray haired brunette woman"
        is_unfit |= _begin_with_attribute(names)
    attributes = lexicon.entries("attribute")
    for described in attribute_slots(caption):
        if described.noun == slot.noun:
            is_known = described.entry in attributes.number
            is_unfit |= _avoid(described.entry, lexicon) if is_known else is_of_other_class
    token = caption.tokens[slot.noun]
    if token.dep == "pobj" and head_word(slot.entry) not in preposition_table().idioms:
        is_unfit |= _in_set_phrases(names)
    if _is_only_there(caption, token) and slot.entry not in noun_overlap_table().background:
        is_unfit |= _in_background(names)
    if not OF_MEN.isdisjoint(before):
        is_unfit |= _persons(names, "female")
    has_kin = any(word.dep == "poss" and caption.tokens[word.head].lemma in KIN for word in caption.pronouns)
    if has_kin or not OF_ADULTS.isdisjoint(before):
        is_unfit |= _persons(names, "child")
    years = _years_of_age(caption, slot.noun)
    if years is not None:
        is_child = _persons(names, "child")
        is_unfit |= _are_persons(names) & (is_child != (years < ADULT))
    return is_unfit


def _is_only_there(caption: Caption, noun: Token) -> bool:
    """Whether a caption says of a noun only that it is there, and where, not what it does: "**a cat** on a chair"."""
    is_named = noun.dep == "ROOT" or is_said_to_be_there(caption, noun)
    return is_named and not caption.has_dependent(noun.index, "acl", "relcl", "conj")


@cached(8)
def _in_set_phrases(names: tuple[str, ...]) -> np.ndarray:
    """Which nouns form a set phrase with a preposition before them: (nouns,), bool."""
    return read_only(np.array([head_word(name) in preposition_table().idioms for name in names]))


@cached(8)
def _begin_with_attribute(names: tuple[str, ...]) -> np.ndarray:
    """Which nouns begin with a word that describes the thing, as "brunette woman" does: (nouns,), bool."""
    dimensions = attribute_table().dimensions
    return read_only(np.array([" " in name and name.partition(" ")[0] in dimensions for name in names]))


@cached(8)
def _persons(names: tuple[str, ...], list_of_table: str) -> np.ndarray:
    """Which nouns are in one of the table's lists of words for persons, such as "child": (nouns,), bool."""
    return read_only(np.array([name in noun_overlap_table().persons[list_of_table] for name in names]))


@cached(8)
def _are_persons(names: tuple[str, ...]) -> np.ndarray:
    """Which nouns name persons: (nouns,), bool."""
    return read_only(np.array([is_person(name) for name in names]))


@cached(8)
def _in_background(names: tuple[str, ...]) -> np.ndarray:
    """Which nouns name what many photos show although their captions do not say so: (nouns,), bool."""
    return read_only(np.array([name in noun_overlap_table().background for name in names]))


@cached(512)
def _avoid(attribute: str, lexicon: Lexicon) -> np.ndarray:
    """Which nouns of the lexicon the corpus never gives an attribute, although both are frequent: (nouns,), bool."""
    of_nouns = [f"noun:{head_word(name)}" for name in lexicon.nouns.names]
    return read_only(lexicon.entries("attribute").avoids(attribute, of_nouns))


def _years_of_age(caption: Caption, noun: int) -> int | None:
    """The age that the words before a noun tell: 3 for "a 3-year-old girl"; None: they tell none."""
    words = "-".join(caption.lowered[caption.phrase_start(noun) : noun]).replace("---", "-")
    before, year, _ = words.partition("-year-old")
    return number_of(before.rpartition("-")[2]) if year else None
