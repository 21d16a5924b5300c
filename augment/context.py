"""What an operator knows beside its caption: the lexicon, and what the sibling captions say of the image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import TYPE_CHECKING, TypeVar

from negcap.augment.caption import Caption, remembered
from negcap.augment.language.attributes import attributes
from negcap.augment.language.clashes import Clashing, union
from negcap.augment.lexicon.lexicon import Lexicon
from negcap.augment.slots.attributes import attribute_slots
from negcap.augment.slots.nouns import NOUN_TAGS, noun_slots, quantity_slots
from negcap.augment.slots.prepositions import prepositions_said

if TYPE_CHECKING:
    from negcap.augment.truth.estimates import ImageTruth, Truth

VERB_TAGS = {"VB", "VBD", "VBG", "VBN", "VBP", "VBZ"}
T = TypeVar("T")


@remembered
def nouns_said(caption: Caption) -> frozenset[str]:
    """The nouns of a caption; verbs count too, since a surfing man implies a surf."""
    said = {token.lemma for token in caption.tokens if token.pos in ("NOUN", "PROPN", "VERB")}
    return frozenset(said.union(slot.entry for slot in noun_slots(caption)))


@remembered
def quantities_said(caption: Caption) -> frozenset[tuple[str, int]]:
    """(noun, quantity) pairs, 0 for a bare plural."""
    counted = {slot.noun: slot.value for slot in quantity_slots(caption)}
    roots = (caption.tokens[chunk.root] for chunk in caption.chunks)
    return frozenset(
        (root.lemma, counted.get(root.index, 0 if root.tag == "NNS" else 1)) for root in roots if root.tag in NOUN_TAGS
    )


@remembered
def relations_said(caption: Caption) -> frozenset[tuple[str, str]]:
    """(preposition, object) pairs."""
    return frozenset((said.entry, said.object.lemma) for said in prepositions_said(caption))


@remembered
def attributes_said(caption: Caption) -> frozenset[tuple[str, str]]:
    """(attribute, noun) pairs, the noun "" where the caption does not tell whose it is ("a man in red")."""
    said = {slot.index: (slot.entry, caption.tokens[slot.noun].lemma) for slot in attribute_slots(caption)}
    known = attributes().dimensions
    for index, word in enumerate(caption.lowered):
        if index not in said and word in known:
            said[index] = (word, "")
    return frozenset(said.values())


@remembered
def verbs_said(caption: Caption) -> frozenset[str]:
    """The lemmas of a caption's verbs, auxiliaries excepted."""
    return frozenset(token.lemma for token in caption.tokens if token.tag in VERB_TAGS and token.pos != "AUX")


@dataclass(frozen=True)
class Mentions:
    """What some captions of an image say, together; each kind is read when it is first asked for."""

    captions: tuple[Caption, ...]

    @cached_property
    def nouns(self) -> frozenset[str]:
        """See `nouns_said`."""
        return self._union(nouns_said)

    @cached_property
    def quantities(self) -> frozenset[tuple[str, int]]:
        """See `quantities_said`."""
        return self._union(quantities_said)

    @cached_property
    def relations(self) -> frozenset[tuple[str, str]]:
        """See `relations_said`."""
        return self._union(relations_said)

    @cached_property
    def attributes(self) -> frozenset[tuple[str, str]]:
        """See `attributes_said`."""
        return self._union(attributes_said)

    @cached_property
    def verbs(self) -> frozenset[str]:
        """See `verbs_said`."""
        return self._union(verbs_said)

    def _union(self, said: Callable[[Caption], frozenset[T]]) -> frozenset[T]:
        return frozenset().union(*map(said, self.captions))


@dataclass(frozen=True)
class Context:
    """A caption's surroundings: `own` is what it says itself, `siblings` what the image's other captions say.

    `truth` estimates what they leave out, where that is known of the corpus.
    """

    lexicon: Lexicon
    own: Mentions
    siblings: Mentions
    truth: ImageTruth | None = None

    @cached_property
    def clash_own(self) -> Clashing:
        """The lexicon's nouns that may be true by the caption itself."""
        return self._clash(self.own)

    @cached_property
    def clash_siblings(self) -> Clashing:
        """The lexicon's nouns that may be true by a sibling caption."""
        return self._clash(self.siblings)

    def _clash(self, said: Mentions) -> Clashing:
        return union(self.lexicon.clashes.with_any(nouns_said(caption)) for caption in said.captions)


def asked_once(read: Callable[[Caption, Context], T]) -> Callable[[Caption, Context], T]:
    """Let a function of a caption and its context keep its answer with the context, for all operators that ask."""
    key = f"{read.__module__}.{read.__qualname__}"

    @wraps(read)
    def ask(caption: Caption, context: Context) -> T:
        kept = context.__dict__
        if key not in kept:
            kept[key] = read(caption, context)
        return kept[key]

    return ask


def contexts(captions: Sequence[Caption], lexicon: Lexicon, truth: Truth | None = None) -> list[Context]:
    """The contexts of all the captions of one image."""
    captions = tuple(captions)
    image = truth.of_image(captions) if truth is not None else None
    return [
        Context(lexicon, Mentions((caption,)), Mentions(captions[:i] + captions[i + 1 :]), image)
        for i, caption in enumerate(captions)
    ]
