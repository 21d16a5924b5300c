"""The noun operator of VSE-C: the head of a noun phrase against another frequent concrete head."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import numpy as np

from negcap.augment.caption import Caption
from negcap.augment.context import Context, asked_once
from negcap.augment.edits import Candidate, Edit, cased
from negcap.augment.language.articles import article_before, with_article
from negcap.augment.language.attributes import attributes
from negcap.augment.language.determiners import is_negated
from negcap.augment.language.grammar import pronoun_edits
from negcap.augment.language.kinds import PERSON
from negcap.augment.language.overlaps import gender, head
from negcap.augment.language.wordnet import first_sense
from negcap.augment.lexicon.entries import Entries
from negcap.augment.lexicon.sampling import draw
from negcap.augment.plausible import undescribed_nouns, unfit_nouns
from negcap.augment.slots.nouns import NounSlot, noun_slots

# The power that probabilities are raised to: of hundreds of nouns, each too unlikely to matter, many would be drawn.
SHARPNESS = 1.25
# A noun that the corpus makes this much less likely than the best one for the caption reads oddly: only where all the
# others are refused.
ODD = 0.001
# So does one that what governs it has less often than this times as often as other words do.
LEAST_FAVOURED = 0.25
COLOURS = frozenset({"colour", "pattern"})


def noun(caption: Caption, context: Context, rng: Random, draws: int, *, odd: bool = False) -> Iterator[Candidate]:
    """Replace the head of a noun phrase (Section 3.1 of VSE-C): "a dog on a couch" -> "a dog on a table".

    Heads and replacements are the lexicon's; relational nouns ("a group of") stay. Yields lazily, as drawn; with `odd`
    by what would read oddly.
    """
    names = context.lexicon.nouns.names
    slots, masses = noun_choices(caption, context, odd=odd)
    made = [noun_candidates(caption, context, slot) for slot in slots]
    for at, entry in draw(masses, rng, draws):
        yield made[at](names[entry])


def noun_choices(caption: Caption, context: Context, *, odd: bool = False) -> tuple[list[NounSlot], list[np.ndarray]]:
    """The slots of a caption and, for each, the weight of every noun of the lexicon there; `odd` asks for the odd ones.

    The weight of the other sort is 0.
    """
    slots, masses, usual = _weighed(caption, context)
    return slots, [mass * (~mask if odd else mask) for mass, mask in zip(masses, usual, strict=True)]


@asked_once
def _weighed(caption: Caption, context: Context) -> tuple[list[NounSlot], list[np.ndarray], list[np.ndarray]]:
    """The slots, for each the weight of every noun, and which of them are not odd."""
    nouns = context.lexicon.nouns
    slots = _slots(caption, nouns)
    likely, unfit = [], []
    for slot in slots:
        own = nouns.number[slot.entry]
        probabilities = nouns.probabilities(slot.places, slot.form, own) ** SHARPNESS
        probabilities[context.lexicon.same_things(slot.entry)] = 0.0
        if nouns.kinds[own] != PERSON and _is_coloured(caption, slot):
            probabilities[nouns.kinds == PERSON] = 0.0  # "a black and brown dog" is no "black and brown woman"
        likely.append(probabilities)
        unfit.append(unfit_nouns(caption, slot, nouns, LEAST_FAVOURED) | undescribed_nouns(caption, slot, nouns))
    least = ODD * max((float(np.maximum.reduce(one, initial=0.0)) for one in likely), default=0.0)
    masses = [
        nouns.balanced(one, nouns.number[slot.entry], plural=slot.plural)
        for slot, one in zip(slots, likely, strict=True)
    ]
    return slots, masses, [(one > least) & ~bad for one, bad in zip(likely, unfit, strict=True)]


def _is_coloured(caption: Caption, slot: NounSlot) -> bool:
    """Whether a noun has a colour or a pattern, which said of persons means another thing."""
    known = attributes().dimensions
    return any(not COLOURS.isdisjoint(known.get(token.lower, ())) for token in caption.dependents(slot.root, "amod"))


def noun_candidates(caption: Caption, context: Context, slot: NounSlot) -> Callable[[str], Candidate]:
    """What makes the candidate that puts a noun of the lexicon in a slot, article and pronouns following."""
    surfaces = context.lexicon.plural if slot.plural else context.lexicon.singular
    first, root, slots, entry = caption.tokens[slot.start], slot.root, (slot.root,), slot.entry
    start, end, old = first.start, caption.tokens[root].end, first.text
    lower, sense = old.islower(), first_sense(entry)
    before, has_pronouns = article_before(caption, slot.start), bool(caption.pronouns)
    of = None if slot.plural else gender(entry)

    def candidate(name: str) -> Candidate:
        surface = surfaces[name]
        edit = Edit(start, end, surface if lower else cased(surface, old, first=slot.start == 0))
        edits = with_article(before, edit, surface)
        refused = None
        if has_pronouns:
            pronouns = pronoun_edits(caption, root, old=of, new=name, plural=slot.plural)
            if pronouns is None:
                refused = "dangling_pronoun"
            elif pronouns:
                edits = tuple(sorted([*edits, *pronouns]))
        return Candidate("noun", edits, slots, entry, name, sense, first_sense(name), refused)

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
