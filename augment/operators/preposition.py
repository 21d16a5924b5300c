"""The preposition operator of VSE-C."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from random import Random

import numpy as np

from augment.caption import Caption
from augment.context import Context
from augment.edits import Candidate, Edit, cased
from augment.language.determiners import is_negated
from augment.language.kinds import is_worn
from augment.language.places import PrepositionSlot, preposition_slots
from augment.language.prepositions import prepositions
from augment.sampling import draw

# A preposition that the corpus makes less likely than this in its place would read oddly, and give itself away.
FLOOR = 0.006


def preposition(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Replace a preposition (Table 8 of VSE-C): "a cat on the table" -> "a cat under the table".

    Multi-word prepositions ("in front of") are one; particles, agents and set phrases stay.
    """
    slots, masses = preposition_choices(caption, context)
    for at, entry in draw(masses, rng, draws):
        yield preposition_candidate(caption, context, slots[at], context.lexicon.prepositions.names[entry])


def preposition_choices(caption: Caption, context: Context) -> tuple[list[PrepositionSlot], list[np.ndarray]]:
    """The slots of a caption and, for each, the weight of every preposition of the lexicon there."""
    entries = context.lexicon.prepositions
    slots, masses = [], []
    for slot in preposition_slots(caption):
        number = entries.number.get(slot.entry)
        if number is None or (slot.entry != "without" and is_negated(caption, slot.object)):
            continue
        mass = entries.masses(slot.places, own=number, floor=FLOOR)
        mass[_not_exchanged(slot.entry, caption.tokens[slot.object].lemma, entries.names)] = 0.0
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


@lru_cache(maxsize=1 << 13)
def _not_exchanged(entry: str, noun: str, names: tuple[str, ...]) -> list[int]:
    """The numbers of the entries that may hold of a noun when one does, or that do not take its place."""
    table = prepositions()
    worn = entry == "in" and (is_worn(noun) or noun in table.worn)  # "a man in a hat": what is not in it is without it
    return [n for n, name in enumerate(names) if not table.exchanged(entry, name, noun) or (worn and name != "without")]
