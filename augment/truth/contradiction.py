"""Is a candidate really false of the image? One check per kind of change returns why it may be true, or None.

It rejects what captions or WordNet make true. For the others, `estimates` gives the probability that another caption of
the image would make them true, estimated from the sibling captions of the corpus, and calibrated by `fit`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from ..caption import Caption, Token, cached_on_caption
from ..context import Context
from ..edits import BOTH, Candidate
from ..language import semantic_classes
from ..language.coreference import may_corefer, meaning, related_or_same_person
from ..language.semantic_classes import LIVING, is_furnishing, is_location, is_person, prepositions, semantic_class
from ..language.wordnet import WordNet
from ..scene_graph import scene_graph
from ..slots import verbs
from ..slots.nouns import quantity_value

if TYPE_CHECKING:
    from .estimates import ImageTruth


# Words for several persons that do not say how many.
GROUPS = {"group", "crowd", "couple", "family", "team", "people", "pair", "trio", "band", "bunch"}
# "A dog faces a cat" means "a cat faces a dog".
SYMMETRIC_VERBS = {
    "face", "meet", "hug", "kiss", "fight", "touch", "join", "resemble", "match", "accompany", "marry", "embrace",
    "wrestle", "race", "tackle", "separate", "be", "have", "include",
}  # fmt: skip


def check_noun(candidate: Candidate, caption: Caption, context: Context) -> str | None:
    """Reject if a noun of this caption or a sibling may name the same thing: `related_in_*`, `overlap_in_*`; or if a
    place replaces the thing in it where somebody is (`overlap_in_caption`).
    """
    entry = context.lexicon.nouns.number[candidate.replacement]
    if reason := context.coreferent_in_caption.reason(entry):
        return f"{reason}_in_caption"
    if caption.tokens[candidate.slots[0]].dep == "pobj" and is_furnishing(candidate.replaced):
        if is_location(candidate.replacement):  # "at a table", "at a restaurant"
            return "overlap_in_caption"
    reason = context.coreferent_in_siblings(candidate.replaced).reason(entry)
    return f"{reason}_in_sibling" if reason else None


def check_quantity(candidate: Candidate, caption: Caption, context: Context) -> str | None:
    """Reject if, by this caption or a sibling, the new quantity may be true of the noun."""
    old, value = quantity_value(candidate.replaced), quantity_value(candidate.replacement)
    if value == old:
        return "same_quantity"
    noun = caption.tokens[candidate.slots[0]].lemma
    if value > 1 and not context.own.quantities.isdisjoint([(noun, 0), (noun, value)]):
        return "same_quantity"
    counts, several, in_group = counted(noun, context.siblings.quantities)
    # "Dogs" does not make "three dogs" true, but may make "two dogs" true.
    if value in counts or (old == 1 and (in_group or (several and value > 1))):
        return "sibling_quantity"
    return None


@lru_cache(maxsize=256)
def counted(noun: str, quantities: frozenset[tuple[str, int]]) -> tuple[frozenset[int], bool, bool]:
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
    same = may_corefer(one.lemma, other.lemma) and not _told_apart(one.lemma, other.lemma)
    return "interchangeable" if same or interchangeable(caption, one, other) else None


def _told_apart(one: str, other: str) -> bool:
    """Whether a caption that has both nouns means two persons or animals: "a boy helps a woman".

    Not by synonyms, nor by a word for several: "a man in a crowd".
    """
    if one in GROUPS or other in GROUPS or not meaning(one).synsets.isdisjoint(meaning(other).synsets):
        return False
    return semantic_class(one) == semantic_class(other) in LIVING


def check_attribute(candidate: Candidate, caption: Caption, context: Context) -> str | None:
    """Reject if this caption or a sibling gives the same thing the new attribute, or one compatible with it."""
    return _mentions_attribute(candidate.replacement, caption.tokens[candidate.slots[1]].lemma, context)


def check_attribute_swap(candidate: Candidate, caption: Caption, context: Context) -> str | None:
    """Reject if an attribute is already given to the other noun, or the two nouns may be the same thing."""
    one, other = (caption.tokens[i].lemma for i in candidate.slots)
    if may_corefer(one, other):
        return "interchangeable"
    mine, theirs = candidate.replaced.split(BOTH)
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
        if any(new in implied_verbs(noun) for noun in mentions.nouns if noun != candidate.replaced):
            return reason
    return None


@cache
def implied_verbs(noun: str) -> frozenset[str]:
    """The verbs that a noun implies: "skier" and "skis" imply "ski"."""
    return WordNet.load().derived(noun, "n", "v") | {noun}


def check_negation(candidate: Candidate, caption: Caption, context: Context) -> str | None:
    """Reject if the noun or verb that is taken to be absent may be true, as `check_noun` and `check_verb` say."""
    asserted = candidate.assertion
    return None if asserted is None else CHECKS[asserted.change](asserted, caption, context)


CHECKS: dict[str, Callable[[Candidate, Caption, Context], str | None]] = {
    "noun": check_noun,
    "quantity": check_quantity,
    "preposition": check_preposition,
    "swap": check_swap,
    "attribute": check_attribute,
    "attribute_swap": check_attribute_swap,
    "verb": check_verb,
    "negated_noun": check_negation,
    "negated_verb": check_negation,
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
    if p_true is not None and p_true > image.truth.max_p_true:
        # A lower number may stay: captions that say "a dog" of one of two dogs do not make it true of both.
        old, new = candidate.replaced, candidate.replacement
        if candidate.change != "quantity" or quantity_value(new) >= quantity_value(old):
            return "likely_true", p_true
    return None, None if candidate.negates_caption else p_true


def interchangeable(caption: Caption, one: Token, other: Token) -> bool:
    """Whether two heads are in a conjunction, in a symmetric relation, or in equivalent positions.

    "A trick on a bike on a ramp": objects of equal prepositions may be in either order. "A girl is
    behind a car and a boy is behind the car": two clauses state the same of each.
    """
    first = caption.first_conjunct(one), caption.first_conjunct(other)
    pairs = ((one, other), (other, one), first, first[::-1])
    if all(token.dep == "pobj" for token in first) and len({caption.lowered[token.head] for token in first}) == 1:
        return True
    if one.dep == other.dep == "pobj":  # both locate the same noun: "a man in the water, on a boat"
        above = caption.tokens[one.head].head
        if above == caption.tokens[other.head].head and caption.tokens[above].pos == "NOUN":
            return True
    return (
        any(_is_with(caption, *pair) for pair in pairs)
        or _listed(caption, one, other)
        or _follows_after_swap(caption, one.index, other.index)
        or first[0].index == first[1].index
        or any(_symmetric(caption, *pair) for pair in pairs)
    )


class Statement(NamedTuple):
    """A relation that a caption states of two nouns: their token indices, its verb and its preposition, "" if none."""

    subject: int
    object: int
    verb: str
    preposition: str

    def implies(self, other: Statement, caption: Caption) -> bool:
        """Whether this makes `other` true: the same relation of the same nouns, in either order if symmetric."""
        if self.verb != other.verb and "" not in (self.verb, other.verb):
            return False
        if not prepositions().overlap(self.preposition, other.preposition):
            return False
        orders = [(self.subject, self.object)]
        if other.preposition in prepositions().symmetric if other.preposition else other.verb in SYMMETRIC_VERBS:
            orders.append((self.object, self.subject))
        return any(_same(caption, a, other.subject) and _same(caption, b, other.object) for a, b in orders)


@cached_on_caption
def _statements(caption: Caption) -> tuple[Statement, ...]:
    statements = []
    for relation in scene_graph(caption).relations:
        if relation.tokens:
            verbs = [caption.tokens[i].lemma for i in relation.tokens if caption.tokens[i].pos in ("VERB", "AUX")]
            words = [caption.lowered[i] for i in relation.tokens if caption.tokens[i].pos not in ("VERB", "AUX")]
            statements.append(Statement(relation.subject, relation.object, " ".join(verbs), " ".join(words)))
    return tuple(statements)


def _follows_after_swap(caption: Caption, one: int, other: int) -> bool:
    """Whether all statements after the swap are implied by relations that the caption states, and there are any."""
    stated = _statements(caption)
    swapped = {one: other, other: one}
    new = [
        old._replace(subject=swapped.get(old.subject, old.subject), object=swapped.get(old.object, old.object))
        for old in stated
        if old.subject in swapped or old.object in swapped
    ]
    return bool(new) and all(any(old.implies(statement, caption) for old in stated) for statement in new)


def _same(caption: Caption, one: int, other: int) -> bool:
    """Whether two nouns mean one thing: the same token, or the same noun again with "the"."""
    same = caption.tokens[one].lemma == caption.tokens[other].lemma
    determiners = caption.dependents(max(one, other), "det")
    return one == other or (same and any(word.lower == "the" for word in determiners))


def _listed(caption: Caption, one: Token, other: Token) -> bool:
    """Whether only noun phrases, commas and conjunctions are between two heads, regardless of the parse."""
    start = caption.phrase_start(other.index)
    inside = {i for chunk in caption.chunks for i in range(chunk.start, chunk.end)}
    between = (caption.lowered[i] for i in range(one.index + 1, start) if i not in inside)
    return set(between) <= {",", "and", "or", "&", "as", "well", "plus"}


def _is_with(caption: Caption, one: Token, other: Token) -> bool:
    """Whether `other` is with `one`, regardless of the parse: "a plate with oranges"."""
    governor = caption.tokens[other.head]
    if other.dep != "pobj" or governor.lower != "with":
        return False
    if caption.phrase_start(other.index) == governor.index + 1 and one.index == governor.index - 1:
        return True
    above = caption.tokens[one.head]
    return governor.head in (above.index, above.head) and one.dep in ("dobj", "pobj")


def _symmetric(caption: Caption, one: Token, other: Token) -> bool:
    """Whether a symmetric preposition or verb relates `one` to `other`: "a dog next to a cat"."""
    governor = caption.tokens[other.head]
    if governor.dep == "prep" or governor.pos == "ADP":
        outer, words = governor, [governor.lower]
        while outer.head != outer.index and caption.tokens[outer.head].pos in ("ADP", "ADV"):
            outer = caption.tokens[outer.head]
            words.append(outer.lower)
        if prepositions().symmetric.isdisjoint([governor.lower, " ".join(reversed(words))]):
            return False
        above = caption.tokens[outer.head]
        holder = above
        while holder.dep == "pobj":  # "sausage in a bowl with salad": the salad is with the sausage
            holder = caption.tokens[caption.tokens[holder.head].head]
        return (
            one.index in (above.index, holder.index)
            or (one.dep in ("nsubj", "nsubjpass", "dobj", "attr") and one.head == above.index)
            or (above.dep in ("acl", "relcl") and above.head == one.index)
        )
    of_one_verb = one.dep == "nsubj" and other.dep in ("dobj", "attr") and other.head == one.head
    return of_one_verb and caption.tokens[one.head].lemma in SYMMETRIC_VERBS
