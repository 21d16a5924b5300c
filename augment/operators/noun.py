"""The noun operator of VSE-C: the head of a noun phrase against another frequent concrete head."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

import numpy as np

from augment.caption import Caption
from augment.context import Context
from augment.edits import Candidate, Edit, cased
from augment.language.attributes import attributes
from augment.language.determiners import is_negated
from augment.language.entries import Entries
from augment.language.grammar import pronoun_edits, with_article
from augment.language.kinds import PERSON
from augment.language.overlaps import gender, head
from augment.language.places import NounSlot, noun_slots
from augment.language.wordnet import first_sense
from augment.sampling import draw

# The power that probabilities are raised to: of hundreds of nouns, each too unlikely to matter, many would be drawn.
SHARPNESS = 1.25
# A noun that the corpus makes this much less likely than the best one for the caption reads oddly: only where all the
# others are refused.
ODD = 0.001
COLOURS = frozenset({"colour", "pattern"})


def noun(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Replace the head of a noun phrase (Section 3.1 of VSE-C): "a dog on a couch" -> "a dog on a table".

    Heads and replacements are the lexicon's; relational nouns ("a group of") stay. Yields lazily, as drawn.
    """
    names = context.lexicon.nouns.names
    slots, masses, spare = noun_choices(caption, context)
    made = [noun_candidates(caption, context, slot) for slot in slots]
    for at, entry in draw(masses, rng, draws):
        yield made[at](names[entry])
    for at, entry in draw(spare, rng, draws):
        yield made[at](names[entry])._replace(spare=True)


class Choices(NamedTuple):
    """The slots of a caption and, for each, the weight of every noun of the lexicon there; odd ones are `spare`."""

    slots: list[NounSlot]
    masses: list[np.ndarray]
    spare: list[np.ndarray]


def noun_choices(caption: Caption, context: Context) -> Choices:
    """What may replace which head of a caption."""
    nouns = context.lexicon.nouns
    slots = _slots(caption, nouns)
    likely = []
    for slot in slots:
        probabilities = nouns.probabilities(slot.places, slot.form, nouns.number[slot.entry]) ** SHARPNESS
        probabilities[context.lexicon.same_things(slot.entry)] = 0.0
        if nouns.kinds[nouns.number[slot.entry]] != PERSON and _is_coloured(caption, slot):
            probabilities[nouns.kinds == PERSON] = 0.0  # "a black and brown dog" is no "black and brown woman"
        likely.append(probabilities)
    odd = ODD * max((float(one.max(initial=0.0)) for one in likely), default=0.0)
    balanced = [
        nouns.balanced(one, nouns.number[slot.entry], plural=slot.plural)
        for slot, one in zip(slots, likely, strict=True)
    ]
    usual = [one > odd for one in likely]
    return Choices(
        slots,
        [np.where(mask, masses, 0.0) for mask, masses in zip(usual, balanced, strict=True)],
        [np.where(mask, 0.0, masses) for mask, masses in zip(usual, balanced, strict=True)],
    )


def _is_coloured(caption: Caption, slot: NounSlot) -> bool:
    """Whether a noun has a colour or a pattern, which said of persons means another thing."""
    known = attributes().dimensions
    return any(not COLOURS.isdisjoint(known.get(token.lower, ())) for token in caption.dependents(slot.root, "amod"))


def noun_candidates(caption: Caption, context: Context, slot: NounSlot) -> Callable[[str], Candidate]:
    """What makes the candidate that puts a noun of the lexicon in a slot, article and pronouns following."""
    surfaces = context.lexicon.plural if slot.plural else context.lexicon.singular
    first = caption.tokens[slot.start]
    start, end, old = first.start, caption.tokens[slot.end - 1].end, first.text
    lower, sense = old.islower(), first_sense(slot.entry)

    def candidate(name: str) -> Candidate:
        surface = surfaces[name]
        edit = Edit(start, end, surface if lower else cased(surface, old, first=slot.start == 0))
        edits = with_article(caption, slot.start, edit, surface)
        refused = None
        if caption.pronouns:
            of = None if slot.plural else gender(slot.entry)
            pronouns = pronoun_edits(caption, slot.root, old=of, new=name, plural=slot.plural)
            if pronouns is None:
                refused = "dangling_pronoun"
            elif pronouns:
                edits = tuple(sorted([*edits, *pronouns]))
        return Candidate("noun", edits, (slot.root,), slot.entry, name, sense, first_sense(name), refused)

    return candidate


def _slots(caption: Caption, nouns: Entries) -> list[NounSlot]:
    """The slots whose entry is in the lexicon; where there is none, those whose compound goes by its head."""
    slots = [
        slot
        for slot in noun_slots(caption)
        if caption.lowered[slot.end : slot.end + 1] != ("of",) and not is_negated(caption, slot.root)
    ]
    known = [slot for slot in slots if slot.entry in nouns.number]
    if known:
        return known
    headed = [slot._replace(entry=head(slot.entry)) for slot in slots]
    return [slot for slot in headed if slot.entry in nouns.number]
