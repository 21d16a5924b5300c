"""The preposition operator of VSE-C: replace a preposition by an incompatible one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random

import numpy as np

from ..caption import Caption, cached, cached_on_context, read_only
from ..context import Context
from ..edits import Candidate, replace
from ..language.determiners import is_negated
from ..language.semantic_classes import (
    ABSTRACT,
    is_animal,
    is_body_part,
    is_building,
    is_person,
    is_worn,
    prepositions,
    semantic_class,
)
from ..slots.verbs import PrepositionSlot, preposition_slots
from .choices import Choice, draw, weigh

FLOOR = -5.5  # the lowest log p(preposition | rest of the caption) of a replacement
# Whether one thing can be in, on, under or behind another depends on both more than the cloze model knows: these need a
# lift of at least MIN_LIFT, given the governor and given the object. Readers called half of the others odd.
HOLDING = frozenset("in on under behind inside underneath beneath below above atop".split()) | {"on top of"}
MIN_LIFT = 1.0
# Next to one thing is seldom on or in it: of 54 such exchanges readers called 60 % odd, of 386 others 36 %.
NEXT_TO = frozenset({"next to", "near", "by", "beside", "along", "alongside", "around", "with"})
WITHOUT = "without"  # never put in: readers called all of 10 odd


def preposition(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Replace a preposition (VSE-C, Table 8): "a cat on the table" -> "a cat under the table"."""
    return draw(preposition_choices(caption, context), rng, draws)


@cached_on_context
def preposition_choices(caption: Caption, context: Context) -> list[Choice]:
    """The prepositions that may replace each preposition of a caption, by their probability there (VSE-C, Table 8).

    Prepositions of several words ("in front of") are one unit; particles, agents and set phrases are not replaced. The
    negatives are read as a whole to know how plausible they are.
    """
    entries, choices = context.lexicon.prepositions, []
    holding = np.array([name in HOLDING for name in entries.names], bool)
    for slot in preposition_slots(caption):
        if slot.entry not in entries.number or not _is_visible(caption, slot, context):
            continue
        likely = context.log_probabilities("preposition", (slot.start, slot.end), slot.contexts)
        object = caption.tokens[slot.object]
        several = object.tag == "NNS" or caption.has(slot.object, "conj")
        likely[~_exchanged(slot.entry, object.lemma, several, entries.names)] = -np.inf
        for contexts in (slot.contexts[:2], slot.contexts[2:4]):
            likely[holding & ((slot.entry in NEXT_TO) | (entries.lift(contexts) < MIN_LIFT))] = -np.inf
        weights = weigh(entries, slot.entry, likely, FLOOR)
        candidate = partial(preposition_candidate, caption, slot.start, slot.end, slot.object, slot.entry)
        choices.append(Choice((slot.start, slot.object), slot.entry, False, entries.names, weights, None, candidate))
    return choices


def _is_visible(caption: Caption, slot: PrepositionSlot, context: Context) -> bool:
    """Whether the object of a preposition is a visible thing or location: nothing abstract, no body part.

    A noun that is not in WordNet counts as visible if it is in the lexicon. A singular noun without an article is
    likely a wrongly parsed verb ("to furrow"), unless the corpus often has it bare.
    """
    object, nouns = caption.tokens[slot.object], context.lexicon.nouns
    noun = object.lemma
    if object.index == slot.end and object.tag == "NN" and not nouns.has_form(noun, "bare"):
        return False
    if object.pos != "NOUN" or (slot.entry != WITHOUT and is_negated(caption, slot.object)):
        return False
    known = noun in nouns.number or semantic_class(noun) != ABSTRACT or noun in prepositions().visible
    return known and not is_body_part(noun)


@cached(1 << 13)
def _exchanged(entry: str, noun: str, several: bool, names: tuple[str, ...]) -> np.ndarray:
    """A read-only mask of the entries that are incompatible with `entry` before a noun and may replace it.

    None may in "a man in a hat", nor "between" and "among" before one thing. several: whether the noun is more.
    """
    table = prepositions()
    if entry == "in" and (is_worn(noun) or noun in table.worn):
        return read_only(np.zeros(len(names), bool))
    sort = "person" if is_person(noun) else "animal" if is_animal(noun) else "building" if is_building(noun) else ""
    unfit = {WITHOUT, *table.unfit.get(sort, ())}
    unfit.update(() if several else ("between", "among"))
    return read_only(np.array([name not in unfit and table.may_replace(entry, name, noun) for name in names], bool))


def preposition_candidate(caption: Caption, start: int, end: int, object: int, old: str, new: str) -> Candidate:
    """The candidate that puts the preposition `new` in place of `old`, at tokens `start` to `end` (exclusive).

    object: the token of its noun, or another that the check of truth is to read (see `Candidate.slots`).
    """
    table8_sets = prepositions().table8_sets
    sets = table8_sets(old), table8_sets(new)
    return Candidate("preposition", (replace(caption, start, end, new),), (start, object), old, new, *sets)
