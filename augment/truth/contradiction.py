"""Is a candidate really false of the image? A reason why it may be true, or None; one check for each kind of change."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from negcap.augment.caption import Caption
from negcap.augment.context import Context
from negcap.augment.edits import Candidate
from negcap.augment.language import attributes
from negcap.augment.language.coreference import may_corefer, related_or_same_person
from negcap.augment.language.overlaps import is_person
from negcap.augment.language.prepositions import prepositions
from negcap.augment.language.wordnet import WordNet
from negcap.augment.slots import verbs
from negcap.augment.slots.quantities import quantity_value
from negcap.augment.truth.exchange import interchangeable

if TYPE_CHECKING:
    from negcap.augment.truth.estimates import ImageTruth

# Words for several persons whose number they do not tell.
GROUPS = {"group", "crowd", "couple", "family", "team", "people", "pair", "trio", "band", "bunch"}


def check_noun(candidate: Candidate, caption: Caption, context: Context) -> str | None:
    """A noun of this caption or of a sibling may name what the replacement names: `related_in_*`, `overlap_in_*`."""
    entry = context.lexicon.nouns.number[candidate.replacement]
    found = context.coreferent_in_caption.of(entry)
    if found:
        return f"{found}_in_caption"
    found = context.coreferent_in_siblings.of(entry)
    return f"{found}_in_sibling" if found else None


def check_quantity(candidate: Candidate, caption: Caption, context: Context) -> str | None:
    """The new quantity holds of the noun by this or a sibling caption's own words."""
    old, value = quantity_value(candidate.replaced), quantity_value(candidate.replacement)
    if value == old:
        return "same_quantity"
    noun = caption.tokens[candidate.slots[0]].lemma
    if value > 1 and ((noun, 0) in context.own.quantities or (noun, value) in context.own.quantities):
        return "same_quantity"
    counted = _counted(noun, context.siblings.quantities)
    if value in counted.counts or (old == 1 and (counted.in_group or (counted.several and value > 1))):
        return "sibling_quantity"
    return None


class Counted(NamedTuple):
    """What quantities say of a noun: `counts` of the same things, a bare plural of them, a group of persons."""

    counts: frozenset[int]
    several: bool
    in_group: bool


@lru_cache(maxsize=256)
def _counted(noun: str, quantities: frozenset[tuple[str, int]]) -> Counted:
    """What the quantities say of a noun. "Dogs" does not make "three dogs" true, but "two dogs" it may."""
    return Counted(
        frozenset(count for other, count in quantities if may_corefer(noun, other)),
        any(count == 0 and related_or_same_person(noun, other) for other, count in quantities),
        is_person(noun) and any(other in GROUPS for other, _ in quantities),
    )


def check_preposition(candidate: Candidate, caption: Caption, context: Context) -> str | None:
    """The two prepositions may hold at once, or a caption of the image says the new one of the same object."""
    object = caption.tokens[candidate.slots[1]].lemma
    table = prepositions()
    if not table.exchanged(candidate.replaced, candidate.replacement, object):
        return "preposition_overlap"
    for relations in (context.own.relations, context.siblings.relations):
        for entry, noun in relations:
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
    if may_corefer(one.lemma, other.lemma) or interchangeable(caption, one, other):
        return "interchangeable"
    return None


def check_attribute(candidate: Candidate, caption: Caption, context: Context) -> str | None:
    """This or a sibling caption says the new attribute, or one of its group, of the same thing."""
    return _mentions_attribute(candidate.replacement, caption.tokens[candidate.slots[1]].lemma, context)


def check_attribute_swap(candidate: Candidate, caption: Caption, context: Context) -> str | None:
    """Either attribute is said of the other noun already, or the two nouns may be the same thing."""
    one, other = (caption.tokens[i].lemma for i in candidate.slots)
    if may_corefer(one, other):
        return "interchangeable"
    mine, theirs = candidate.replaced.split(" | ")
    return _mentions_attribute(theirs, one, context) or _mentions_attribute(mine, other, context)


def _mentions_attribute(attribute: str, noun: str, context: Context) -> str | None:
    for reason, mentioned in (
        ("caption_says_so", context.own.attributes),
        ("sibling_says_so", context.siblings.attributes),
    ):
        for word, of in mentioned:
            if attributes.may_be_same(attribute, word) and (
                noun == of or (reason == "sibling_says_so" and (not of or may_corefer(noun, of)))
            ):
                return reason
    return None


def check_verb(candidate: Candidate, caption: Caption, context: Context) -> str | None:
    """This or a sibling caption says the new verb, one that goes with it, or a noun that implies it ("a surfer")."""
    new = candidate.replacement
    for reason, mentions in (("caption_says_so", context.own), ("sibling_says_so", context.siblings)):
        if any(verbs.may_be_same(new, verb) for verb in mentions.verbs if verb != candidate.replaced):
            return reason
        if any(new in _implied_verbs(noun) for noun in mentions.nouns if noun != candidate.replaced):
            return reason
    return None


@cache
def _implied_verbs(noun: str) -> frozenset[str]:
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
    """Why captions refuse a candidate (one of negcap.schemas.negatives.REASONS), or None."""
    return refusal(candidate, caption, context)[0]


def refusal(
    candidate: Candidate, caption: Caption, context: Context, image: ImageTruth | None = None
) -> tuple[str | None, float | None]:
    """Why a candidate is refused (see `check`), or None, and the estimated probability that it is true.

    A refusal found by the grammar before any check (a pronoun left pointing at nothing) passes through.
    With the estimates for its `image`, what no caption refuses is refused as `likely_true` if that probability is above
    their limit. It is None where there is no estimate, or the captions decide.
    """
    reason = candidate.refused or CHECKS[candidate.change](candidate, caption, context)
    if reason is not None or image is None:
        return reason, None
    p_true = image.of(candidate, caption)
    if p_true is not None and p_true > image.max_p_true and not _is_lower(candidate):
        return "likely_true", p_true
    return None, p_true


def _is_lower(candidate: Candidate) -> bool:
    """Whether a quantity falls: that a caption says "a dog" of one of two dogs does not make it true of the two."""
    return candidate.change == "quantity" and quantity_value(candidate.replacement) < quantity_value(candidate.replaced)
