"""Swap the attributes of two nouns."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from random import Random

from negcap.augment.caption import Caption
from negcap.augment.context import Context
from negcap.augment.edits import Candidate
from negcap.augment.language.attributes import are_incompatible
from negcap.augment.lexicon.sampling import accepts
from negcap.augment.operators.attribute import attribute_edits
from negcap.augment.slots.attributes import AttributeSlot, attribute_slots

# Divides the log likelihood ratio of a swap: the higher it is, the more implausible swaps are accepted.
TEMPERATURE = 5.0


def swap_attribute(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Swap the attributes of two nouns: "a red car and a blue house" -> "a blue car and a red house".

    Only incompatible attributes; a pair is used with probability min(1, (p' / p) ** (1 / TEMPERATURE)), where p and p'
    are the likelihood of both attributes in their contexts before and after. Tries at most `draws` pairs.
    """
    slots = [slot for slot in attribute_slots(caption) if slot.form == "attributive"]
    pairs = [(a, b) for a, b in combinations(slots, 2) if a.noun != b.noun and are_incompatible(a.entry, b.entry)]
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
    """log(p' / p) of a swap; None if either attribute is not in the lexicon."""
    entries = context.lexicon.attributes
    a, b = entries.number.get(one.entry), entries.number.get(other.entry)
    if a is None or b is None:
        return None
    near, far = entries.gains(one.contexts, a), entries.gains(other.contexts, b)
    return float(near[b] + far[a] - near[a] - far[b])
