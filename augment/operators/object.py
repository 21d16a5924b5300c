"""UniVSE's object attack: replace or append a noun."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np

from ..caption import Caption
from ..context import Context
from ..edits import Candidate
from ..language.grammar import agreement_edits, article
from ..lexicon.lexicon import sample
from ..slots.nouns import NounSlot
from .choices import draw
from .noun import appended, known_slots, noun_choices

APPENDED = {"nsubj", "nsubjpass", "dobj", "pobj", "ROOT"}


def object_(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Replace a noun by one that is not in the image, or append one, with equal chance (UniVSE, supplement B.2).

    "a dog on a couch" -> "a dog on a table", or "a dog and a cat on a couch", which is longer than the caption.
    """
    names = context.lexicon.nouns.names
    open = [slot for slot in known_slots(caption, context.lexicon.nouns) if _appends(caption, slot)]
    replaced = draw(noun_choices(caption, context), rng, draws)
    added = sample([_weights(slot, context) for slot in open], rng, draws)
    for _ in range(draws):
        if rng.random() >= 0.5:
            candidate = next(replaced, None)
            if candidate is not None:
                yield candidate
        elif (drawn := next(added, None)) is not None:
            slot, name = open[drawn[0]], names[drawn[1]]
            surface = context.lexicon.forms(many=slot.plural)[name]
            words = f"{article(surface)} {surface}" if _form(slot) == "a" else surface
            verbs = [] if slot.plural else agreement_edits(caption, slot.root, plural=True)
            yield appended(caption, slot.root, f"and {words}", name, verbs)


def _appends(caption: Caption, slot: NounSlot) -> bool:
    """Whether "and a cat" can follow a noun: no list, no "of" after it, no possessor, no predicate, no mass noun."""
    if not slot.plural and slot.form not in ("a", "the"):
        return False
    root = caption.tokens[slot.root]
    listed = root.dep == "conj" or caption.has(slot.root, "conj", "cc", "appos")
    continued = caption.word(slot.end) in ("of", "'s", "'", "and", "or", ",", "-")
    return root.dep in APPENDED and not listed and not continued


def _weights(slot: NounSlot, context: Context) -> np.ndarray:
    """The weight of each noun as an addition to that of a slot: its probability there; 0 for another semantic class."""
    nouns = context.lexicon.nouns
    weights = nouns.probabilities(slot.contexts[:2], _form(slot), nouns.number[slot.entry])
    weights[context.lexicon.may_corefer(slot.entry)] = 0.0
    weights[nouns.classes != nouns.classes[nouns.number[slot.entry]]] = 0.0
    return weights


def _form(slot: NounSlot) -> str:
    return "a" if slot.form == "the" else slot.form
