"""Replace an attribute (UniVSE, supplement B.2)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..caption import Caption, cached, cached_on_caption, read_only
from ..edits import replace_tokens
from ..evidence import Evidence
from ..language.concreteness import is_abstract
from ..language.coreference import may_corefer
from ..language.grammar import with_article
from ..language.negation import is_unsettled
from ..language.semantic_classes import (
    LIVING,
    are_incompatible,
    attribute_table,
    attributes_may_both_hold,
    is_location,
    is_person,
    noun_overlap_table,
    semantic_class,
)
from ..lexicon.lexicon import Lexicon
from ..mentions import mentioned_attributes
from ..rows import SAID_AGAIN, Row
from ..slots.nouns import Slot, attribute_slots
from ..truth.contradiction import Violation, said_by_caption, said_by_sibling
from .replacement import ReplacingOperator, Unfit

ONE = ("one", "ones")  # stands for a noun that the caption has named: "a red car and a blue one"
ALSO = frozenset("also too likewise matching same".split())
CONTRAST = frozenset("but yet while whereas although though unlike".split())
# What is on a thing in another colour: "red with black spots". A comparative says this of the old colour.
MARKS = frozenset("spot stripe patch dot marking speck streak blotch freckle trim edge edging accent print".split())
COMPARED = frozenset("lighter darker brighter paler".split())
EMPTY = frozenset("empty deserted vacant bare".split())
TIDY = frozenset("clean neat tidy organized spotless".split())


class ReplaceAttribute(ReplacingOperator):
    """Replace an attribute by an incompatible one (UniVSE, supplement B.2): "a red car" -> "a blue car"."""

    def slots(self, evidence: Evidence, lexicon: Lexicon) -> Iterable[Slot]:
        """The attributes of things that a photo shows and that are not denied.

        Parts of a phrase ("a leather jacket") and attributes of abstract nouns ("a dynamic element") are left out.
        """
        caption = evidence.caption
        told_apart = _words_that_tell_apart(caption.whole)
        return [
            slot
            for slot in attribute_slots(caption)
            if slot.entry not in told_apart
            and not is_unsettled(caption, slot.start)
            and not is_unsettled(caption, slot.noun)
            and evidence.encoding.is_unit(slot.start)
            and not is_abstract(caption.tokens[slot.noun].lemma)
        ]

    def never_replaces(self, slot: Slot, evidence: Evidence, lexicon: Lexicon) -> Unfit:
        """The attributes that may be true of the same thing; most say something else of it: "large", beside "red".

        Also ages that it cannot have: no photo is young, and no child old.
        """
        names = lexicon.entries("attribute").names
        unfit = _never_replaces(slot.entry, names)
        noun = evidence.caption.tokens[slot.noun].lemma
        dimensions = attribute_table().dimensions
        if "age" not in dimensions.get(slot.entry, ()):
            return unfit
        is_child = noun in noun_overlap_table().persons["child"]
        if semantic_class(noun) in LIVING and not is_child:
            return unfit
        aged = [number for number, name in enumerate(names) if "age" in dimensions.get(name, ())]
        ages = aged if is_child else [number for number in aged if "years" not in dimensions[names[number]]]
        return unfit._replace(never=np.union1d(unfit.never, np.array(ages, int)))

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
        is_colour = "colour" in attribute_table().dimensions.get(row.replacement, ())
        if row.replaced in ("dark", "bright") and is_colour and is_location(noun):
            return Violation("caption_says_so", row.replaced)  # a dark room may be white
        if _contradicts_rest(caption, row):
            return Violation(SAID_AGAIN, noun)
        return attribute_violation(row.replacement, noun, evidence)


@cached_on_caption
def _words_that_tell_apart(caption: Caption) -> frozenset[str]:
    """The words that must stay, since a caption tells things apart by them, or repeats them with "also".

    "A red car and a blue one. The **red** one …", "two cars, one **red** and one **silver**": with another colour
    nobody would know which one that is. "A **black** suit, and his umbrella is also **black**": "also" would be wrong.
    """
    words = set[str]()
    for token in caption.tokens:
        if token.lower in ONE:
            words.add(caption.word(token.index - 1))
            is_alone = caption.tokens[token.head].pos not in ("NOUN", "PROPN") or token.head <= token.index
            if is_alone and token.index + 1 < len(caption.tokens):
                words.add(caption.word(token.index + 1))
    if not ALSO.isdisjoint(caption.lowered):
        words.update(word for word in set(caption.lowered) if caption.lowered.count(word) > 1)
    return frozenset(words)


def _contradicts_rest(caption: Caption, row: Row) -> bool:
    """Whether the rest of a sentence does not go with a new attribute.

    - The sentence has it in a contrast: "the cat is asleep, but the kitten is **awake**".
    - Spots or stripes have this colour, "red with **black** spots", or are compared with the old one, "brown with
      **lighter** patches".
    - A place would be "empty" or "tidy" although the sentence says what is in it: "a desk holds two monitors".
    """
    new = row.replacement
    if new in caption.lowered and not CONTRAST.isdisjoint(caption.lowered):
        return True
    for token in caption.tokens:
        if token.lemma in MARKS:
            colours = {word.lower for word in caption.dependents(token.index, "amod", "compound")}
            if new in colours or not COMPARED.isdisjoint(colours):
                return True
    if new not in EMPTY and new not in TIDY:
        return False
    noun = caption.tokens[row.tokens[1]]
    above = caption.tokens[noun.head]
    contains = any(preposition.lower in ("with", "of") for preposition in caption.dependents(noun.index, "prep"))
    if new in TIDY:
        return contains
    acts = noun.dep == "nsubj" and above.pos == "VERB"  # "a desk holds two monitors"
    has_clause = caption.has_dependent(noun.index, "relcl", "acl")  # "a market where vendors sell fruit"
    has_people = any(token.pos == "NOUN" and is_person(token.lemma) for token in caption.tokens)
    return contains or acts or has_clause or has_people


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
