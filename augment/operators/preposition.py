"""The preposition operator of VSE-C."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache
from random import Random

import numpy as np

from negcap.augment.caption import Caption
from negcap.augment.context import Context, asked_once
from negcap.augment.edits import Candidate, Edit, cased
from negcap.augment.language.determiners import is_negated
from negcap.augment.language.kinds import ABSTRACT, is_animal, is_body_part, is_building, is_worn, kind
from negcap.augment.language.overlaps import is_person
from negcap.augment.language.prepositions import prepositions
from negcap.augment.lexicon.entries import Entries
from negcap.augment.lexicon.sampling import draw
from negcap.augment.slots.prepositions import PrepositionSlot, preposition_slots

# A preposition that the corpus makes less likely than this in its place would read oddly, and give itself away.
FLOOR = 0.003
# So is one that what governs it, or its object, has less often than this times as often as other words do.
LEAST_FAVOURED = 0.5
WITHOUT = "without"


def preposition(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Replace a preposition (Table 8 of VSE-C): "a cat on the table" -> "a cat under the table".

    Multi-word prepositions ("in front of") are one; particles, agents and set phrases stay.
    """
    slots, masses = preposition_choices(caption, context)
    for at, entry in draw(masses, rng, draws):
        yield preposition_candidate(caption, context, slots[at], context.lexicon.prepositions.names[entry])


@asked_once
def preposition_choices(caption: Caption, context: Context) -> tuple[list[PrepositionSlot], list[np.ndarray]]:
    """The slots of a caption and, for each, the weight of every preposition of the lexicon there."""
    entries = context.lexicon.prepositions
    slots, masses = [], []
    for slot in preposition_slots(caption):
        number = entries.number.get(slot.entry)
        if number is None or not _says_where(caption, slot, context):
            continue
        exchanged = _exchanged(slot.entry, caption.tokens[slot.object].lemma, entries.names)
        mass = entries.masses(slot.places, own=number, floor=FLOOR)
        mass *= exchanged & _said_of(caption, slot.object, entries.names)
        if mass.any():
            mass[_odd(slot, exchanged, entries)] = 0.0
        slots.append(slot)
        masses.append(mass)
    return slots, masses


def preposition_candidate(caption: Caption, context: Context, slot: PrepositionSlot, name: str) -> Candidate:
    """The candidate that puts a preposition in a slot."""
    table = prepositions()
    first, last = caption.tokens[slot.start], caption.tokens[slot.end - 1]
    edit = Edit(first.start, last.end, cased(name, first.text, first=slot.start == 0))
    sets = table.name(slot.entry), table.name(name)
    return Candidate("preposition", (edit,), (slot.start, slot.object), slot.entry, name, *sets)


def _says_where(caption: Caption, slot: PrepositionSlot, context: Context) -> bool:
    """Whether the object is a thing or a place that photos show: no abstraction, no part of a body.

    A word that WordNet lacks is such a thing if the corpus has it often; without an article it is a verb as often as
    not, "to furrow", unless the corpus has it so.
    """
    object, nouns = caption.tokens[slot.object], context.lexicon.nouns
    noun = object.lemma
    if object.index == slot.end and object.tag == "NN" and not nouns.has_form(noun, "bare"):
        return False
    if object.pos != "NOUN" or (slot.entry != WITHOUT and is_negated(caption, slot.object)):
        return False
    known = noun in nouns.number or kind(noun) != ABSTRACT or noun in prepositions().visible
    return known and not is_body_part(noun)


def _said_of(caption: Caption, object: int, names: tuple[str, ...]) -> np.ndarray:
    """The entries that an object can have as it is put, as a mask, shape (entries,)."""
    noun = caption.tokens[object]
    several = noun.tag == "NNS" or any(True for _ in caption.dependents(object, "conj"))
    described = any(True for _ in caption.dependents(object, "amod", "nummod"))
    return _put(names, several, described)


@cache
def _put(names: tuple[str, ...], several: bool, described: bool) -> np.ndarray:
    """Nothing is "between" one thing; there is "without a hat", but who would say "without a blue hat"?"""
    never = {*(() if several else ("between", "among")), *((WITHOUT,) if described else ())}
    return np.array([name not in never for name in names])


def _odd(slot: PrepositionSlot, others: np.ndarray, entries: Entries) -> np.ndarray:
    """The entries that do not go with what governs the slot or with its object, as a mask, shape (entries,).

    `others`, what can be exchanged for the one that stands there, is compared with its like. A way ("into", "past") is
    odd behind a word that the corpus never has it behind, unless there was another way; so is what the word makes a
    meaning with.
    """
    table = prepositions()
    odd = np.minimum(*(entries.favoured(slot.places[i : i + 2], others) for i in (0, 2))) < LEAST_FAVOURED
    if slot.entry not in table.ways:
        odd |= _ways(entries.names) & (entries.observed(slot.places[0]) == 0)
    own = table.owned.get(slot.places[0].partition(":")[2], ())
    odd[[entries.number[name] for name in own if name in entries.number]] = True
    return odd


@lru_cache(maxsize=1 << 10)
def _ways(names: tuple[str, ...]) -> np.ndarray:
    return np.array([name in prepositions().ways for name in names])


@lru_cache(maxsize=1 << 13)
def _exchanged(entry: str, noun: str, names: tuple[str, ...]) -> np.ndarray:
    """The entries that cannot hold of a noun when one does, and may take its place, as a mask, shape (entries,)."""
    table = prepositions()
    worn = entry == "in" and (is_worn(noun) or noun in table.worn)  # "a man in a hat": what is not in it is without it
    sorts = {"person": is_person, "animal": is_animal, "building": is_building}
    unfit = next((table.unfit[name] for name, holds in sorts.items() if holds(noun)), ())
    return np.array(
        [table.exchanged(entry, name, noun) and name not in unfit and (not worn or name == WITHOUT) for name in names]
    )
