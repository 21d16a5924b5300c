"""What captions assert of their image: the nouns, quantities, relations, attributes and verbs that they mention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from negcap.augment.cache import cached_on_caption
from negcap.augment.caption import Caption, Token
from negcap.augment.language.attributes import attributes
from negcap.augment.slots.attributes import attribute_slots
from negcap.augment.slots.nouns import NOUN_TAGS, noun_slots
from negcap.augment.slots.prepositions import preposition_uses
from negcap.augment.slots.quantities import quantity_slots

VERB_TAGS = {"VB", "VBD", "VBG", "VBN", "VBP", "VBZ"}
T = TypeVar("T")


@cached_on_caption
def mentioned_nouns(caption: Caption) -> frozenset[str]:
    """The lemmas of a caption's nouns and its compounds; of its verbs too, since a surfing man implies a surf."""
    words = {token.lemma for token in caption.tokens if token.pos in ("NOUN", "PROPN", "VERB")}
    return frozenset(words.union(slot.entry for slot in noun_slots(caption)))


@cached_on_caption
def mentioned_quantities(caption: Caption) -> frozenset[tuple[str, int]]:
    """(noun, quantity) pairs, 0 for a bare plural: "two dogs near trees" -> (dog, 2), (tree, 0)."""
    counted = {slot.noun: slot.value for slot in quantity_slots(caption)}
    return frozenset(
        (root.lemma, counted.get(root.index, 0 if root.tag == "NNS" else 1)) for root in chunk_heads(caption)
    )


@cached_on_caption
def mentioned_relations(caption: Caption) -> frozenset[tuple[str, str]]:
    """(preposition, object) pairs: "a dog on a couch" -> (on, couch)."""
    return frozenset((use.entry, use.object.lemma) for use in preposition_uses(caption))


@cached_on_caption
def mentioned_attributes(caption: Caption) -> frozenset[tuple[str, str]]:
    """(attribute, noun) pairs, the noun "" where the parse does not tell whose it is ("a man in red" -> (red, ""))."""
    found = {slot.index: (slot.entry, caption.tokens[slot.noun].lemma) for slot in attribute_slots(caption)}
    known = attributes().dimensions
    for index, word in enumerate(caption.lowered):
        if index not in found and word in known:
            found[index] = (word, "")
    return frozenset(found.values())


@cached_on_caption
def mentioned_verbs(caption: Caption) -> frozenset[str]:
    """The lemmas of a caption's verbs, without auxiliaries."""
    return frozenset(token.lemma for token in caption.tokens if token.tag in VERB_TAGS and token.pos != "AUX")


def chunk_heads(caption: Caption) -> list[Token]:
    """The heads of a caption's base noun phrases that are common nouns."""
    roots = (caption.tokens[chunk.root] for chunk in caption.chunks)
    return [root for root in roots if root.tag in NOUN_TAGS]


@dataclass(frozen=True, eq=False)
class Mentions:
    """What some captions of one image mention, together; each set is made when it is first read."""

    captions: tuple[Caption, ...]

    @cached_property
    def nouns(self) -> frozenset[str]:
        """See `mentioned_nouns`."""
        return self._union(mentioned_nouns)

    @cached_property
    def quantities(self) -> frozenset[tuple[str, int]]:
        """See `mentioned_quantities`."""
        return self._union(mentioned_quantities)

    @cached_property
    def relations(self) -> frozenset[tuple[str, str]]:
        """See `mentioned_relations`."""
        return self._union(mentioned_relations)

    @cached_property
    def attributes(self) -> frozenset[tuple[str, str]]:
        """See `mentioned_attributes`."""
        return self._union(mentioned_attributes)

    @cached_property
    def verbs(self) -> frozenset[str]:
        """See `mentioned_verbs`."""
        return self._union(mentioned_verbs)

    def _union(self, read: Callable[[Caption], frozenset[T]]) -> frozenset[T]:
        return frozenset().union(*map(read, self.captions))
