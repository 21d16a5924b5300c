"""Replace an attribute (UniVSE, supplement B.2)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..caption import Caption, cached, read_only
from ..edits import replace_tokens
from ..evidence import Evidence
from ..language.concreteness import is_abstract
from ..language.coreference import may_corefer
from ..language.grammar import with_article
from ..language.negation import is_unsettled
from ..language.semantic_classes import are_incompatible, attribute_table, attributes_may_both_hold
from ..lexicon.lexicon import Lexicon
from ..mentions import mentioned_attributes
from ..rows import Row
from ..slots.nouns import Slot, attribute_slots
from ..truth.contradiction import Violation, said_by_caption, said_by_sibling
from .replacement import ReplacingOperator, Unfit

ONE = ("one", "ones")  # stands for a noun that the caption has named: "a red car and a blue one"


class ReplaceAttribute(ReplacingOperator):
    """Replace an attribute by an incompatible one (UniVSE, supplement B.2): "a red car" -> "a blue car"."""

    def slots(self, evidence: Evidence, lexicon: Lexicon) -> Iterable[Slot]:
        """The attributes of things that a photo shows and that are not denied.

        Parts of a phrase ("a leather jacket") and attributes of abstract nouns ("a dynamic element") are left out.
        """
        caption = evidence.caption
        # "A red car and a blue one. The **red** one …": with another colour nobody would know which one that is.
        whole = caption.whole
        of_one = {whole.word(token.index - 1) for token in whole.tokens if token.lower in ONE}
        return [
            slot
            for slot in attribute_slots(caption)
            if slot.entry not in of_one
            and not is_unsettled(caption, slot.start)
            and not is_unsettled(caption, slot.noun)
            and evidence.encoding.is_unit(slot.start)
            and not is_abstract(caption.tokens[slot.noun].lemma)
        ]

    def never_replaces(self, slot: Slot, evidence: Evidence, lexicon: Lexicon) -> Unfit:
        """The attributes that may be true of the same thing; most say something else of it: "large", beside "red"."""
        return _never_replaces(slot.entry, lexicon.entries("attribute").names)

    def edit(self, slot: Slot, new: str, evidence: Evidence, lexicon: Lexicon) -> Row:
        """The row that inserts an attribute wherever the thing has the old one: "a red bus … the red bus".

        The article before it follows: "an old car" -> "a new car".
        """
        caption = evidence.caption
        row = replace_attribute(caption, slot, new)
        again = [
            edit
            for other in attribute_slots(caption)
            if other.start != slot.start and _is_said_again(caption, slot, other)
            for edit in replace_attribute(caption, other, new).edits
        ]
        row.edits = tuple(sorted([*row.edits, *again]))
        return row

    def violation(self, row: Row, evidence: Evidence, lexicon: Lexicon) -> Violation | None:
        """Why the new attribute may be true: a caption of the image gives the thing this one, or a compatible one."""
        caption = evidence.caption
        # What the caption says of something that it does not name: "a **red** and a blue car", "two **brown** ones".
        unnamed = [word for thing, word in mentioned_attributes(caption) if thing in ("", *ONE)]
        if any(word == row.replacement or attributes_may_both_hold(row.replacement, word) for word in unnamed):
            return Violation("caption_says_so", row.replacement)
        noun = caption.tokens[row.tokens[1]].lemma
        return attribute_violation(row.replacement, noun, evidence)


def _is_said_again(caption: Caption, slot: Slot, other: Slot) -> bool:
    """Whether another slot gives the same attribute to a thing of the same name."""
    return other.entry == slot.entry and caption.tokens[other.noun].lemma == caption.tokens[slot.noun].lemma


@cached(8192)
def _never_replaces(entry: str, names: tuple[str, ...]) -> Unfit:
    """The numbers of the attributes that never replace `entry`, as they may be true of the same thing.

    "large" never replaces "red", as it is of another dimension; nor does "pink", which is called compatible. names: the
    entries of the lexicon, whose positions are the numbers.
    """
    comparing = attribute_table().comparing
    never = [
        number
        for number, name in enumerate(names)
        if not are_incompatible(name, entry) or (name in comparing) != (entry in comparing)
    ]
    compatible = [
        number for number in never if names[number] != entry and attributes_may_both_hold(names[number], entry)
    ]
    return Unfit(read_only(np.array(never, int)), read_only(np.array(compatible, int)))


def replace_attribute(caption: Caption, slot: Slot, new: str) -> Row:
    """The row that inserts the attribute `new` in a slot, with a/an adjusted."""
    edits = with_article(caption, slot.start, replace_tokens(caption, slot.start, slot.start + 1, new), new)
    return Row(change="attribute", edits=edits, tokens=(slot.start, slot.noun), replaced=slot.entry, replacement=new)


def attribute_violation(attribute: str, noun: str, evidence: Evidence) -> Violation | None:
    """Why an attribute may be true of a thing: a caption gives it this one, or one that may be the same; else None.

    attribute: such as "red". noun: the lemma of the thing. A mention of an attribute is a pair of a thing and a word,
    ("car", "red"); the thing is "" where the parse does not tell it.
    """

    def is_given(mention: tuple[str, str]) -> bool:
        """Whether a mention gives the same noun the attribute: ("car", "red"), but not ("vehicle", "red")."""
        thing, word = mention
        return thing == noun and attributes_may_both_hold(attribute, word)

    def may_be_given(mention: tuple[str, str]) -> bool:
        """Whether a mention gives the attribute to what may be the same thing: ("vehicle", "red") for a red car."""
        thing, word = mention
        may_be_thing = not thing or noun == thing or may_corefer(noun, thing)
        return attributes_may_both_hold(attribute, word) and may_be_thing

    # Within a caption, different nouns name different things, "a red car and a blue vehicle"; a sibling's need not.
    by_caption = said_by_caption("caption_says_so", evidence, "attribute", is_given)
    return by_caption or said_by_sibling("sibling_says_so", evidence, "attribute", may_be_given)
