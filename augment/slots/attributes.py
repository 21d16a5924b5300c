"""Attribute slots: the adjectives and materials that describe nouns of a caption."""

from __future__ import annotations

from typing import NamedTuple

from ..cache import cached_on_caption
from ..caption import Caption, Token
from ..language.attributes import attributes, has_other_sense_of_persons, is_part_of_name
from ..language.overlaps import is_person
from ..language.wordnet import WordNet
from .contexts import after, before
from .nouns import NOUN_TAGS

ADJECTIVE_TAGS = {"JJ", "JJR", "JJS"}
DEGREES = {"JJR", "JJS"}
INTENSIFIERS = {"very", "too", "more", "most", "less", "so", "as", "light", "dark", "bright", "pale", "half"}


class AttributeSlot(NamedTuple):
    """The adjective at token index `index` describes the noun at token index `noun`: "a **red** car".

    form: "attributive", or "predicative" ("the car is **red**"). contexts (see negcap.augment.slots.contexts): the
    noun, the words before, the word after.
    """

    index: int  # type: ignore[assignment]  # hides tuple.index
    noun: int
    entry: str
    form: str
    contexts: tuple[str, ...]


def _owner(caption: Caption, token: Token) -> tuple[Token, str] | None:
    """The noun that an adjective describes, and the form; a conjunct describes the noun of the first conjunct."""
    while token.dep == "conj" and caption.tokens[token.head].tag in ADJECTIVE_TAGS and token.head != token.index:
        token = caption.tokens[token.head]
    head = caption.tokens[token.head]
    if token.dep in ("amod", "compound") and head.tag in NOUN_TAGS and token.index < head.index:
        return head, "attributive"
    if token.dep == "acomp" and head.lemma == "be":
        subject = next(caption.dependents(head.index, "nsubj"), None)
        if subject is not None and subject.tag in NOUN_TAGS:
            return subject, "predicative"
    return None


@cached_on_caption
def attribute_slots(caption: Caption) -> tuple[AttributeSlot, ...]:
    """The adjectives that describe common nouns, and materials that modify nouns: "a **metal** bench"."""
    slots = []
    table, lowered = attributes(), caption.lowered
    for token in caption.tokens:
        word = lowered[token.index]
        if token.tag not in ADJECTIVE_TAGS and not (word in table.dimensions and token.dep in ("amod", "compound")):
            continue
        if token.tag in DEGREES and word not in table.dimensions:
            continue
        if not word.replace("-", "").isalpha() or word in table.vague:
            continue
        owner = _owner(caption, token)
        if owner is None or any(lowered[c] in INTENSIFIERS for c in caption.children[token.index]):
            continue
        noun, form = owner
        if _hyphened(caption, token.index) or (is_person(noun.lemma) and has_other_sense_of_persons(word)):
            continue
        if form == "attributive" and token.index + 1 == noun.index and is_part_of_name(word, noun.lemma):
            continue
        if token.dep == "compound" and WordNet.load().senses(f"{word} {noun.lemma}", "n"):
            continue
        contexts = (
            f"noun:{noun.lemma}",
            f"left:{before(caption, token.index)}",
            f"right:{after(caption, token.index + 1)}",
        )
        slots.append(AttributeSlot(token.index, noun.index, word, form, contexts))
    return tuple(slots)


def _hyphened(caption: Caption, index: int) -> bool:
    """Whether a word is part of a longer attribute: "red-haired", "light blue"."""
    lowered = caption.lowered
    around = (lowered[index - 1] if index else "", after(caption, index + 1))
    return "-" in around or around[0] in INTENSIFIERS or around[1] in ("haired", "colored", "eyed", "headed", "sleeved")
