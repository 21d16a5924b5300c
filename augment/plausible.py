"""Which nouns can stand in a place at all, whatever the rest of the caption makes likely."""

from __future__ import annotations

import numpy as np

from augment.caption import Caption
from augment.language.entries import Entries
from augment.language.kinds import LIVING
from augment.language.places import NounSlot
from augment.language.verbs import verbs


def unfit_nouns(caption: Caption, slot: NounSlot, nouns: Entries, least: float) -> np.ndarray:
    """The nouns that do not go with what governs a slot, as a mask, shape (entries,): "a bathroom skiing downhill".

    They are those that it has less than `least` times as often as other words have them; and all that do not live,
    where somebody living does something.
    """
    unfit = nouns.favoured(slot.places[:2]) < least
    if nouns.kinds[nouns.number[slot.entry]] in LIVING and _acts(caption, slot):
        unfit |= nouns.kinds > max(LIVING)
    return unfit


def _acts(caption: Caption, slot: NounSlot) -> bool:
    """Whether a noun does something, more than standing there: "a **man** throws a ball", "a **dog** chasing a cat"."""
    noun = caption.tokens[slot.root]
    while noun.dep == "conj" and noun.head != noun.index:
        noun = caption.tokens[noun.head]
    does = [caption.tokens[noun.head]] if noun.dep == "nsubj" else []
    does += [token for token in caption.dependents(noun.index, "acl", "relcl") if token.tag not in ("VBN", "VB")]
    return any(verb.pos == "VERB" and verb.lemma not in verbs().postures for verb in does)
