"""Where a caption can deny that something is there, and in which words people do it.

The wordings are those of 202,000 captions of Flickr30k, Flickr8k and Visual Genome that people wrote: "with no" (223
times), "without" (143), "and no" (58), "wearing no" (40), "not wearing" (21) and "but no" (6). Verbs other than "wear"
are hardly ever denied there ("not looking" 8, all others 3 or less), so they are not denied here either.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Literal, NamedTuple

from ..caption import Caption, Token, cached_on_caption
from ..data import data_path
from ..edits import Candidate, Edit, replace
from ..language.determiners import NEGATIONS
from ..language.semantic_classes import is_person
from .nouns import NounSlot, noun_slots
from .verbs import PrepositionUse, preposition_uses

Frame = Literal["with", "wear", "hold", "in", "and", "there", "near", "around", "person", "exists"]

Found = tuple[Frame, Token, int, int, str]  # frame, head of the noun phrase, characters to replace, verb

NO = "not "  # precedes a noun that is denied, in `replaced` and `replacement` of a candidate
BOTH = " | "  # between a noun that is asserted and one that is denied

# How each frame denies a noun, and how it asserts one and denies another. {a}: the noun with its article, {no}: without
# it, {verb}: the verb as written, {and}: "and" or "but". Around something it is never both: "with a beach but no
# couches nearby" was odd in 56 of 60 judgements of readers.
DENIALS: dict[Frame, tuple[str, ...]] = {
    "with": ("without {a}", "with no {no}"),
    "wear": ("{verb} no {no}",),
    "hold": ("without {a}", "with no {no}"),
    "in": ("without {a}", "with no {no}"),
    "and": ("{and} no {no}",),
    "there": ("no {no}",),
    "near": ("with no {no} nearby", "with no {no} in sight"),
    "around": (" with no {no} nearby", " with no {no} in sight"),
    "person": (" without {a}", " with no {no}"),
    "exists": ("{there} {be_no} no {no} in the picture",),
}
CONTRASTS: dict[Frame, str] = {
    "with": "with {a} {and} no {no}",
    "wear": "{verb} {a} {and} no {no}",
    "hold": "{verb} {a} {and} no {no}",
    "in": "in {a} {and} no {no}",
    "there": "{a} but no {no}",
    "person": " with {a} {and} no {no}",
    "exists": "{there} {be} {a} but no {no} in the picture",
}
# How the frames assert a noun that the caption does not have.
ASSERTIONS: dict[Frame, str] = {
    "around": " with {a} nearby",
    "person": " with {a}",
    "exists": "{there} {be} {a} in the picture",
}
# The lists of data/denials.toml whose nouns each frame denies.
KINDS: dict[Frame, tuple[str, ...]] = {
    "with": ("around", "held", "worn"),
    "wear": ("worn",),
    "hold": ("held",),
    "in": ("worn",),
    "and": ("around", "held", "worn"),
    "there": ("around", "held"),
    "near": ("around",),
    "around": ("around",),
    "person": ("held", "worn"),
    "exists": ("around",),
}
PLURAL_FRAMES = ("near", "around", "exists")  # a denial has the plural there: "with no dogs nearby"
# Prepositions whose object the photo shows; not "for a bus", "like a horse".
SHOWN = frozenset(
    """on in with near by beside behind under over above through alongside around at inside into across down up along
    onto off past from against underneath beneath""".split()
) | {"next to", "in front of", "on top of"}
# Verbs that say little or nothing without their preposition: "looks at the ocean".
NEED_PREPOSITION = frozenset(
    "be see look lean climb put place make reach point consist depend stick pass cover hang get go come".split()
)
# A caption with one of these says already what is around: no second "nearby".
ELSEWHERE = {"nearby", "background", "around", "foreground", "distance", "surrounded"}
# Nouns with one of these dependents are not denied: "without a man and his dog" may leave the man.
LISTED = {"conj", "cc", "appos", "acl", "relcl", "nummod", "poss", "preconj", "prep", "prt"}
ANAPHORS = {"it", "its", "they", "them", "their", "itself", "one", "which", "that", "other", "another"}
BOUND_WITH = {"along", "together", "covered", "filled", "up", "down", "off", "away", "out"}


class Place(NamedTuple):
    """A place of a caption where a noun can be asserted or denied.

    slot: the noun that is there; None in the frames "around" and "person", which add words after the token `index`, and
    "exists", which replaces the caption. index: the token of the noun's head. start, end: the characters that a denial
    replaces. verb: of "wear" and "hold", as written, and "there" as the caption begins. variant: a number that chooses
    among the wordings of the frame.
    """

    frame: Frame
    index: int  # type: ignore[assignment]  # hides tuple.index
    slot: NounSlot | None
    start: int
    end: int
    verb: str = ""
    variant: int = 0

    def denial(self, **words: str) -> Edit:
        """The edit that denies a noun; words: the noun as DENIALS has it, and "is" or "are"."""
        wordings = DENIALS[self.frame]
        return self._edit(wordings[self.variant % len(wordings)], words)

    def contrast(self, **words: str) -> Edit | None:
        """The edit that asserts the noun `a` and denies the noun `no`; None if the frame has none."""
        wording = CONTRASTS.get(self.frame)
        return None if wording is None else self._edit(wording, words)

    def assertion(self, **words: str) -> Edit:
        """The edit that asserts a noun in a frame that the caption does not have."""
        return self._edit(ASSERTIONS[self.frame], words)

    def _edit(self, wording: str, words: dict[str, str]) -> Edit:
        link = ("and", "but")[self.variant // 2 % 2]
        there = self.verb or "There"
        return Edit(self.start, self.end, wording.format_map({**words, "verb": self.verb, "there": there, "and": link}))


@cache
def deniable(frame: Frame) -> frozenset[str]:
    """The nouns that may be denied in a frame, from data/denials.toml: those whose absence is worth saying there."""
    return frozenset().union(*map(listed, KINDS[frame]))


@cache
def listed(kind: str) -> frozenset[str]:
    """The nouns of one list of data/denials.toml."""
    return frozenset(tomllib.loads(data_path("denials.toml").read_text("utf-8"))[kind])


def assertion(candidate: Candidate) -> Candidate | None:
    """The candidate that would assert what a denial takes to be absent, with the change of a noun or verb.

    None if nothing is taken to be absent.
    """
    if candidate.absent is None:
        return None
    return candidate._replace(
        change="verb" if candidate.change == "verb_denial" else "noun",
        replaced=candidate.replaced.partition(BOTH)[0],
        replacement=candidate.absent,
    )


def denies_the_caption(candidate: Candidate) -> bool:
    """Whether a candidate denies what its caption says, and nothing else: "hat" -> "not hat"."""
    return candidate.replacement == NO + candidate.replaced


@cached_on_caption
def places(caption: Caption) -> tuple[Place, ...]:
    """The places of a caption whose noun can be denied, in text order; none in a caption that denies something."""
    if not NEGATIONS.isdisjoint(caption.lowered):
        return ()
    nouns = {slot.root: slot for slot in noun_slots(caption)}
    variant, found = Random(caption.caption_id).randrange(4), []
    for find in (_of_prepositions, _of_verbs, _existing, _last_of_two):
        for frame, noun, start, end, verb in find(caption):
            slot, following = nouns.get(noun.index), caption.lowered[noun.index + 1 :]
            # A later word may refer to the noun, or it goes on: "a dog's tail", "a bunch of".
            taken_up = not ANAPHORS.isdisjoint(following) or following[:1] in (("'s",), ("of",), ("-",))
            if slot is not None and slot.entry in deniable(frame) and not taken_up:
                found.append(Place(frame, noun.index, slot, start, end, verb, variant))
    return tuple(sorted(found, key=lambda place: place.index))


@cached_on_caption
def additions(caption: Caption) -> tuple[Place, ...]:
    """The places where what a caption does not mention can be denied: after its last word, and after its only person.

    None if the caption denies something.
    """
    words = [token for token in caption.tokens if token.pos not in ("PUNCT", "SPACE")]
    if not words or not NEGATIONS.isdisjoint(caption.lowered):
        return ()
    variant = Random(caption.caption_id).randrange(4)
    found = []
    if ELSEWHERE.isdisjoint(caption.lowered):
        found.append(Place("around", words[-1].index, None, words[-1].end, words[-1].end, "", variant))
    persons = [slot for slot in noun_slots(caption) if is_person(slot.entry)]
    if len(persons) == 1 and not persons[0].plural:
        root = caption.tokens[persons[0].root]
        following = caption.tokens[root.index + 1 : root.index + 2]
        verbal = any(token.pos in ("VERB", "AUX") or token.lower in ("on", "at") for token in following)
        if verbal and root.dep in ("nsubj", "ROOT", "nsubjpass"):
            found.append(Place("person", root.index, None, root.end, root.end, "", variant))
    return tuple(found)


@cached_on_caption
def existence(caption: Caption) -> Place | None:
    """The place of a whole caption, in which the existence of a thing is asserted or denied, as in VALSE; None if the
    caption denies something.
    """
    words = [token for token in caption.tokens if token.pos not in ("PUNCT", "SPACE")]
    if not words or not NEGATIONS.isdisjoint(caption.lowered):
        return None
    there = "there" if caption.text[words[0].start].islower() else "There"
    return Place("exists", words[0].index, None, words[0].start, words[-1].end, there)


@cached_on_caption
def shown_nouns(caption: Caption, frame: Frame) -> frozenset[tuple[str, bool]]:
    """The nouns of a caption that its photo surely shows and that can be denied in a frame, and whether they are
    plural.

    Not what is denied, awaited, likened or of something: "waiting for a bus", "a picture of a dog".
    """
    if not NEGATIONS.isdisjoint(caption.lowered):
        return frozenset()
    prepositions = {use.object.index: use.entry for use in preposition_uses(caption)}
    found = set()
    for slot in noun_slots(caption):
        root = caption.tokens[slot.root]
        shown = root.dep in ("nsubj", "ROOT", "attr", "dobj") or prepositions.get(slot.root) in SHOWN
        if shown and slot.entry in deniable(frame) and caption.word(slot.end) != "of":
            found.add((slot.entry, slot.plural))
    return frozenset(found)


@cached_on_caption
def denied(caption: Caption) -> tuple[tuple[str, int, Edit], ...]:
    """What a caption denies ("without a hat", "with no dogs"): each noun's lexicon entry, its token index, and the edit
    that asserts it.
    """
    found: list[tuple[str, int, Edit]] = []
    nouns = {slot.root: slot for slot in noun_slots(caption)}
    for word in caption.tokens:
        head = caption.tokens[word.head]
        if word.lower == "without" and word.dep == "prep":
            object = next(caption.dependents(word.index, "pobj"), None)
            if object is not None and object.index in nouns:
                edit = replace(caption, word.index, word.index + 1, "with")
                found.append((nouns[object.index].entry, object.index, edit))
        elif word.lower == "no" and word.index and head.index in nouns and nouns[head.index].plural:
            found.append((nouns[head.index].entry, head.index, Edit(word.start, word.end, "some")))
    return tuple(found)


def _of_prepositions(caption: Caption) -> Iterator[Found]:
    """The objects of "with" (not "filled with", "along with"), "in" and prepositions of neighbourhood."""
    for use in preposition_uses(caption):
        word = caption.tokens[use.start]
        if not _deniable(caption, use.object) or word.dep != "prep":
            continue
        span = word.start, use.object.end
        if use.entry == "with":
            bound = caption.tokens[word.head].tag == "VBN" or caption.word(word.index - 1) in BOUND_WITH
            if not bound:
                yield ("with", use.object, *span, "")
        elif use.entry == "in" and use.object.lemma in deniable("in"):
            yield ("in", use.object, *span, "")
        elif use.entry in SHOWN and _is_last(caption, use):
            yield ("near", use.object, *span, "")


def _of_verbs(caption: Caption) -> Iterator[Found]:
    """The objects of "wear", and of a participle "holding" or "carrying" after a noun."""
    for verb in caption.tokens:
        if verb.lemma not in ("wear", "hold", "carry") or verb.pos != "VERB":
            continue
        object = next(caption.dependents(verb.index, "dobj"), None)
        if object is None or not _deniable(caption, object) or caption.has(verb.index, "prt"):
            continue
        if verb.lemma == "wear":
            yield "wear", object, verb.start, object.end, verb.text
        elif verb.tag == "VBG" and verb.dep == "acl" and verb.head == verb.index - 1:
            yield "hold", object, verb.start, object.end, verb.text


def _existing(caption: Caption) -> Iterator[Found]:
    """The things of "there is": "there is a dog" -> "there is no dog"."""
    for verb in caption.tokens:
        if verb.lemma != "be" or not caption.has(verb.index, "expl"):
            continue
        thing = next(caption.dependents(verb.index, "attr", "nsubj"), None)
        if thing is None or _start(caption, thing) != verb.index + 1:
            continue
        if not caption.has(thing.index, "conj", "preconj", "nummod", "poss"):
            yield "there", thing, caption.tokens[verb.index + 1].start, thing.end, ""


def _last_of_two(caption: Caption) -> Iterator[Found]:
    """The last of two objects: "with a cup and a plate" -> "with a cup but no plate"."""
    for first in caption.tokens:
        if first.dep not in ("dobj", "pobj"):
            continue
        words = list(caption.dependents(first.index, "cc"))
        things = list(caption.dependents(first.index, "conj"))
        if len(words) != 1 or len(things) != 1 or words[0].lower != "and" or not _deniable(caption, things[0]):
            continue
        if _start(caption, things[0]) == words[0].index + 1:
            yield "and", things[0], words[0].start, things[0].end, ""


def _start(caption: Caption, noun: Token) -> int:
    """The first token of the noun phrase that a noun heads; -1 if it heads none."""
    return next((chunk.start for chunk in caption.chunks if chunk.root == noun.index), -1)


def _is_last(caption: Caption, use: PrepositionUse) -> bool:
    """Whether a prepositional phrase ends the caption, and can be left out: it belongs to no other one, and its verb
    does not need it.
    """
    above = caption.tokens[caption.tokens[use.start].head]
    if not use.start or any(word.pos != "PUNCT" for word in caption.tokens[use.object.index + 1 :]):
        return False
    bound = above.lemma in NEED_PREPOSITION or caption.has(above.index, "dobj", "prt")
    return above.dep not in ("pobj", "prep") and not bound


def _deniable(caption: Caption, noun: Token) -> bool:
    """Whether one may say that a noun is missing: it stands alone, with no list, number, owner or clause."""
    return not caption.has(noun.index, *LISTED)
