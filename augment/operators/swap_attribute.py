"""Two nouns exchange their attributes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from random import Random

from negcap.augment.caption import Caption
from negcap.augment.context import Context
from negcap.augment.edits import Candidate
from negcap.augment.language.attributes import exclude
from negcap.augment.lexicon.sampling import accepts
from negcap.augment.operators.attribute import attribute_edits
from negcap.augment.slots.attributes import AttributeSlot, attribute_slots

# How much of the implausibility of an exchange is forgiven (1: none).
TEMPERATURE = 5.0


def swap_attribute(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Exchange the attributes of two nouns: "a red car and a blue house" -> "a blue car and a red house".

    Only attributes that exclude each other; a pair is taken as often as the corpus makes it likely after the exchange
    against before, as for `shuffle`.
    """
    slots = [slot for slot in attribute_slots(caption) if slot.form == "attributive"]
    pairs = [(a, b) for a, b in combinations(slots, 2) if a.noun != b.noun and exclude(a.entry, b.entry)]
    rng.shuffle(pairs)
    for one, other in pairs[:draws]:
        gain = _gain(one, other, context)
        if gain is None or not accepts(gain / TEMPERATURE, rng):
            continue
        edits = sorted([*attribute_edits(caption, one, other.entry), *attribute_edits(caption, other, one.entry)])
        yield Candidate(
            "attribute_swap",
            tuple(edits),
            (one.noun, other.noun),
            f"{one.entry} | {other.entry}",
            f"{other.entry} | {one.entry}",
        )


def _gain(one: AttributeSlot, other: AttributeSlot, context: Context) -> float | None:
    """Log of p' / p for the exchange; None where the corpus says too little of either attribute."""
    entries = context.lexicon.attributes
    a, b = entries.number.get(one.entry), entries.number.get(other.entry)
    if a is None or b is None:
        return None
    near, far = entries.gains(one.places, a), entries.gains(other.places, b)
    return float(near[b] + far[a] - near[a] - far[b])
