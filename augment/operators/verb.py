"""A verb against another of the same form and argument pattern."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from random import Random

import numpy as np

from negcap.augment.caption import Caption
from negcap.augment.context import Context, asked_once
from negcap.augment.edits import Candidate, Edit, cased
from negcap.augment.language.wordnet import first_sense
from negcap.augment.lexicon.sampling import draw
from negcap.augment.slots.verbs import OBJECT, VerbSlot, exclude, inflected, verb_slots, verbs

# A verb that the corpus makes less likely than this in its place would read oddly, and give itself away.
FLOOR = 0.008
# So would one that its subject, or what follows it, has less often than this times as often as others have it.
LEAST_FAVOURED = 0.3


def verb(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Replace a verb by one that nobody does at the same time: "a boy throws a ball" -> "a boy kicks a ball".

    Same inflection, same object or preposition; neither entails the other (WordNet's troponymy, entailment, cause).
    """
    slots, masses = verb_choices(caption, context)
    for at, entry in draw(masses, rng, draws):
        made = verb_candidate(caption, context, slots[at], context.lexicon.verbs.names[entry])
        if made:
            yield made


@asked_once
def verb_choices(caption: Caption, context: Context) -> tuple[list[VerbSlot], list[np.ndarray]]:
    """The slots of a caption and, for each, the weight of every verb of the lexicon there."""
    entries = context.lexicon.verbs
    slots, masses = [], []
    for slot in verb_slots(caption):
        mass = entries.masses(slot.places, slot.pattern, entries.number.get(slot.entry), FLOOR)
        mass[_compatible(slot.entry, slot.pattern, entries.names)] = 0.0
        for places in (slot.places[:2], slot.places[2:4]) if mass.any() else ():
            mass[entries.favoured(places) < LEAST_FAVOURED] = 0.0
        if slot.pattern == OBJECT:
            object = next(caption.dependents(slot.index, "dobj"), None)
            mass[_never_takes(object.lemma if object else "", entries.names)] = 0.0
        slots.append(slot)
        masses.append(mass)
    return slots, masses


def verb_candidate(caption: Caption, context: Context, slot: VerbSlot, name: str) -> Candidate | None:
    """The candidate that puts a verb in a slot; None where the corpus never writes it in that form."""
    token = caption.tokens[slot.index]
    surface = inflected(name, slot.tag, context.lexicon.inflected.get(slot.tag.lower(), {}))
    if surface is None:
        return None
    edit = Edit(token.start, token.end, cased(surface, token.text, first=slot.index == 0))
    senses = first_sense(slot.entry, "v"), first_sense(name, "v")
    return Candidate("verb", (edit,), (slot.index,), slot.entry, name, *senses)


@lru_cache(maxsize=4096)
def _never_takes(noun: str, names: tuple[str, ...]) -> list[int]:
    """The numbers of the verbs that do not have a noun as their object."""
    return [number for number, name in enumerate(names) if not verbs().takes_object(name, noun)]


@lru_cache(maxsize=4096)
def _compatible(entry: str, pattern: str, names: tuple[str, ...]) -> list[int]:
    """The numbers of the verbs that somebody may be doing who does `entry`."""
    return [number for number, name in enumerate(names) if not exclude(name, entry, pattern)]
