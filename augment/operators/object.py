"""UniVSE's object attack: replace or append a noun."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np

from ..caption import Caption
from ..context import Context
from ..edits import Candidate, Edit
from ..language.grammar import agreement_edits, article
from ..language.wordnet import first_sense
from ..lexicon.lexicon import sample
from ..slots.nouns import NounSlot
from .choices import draw
from .noun import known_slots, noun_choices

APPENDED = {"nsubj", "nsubjpass", "dobj", "pobj", "ROOT"}


def object_(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Replace a noun by one that is not in the image, or append one, with equal chance (UniVSE, supplement B.2).

    "a dog on a couch" -> "a dog on a table", or "a dog and a cat on a couch", which is longer than the caption. Yields
    at most `draws` candidates.
    """
    names = context.lexicon.nouns.names
    open = [slot for slot in known_slots(caption, context.lexicon.nouns) if _appends(caption, slot)]
    replaced = draw(noun_choices(caption, context), rng, draws)
    appended = sample([_weights(slot, context) for slot in open], rng, draws)
    for _ in range(draws):
        if rng.random() < 0.5:
            drawn = next(appended, None)
            if drawn is not None:
                at, entry = drawn
                yield _appended(caption, context, open[at], names[entry])
        else:
            made = next(replaced, None)
            if made is not None:
                yield made


def _appends(caption: Caption, slot: NounSlot) -> bool:
    """Whether "and a cat" can follow a noun: no list, no "of" after it, no possessor, no predicate, no mass noun."""
    root = caption.tokens[slot.root]
    if not slot.plural and slot.form not in ("a", "the"):
        return False
    behind = caption.lowered[slot.end] if slot.end < len(caption.tokens) else ""
    listed = root.dep == "conj" or any(True for _ in caption.dependents(root.index, "conj", "cc", "appos"))
    return root.dep in APPENDED and not listed and behind not in ("of", "'s", "'", "and", "or", ",", "-")


def _weights(slot: NounSlot, context: Context) -> np.ndarray:
    """The weight of each noun as an addition to that of a slot: its probability there; 0 for another semantic class."""
    nouns = context.lexicon.nouns
    weights = nouns.probabilities(slot.contexts[:2], _form(slot), nouns.number[slot.entry])
    weights[context.lexicon.may_corefer(slot.entry)] = 0.0
    weights[nouns.classes != nouns.classes[nouns.number[slot.entry]]] = 0.0
    return weights


def _form(slot: NounSlot) -> str:
    return "a" if slot.form == "the" else slot.form


def _appended(caption: Caption, context: Context, slot: NounSlot, name: str) -> Candidate:
    lexicon = context.lexicon
    surface = (lexicon.plural if slot.plural else lexicon.singular)[name]
    if _form(slot) == "a":
        surface = f"{article(surface)} {surface}"
    end = caption.tokens[slot.root].end
    verbs = [] if slot.plural else agreement_edits(caption, slot.root, plural=True)
    edits = sorted([Edit(end, end, f" and {surface}"), *(verbs or ())])
    rejected = "ungrammatical" if verbs is None else None
    return Candidate("noun", tuple(edits), (slot.root,), "", name, None, first_sense(name), rejected)
