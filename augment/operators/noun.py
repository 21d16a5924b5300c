"""The noun operator of VSE-C: replace the head of a noun phrase by another frequent concrete noun."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from random import Random

import numpy as np

from ..caption import Caption, cached_on_context
from ..context import Context
from ..edits import Candidate, Edit, cased
from ..elementary import log
from ..language.determiners import is_negated
from ..language.grammar import pronoun_edits, with_article
from ..language.semantic_classes import gender, head, is_worn
from ..language.wordnet import first_sense
from ..lexicon.entries import Entries
from ..slots.nouns import NounSlot, noun_slots
from ..slots.verbs import preposition_uses
from .choices import Choice, draw, weigh

# The lowest log p(noun | rest of the caption) of a replacement, and the lowest score, which is log p + LIFT * the log
# lift given the governor of the slot (verb, preposition or noun), of which at most MAX_LIFT counts.
FLOOR = -5.0
MIN_SCORE = -5.5
LIFT = 2.0
MAX_LIFT = 1.0
# Prepositions of company and neighbourhood, and the verb of clothing: another thing may be there as well.
BESIDE = frozenset(
    "with near by beside alongside along behind around past over above outside between among".split()
) | {"next to", "in front of"}
WEAR = "dobj:wear"


def noun(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Replace the head of a noun phrase (VSE-C, Section 3.1): "a dog on a couch" -> "a dog on a table"."""
    return draw(noun_choices(caption, context), rng, draws)


@cached_on_context
def noun_choices(caption: Caption, context: Context) -> list[Choice]:
    """The nouns that may replace each noun of a caption, by log p + LIFT * log lift given the governor of the slot.

    The replaced are heads of noun phrases (VSE-C, Section 3.1), but no relational nouns ("a group of"). Heads and
    replacements are nouns of the lexicon.
    """
    nouns, choices = context.lexicon.nouns, []
    for slot in known_slots(caption, nouns):
        if _excludes_others(caption, slot) and (weighed := noun_weights(context, slot)) is not None:
            candidate = noun_candidates(caption, context, slot)
            choices.append(Choice((slot.root,), slot.entry, slot.plural, nouns.names, *weighed, candidate))
    return choices


def noun_weights(context: Context, slot: NounSlot) -> tuple[np.ndarray, np.ndarray] | None:
    """The weight of each noun of the lexicon in a slot, and its log-odds to the slot's own noun: each (entries,).

    The weight is 0 for nouns that are implausible there or may name the same thing. None if no noun of the lexicon has
    the slot's form.
    """
    nouns = context.lexicon.nouns
    own, prior = nouns.number[slot.entry], nouns.priors.get(slot.form)
    if prior is None:
        return None
    likely = context.log_probabilities("noun", (slot.start, slot.end), slot.contexts, "nns" if slot.plural else "nn")
    odds = likely - likely[own]
    likely[context.lexicon.may_corefer(slot.entry)] = -np.inf
    likely[prior == -np.inf] = -np.inf
    open = np.flatnonzero(likely >= FLOOR)
    likely[likely < FLOOR] = -np.inf
    lift = log(nouns.lift(slot.contexts[:2])[open] + 1e-9)
    likely[open] += LIFT * np.minimum(lift, MAX_LIFT)
    return weigh(nouns, slot.entry, likely, MIN_SCORE, plural=slot.plural), odds


def noun_candidates(caption: Caption, context: Context, slot: NounSlot) -> Callable[[str], Candidate]:
    """A function that makes the candidate with a noun of the lexicon in this slot, adjusting article and pronouns."""
    surfaces = context.lexicon.forms(many=slot.plural)
    first, root, slots, entry = caption.tokens[slot.start], slot.root, (slot.root,), slot.entry
    start, end, old = first.start, caption.tokens[root].end, first.text
    casing, sense = None if old.islower() else caption.casing, first_sense(entry)
    old_gender = None if slot.plural else gender(entry)

    def candidate(name: str) -> Candidate:
        surface = surfaces[name]
        edit = Edit(start, end, surface if casing is None else cased(surface, old, casing, first=slot.start == 0))
        edits = with_article(caption, slot.start, edit, surface)
        pronouns = pronoun_edits(caption, root, old=old_gender, new=name, plural=slot.plural)
        rejected = "dangling_pronoun" if pronouns is None else None
        if pronouns:
            edits = tuple(sorted([*edits, *pronouns]))
        return Candidate("noun", edits, slots, entry, name, sense, first_sense(name), rejected)

    return candidate


def known_slots(caption: Caption, nouns: Entries) -> list[NounSlot]:
    """The slots whose entry is in the lexicon; if there are none, those whose head alone is."""
    slots = [
        slot for slot in noun_slots(caption) if caption.word(slot.end) != "of" and not is_negated(caption, slot.root)
    ]
    headed = (slot._replace(entry=head(slot.entry)) for slot in slots)
    known = [slot for slot in slots if slot.entry in nouns.number]
    return known or [slot for slot in headed if slot.entry in nouns.number]


def _excludes_others(caption: Caption, slot: NounSlot) -> bool:
    """Whether another noun in a slot would make the caption false of the photo.

    Not what somebody wears or has ("a man in a shirt" may have a hat as well), and not what is beside something else
    ("by a tree" may be by a river).
    """
    noun = caption.tokens[slot.root]
    object = caption.first_conjunct(noun)
    preposition = next((use.entry for use in preposition_uses(caption) if use.object.index == object.index), "")
    worn = is_worn(slot.entry) and (preposition == "in" or noun.dep == "conj")
    return preposition not in BESIDE and not worn and WEAR not in slot.contexts


def appended(caption: Caption, index: int, words: str, name: str, verbs: Iterable[Edit] | None = ()) -> Candidate:
    """The candidate that says more behind the noun at token `index`, "and a cat" or "on a couch".

    name: the noun that is put in. verbs: the edits of verbs that agree with it; None if they are not known.
    """
    end = caption.tokens[index].end
    edits = sorted([Edit(end, end, f" {words}"), *(verbs or ())])
    rejected = "ungrammatical" if verbs is None else None
    return Candidate("noun", tuple(edits), (index,), "", name, None, first_sense(name), rejected)
