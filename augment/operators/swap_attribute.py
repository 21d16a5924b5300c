"""Swap the attributes of two nouns."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from random import Random

from ..caption import Caption
from ..context import Context
from ..edits import Candidate, exchanged
from ..language.semantic_classes import are_incompatible
from ..slots.nouns import attribute_slots
from .attribute import attribute_edits


def swap_attribute(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Swap the attributes of two nouns: "a red car and a blue house" -> "a blue car and a red house".

    Only incompatible attributes.
    """
    slots = [slot for slot in attribute_slots(caption) if slot.form == "attributive"]
    pairs = [(a, b) for a, b in combinations(slots, 2) if a.noun != b.noun and are_incompatible(a.entry, b.entry)]
    rng.shuffle(pairs)
    for one, other in pairs[:draws]:
        edits = sorted([*attribute_edits(caption, one, other.entry), *attribute_edits(caption, other, one.entry)])
        words = exchanged(one.entry, other.entry)
        yield Candidate("attribute_swap", tuple(edits), (one.noun, other.noun), *words)
