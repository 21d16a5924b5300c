"""Selectional preferences: which nouns fit the governor of a slot."""

from __future__ import annotations

import numpy as np

from negcap.augment.cache import cached, read_only
from negcap.augment.caption import Caption
from negcap.augment.language.attributes import attributes
from negcap.augment.language.semantic_classes import LIVING, is_body_part, is_location, is_worn
from negcap.augment.lexicon.entries import Entries
from negcap.augment.slots.contexts import first_conjunct
from negcap.augment.slots.nouns import NounSlot

# Postures, which things can have as well as persons and animals.
POSTURES = frozenset("sit stand lie lay rest lean hang".split())
OF_ANYTHING = frozenset({"colour", "pattern", "size"})  # dimensions that every thing has
# Minimum lift of a noun after an adjective for the two to fit.
MIN_ADJECTIVE_LIFT = 0.4


def implausible_nouns(caption: Caption, slot: NounSlot, nouns: Entries, min_lift: float) -> np.ndarray:
    """A mask of the nouns that do not fit a slot: shape (entries,).

    Nouns with a lift below `min_lift` given the governor ("reads a ladder"); for a slot with a person or animal that
    does or wears something, all nouns that are not alive ("a bathroom skis downhill"); for a location that heads the
    caption, all other nouns ("a parking meter with a desk and chairs").
    """
    implausible = nouns.lift(slot.contexts[:2]) < min_lift
    own = nouns.classes[nouns.number[slot.entry]]
    if is_location(slot.entry) and caption.tokens[slot.root].dep in ("ROOT", "nsubj", "attr"):
        implausible = implausible | ~_locations(nouns.names)
    if own in LIVING and _acts(caption, slot):
        implausible = implausible | (nouns.classes > max(LIVING))
    return implausible


def implausible_with_adjective(caption: Caption, slot: NounSlot, nouns: Entries) -> np.ndarray:
    """A mask of the nouns that do not fit the adjective before a slot: shape (entries,). "a foggy sofa"."""
    if not slot.start or caption.tokens[slot.start - 1].dep != "amod":
        return np.zeros(len(nouns.names), bool)
    found = nouns.lift(slot.contexts[2:3]) < MIN_ADJECTIVE_LIFT
    if OF_ANYTHING.isdisjoint(attributes().dimensions.get(caption.lowered[slot.start - 1], ())):
        other = nouns.classes != nouns.classes[nouns.number[slot.entry]]
        found = found | (other & (nouns.counts_in(slot.contexts[2]) == 0))
    return found


@cached(16)
def _locations(names: tuple[str, ...]) -> np.ndarray:
    return read_only(np.array([is_location(name) for name in names]))


def _acts(caption: Caption, slot: NounSlot) -> bool:
    """Whether a noun does or wears something: "a **man** throws a ball", "a **girl** in a hat"."""
    noun = caption.tokens[slot.root]
    first = first_conjunct(caption, noun)
    does = [caption.tokens[first.head]] if first.dep == "nsubj" else []
    does += [token for token in caption.dependents(noun.index, "acl", "relcl") if token.tag not in ("VBN", "VB")]
    if any(verb.pos == "VERB" and verb.lemma not in POSTURES for verb in does):
        return True
    has = (token.index for token in caption.dependents(noun.index, "prep") if token.lower in ("in", "with"))
    return any(
        is_worn(thing.lemma) or is_body_part(thing.lemma) for at in has for thing in caption.dependents(at, "pobj")
    )
