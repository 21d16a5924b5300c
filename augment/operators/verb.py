"""Replace a verb by another with the same form and argument pattern."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random

import numpy as np

from ..caption import Caption, cached, cached_on_context
from ..context import Context
from ..edits import Candidate, replace
from ..language.wordnet import first_sense
from ..slots.verbs import VerbSlot, are_incompatible, inflected, verb_slots
from .choices import Choice, draw, weigh

FLOOR = -4.0  # the lowest log p(verb | rest of the caption) of a replacement


def verb(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Replace a verb by an incompatible one: "a boy throws a ball" -> "a boy kicks a ball"."""
    return draw(verb_choices(caption, context), rng, draws)


@cached_on_context
def verb_choices(caption: Caption, context: Context) -> list[Choice]:
    """The incompatible verbs that may replace each verb of a caption, by their probability there.

    The inflection and the object or preposition stay; neither verb entails the other (WordNet's troponymy, entailment,
    cause).
    """
    entries, choices = context.lexicon.verbs, []
    for slot in verb_slots(caption):
        likely = context.log_probabilities("verb", (slot.index, slot.index + 1), slot.contexts, slot.tag)
        odds = likely - context.reading.log_probability(slot.index)
        likely[_compatible(slot.entry, slot.pattern, entries.names)] = -np.inf
        weights = weigh(entries, slot.entry, likely, FLOOR)
        candidate = partial(verb_candidate, caption, context, slot)
        choices.append(Choice((slot.index,), slot.entry, False, entries.names, weights, odds, candidate))
    return choices


@cached(4096)
def _compatible(entry: str, pattern: str, names: tuple[str, ...]) -> list[int]:
    """The entry numbers of the verbs that may be true of the same subject as `entry`."""
    return [number for number, name in enumerate(names) if not are_incompatible(name, entry, pattern)]


def verb_candidate(caption: Caption, context: Context, slot: VerbSlot, name: str) -> Candidate | None:
    """The candidate that puts the verb `name` in a slot; None if the corpus never has it in the form needed."""
    surface = inflected(name, slot.tag, context.lexicon.inflected.get(slot.tag.lower(), {}))
    if surface is None:
        return None
    edit = replace(caption, slot.index, slot.index + 1, surface)
    senses = first_sense(slot.entry, "v"), first_sense(name, "v")
    return Candidate("verb", (edit,), (slot.index,), slot.entry, name, *senses)
