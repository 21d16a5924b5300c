"""Replace a verb."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import numpy as np

from ..caption import Caption, cached, read_only
from ..edits import replace_tokens
from ..evidence import Evidence
from ..language.negation import is_unsettled
from ..language.wordnet import WordNet, first_sense
from ..lexicon.lexicon import Lexicon
from ..rows import Row
from ..slots.nouns import Slot
from ..slots.verbs import are_incompatible, inflect_verb, verb_slots, verbs_may_both_hold
from ..truth.contradiction import Violation, said_by_caption, said_by_sibling
from .replacement import ReplacingOperator, Unfit


class ReplaceVerb(ReplacingOperator):
    """Replace a verb by an incompatible one: "a boy throws a ball" -> "a boy kicks a ball".

    The inflection and the object or preposition stay; neither verb entails the other (WordNet's troponymy, entailment,
    cause).
    """

    def slots(self, evidence: Evidence, lexicon: Lexicon) -> Iterable[Slot]:
        """The verbs with one object, one preposition or neither, that are not denied."""
        return [slot for slot in verb_slots(evidence.caption) if not is_unsettled(evidence.caption, slot.start)]

    def required_form(self, slot: Slot, evidence: Evidence) -> str:
        """The form that a replacement has to have: the Penn tag of the verb in the slot."""
        return evidence.caption.tokens[slot.start].tag

    def never_replaces(self, slot: Slot, evidence: Evidence, lexicon: Lexicon) -> Unfit:
        """The verbs that may be true of the same subject and object as the one in the slot."""
        return _never_replaces(slot.entry, lexicon.entries("verb").names, slot.form)

    def edit(self, slot: Slot, new: str, evidence: Evidence, lexicon: Lexicon) -> Row | None:
        """The row that inserts a verb in the form of the old one; None if the corpus never has it in this form."""
        return replace_verb(evidence.caption, slot, new, lexicon)

    def violation(self, row: Row, evidence: Evidence, lexicon: Lexicon) -> Violation | None:
        """Why the new verb may be true: a caption of the image has it, a compatible one, or a noun that implies it."""
        old = row.replaced
        new = row.replacement

        def is_verb_beside_new(verb: str) -> bool:
            """Whether another verb of a caption may be true together with the new one: "stand" with "wait"."""
            return verb != old and verbs_may_both_hold(new, verb)

        def is_noun_of_new(noun: str) -> bool:
            """Whether a noun of a caption implies the new verb: "skier" implies "ski"."""
            return noun != old and new in implied_verbs(noun)

        return (
            said_by_caption("caption_says_so", evidence, "verb", is_verb_beside_new)
            or said_by_caption("caption_says_so", evidence, "noun", is_noun_of_new)
            or said_by_sibling("sibling_says_so", evidence, "verb", is_verb_beside_new)
            or said_by_sibling("sibling_says_so", evidence, "noun", is_noun_of_new)
        )


WITH_OBJECT = ("lay",)  # captions also have it in the sense of "lie", which is no English


@cached(8192)
def _never_replaces(entry: str, names: tuple[str, ...], pattern: str) -> Unfit:
    """The numbers of the verbs that are not incompatible with `entry`, so that they may be true as well.

    names: the entries of the lexicon, whose positions are the numbers. pattern: "object", "prep:on" or "bare".
    """
    never = [
        number
        for number, name in enumerate(names)
        if not are_incompatible(name, entry, pattern) or (name in WITH_OBJECT and pattern != "object")
    ]
    compatible = [number for number in never if names[number] != entry]
    return Unfit(never=read_only(np.array(never, int)), compatible=read_only(np.array(compatible, int)))


@cache
def implied_verbs(noun: str) -> frozenset[str]:
    """The verbs that a noun implies: "skier" and "skis" imply "ski"."""
    return WordNet.load().derived(noun, "n", "v") | {noun}


def replace_verb(caption: Caption, slot: Slot, new: str, lexicon: Lexicon) -> Row | None:
    """The row that inserts the verb `new` in a slot; None if the corpus never has it in the form needed."""
    tag = caption.tokens[slot.start].tag
    surface = inflect_verb(new, tag, lexicon.inflected.get(tag.lower(), {}))
    if surface is None:
        return None
    return Row(
        change="verb",
        edits=(replace_tokens(caption, slot.start, slot.start + 1, surface),),
        tokens=(slot.start,),
        replaced=slot.entry,
        replacement=new,
        replaced_synset=first_sense(slot.entry, "v"),
        replacement_synset=first_sense(new, "v"),
    )
