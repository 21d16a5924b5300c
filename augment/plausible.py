"""Which nouns can stand in a place at all, whatever the rest of the caption makes likely."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from negcap.augment.caption import Caption
from negcap.augment.language.attributes import attributes
from negcap.augment.language.kinds import LIVING, is_body_part, is_place, is_worn
from negcap.augment.lexicon.entries import Entries
from negcap.augment.slots.nouns import NounSlot

# What things do as well as those who live.
RESTING = frozenset("sit stand lie lay rest lean hang".split())
OF_ANYTHING = frozenset({"colour", "pattern", "size"})  # dimensions that all things have
# Less often than this times as often as other nouns have it, and a noun does not take an adjective.
LEAST_DESCRIBED = 0.4


def unfit_nouns(caption: Caption, slot: NounSlot, nouns: Entries, least: float) -> np.ndarray:
    """The nouns that do not go with what stands beside a slot, as a mask, shape (entries,).

    They are those that what governs it has less than `least` times as often as other words ("reads a ladder"); all that
    do not live where somebody living does something or has something on ("a bathroom skis downhill", "a dock with short
    hair"); and what is no place where a caption tells what is in one ("a parking meter with a desk and chairs").
    """
    unfit = nouns.favoured(slot.places[:2]) < least
    own = nouns.kinds[nouns.number[slot.entry]]
    if is_place(slot.entry) and caption.tokens[slot.root].dep in ("ROOT", "nsubj", "attr"):
        unfit = unfit | ~_places(nouns.names)
    if own in LIVING and _acts(caption, slot):
        unfit = unfit | (nouns.kinds > max(LIVING))
    return unfit


def undescribed_nouns(caption: Caption, slot: NounSlot, nouns: Entries) -> np.ndarray:
    """The nouns that the adjective before a slot does not go with, as a mask, shape (entries,): "a foggy sofa"."""
    if not slot.start or caption.tokens[slot.start - 1].dep != "amod":
        return np.zeros(len(nouns.names), bool)
    found = nouns.favoured(slot.places[2:3]) < LEAST_DESCRIBED
    if OF_ANYTHING.isdisjoint(attributes().dimensions.get(caption.lowered[slot.start - 1], ())):
        other = nouns.kinds != nouns.kinds[nouns.number[slot.entry]]
        found = found | (other & (nouns.observed(slot.places[2]) == 0))
    return found


@lru_cache(maxsize=16)
def _places(names: tuple[str, ...]) -> np.ndarray:
    return np.array([is_place(name) for name in names])


def _acts(caption: Caption, slot: NounSlot) -> bool:
    """Whether a noun does or wears something: "a **man** throws a ball", "a **girl** in a hat"."""
    noun = first = caption.tokens[slot.root]
    while first.dep == "conj" and first.head != first.index:
        first = caption.tokens[first.head]
    does = [caption.tokens[first.head]] if first.dep == "nsubj" else []
    does += [token for token in caption.dependents(noun.index, "acl", "relcl") if token.tag not in ("VBN", "VB")]
    if any(verb.pos == "VERB" and verb.lemma not in RESTING for verb in does):
        return True
    has = (token.index for token in caption.dependents(noun.index, "prep") if token.lower in ("in", "with"))
    return any(
        is_worn(thing.lemma) or is_body_part(thing.lemma) for at in has for thing in caption.dependents(at, "pobj")
    )
