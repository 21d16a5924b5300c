"""UniVSE's attribute attack."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from random import Random

import numpy as np

from negcap.augment.caption import Caption
from negcap.augment.context import Context, asked_once
from negcap.augment.edits import Candidate, Edit, cased
from negcap.augment.language.articles import article_before, with_article
from negcap.augment.language.attributes import NOT_OF_PERSONS, attributes, exclude
from negcap.augment.language.determiners import is_negated
from negcap.augment.language.kinds import is_animal
from negcap.augment.language.overlaps import is_person
from negcap.augment.lexicon.sampling import draw
from negcap.augment.slots.attributes import AttributeSlot, attribute_slots
from negcap.augment.slots.nouns import NounSlot, noun_slots

# An attribute is added to a noun that should have had it so many times by chance and never had it.
EXPECTED = 5.0
# The dimensions that one sees at once, of whatever kind the thing is; its size or its age is a matter of opinion.
ADDED = frozenset("colour pattern material hair curl shape".split())
# An attribute that the corpus makes less likely than this in its place would read oddly, and give itself away.
FLOOR = 0.01


def attribute(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Replace an attribute by one that excludes it (B.2 of UniVSE's supplement): "a red car" -> "a blue car"."""
    names = context.lexicon.attributes.names
    slots, masses = attribute_choices(caption, context)
    for at, entry in draw(masses, rng, draws):
        yield attribute_candidate(caption, context, slots[at], names[entry])


def added_attribute(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Add an attribute that the corpus hardly says of the noun: "a dog" -> "a cloudy dog"."""
    names = context.lexicon.attributes.names
    nouns = [slot for slot in noun_slots(caption) if slot.start + 1 == slot.end and not is_negated(caption, slot.root)]
    for at, entry in draw([_irrelevant(caption, slot, context) for slot in nouns], rng, draws):
        yield _added(caption, nouns[at], names[entry])


@asked_once
def attribute_choices(caption: Caption, context: Context) -> tuple[list[AttributeSlot], list[np.ndarray]]:
    """The slots of a caption and, for each, the weight of every attribute of the lexicon there."""
    entries = context.lexicon.attributes
    slots, masses = [], []
    for slot in attribute_slots(caption):
        if is_negated(caption, slot.noun):
            continue
        mass = entries.masses(slot.places, own=entries.number.get(slot.entry), floor=FLOOR)
        mass[_compatible(slot.entry, entries.names)] = 0.0
        slots.append(slot)
        masses.append(mass)
    return slots, masses


def attribute_candidate(caption: Caption, context: Context, slot: AttributeSlot, name: str) -> Candidate:
    """The candidate that puts an attribute in a slot, an article before it following."""
    return Candidate("attribute", attribute_edits(caption, slot, name), (slot.index, slot.noun), slot.entry, name)


def attribute_edits(caption: Caption, slot: AttributeSlot, name: str) -> tuple[Edit, ...]:
    """The edits that put an attribute in a slot."""
    token = caption.tokens[slot.index]
    edit = Edit(token.start, token.end, cased(name, token.text, first=slot.index == 0))
    return with_article(article_before(caption, slot.index), edit, name)


def _added(caption: Caption, slot: NounSlot, name: str) -> Candidate:
    token = caption.tokens[slot.start]
    edit = Edit(token.start, token.end, f"{cased(name, token.text, first=slot.start == 0)} {token.lower}")
    edits = with_article(article_before(caption, slot.start), edit, name)
    return Candidate("attribute", edits, (slot.root, slot.root), "", name)


def _irrelevant(caption: Caption, slot: NounSlot, context: Context) -> np.ndarray:
    """The weight of every attribute as one that a noun has not: its frequency, where it is hardly said of the noun."""
    entries, known = context.lexicon.attributes, attributes().dimensions
    seen = entries.observed(f"noun:{slot.entry}")
    expected = entries.counts * (seen.sum() / max(entries.counts.sum(), 1.0))
    masses = np.where((expected >= EXPECTED) & (seen == 0), entries.counts, 0.0)
    has = frozenset[str]().union(*(known.get(token.lower, ()) for token in caption.dependents(slot.root, "amod")))
    masses[_vaguely_added(entries.names, _never_added(slot.entry) | has)] = 0.0
    return masses


@lru_cache(maxsize=4096)
def _never_added(noun: str) -> frozenset[str]:
    """The dimensions that say something else of what a noun names, or nothing: "a black man", "a wooden dog"."""
    if is_person(noun):
        return frozenset(NOT_OF_PERSONS)
    return frozenset({"material", "shape"}) if is_animal(noun) else frozenset()


@lru_cache(maxsize=256)
def _vaguely_added(names: tuple[str, ...], never: frozenset[str]) -> list[int]:
    """The numbers of the attributes that may be true of anything ("large"), and of those of the dimensions left out."""
    known = attributes()
    open = ADDED - never
    return [n for n, name in enumerate(names) if name in known.vague or open.isdisjoint(known.dimensions.get(name, ()))]


@lru_cache(maxsize=4096)
def _compatible(entry: str, names: tuple[str, ...]) -> list[int]:
    """The numbers of the attributes that may be true of what `entry` is true of."""
    return [number for number, name in enumerate(names) if not exclude(name, entry)]
