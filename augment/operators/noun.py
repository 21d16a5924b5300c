"""The noun operator of VSE-C: replace the head of a noun phrase by another frequent concrete noun."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import numpy as np

from negcap.augment.cache import cached_on_context
from negcap.augment.caption import Caption
from negcap.augment.context import Context
from negcap.augment.edits import Candidate, Edit, cased
from negcap.augment.language.articles import article_before, with_article
from negcap.augment.language.attributes import attributes
from negcap.augment.language.determiners import is_negated
from negcap.augment.language.grammar import pronoun_edits
from negcap.augment.language.overlaps import gender, head
from negcap.augment.language.semantic_classes import PERSON
from negcap.augment.language.wordnet import first_sense
from negcap.augment.lexicon.entries import Entries
from negcap.augment.lexicon.sampling import sample
from negcap.augment.operators.plausible import implausible_nouns, implausible_with_adjective
from negcap.augment.slots.nouns import NounSlot, noun_slots

# Exponent of probabilities: without it, the many very unlikely nouns together would be sampled too often.
SHARPNESS = 1.25
# A noun is implausible (used only if all others are rejected) below this ratio to the caption's likeliest replacement,
MIN_RATIO = 0.001
# or if its lift given the governor of the slot is below this.
MIN_LIFT = 0.25
COLOURS = frozenset({"colour", "pattern"})


def noun(
    caption: Caption, context: Context, rng: Random, draws: int, *, implausible: bool = False
) -> Iterator[Candidate]:
    """Replace the head of a noun phrase (VSE-C, Section 3.1): "a dog on a couch" -> "a dog on a table".

    Heads and replacements are nouns of the lexicon; relational nouns ("a group of") are not replaced. implausible: use
    only nouns that do not fit the caption. Yields at most `draws` candidates.
    """
    names = context.lexicon.nouns.names
    slots, weights = noun_choices(caption, context, implausible=implausible)
    made = [noun_candidates(caption, context, slot) for slot in slots]
    for at, entry in sample(weights, rng, draws):
        yield made[at](names[entry])


def noun_choices(
    caption: Caption, context: Context, *, implausible: bool = False
) -> tuple[list[NounSlot], list[np.ndarray]]:
    """The noun slots of a caption and, for each, the sampling weight of every noun of the lexicon: shape (entries,).

    Implausible nouns have weight 0; if `implausible`, all other nouns have weight 0 instead.
    """
    slots, slot_weights, plausible = _weighted(caption, context)
    return slots, [
        weights * (~mask if implausible else mask) for weights, mask in zip(slot_weights, plausible, strict=True)
    ]


@cached_on_context
def _weighted(caption: Caption, context: Context) -> tuple[list[NounSlot], list[np.ndarray], list[np.ndarray]]:
    """The slots and, for each, the weight of every noun and a mask of the plausible ones, both (entries,)."""
    nouns = context.lexicon.nouns
    slots = _slots(caption, nouns)
    likely, implausible = [], []
    for slot in slots:
        own = nouns.number[slot.entry]
        probabilities = nouns.probabilities(slot.contexts, slot.form, own) ** SHARPNESS
        probabilities[context.lexicon.may_corefer(slot.entry)] = 0.0
        if nouns.classes[own] != PERSON and _is_coloured(caption, slot):
            probabilities[nouns.classes == PERSON] = 0.0  # "a black and brown dog" is no "black and brown woman"
        likely.append(probabilities)
        misfits = implausible_nouns(caption, slot, nouns, MIN_LIFT)
        implausible.append(misfits | implausible_with_adjective(caption, slot, nouns))
    least = MIN_RATIO * max((float(np.maximum.reduce(one, initial=0.0)) for one in likely), default=0.0)
    weights = [
        nouns.balanced(one, nouns.number[slot.entry], plural=slot.plural)
        for slot, one in zip(slots, likely, strict=True)
    ]
    return slots, weights, [(one > least) & ~bad for one, bad in zip(likely, implausible, strict=True)]


def _is_coloured(caption: Caption, slot: NounSlot) -> bool:
    """Whether a noun has a colour or pattern attribute, which would mean something else with a person."""
    known = attributes().dimensions
    return any(not COLOURS.isdisjoint(known.get(token.lower, ())) for token in caption.dependents(slot.root, "amod"))


def noun_candidates(caption: Caption, context: Context, slot: NounSlot) -> Callable[[str], Candidate]:
    """A function that makes the candidate with a noun of the lexicon in this slot, adjusting article and pronouns."""
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
        rejected = None
        if has_pronouns:
            pronouns = pronoun_edits(caption, root, old=of, new=name, plural=slot.plural)
            if pronouns is None:
                rejected = "dangling_pronoun"
            elif pronouns:
                edits = tuple(sorted([*edits, *pronouns]))
        return Candidate("noun", edits, slots, entry, name, sense, first_sense(name), rejected)

    return candidate


def _slots(caption: Caption, nouns: Entries) -> list[NounSlot]:
    """The slots whose entry is in the lexicon; if there are none, those whose head alone is."""
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
