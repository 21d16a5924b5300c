"""Is a candidate really false of the image? One check per kind of change returns why it may be true, or None."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from ..caption import Caption, cached
from ..context import Context
from ..edits import Candidate
from ..language import semantic_classes
from ..language.coreference import may_corefer, related_or_same_person
from ..language.semantic_classes import head, is_person, prepositions
from ..language.wordnet import WordNet
from ..slots import verbs
from ..slots.denials import assertion, denies_the_caption
from ..slots.nouns import quantity_value
from .exchange import interchangeable

if TYPE_CHECKING:
    from .estimates import ImageTruth


NOUNS = 1 << 14  # number of nouns whose results are cached
# Words for several persons that do not say how many.
GROUPS = {"group", "crowd", "couple", "family", "team", "people", "pair", "trio", "band", "bunch"}


def check_noun(candidate: Candidate, caption: Caption, context: Context) -> str | None:
    """Reject if a noun of this caption or a sibling may name the same thing: `related_in_*`, `overlap_in_*`."""
    entry = context.lexicon.nouns.number[candidate.replacement]
    if reason := context.coreferent_in_caption.reason(entry):
        return f"{reason}_in_caption"
    reason = context.coreferent_in_siblings.reason(entry)
    return f"{reason}_in_sibling" if reason else None


def check_quantity(candidate: Candidate, caption: Caption, context: Context) -> str | None:
    """Reject if, by this caption or a sibling, the new quantity may be true of the noun."""
    old, value = quantity_value(candidate.replaced), quantity_value(candidate.replacement)
    if value == old:
        return "same_quantity"
    noun = caption.tokens[candidate.slots[0]].lemma
    if value > 1 and not context.own.quantities.isdisjoint([(noun, 0), (noun, value)]):
        return "same_quantity"
    counts, several, in_group = _counted(noun, context.siblings.quantities)
    # "Dogs" does not make "three dogs" true, but may make "two dogs" true.
    if value in counts or (old == 1 and (in_group or (several and value > 1))):
        return "sibling_quantity"
    return None


@lru_cache(maxsize=256)
def _counted(noun: str, quantities: frozenset[tuple[str, int]]) -> tuple[frozenset[int], bool, bool]:
    """What (noun, number) pairs say about the number of one noun: the numbers given to it or to a noun for the same
    thing, 0 for a bare plural; whether there is a bare plural; and whether it is a person and there is a group.
    """
    counts = frozenset(count for other, count in quantities if may_corefer(noun, other))
    several = any(count == 0 and related_or_same_person(noun, other) for other, count in quantities)
    return counts, several, is_person(noun) and any(other in GROUPS for other, _ in quantities)


def check_preposition(candidate: Candidate, caption: Caption, context: Context) -> str | None:
    """Reject if both prepositions may be true, or a caption of the image has the new one with the same object."""
    object = caption.tokens[candidate.slots[1]].lemma
    if not prepositions().may_replace(candidate.replaced, candidate.replacement, object):
        return "preposition_overlap"
    return relation_said(candidate, object, context)


def relation_said(candidate: Candidate, object: str, context: Context) -> str | None:
    """`sibling_says_so` if a caption of the image has the new preposition, or one that overlaps it, with the object."""
    overlap, new = prepositions().overlap, candidate.replacement
    for entry, noun in chain(context.own.relations, context.siblings.relations):
        if noun == object and overlap(entry, new) and entry != candidate.replaced:
            return "sibling_says_so"
    return None


def check_swap(candidate: Candidate, caption: Caption, context: Context) -> str | None:
    """Reject if the two heads name the same kind of thing, or swapping them may leave the caption true."""
    one, other = (caption.tokens[i] for i in candidate.slots)
    if may_corefer(one.lemma, other.lemma) or interchangeable(caption, one, other):
        return "interchangeable"
    return None


def check_attribute(candidate: Candidate, caption: Caption, context: Context) -> str | None:
    """Reject if this caption or a sibling gives the same thing the new attribute, or one compatible with it."""
    return _mentions_attribute(candidate.replacement, caption.tokens[candidate.slots[1]].lemma, context)


def check_attribute_swap(candidate: Candidate, caption: Caption, context: Context) -> str | None:
    """Reject if an attribute is already given to the other noun, or the two nouns may be the same thing."""
    one, other = (caption.tokens[i].lemma for i in candidate.slots)
    if may_corefer(one, other):
        return "interchangeable"
    mine, theirs = candidate.replaced.split(" | ")
    return _mentions_attribute(theirs, one, context) or _mentions_attribute(mine, other, context)


def _mentions_attribute(attribute: str, noun: str, context: Context) -> str | None:
    may_be_same = semantic_classes.may_be_same
    if any(noun == of and may_be_same(attribute, word) for word, of in context.own.attributes):
        return "caption_says_so"
    nouns = (of for word, of in context.siblings.attributes if may_be_same(attribute, word))
    return "sibling_says_so" if any(not of or noun == of or may_corefer(noun, of) for of in nouns) else None


def check_verb(candidate: Candidate, caption: Caption, context: Context) -> str | None:
    """Reject if this caption or a sibling has the new verb, a compatible one, or a noun that implies it."""
    new = candidate.replacement
    for reason, mentions in (("caption_says_so", context.own), ("sibling_says_so", context.siblings)):
        if any(verbs.may_be_same(new, verb) for verb in mentions.verbs if verb != candidate.replaced):
            return reason
        if any(new in _implied_verbs(noun) for noun in mentions.nouns if noun != candidate.replaced):
            return reason
    return None


@cache
def _implied_verbs(noun: str) -> frozenset[str]:
    """The verbs that a noun implies: "skier" and "skis" imply "ski"."""
    return WordNet.load().derived(noun, "n", "v") | {noun}


def check_denial(candidate: Candidate, caption: Caption, context: Context) -> str | None:
    """Reject if the noun or verb that is taken to be absent may be true, as `check_noun` and `check_verb` say."""
    asserted = assertion(candidate)
    return None if asserted is None else CHECKS[asserted.change](asserted, caption, context)


CHECKS: dict[str, Callable[[Candidate, Caption, Context], str | None]] = {
    "noun": check_noun,
    "quantity": check_quantity,
    "preposition": check_preposition,
    "swap": check_swap,
    "attribute": check_attribute,
    "attribute_swap": check_attribute_swap,
    "verb": check_verb,
    "denial": check_denial,
    "verb_denial": check_denial,
    "none": lambda candidate, caption, context: None,  # of texts that are true by their form, such as paraphrases
}


def check(candidate: Candidate, caption: Caption, context: Context) -> str | None:
    """Why a candidate is rejected (one of negcap.schemas.negatives.REASONS), or None."""
    return assess(candidate, caption, context)[0]


def assess(
    candidate: Candidate, caption: Caption, context: Context, image: ImageTruth | None = None
) -> tuple[str | None, float | None]:
    """Why a candidate is rejected (as `check`), or None; and the estimated probability that it is true.

    The reason of a candidate that its operator found ungrammatical is returned unchanged. If the estimates for its
    `image` are given, a candidate that passes the check is rejected as `likely_true` if that probability is above their
    limit. The probability is None if the check rejects, or there is no estimate, or the candidate is false whatever it
    takes to be absent.
    """
    reason = candidate.rejected or CHECKS[candidate.change](candidate, caption, context)
    if reason is not None or image is None:
        return reason, None
    p_true = image.p_true(candidate, caption)
    if p_true is not None and p_true > image.max_p_true:
        # A lower number may stay: captions that say "a dog" of one of two dogs do not make it true of both.
        old, new = candidate.replaced, candidate.replacement
        if candidate.change != "quantity" or quantity_value(new) >= quantity_value(old):
            return "likely_true", p_true
    return None, None if denies_the_caption(candidate) else p_true


class Entailment:
    """Finds, of given nouns (entries), those that other nouns entail: a "puppy" entails "puppy", "dog" and "animal".

    A noun entails itself, and its hypernyms and hyponyms by first senses. This is narrower than
    negcap.augment.language.coreference, which compares all senses in use, since any doubt must reject a negative; here,
    pairs that are really true are counted.
    """

    def __init__(self, entries: Sequence[str]) -> None:
        """Index the entries by their first senses and the hypernyms of these."""
        self._named = {entry: number for number, entry in enumerate(entries)}
        self._is: defaultdict[int, list[int]] = defaultdict(list)
        self._below: defaultdict[int, list[int]] = defaultdict(list)
        for number, entry in enumerate(entries):
            above = _hypernyms(entry)
            for synset in above[:1]:
                self._is[synset].append(number)
            for synset in above:
                self._below[synset].append(number)

    def entries(self, nouns: Iterable[str]) -> np.ndarray:
        """The numbers, ascending, of the entries that any of these nouns entails: itself, its synonyms, and what lies
        above or below it in WordNet.
        """
        return np.array(sorted(frozenset[int]().union(*map(self._of_noun, nouns))), int)

    @cached(NOUNS)
    def _of_noun(self, noun: str) -> frozenset[int]:
        above = _hypernyms(noun)
        named = [self._named[noun]] if noun in self._named else []
        below = (self._below.get(synset, ()) for synset in above[:1])
        return frozenset(named).union(*below, *(self._is.get(synset, ()) for synset in above))


def _hypernyms(noun: str) -> list[int]:
    """The first sense of a noun, or of its head, followed by all its hypernyms; empty for an unknown noun."""
    wordnet = WordNet.load()
    first = (wordnet.senses(noun, "n") or wordnet.senses(head(noun), "n"))[:1]
    return [*first, *sorted(above for synset in first for above in wordnet.closure(synset) if above != synset)]
