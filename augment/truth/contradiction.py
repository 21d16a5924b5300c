"""Is a candidate really false of the image? A reason why not, or None; the same checks for all operators."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import NamedTuple

from negcap.augment.caption import Caption
from negcap.augment.context import Context
from negcap.augment.edits import Candidate
from negcap.augment.language import attributes
from negcap.augment.language.clashes import meaning, related
from negcap.augment.language.overlaps import is_person, persons_may_be_same
from negcap.augment.language.prepositions import prepositions
from negcap.augment.language.wordnet import WordNet
from negcap.augment.slots import verbs
from negcap.augment.slots.nouns import quantity_value
from negcap.augment.truth.exchange import interchangeable

# Words for several persons whose number they do not tell.
GROUPS = {"group", "crowd", "couple", "family", "team", "people", "pair", "trio", "band", "bunch"}

PAIRS = 1 << 14  # how many answers of pairs of nouns are kept: the pairs of a large corpus have no end


def check_noun(candidate: Candidate, caption: Caption, context: Context) -> str | None:
    """A noun of this caption or of a sibling is the replacement, or may be: `related_in_*`, `overlap_in_*`."""
    entry = context.lexicon.nouns.number[candidate.replacement]
    found = context.clash_own.of(entry)
    if found:
        return f"{found}_in_caption"
    found = context.clash_siblings.of(entry)
    return f"{found}_in_sibling" if found else None


def check_quantity(candidate: Candidate, caption: Caption, context: Context) -> str | None:
    """The new quantity holds of the noun by this or a sibling caption's own words."""
    old, value = quantity_value(candidate.replaced), quantity_value(candidate.replacement)
    if value == old:
        return "same_quantity"
    noun = caption.tokens[candidate.slots[0]].lemma
    if value > 1 and ((noun, 0) in context.own.quantities or (noun, value) in context.own.quantities):
        return "same_quantity"
    said = _counted(noun, context.siblings.quantities)
    if value in said.counts or (old == 1 and (said.in_group or (said.several and value > 1))):
        return "sibling_quantity"
    return None


class Counted(NamedTuple):
    """What quantities say of a noun: `counts` of the same things, a bare plural of them, a group of persons."""

    counts: frozenset[int]
    several: bool
    in_group: bool


@lru_cache(maxsize=256)
def _counted(noun: str, quantities: frozenset[tuple[str, int]]) -> Counted:
    """What the quantities say of a noun. "Dogs" says nothing against "two dogs" being three, but against "a dog"."""
    return Counted(
        frozenset(count for other, count in quantities if same_things(noun, other)),
        any(count == 0 and _related(noun, other) for other, count in quantities),
        is_person(noun) and any(other in GROUPS for other, _ in quantities),
    )


@lru_cache(maxsize=PAIRS)
def _related(a: str, b: str) -> bool:
    return related(a, b) or persons_may_be_same(a, b)


@lru_cache(maxsize=PAIRS)
def same_things(a: str, b: str) -> bool:
    """Whether two nouns may name the same thing of an image: dog and animal, couch and sofa, man and player."""
    return _related(a, b) or not meaning(a).words.isdisjoint(meaning(b).same)


def check_preposition(candidate: Candidate, caption: Caption, context: Context) -> str | None:
    """The two prepositions may hold at once, or a caption of the image says the new one of the same object."""
    object = caption.tokens[candidate.slots[1]].lemma
    table = prepositions()
    if not table.exchanged(candidate.replaced, candidate.replacement, object):
        return "preposition_overlap"
    for said in (context.own.relations, context.siblings.relations):
        for entry, noun in said:
            if (
                noun == object
                and (entry == candidate.replacement or table.overlap(entry, candidate.replacement))
                and (entry != candidate.replaced)
            ):
                return "sibling_says_so"
    return None


def check_swap(candidate: Candidate, caption: Caption, context: Context) -> str | None:
    """The two heads name the same kind of thing, or the caption says the same of both (see augment.truth.exchange)."""
    one, other = (caption.tokens[i] for i in candidate.slots)
    if same_things(one.lemma, other.lemma) or interchangeable(caption, one, other):
        return "interchangeable"
    return None


def check_attribute(candidate: Candidate, caption: Caption, context: Context) -> str | None:
    """This or a sibling caption says the new attribute, or one of its group, of the same thing."""
    return _attribute_said(candidate.replacement, caption.tokens[candidate.slots[1]].lemma, context)


def check_attribute_swap(candidate: Candidate, caption: Caption, context: Context) -> str | None:
    """Either attribute is said of the other noun already, or the two nouns may be the same thing."""
    one, other = (caption.tokens[i].lemma for i in candidate.slots)
    if same_things(one, other):
        return "interchangeable"
    mine, theirs = candidate.replaced.split(" | ")
    return _attribute_said(theirs, one, context) or _attribute_said(mine, other, context)


def _attribute_said(attribute: str, noun: str, context: Context) -> str | None:
    for reason, said in (
        ("caption_says_so", context.own.attributes),
        ("sibling_says_so", context.siblings.attributes),
    ):
        for word, of in said:
            if attributes.may_be_same(attribute, word) and (
                noun == of or (reason == "sibling_says_so" and (not of or same_things(noun, of)))
            ):
                return reason
    return None


def check_verb(candidate: Candidate, caption: Caption, context: Context) -> str | None:
    """This or a sibling caption says the new verb, one that goes with it, or a noun that implies it ("a surfer")."""
    new = candidate.replacement
    for reason, said in (("caption_says_so", context.own), ("sibling_says_so", context.siblings)):
        if any(verbs.may_be_same(new, verb) for verb in said.verbs if verb != candidate.replaced):
            return reason
        if any(new in _doings(noun) for noun in said.nouns if noun != candidate.replaced):
            return reason
    return None


@cache
def _doings(noun: str) -> frozenset[str]:
    """The verbs that a noun implies: of a skier and of skis to ski."""
    return WordNet.load().derived(noun, "n", "v") | {noun}


def accept(candidate: Candidate, caption: Caption, context: Context) -> str | None:
    """Nothing to refuse: a paraphrase is true by its form."""
    return None


CHECKS = {
    "noun": check_noun,
    "quantity": check_quantity,
    "preposition": check_preposition,
    "swap": check_swap,
    "attribute": check_attribute,
    "attribute_swap": check_attribute_swap,
    "verb": check_verb,
    "none": accept,
}


def check(candidate: Candidate, caption: Caption, context: Context) -> str | None:
    """Why a candidate is refused (one of negcap.schemas.negatives.REASONS), or None when it is false of the image."""
    return judge(candidate, caption, context)[0]


def judge(candidate: Candidate, caption: Caption, context: Context) -> tuple[str | None, float | None]:
    """Why a candidate is refused, or None, and how likely it is true where no caption decides.

    A refusal found by the grammar before any check (a pronoun left pointing at nothing) passes through. What no caption
    makes true may still be too likely to be: `likely_true`, see negcap.augment.truth.
    """
    reason = candidate.refused or CHECKS[candidate.change](candidate, caption, context)
    truth = context.truth
    if reason is not None or truth is None:
        return reason, None
    likely = truth.of(candidate, caption)
    if likely is not None and likely > truth.most and not _is_lower(candidate):
        return "likely_true", likely
    return None, likely


def _is_lower(candidate: Candidate) -> bool:
    """Whether a quantity falls: "a dog" is said of one of two dogs as well, which makes it no truer of both."""
    return candidate.change == "quantity" and quantity_value(candidate.replacement) < quantity_value(candidate.replaced)
