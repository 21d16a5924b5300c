"""What an operator knows beside its caption: the lexicon, and what the sibling captions say of the image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from augment.caption import Caption
from augment.language.attributes import attribute_slots, attributes
from augment.language.lexicon import Lexicon
from augment.language.places import NOUN_TAGS, noun_slots, preposition_slots, quantity_slots

VERB_TAGS = {"VB", "VBD", "VBG", "VBN", "VBP", "VBZ"}


@dataclass(frozen=True)
class Mentions:
    """What one caption says: nouns, verbs, (noun, quantity) pairs, 0 for a bare plural, (preposition, object) pairs.

    Attributes are (attribute, noun) pairs, the noun "" where the caption does not tell whose it is ("a man in red").
    """

    nouns: frozenset[str]
    quantities: frozenset[tuple[str, int]]
    relations: frozenset[tuple[str, str]]
    attributes: frozenset[tuple[str, str]]
    verbs: frozenset[str]


def mentions(caption: Caption) -> Mentions:
    """Read off a parsed caption what it says; verbs count as nouns too, since a surfing man implies a surf."""
    nouns, verbs = set(), set()
    said = {slot.index: (slot.entry, caption.tokens[slot.noun].lemma) for slot in attribute_slots(caption)}
    known = attributes().dimensions
    for token in caption.tokens:
        if token.pos in ("NOUN", "PROPN", "VERB"):
            nouns.add(token.lemma)
        if token.tag in VERB_TAGS:
            verbs.add(token.lemma)
        if token.index not in said and caption.lowered[token.index] in known:
            said[token.index] = (caption.lowered[token.index], "")
    for slot in noun_slots(caption):
        nouns.add(slot.entry)
    counted = {slot.noun: slot.value for slot in quantity_slots(caption)}
    quantities = set()
    for chunk in caption.chunks:
        root = caption.tokens[chunk.root]
        if root.tag in NOUN_TAGS:
            quantities.add((root.lemma, counted.get(root.index, 0 if root.tag == "NNS" else 1)))
    relations = {(slot.entry, caption.tokens[slot.object].lemma) for slot in preposition_slots(caption)}
    return Mentions(
        frozenset(nouns), frozenset(quantities), frozenset(relations), frozenset(said.values()), frozenset(verbs)
    )


@dataclass(frozen=True)
class Context:
    """A caption's surroundings: `own` is what it says itself, `siblings` what the image's other captions say."""

    lexicon: Lexicon
    own: Mentions
    siblings: Mentions


def contexts(captions: Sequence[Caption], lexicon: Lexicon) -> list[Context]:
    """The contexts of all the captions of one image."""
    said = [mentions(caption) for caption in captions]
    result = []
    for i, own in enumerate(said):
        others = [other for j, other in enumerate(said) if j != i]
        siblings = Mentions(
            frozenset().union(*(other.nouns for other in others)) - own.nouns,
            frozenset().union(*(other.quantities for other in others)),
            frozenset().union(*(other.relations for other in others)),
            frozenset().union(*(other.attributes for other in others)),
            frozenset().union(*(other.verbs for other in others)),
        )
        result.append(Context(lexicon, own, siblings))
    return result
