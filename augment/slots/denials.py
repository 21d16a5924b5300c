"""Where a caption can be denied, and where it denies something already.

Four frames: a verb ("is **not** riding"), the object of "with" ("**without** a hat"), the thing of "there is" ("there
is **no** dog"), and the last of two things ("a cup **but no** plate").
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from negcap.augment.cache import cached_on_caption
from negcap.augment.caption import Caption, Token
from negcap.augment.edits import Edit, cased
from negcap.augment.language.determiners import ARTICLES, NEGATIONS
from negcap.augment.language.semantic_classes import ABSTRACT, is_body_part, semantic_class
from negcap.augment.slots.nouns import NOUN_TAGS, NounSlot, noun_slots

Frame = Literal["verb", "with", "there", "and"]

CLAUSES = {"ROOT", "acl", "relcl", "conj", "advcl"}
DO = {"VBZ": "does not", "VBP": "do not", "VBD": "did not"}
BE = {"is", "are", "was", "were"}
# A verb with one of these dependents is not denied: it is denied already, an infinitive, or one unit with a particle.
BOUND = {"neg", "expl", "mark", "agent"}
# What may stand directly before a verb that is denied; other dependents there form a compound with it.
BEFORE = {"nsubj", "nsubjpass", "aux", "auxpass", "punct", "cc", "relcl"}
# Nouns with one of these dependents are not denied: "without a man and his dog" may leave the man.
LISTED = {"conj", "appos", "acl", "relcl", "nummod", "poss", "preconj"}


class Denial(NamedTuple):
    """A place of a caption that can be denied.

    index: the token that is denied, a verb or the head of a noun phrase. entry: its lemma, or the noun slot's entry.
    noun: the slot of that noun; None for a verb. edits: what denies it.
    """

    frame: Frame
    index: int  # type: ignore[assignment]  # hides tuple.index
    entry: str
    noun: NounSlot | None
    edits: tuple[Edit, ...]


@cached_on_caption
def denials(caption: Caption) -> tuple[Denial, ...]:
    """The places of a caption that can be denied, in text order; none in a caption that denies something already."""
    if not NEGATIONS.isdisjoint(caption.lowered):
        return ()
    nouns = {slot.root: slot for slot in noun_slots(caption)}
    found = [*_verbs(caption), *_objects(caption, nouns), *_existing(caption, nouns), *_last_of_two(caption, nouns)]
    return tuple(sorted(found, key=lambda denial: denial.index))


@cached_on_caption
def denied(caption: Caption) -> tuple[Denial, ...]:
    """What a caption denies: "without a hat", "is not riding", "no dogs"; the edits assert it."""
    found: list[Denial] = []
    nouns = {slot.root: slot for slot in noun_slots(caption)}
    for word in caption.tokens:
        head = caption.tokens[word.head]
        if word.lower == "without" and word.dep == "prep":
            object = next(caption.dependents(word.index, "pobj"), None)
            if object is not None and object.index in nouns:
                edit = Edit(word.start, word.end, cased("with", word.text, first=word.index == 0))
                found.append(Denial("with", object.index, nouns[object.index].entry, nouns[object.index], (edit,)))
        elif word.lower == "not" and word.dep == "neg" and head.tag in ("VBG", "VBN") and head.index > word.index:
            edit = Edit(word.start, caption.tokens[word.index + 1].start, "")
            found.append(Denial("verb", head.index, head.lemma, None, (edit,)))
        elif word.lower == "no" and word.index and head.index in nouns and nouns[head.index].plural:
            edit = Edit(word.start, word.end, "some")
            found.append(Denial("there", head.index, nouns[head.index].entry, nouns[head.index], (edit,)))
    return tuple(found)


def verb_denial(caption: Caption, verb: Token, base: str, surface: str) -> tuple[Edit, ...] | None:
    """The edits that deny a verb and put another in its place, or the same; None if it cannot be denied.

    base, surface: the infinitive of the new verb, and its form with the tag of the old one. "rides" -> "does not walk",
    "is riding" -> "is not walking", "a man riding" -> "a man not walking".
    """
    auxiliaries = list(caption.dependents(verb.index, "aux", "auxpass"))
    new = cased(surface, verb.text)
    if not auxiliaries:
        if verb.tag in DO:
            return (Edit(verb.start, verb.end, f"{DO[verb.tag]} {base}"),)
        if verb.tag in ("VBG", "VBN") and verb.index and verb.dep != "advcl":
            return (Edit(verb.start, verb.end, f"not {new}"),)
        return None
    if len(auxiliaries) > 1 or auxiliaries[0].lower not in BE or auxiliaries[0].index != verb.index - 1:
        return None
    if new == verb.text:
        return (Edit(auxiliaries[0].end, auxiliaries[0].end, " not"),)
    return (Edit(verb.start, verb.end, f"not {new}"),)


def _verbs(caption: Caption) -> Iterator[Denial]:
    for verb in caption.tokens:
        if verb.pos != "VERB" or verb.dep not in CLAUSES or not verb.text.isalpha():
            continue
        children = [caption.tokens[child] for child in caption.children[verb.index]]
        if any(child.dep in BOUND for child in children):
            continue
        if any(child.index == verb.index - 1 and child.dep not in BEFORE for child in children):
            continue  # "a man rock climbing"
        edits = verb_denial(caption, verb, verb.lemma, verb.text)
        if edits is not None:
            yield Denial("verb", verb.index, verb.lemma, None, edits)


def _objects(caption: Caption, nouns: dict[int, NounSlot]) -> Iterator[Denial]:
    """The objects of "with": "a man with a hat" -> "a man without a hat"; not "filled with", "along with"."""
    for word in caption.tokens:
        if word.lower != "with" or word.dep != "prep" or caption.lowered[word.index - 1 : word.index] in _BOUND_WITH:
            continue
        above = caption.tokens[word.head]
        object = next(caption.dependents(word.index, "pobj"), None)
        if above.tag == "VBN" or object is None or object.index not in nouns or not _deniable(caption, object):
            continue
        edit = Edit(word.start, word.end, cased("without", word.text, first=word.index == 0))
        yield Denial("with", object.index, nouns[object.index].entry, nouns[object.index], (edit,))


_BOUND_WITH = {(word,) for word in ("along", "together", "covered", "filled", "up", "down", "off", "away", "out")}


def _existing(caption: Caption, nouns: dict[int, NounSlot]) -> Iterator[Denial]:
    """The things of "there is": "there is a dog" -> "there is no dog"."""
    for verb in caption.tokens:
        if verb.lemma != "be" or not any(True for _ in caption.dependents(verb.index, "expl")):
            continue
        thing = next(caption.dependents(verb.index, "attr", "nsubj"), None)
        if thing is None or thing.index not in nouns or thing.index < verb.index:
            continue
        edits = _with_no(caption, nouns[thing.index])
        if edits and not any(True for _ in caption.dependents(thing.index, "conj", "preconj")):
            yield Denial("there", thing.index, nouns[thing.index].entry, nouns[thing.index], edits)


def _last_of_two(caption: Caption, nouns: dict[int, NounSlot]) -> Iterator[Denial]:
    """The last of two objects: "with a cup and a plate" -> "with a cup but no plate"."""
    for first in caption.tokens:
        if first.dep not in ("dobj", "pobj") or first.tag not in NOUN_TAGS:
            continue
        words = list(caption.dependents(first.index, "cc"))
        things = list(caption.dependents(first.index, "conj"))
        if len(words) != 1 or len(things) != 1 or words[0].lower != "and" or things[0].index not in nouns:
            continue
        thing = things[0]
        start = next((chunk.start for chunk in caption.chunks if chunk.root == thing.index), -1)
        if start != words[0].index + 1 or not _deniable(caption, thing):
            continue
        edits = _with_no(caption, nouns[thing.index])
        if edits:
            but = Edit(words[0].start, words[0].end, cased("but", words[0].text))
            yield Denial("and", thing.index, nouns[thing.index].entry, nouns[thing.index], (but, *edits))


def _with_no(caption: Caption, slot: NounSlot) -> tuple[Edit, ...]:
    """The edits that put "no" before a noun, instead of "a", "some" or a number; () if other determiners are there."""
    before = [token for token in caption.dependents(slot.root, "det", "nummod", "amod", "poss", "predet")]
    determiners = [token for token in before if token.dep != "amod"]
    if not determiners and (slot.plural or slot.form == "bare"):
        start = min([token.start for token in before] + [caption.tokens[slot.start].start])
        return (Edit(start, start, "no "),)
    if len(determiners) == 1 and determiners[0].lower in (*ARTICLES, "some", "several", "many", "two", "three"):
        return (Edit(determiners[0].start, determiners[0].end, "no"),)
    return ()


def _deniable(caption: Caption, noun: Token) -> bool:
    """Whether one may say that a noun is missing: a visible thing, no part of a body, no list, no number, no clause."""
    if any(child.dep in LISTED for child in map(caption.tokens.__getitem__, caption.children[noun.index])):
        return False
    return noun.tag in NOUN_TAGS and not is_body_part(noun.lemma) and semantic_class(noun.lemma) != ABSTRACT
