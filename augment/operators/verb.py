"""Replace a verb by another with the same form and argument pattern."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np

from negcap.augment.cache import cached, cached_on_context, read_only
from negcap.augment.caption import Caption
from negcap.augment.context import Context
from negcap.augment.edits import Candidate, Edit, cased
from negcap.augment.language.wordnet import first_sense
from negcap.augment.lexicon.sampling import sample
from negcap.augment.slots.verbs import OBJECT, VerbSlot, are_incompatible, inflected, verb_slots, verbs

# Minimum probability of a verb in its slot: less likely ones are implausible and recognisable from the text alone.
FLOOR = 0.008
# Minimum lift given its subject and given its object, for the same reason.
MIN_LIFT = 0.3


def verb(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Replace a verb by an incompatible one: "a boy throws a ball" -> "a boy kicks a ball".

    The inflection and the object or preposition stay; neither verb entails the other (WordNet's troponymy, entailment,
    cause). Samples at most `draws` verbs.
    """
    slots, weights = verb_choices(caption, context)
    for at, entry in sample(weights, rng, draws):
        made = verb_candidate(caption, context, slots[at], context.lexicon.verbs.names[entry])
        if made:
            yield made


@cached_on_context
def verb_choices(caption: Caption, context: Context) -> tuple[list[VerbSlot], list[np.ndarray]]:
    """The verb slots of a caption and, for each, the sampling weight of every verb: shape (entries,), read-only."""
    entries = context.lexicon.verbs
    slots, slot_weights = [], []
    for slot in verb_slots(caption):
        weights = entries.sampling_weights(slot.contexts, slot.pattern, entries.number.get(slot.entry), FLOOR)
        weights[_compatible(slot.entry, slot.pattern, entries.names)] = 0.0
        for contexts in (slot.contexts[:2], slot.contexts[2:4]) if weights.any() else ():
            weights[entries.lift(contexts) < MIN_LIFT] = 0.0
        if slot.pattern == OBJECT:
            object = next(caption.dependents(slot.index, "dobj"), None)
            weights[_never_takes(object.lemma if object else "", entries.names)] = 0.0
        slots.append(slot)
        slot_weights.append(read_only(weights))
    return slots, slot_weights


def verb_candidate(caption: Caption, context: Context, slot: VerbSlot, name: str) -> Candidate | None:
    """The candidate that puts the verb `name` in a slot; None if the corpus never has it in the form needed."""
    token = caption.tokens[slot.index]
    surface = inflected(name, slot.tag, context.lexicon.inflected.get(slot.tag.lower(), {}))
    if surface is None:
        return None
    edit = Edit(token.start, token.end, cased(surface, token.text, first=slot.index == 0))
    senses = first_sense(slot.entry, "v"), first_sense(name, "v")
    return Candidate("verb", (edit,), (slot.index,), slot.entry, name, *senses)


@cached(4096)
def _never_takes(noun: str, names: tuple[str, ...]) -> list[int]:
    """The entry numbers of the verbs that cannot have this noun as their object."""
    return [number for number, name in enumerate(names) if not verbs().takes_object(name, noun)]


@cached(4096)
def _compatible(entry: str, pattern: str, names: tuple[str, ...]) -> list[int]:
    """The entry numbers of the verbs that may be true of the same subject as `entry`."""
    return [number for number, name in enumerate(names) if not are_incompatible(name, entry, pattern)]
