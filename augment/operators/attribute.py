"""UniVSE's attribute attack: replace or add an attribute."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random

import numpy as np

from ..caption import Caption, cached, cached_on_context
from ..context import Context
from ..edits import Candidate, Edit, cased, replace
from ..language.determiners import is_negated
from ..language.grammar import with_article
from ..language.semantic_classes import NOT_OF_PERSONS, are_incompatible, attributes, is_animal, is_person
from ..lexicon.lexicon import sample
from ..slots.nouns import AttributeSlot, NounSlot, attribute_slots, noun_slots
from .choices import Choice, draw, weigh

# An attribute may be added to a noun if at least EXPECTED occurrences are expected by chance in a lexicon of NOUNS
# nouns (less in a smaller one), and there is none.
EXPECTED, NOUNS = 5.0, 400_000
# Dimensions that are visible in photos; size and age are a matter of opinion.
ADDED = frozenset("colour pattern material hair curl shape".split())
FLOOR = -5.0  # the lowest log p(attribute | rest of the caption) of a replacement


def attribute(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Replace an attribute by an incompatible one (UniVSE, supplement B.2): "a red car" -> "a blue car"."""
    return draw(attribute_choices(caption, context), rng, draws)


@cached_on_context
def attribute_choices(caption: Caption, context: Context) -> list[Choice]:
    """The incompatible attributes that may replace each attribute of a caption, by their probability there."""
    entries, choices = context.lexicon.attributes, []
    for slot in attribute_slots(caption):
        if is_negated(caption, slot.noun) or not context.reading.is_unit(slot.index):
            continue  # "a leather jacket" is one unit
        likely = context.log_probabilities("attribute", (slot.index, slot.index + 1), slot.contexts)
        odds = likely - context.reading.log_probability(slot.index)
        likely[_compatible(slot.entry, entries.names)] = -np.inf
        weights = weigh(entries, slot.entry, likely, FLOOR)
        candidate = partial(attribute_candidate, caption, slot)
        choices.append(Choice((slot.index, slot.noun), slot.entry, False, entries.names, weights, odds, candidate))
    return choices


@cached(4096)
def _compatible(entry: str, names: tuple[str, ...]) -> list[int]:
    """The entry numbers of the attributes that may be true of the same thing as `entry`."""
    return [number for number, name in enumerate(names) if not are_incompatible(name, entry)]


def attribute_candidate(caption: Caption, slot: AttributeSlot, name: str) -> Candidate:
    """The candidate that puts the attribute `name` in a slot, with a/an adjusted."""
    return Candidate("attribute", attribute_edits(caption, slot, name), (slot.index, slot.noun), slot.entry, name)


def attribute_edits(caption: Caption, slot: AttributeSlot, name: str) -> tuple[Edit, ...]:
    """The edits that put the attribute `name` in a slot, with a/an adjusted."""
    return with_article(caption, slot.index, replace(caption, slot.index, slot.index + 1, name), name)


def added_attribute(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Add an attribute that the corpus never gives the noun: "a dog" -> "a cloudy dog"."""
    names = context.lexicon.attributes.names
    nouns = [slot for slot in noun_slots(caption) if slot.start + 1 == slot.end and not is_negated(caption, slot.root)]
    for number, entry in sample([_weights_of_absent(caption, slot, context) for slot in nouns], rng, draws):
        root, name = nouns[number].root, names[entry]
        token, first = caption.tokens[root], root == 0
        noun = token.lower if first and caption.casing == "sentence" else token.text
        edit = Edit(token.start, token.end, f"{cased(name, token.text, caption.casing, first=first)} {noun}")
        yield Candidate("attribute", with_article(caption, root, edit, name), (root, root), "", name)


def _weights_of_absent(caption: Caption, slot: NounSlot, context: Context) -> np.ndarray:
    """The weight of each attribute as an addition to a noun: its frequency, 0 if the corpus has it with the noun."""
    entries, known = context.lexicon.attributes, attributes().dimensions
    seen = entries.counts_in(f"noun:{slot.entry}")
    expected = entries.counts * (seen.sum() / max(entries.counts.sum(), 1.0))
    least = EXPECTED * min(1.0, np.add.reduce(context.lexicon.nouns.counts) / NOUNS)
    weights = np.where((expected >= least) & (seen == 0), entries.counts, 0.0)
    # Dimensions that the noun has already, and those whose words mean something else: "a black man", "a wooden dog".
    never = {name for token in caption.dependents(slot.root, "amod") for name in known.get(token.lower, ())}
    never |= NOT_OF_PERSONS if is_person(slot.entry) else {"material", "shape"} if is_animal(slot.entry) else set()
    weights[_not_added(entries.names, frozenset(never))] = 0.0
    return weights


@cached(256)
def _not_added(names: tuple[str, ...], never: frozenset[str]) -> list[int]:
    """The entry numbers of attributes that are vague ("large"), or have no dimension that may be added."""
    known = attributes()
    open = ADDED - never
    return [n for n, name in enumerate(names) if name in known.vague or open.isdisjoint(known.dimensions.get(name, ()))]
