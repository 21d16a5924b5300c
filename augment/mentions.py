"""What captions assert of their image: the nouns, quantities, relations, attributes and verbs that they mention."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, TypeVar

from .caption import Caption, Token, cached_on_caption
from .language.semantic_classes import attributes
from .slots.nouns import NOUN_TAGS, attribute_slots, noun_slots, quantity_slots
from .slots.verbs import preposition_uses

VERB_TAGS = {"VB", "VBD", "VBG", "VBN", "VBP", "VBZ"}
T = TypeVar("T")


@cached_on_caption
def mentioned_nouns(caption: Caption) -> frozenset[str]:
    """The lemmas of a caption's nouns and compounds, and of its verbs ("a man surfing" implies a surf)."""
    words = {token.lemma for token in caption.tokens if token.pos in ("NOUN", "PROPN", "VERB")}
    return frozenset(words.union(slot.entry for slot in noun_slots(caption)))


@cached_on_caption
def mentioned_quantities(caption: Caption) -> frozenset[tuple[str, int]]:
    """The (noun, number) pairs of a caption, 0 for a bare plural: "two dogs near trees" -> (dog, 2), (tree, 0)."""
    counted = {slot.noun: slot.value for slot in quantity_slots(caption)}
    return frozenset(
        (root.lemma, counted.get(root.index, 0 if root.tag == "NNS" else 1)) for root in chunk_heads(caption)
    )


@cached_on_caption
def mentioned_relations(caption: Caption) -> frozenset[tuple[str, str]]:
    """The (preposition, object) pairs of a caption: "a dog on a couch" -> (on, couch)."""
    return frozenset((use.entry, caption.tokens[use.noun].lemma) for use in preposition_uses(caption))


@cached_on_caption
def mentioned_attributes(caption: Caption) -> frozenset[tuple[str, str]]:
    """The (attribute, noun) pairs of a caption; the noun is "" if the parse gives none: "a man in red" -> (red, "")."""
    known = attributes().dimensions
    described = {index: (word, "") for index, word in enumerate(caption.lowered) if word in known}
    described.update((slot.start, (slot.entry, caption.tokens[slot.noun].lemma)) for slot in attribute_slots(caption))
    return frozenset(described.values())


@cached_on_caption
def mentioned_verbs(caption: Caption) -> frozenset[str]:
    """The lemmas of a caption's verbs, without auxiliaries."""
    return frozenset(token.lemma for token in caption.tokens if token.tag in VERB_TAGS and token.pos != "AUX")


@cached_on_caption
def chunk_heads(caption: Caption) -> tuple[Token, ...]:
    """The head tokens of a caption's base noun phrases, if they are common nouns."""
    roots = (caption.tokens[chunk.root] for chunk in caption.chunks)
    return tuple(root for root in roots if root.tag in NOUN_TAGS)


READ: Mapping[str, Callable[[Caption], frozenset[Any]]] = {
    "nouns": mentioned_nouns,
    "quantities": mentioned_quantities,
    "relations": mentioned_relations,
    "attributes": mentioned_attributes,
    "verbs": mentioned_verbs,
}


def _union(read: Callable[[Caption], frozenset[T]]) -> cached_property[frozenset[T]]:
    """The property of `Mentions` that is the union of what `read` finds in its captions, computed when first read."""

    def union(self: Mentions) -> frozenset[T]:
        if len(self.captions) == 1 and self.without is None:
            return read(self.captions[0])
        if read not in self.known:
            counts = Counter(chain.from_iterable(map(read, self.captions)))
            self.known[read] = frozenset(counts), frozenset(value for value, count in counts.items() if count == 1)
        mentioned, once = self.known[read]
        alone = once & read(self.captions[self.without]) if self.without is not None else frozenset()
        return mentioned - alone if alone else mentioned

    return cached_property(union)


@dataclass(frozen=True, eq=False)
class Mentions:
    """The union of what several captions of one image mention.

    without: the index of a caption to leave out; None: none. known: a cache of what all captions mention and of what
    only one of them mentions; the Mentions that leave out one caption each share it, so that the union is not computed
    anew for each of them.
    """

    captions: tuple[Caption, ...]
    without: int | None = None
    known: dict[Any, tuple[frozenset[Any], frozenset[Any]]] = field(default_factory=dict)

    nouns = _union(mentioned_nouns)
    quantities = _union(mentioned_quantities)
    relations = _union(mentioned_relations)
    attributes = _union(mentioned_attributes)
    verbs = _union(mentioned_verbs)

    def first(self, kind: str, fits: Callable[[Any], bool]) -> tuple[Any, Caption] | None:
        """The first caption that has a mention which fits, and the first such mention in order; None: there is none.

        kind: of the mentions, a key of READ.
        """
        fitting = set(filter(fits, getattr(self, kind)))
        for number, caption in enumerate(self.captions) if fitting else ():
            if number != self.without and (its := fitting & READ[kind](caption)):
                return min(its), caption
        return None

    @cached_property
    def texts(self) -> frozenset[str]:
        """The texts of all captions, in lower case, also of the one that is left out."""
        if "texts" not in self.known:
            self.known["texts"] = frozenset(caption.text.lower() for caption in self.captions), frozenset()
        return self.known["texts"][0]
