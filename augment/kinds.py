"""The kinds of word that may replace one another: what each is, in one row.

A lexicon counts the words of each kind in their slots, captions assert things by them, and the operator of the same
name (see `negcap.augment.operators`) replaces them. A new kind is a new row here, and an operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from .caption import Caption
from .language import hypernymy
from .language.semantic_classes import prepositions
from .mentions import (
    mentioned_attributes,
    mentioned_nouns,
    mentioned_numerals,
    mentioned_prepositions,
    mentioned_verbs,
)
from .slots.nouns import Slot, attribute_slots, noun_slots, numeral_slots, numeral_value
from .slots.verbs import preposition_slots, verb_slots


class Kind(NamedTuple):
    """A kind of word.

    name: as in the tables, and of the operator that replaces words of this kind.
    slots: the words of this kind in a caption that a lexicon counts.
    mentions: what a caption asserts by words of this kind: things for nouns and verbs, else (thing, value) pairs.
    estimate: how the probability is estimated that a replacement is true of the image, see
        `negcap.augment.truth.estimates`: by association with all that the captions mention, or by how often one
        caption of an image gives another value to the same thing (transition).
    floor: the lowest log p(word | rest of the caption) of a replacement, in nats.
    others_agree: whether other words change with a replacement ("two dogs **run**"), so that only reading the whole
        negative tells how plausible it is.
    is_more_general: (old, new) -> whether whatever `old` says is also said by `new`: dog -> animal.
    """

    name: str
    slots: Callable[[Caption], tuple[Slot, ...]]
    mentions: Callable[[Caption], frozenset[Any]]
    estimate: Literal["association", "transition"]
    floor: float
    others_agree: bool
    is_more_general: Callable[[str, str], bool]


def _same_preposition(old: str, new: str) -> bool:
    return (old, new) in prepositions().synonyms


def _same_number(old: str, new: str) -> bool:
    return numeral_value(old) == numeral_value(new)


# The floors: below them, two readers called most of what was drawn odd. A numeral's probability is that of the lexicon
# alone, and has a limit of its own (`negcap.augment.operators.numeral.MIN_RATIO`).
KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("noun", noun_slots, mentioned_nouns, "association", -8.0, False, hypernymy.is_noun_of),
        Kind("preposition", preposition_slots, mentioned_prepositions, "transition", -9.0, False, _same_preposition),
        Kind("numeral", numeral_slots, mentioned_numerals, "transition", float("-inf"), True, _same_number),
        Kind("attribute", attribute_slots, mentioned_attributes, "transition", -8.0, False, hypernymy.is_attribute_of),
        Kind("verb", verb_slots, mentioned_verbs, "association", -7.0, False, hypernymy.is_verb_of),
    )
}
