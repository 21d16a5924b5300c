"""Is a candidate really false of the image? One check per kind of change finds the reasons why it may be true, and the
word of a caption that decides.

It rejects what captions or WordNet make true. For the others, `estimates` gives the probability that another caption of
the image would make them true, estimated from the sibling captions of the corpus, and calibrated by `fit`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import chain
from typing import Any, NamedTuple

from ..caption import Caption, Token, cached_on_caption
from ..context import Said
from ..edits import BOTH, COMPATIBLE, LIKELY_TRUE, NOTHING, UNNATURAL, Candidate, Judged, apply
from ..language.coreference import CoreferenceIndex, may_corefer, meaning, related_or_same_person
from ..language.semantic_classes import (
    LIVING,
    is_furnishing,
    is_location,
    is_person,
    may_be_same,
    prepositions,
    semantic_class,
)
from ..language.wordnet import WordNet
from ..mentions import Mentions, mentioned_nouns
from ..scene_graph import scene_graph
from ..slots import verbs
from ..slots.nouns import quantity_value
from .estimates import ASSERTIONS, KIND_OF_CHANGE

# Words for several persons that do not say how many.
GROUPS = {"group", "crowd", "couple", "family", "team", "people", "pair", "trio", "band", "bunch"}
# "A dog faces a cat" means "a cat faces a dog".
SYMMETRIC_VERBS = {
    "face", "meet", "hug", "kiss", "fight", "touch", "join", "resemble", "match", "accompany", "marry", "embrace",
    "wrestle", "race", "tackle", "separate", "be", "have", "include",
}  # fmt: skip
# Reasons that a word of a caption decides.
OF_WORDS = frozenset(
    ("related_in_caption", "overlap_in_caption", "same_quantity", "caption_says_so")
    + ("related_in_sibling", "overlap_in_sibling", "sibling_quantity", "sibling_says_so")
)
LIMITS = {
    UNNATURAL: "over a limit, preferred_unnatural, max_unnatural or max_compatible",
    LIKELY_TRUE: "over the limit max_true",
}


class Finding(NamedTuple):
    """Why a candidate may be true: one of negcap.schemas.negatives.REASONS; and what finds the word of a caption that
    decides, None if none does, and the caption_id of the first sibling that has the word, None if the caption itself
    has it.
    """

    reason: str
    said: Callable[[], tuple[str | None, str | None]] = lambda: (None, None)


Check = Callable[[Candidate, Said], Iterator[Finding]]


def _mentioned(
    reason: str, said: Said, mentions: Mentions, kind: str, fits: Callable[[Any], bool]
) -> Iterator[Finding]:
    """The reason, if a mention of a kind fits."""
    if any(map(fits, getattr(mentions, kind))):
        yield Finding(reason, partial(_first_said, said, mentions, kind, fits))


def _first_said(
    said: Said, mentions: Mentions, kind: str, fits: Callable[[Any], bool]
) -> tuple[str | None, str | None]:
    """The word of the first mention that fits, see `Mentions.first`, and the sibling that has it, as of `Finding`."""
    if (found := mentions.first(kind, fits)) is None:
        return None, None
    mention, caption = found
    word = mention if isinstance(mention, str) else " ".join(mention) if kind == "relations" else mention[0]
    return word, None if caption is said.caption else caption.caption_id


def check_noun(candidate: Candidate, said: Said) -> Iterator[Finding]:
    """Reject if a noun of this caption or a sibling may name the same thing: `related_in_*`, `overlap_in_*`; or if a
    place replaces the thing in it where somebody is (`overlap_in_caption`).
    """
    old, new = candidate.replaced, candidate.replacement
    number, index, may_be = said.lexicon.nouns.number.get(new), said.lexicon.coreference, True
    if number is None:
        number, index = 0, CoreferenceIndex((new,))
    else:  # mostly not, which one look tells
        may_be = bool(said.may_be_true(old)[number])

    def finding(reason: str, where: str, mentions: Mentions, nouns: frozenset[str]) -> Finding:
        def is_one(noun: str) -> bool:
            return noun in nouns and index.with_noun(noun).reason(number) == reason

        return Finding(f"{reason}_in_{where}", partial(_first_said, said, mentions, "nouns", is_one))

    if may_be and (reason := index.with_any(said.own.nouns).reason(number)):
        yield finding(reason, "caption", said.own, said.own.nouns)
    if candidate.slots and said.caption.tokens[candidate.slots[0]].dep == "pobj" and is_furnishing(old):
        if is_location(new):  # "at a table", "at a restaurant"
            yield Finding("overlap_in_caption", lambda: (old, None))
    heard = said.heard(old)
    if may_be and (reason := index.with_any(heard).reason(number)):
        yield finding(reason, "sibling", said.siblings, heard)


def check_quantity(candidate: Candidate, said: Said) -> Iterator[Finding]:
    """Reject if, by this caption or a sibling, the new quantity may be true of the noun."""
    old, value = quantity_value(candidate.replaced), quantity_value(candidate.replacement)
    noun = said.caption.tokens[candidate.slots[0]].lemma
    if value == old:
        yield Finding("same_quantity", lambda: (noun, None))
    elif value > 1:
        yield from _mentioned("same_quantity", said, said.own, "quantities", {(noun, 0), (noun, value)}.__contains__)

    def may_count(mention: tuple[str, int]) -> bool:
        other, count = mention
        if count == value and may_corefer(noun, other):
            return True
        # "Dogs" does not make "three dogs" true, but may make "two dogs" true.
        several = count == 0 and value > 1 and related_or_same_person(noun, other)
        return old == 1 and (several or (other in GROUPS and is_person(noun)))

    yield from _mentioned("sibling_quantity", said, said.siblings, "quantities", may_count)


def check_preposition(candidate: Candidate, said: Said) -> Iterator[Finding]:
    """Reject a preposition that may be true together with the old one, before the same object ("on" and "above" a
    table; `Prepositions.may_replace`), or with one that another caption has before this object (`sibling_says_so`).
    """
    object, may_replace = said.caption.tokens[candidate.slots[1]].lemma, prepositions().may_replace
    old, new = candidate.replaced, candidate.replacement
    if not may_replace(old, new, object):
        yield Finding("preposition_overlap")
    for mentions in (said.siblings, said.own):
        given = (pair for pair in mentions.relations if pair[1] == object and pair[0] != old)
        fits = (pair for pair in given if not may_replace(pair[0], new, object))
        yield from _mentioned("sibling_says_so", said, mentions, "relations", set(fits).__contains__)


def check_swap(candidate: Candidate, said: Said) -> Iterator[Finding]:
    """Reject if the two heads name the same kind of thing, or swapping them may leave the caption true."""
    caption = said.caption
    one, other = (caption.tokens[i] for i in candidate.slots)
    same = may_corefer(one.lemma, other.lemma) and not _told_apart(one.lemma, other.lemma)
    if same or interchangeable(caption, one, other):
        yield Finding("interchangeable")


def _told_apart(one: str, other: str) -> bool:
    """Whether a caption that has both nouns means two persons or animals: "a boy helps a woman".

    Not by synonyms, nor by a word for several: "a man in a crowd".
    """
    if one in GROUPS or other in GROUPS or not meaning(one).synsets.isdisjoint(meaning(other).synsets):
        return False
    return semantic_class(one) == semantic_class(other) in LIVING


def check_attribute(candidate: Candidate, said: Said) -> Iterator[Finding]:
    """Reject if this caption or a sibling gives the same thing the new attribute, or one compatible with it."""
    yield from _attribute_said(candidate.replacement, said.caption.tokens[candidate.slots[1]].lemma, said)


def check_attribute_swap(candidate: Candidate, said: Said) -> Iterator[Finding]:
    """Reject if an attribute is already given to the other noun, or the two nouns may be the same thing."""
    one, other = (said.caption.tokens[i].lemma for i in candidate.slots)
    if may_corefer(one, other):
        yield Finding("interchangeable")
    mine, theirs = candidate.replaced.split(BOTH)
    yield from _attribute_said(theirs, one, said)
    yield from _attribute_said(mine, other, said)


def _attribute_said(attribute: str, noun: str, said: Said) -> Iterator[Finding]:
    def given(mention: tuple[str, str]) -> bool:
        return mention[1] == noun and may_be_same(attribute, mention[0])

    def may_be_given(mention: tuple[str, str]) -> bool:
        word, of = mention
        return may_be_same(attribute, word) and (not of or noun == of or may_corefer(noun, of))

    yield from _mentioned("caption_says_so", said, said.own, "attributes", given)
    yield from _mentioned("sibling_says_so", said, said.siblings, "attributes", may_be_given)


def check_verb(candidate: Candidate, said: Said) -> Iterator[Finding]:
    """Reject if this caption or a sibling has the new verb, a compatible one, or a noun that implies it."""
    old, new = candidate.replaced, candidate.replacement
    for reason, mentions in (("caption_says_so", said.own), ("sibling_says_so", said.siblings)):
        yield from _mentioned(
            reason, said, mentions, "verbs", lambda verb: verb != old and verbs.may_be_same(new, verb)
        )
        yield from _mentioned(reason, said, mentions, "nouns", lambda noun: noun != old and new in implied_verbs(noun))


@cache
def implied_verbs(noun: str) -> frozenset[str]:
    """The verbs that a noun implies: "skier" and "skis" imply "ski"."""
    return WordNet.load().derived(noun, "n", "v") | {noun}


def check_negation(candidate: Candidate, said: Said) -> Iterator[Finding]:
    """Reject if the noun or verb that is taken to be absent may be true, as `check_noun` and `check_verb` say."""
    if candidate.assertion is not None:
        yield from CHECKS[candidate.assertion.change](candidate.assertion, said)


CHECKS: dict[str, Check] = {
    "noun": check_noun,
    "numeral": check_quantity,
    "preposition": check_preposition,
    "swap": check_swap,
    "attribute": check_attribute,
    "attribute_swap": check_attribute_swap,
    "verb": check_verb,
    "negated_noun": check_negation,
    "negated_verb": check_negation,
    "none": lambda candidate, said: iter(()),  # of texts that are true by their form, such as paraphrases
}


def assess(candidate: Candidate, said: Said) -> tuple[str | None, float | None]:
    """Why a candidate is rejected (one of negcap.schemas.negatives.REASONS), or None; and the estimated probability
    that it is true.

    The reason of a candidate that its operator found ungrammatical is returned unchanged. Where there are estimates for
    its image, a candidate that passes the check is rejected as `likely_true` if that probability is above their limit.
    The probability is None if the check rejects, or there is no estimate, or the candidate is false whatever it takes
    to be absent.
    """
    found = None if candidate.rejected else next(CHECKS[candidate.change](candidate, said), None)
    reason = candidate.rejected or (found.reason if found else None)
    if reason is not None or said.image is None:
        return reason, None
    p_true = said.image.p_true(candidate, said.caption)
    if p_true is not None and p_true > said.image.truth.max_p_true:
        return LIKELY_TRUE, p_true
    return None, None if candidate.negates_caption else p_true


def explained(judged: Judged, said: Said) -> Judged:
    """A rejection with the word that decided as its detail, and the caption_id of the first sibling that has it.

    Of `likely_true` nouns and verbs, the word with the largest lift (see `negcap.augment.truth.estimates`); of other
    likely changes, the thing; of a negation also, before it, what is taken to be absent; of a `dangling_pronoun`, the
    caption's pronouns; of what stands for all words that are not drawn, how to list them. Unchanged if a limit or
    another fault of the sentence decided.
    """
    candidate, own = judged.candidate, said.caption
    if judged.reason is None or judged.detail is not None:
        return judged
    if candidate.change == NOTHING.change and candidate.rejected and not judged.text:
        why = LIMITS.get(judged.reason, "refused for this reason")
        return judged._replace(detail=f"no word was drawn, most are {why}; excluded=true lists them")
    if judged.reason == COMPATIBLE and candidate.p_compatible is None:
        return judged._replace(detail="the words may name one thing, by WordNet or the tables of overlaps")
    absent = "" if candidate.absent is None else f"{candidate.absent}: "
    if judged.reason == LIKELY_TRUE:
        word = _likely(candidate.assertion or candidate, said)
        places = (one for one in (own, *said.siblings.captions) if word in mentioned_nouns(one))
        place = next(places, own)
        detail = word and absent + word
        return judged._replace(detail=detail, sibling_id=None if place is own else place.caption_id)
    if judged.reason == "dangling_pronoun":
        return judged._replace(detail=" ".join(dict.fromkeys(pronoun.lower for pronoun in own.pronouns)))
    if judged.reason == "sibling_says_so":
        text = (judged.text or apply(own.text, candidate.edits)).lower()
        if text in said.siblings.texts:  # it says what a sibling says word by word, or its own caption
            same = (one for one in said.siblings.captions if one is not own and one.text.lower() == text)
            return judged._replace(sibling_id=next((one.caption_id for one in same), None))
    if judged.reason in OF_WORDS:
        for found in CHECKS[candidate.change](candidate, said):
            if found.reason == judged.reason:
                word, sibling_id = found.said()
                return judged._replace(detail=word and absent + word, sibling_id=sibling_id)
    return judged


def _likely(candidate: Candidate, said: Said) -> str | None:
    """The word of the image's captions that makes a candidate likelier than any other of them does; None: none."""
    kind = KIND_OF_CHANGE.get(candidate.change, "")
    if said.image is None or kind in ASSERTIONS:
        return said.caption.tokens[candidate.slots[-1]].lemma
    nouns = frozenset(chain.from_iterable(map(mentioned_nouns, said.image.captions)))
    return said.image.truth.associations[kind].strongest(nouns, candidate.replacement)


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
