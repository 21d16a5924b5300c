"""What a caption asserts of its image: things, and the values that it gives to them.

Nouns and verbs are asserted as such. A number, a preposition or an attribute is asserted of a thing, as the pair
(thing, value): "two dogs on a red couch" gives (dog, 2), (couch, on) and (couch, red).
"""

from __future__ import annotations

from .caption import Caption, Token, cached_on_caption
from .language.semantic_classes import attribute_table
from .slots.nouns import NOUN_TAGS, attribute_slots, noun_slots, numeral_slots
from .slots.verbs import preposition_uses

VERB_TAGS = {"VB", "VBD", "VBG", "VBN", "VBP", "VBZ"}


@cached_on_caption
def mentioned_nouns(caption: Caption) -> frozenset[str]:
    """The lemmas of a caption's nouns and compounds, and of its verbs ("a man surfing" implies a surf)."""
    words = {token.lemma for token in caption.tokens if token.pos in ("NOUN", "PROPN", "VERB")}
    return frozenset(words.union(slot.entry for slot in noun_slots(caption)))


@cached_on_caption
def mentioned_numerals(caption: Caption) -> frozenset[tuple[str, int]]:
    """The (noun, number) pairs of a caption, 0 for a bare plural: "two dogs near trees" -> (dog, 2), (tree, 0)."""
    counted = {slot.noun: slot.value for slot in numeral_slots(caption)}
    return frozenset(
        (root.lemma, counted.get(root.index, 0 if root.tag == "NNS" else 1)) for root in chunk_heads(caption)
    )


@cached_on_caption
def mentioned_prepositions(caption: Caption) -> frozenset[tuple[str, str]]:
    """The (object, preposition) pairs of a caption: "a dog on a couch" -> (couch, on)."""
    return frozenset((caption.tokens[use.noun].lemma, use.entry) for use in preposition_uses(caption))


@cached_on_caption
def mentioned_attributes(caption: Caption) -> frozenset[tuple[str, str]]:
    """The (noun, attribute) pairs of a caption; the noun is "" if the parse gives none: "a man in red" -> ("", red)."""
    # By token: first all words of the table, without a noun; then, by the parse, the attributes of nouns.
    attributes = attribute_table().dimensions
    described = {index: ("", word) for index, word in enumerate(caption.lowered) if word in attributes}
    described.update((slot.start, (caption.tokens[slot.noun].lemma, slot.entry)) for slot in attribute_slots(caption))
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
