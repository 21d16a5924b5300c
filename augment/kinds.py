"""The kinds of word that may replace one another: what each is, in one row.

A lexicon counts the words of each kind in their slots, captions assert things by them, and the operator of the same
name (see `negcap.augment.operators`) replaces them. A new kind is a new row here, and an operator of its name. Raters
were asked about the kinds here; a negative of a new one is read as a whole text, and rated as one of no known kind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from .caption import Caption
from .language import hypernymy
from .language.semantic_classes import preposition_table
from .mentions import mentioned_attributes, mentioned_nouns, mentioned_numerals, mentioned_prepositions, mentioned_verbs
from .slots.nouns import Slot, attribute_slots, noun_slots, numeral_slots, numeral_value
from .slots.verbs import preposition_slots, verb_slots


class Kind(NamedTuple):
    """A kind of word.

    name: as in the tables, and of the operator that replaces words of this kind.
    slots: the words of this kind in a caption that a lexicon counts.
    mentions: what a caption asserts by words of this kind: things for nouns and verbs, else (thing, value) pairs.
    estimate: how the probability is estimated that a replacement is true of the image, see
        `negcap.augment.truth.estimates`: by association with all that the captions mention, or by how often one
        caption of an image gives another value to the same thing (transition); None: it is not.
    floor: the lowest log p(word | rest of the caption) of a replacement, in nats.
    is_more_general: (old, new) -> whether whatever `old` says is also said by `new`: dog -> animal.
    others_agree: whether other words change with a replacement ("two dogs **run**"), so that only reading the whole
        negative tells how plausible it is.
    least_count: how often a corpus must have a word that may replace others; None: as often as its setting `min_count`.
    preference: how much better ratings raise the chance of a replacement: the power of the odds of being good, see
        `negcap.augment.raters.preference`.
    """

    name: str
    slots: Callable[[Caption], tuple[Slot, ...]]
    mentions: Callable[[Caption], frozenset[Any]]
    estimate: Literal["association", "transition"] | None
    floor: float
    is_more_general: Callable[[str, str], bool]
    others_agree: bool = False
    least_count: int | None = None
    preference: float = 2.0


def _same_preposition(old: str, new: str) -> bool:
    """Whether two prepositions say the same of two things; none is more general than another."""
    return preposition_table().same_relation(old, new)


def _same_number(old: str, new: str) -> bool:
    """Whether two numerals mean the same number: "a" and "one", "3" and "three"."""
    return numeral_value(old) == numeral_value(new)


# The floors: two readers called most replacements below them odd. A numeral's probability is that of the lexicon alone,
# and has a limit of its own (`negcap.augment.operators.numeral.MIN_RATIO`).
KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            name="noun",
            slots=noun_slots,
            mentions=mentioned_nouns,
            estimate="association",
            floor=-8.0,
            is_more_general=hypernymy.is_noun_of,
        ),
        Kind(
            name="preposition",
            slots=preposition_slots,
            mentions=mentioned_prepositions,
            # What other captions say stands on a table is mostly another thing: the relations in space decide.
            estimate=None,
            floor=-9.0,
            least_count=3,
            preference=0.5,
            is_more_general=_same_preposition,
        ),
        Kind(
            name="numeral",
            slots=numeral_slots,
            mentions=mentioned_numerals,
            estimate="transition",
            floor=float("-inf"),
            others_agree=True,
            least_count=3,
            is_more_general=_same_number,
        ),
        Kind(
            name="attribute",
            slots=attribute_slots,
            mentions=mentioned_attributes,
            estimate="transition",
            floor=-8.0,
            is_more_general=hypernymy.is_attribute_of,
        ),
        Kind(
            name="verb",
            slots=verb_slots,
            mentions=mentioned_verbs,
            estimate="association",
            floor=-7.0,
            is_more_general=hypernymy.is_verb_of,
        ),
    )
}
