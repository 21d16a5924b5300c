"""Claims that turn into others: how often a caption says "two" of the dogs that another of the image says "three" of.

A claim is a value that a caption says of a thing: a quantity, a preposition or an attribute. With n the pairs of
captions of one image whose first says `old` of a thing and whose second says `new` of it,

    p(new | old, thing) = (n(old, thing, new) + SMOOTHING * p(new | old, kind)) / (n(old, thing) + SMOOTHING)

and so on to the kind of thing, to anything, and to p(new) whatever was said.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

from negcap.augment.caption import Caption, remembered
from negcap.augment.context import attributes_said, quantities_said, relations_said
from negcap.augment.language.kinds import kind
from negcap.augment.slots.nouns import NOUN_TAGS, quantity_value
from negcap.augment.truth.contradiction import same_things

SMOOTHING = 20.0

Claim = tuple[str, str]  # thing and value
Turn = tuple[str, str, str]  # old value, thing and new value; "" for any


def quantities(caption: Caption) -> set[Claim]:
    """Things and their numbers, "0" for several."""
    return {(noun, str(value)) for noun, value in quantities_said(caption)}


def relations(caption: Caption) -> set[Claim]:
    """Objects of prepositions and the prepositions."""
    return {(thing, preposition) for preposition, thing in relations_said(caption)}


def attributes(caption: Caption) -> set[Claim]:
    """Things and their attributes."""
    return {(noun, attribute) for attribute, noun in attributes_said(caption) if noun}


CLAIMS: Mapping[str, Callable[[Caption], set[Claim]]] = {
    "numeral": quantities,
    "preposition": relations,
    "attribute": attributes,
}


@lru_cache(maxsize=1 << 12)
def value(sort: str, entry: str) -> str:
    """An entry of the lexicon as the value of a claim: "a" as "1"."""
    return str(quantity_value(entry)) if sort == "numeral" else entry


@lru_cache(maxsize=1 << 16)
def same(sort: str, thing: str, other: str) -> bool:
    """Whether claims of a sort about two nouns are about one thing."""
    return thing == other or (sort != "preposition" and same_things(thing, other))


def said_of(sort: str, thing: str, claims: Iterable[Claim]) -> set[str]:
    """What claims say of a thing."""
    return {value for other, value in claims if same(sort, thing, other)}


def is_alone(sort: str, thing: str, caption: Caption) -> bool:
    """Whether a caption says a thing in one place, so that its number there is its number in the image.

    "A black dog and a brown dog" has a dog twice: "two black dogs and a brown dog" is not true of two dogs.
    """
    return sort != "numeral" or sum([same(sort, thing, other) for other in _things(caption)]) <= 1


@remembered
def _things(caption: Caption) -> tuple[str, ...]:
    """The heads of the noun phrases of a caption."""
    roots = (caption.tokens[chunk.root] for chunk in caption.chunks)
    return tuple(root.lemma for root in roots if root.tag in NOUN_TAGS)


def count(sort: str, images: Iterable[Sequence[set[Claim]]]) -> dict[Turn, int]:
    """Count images, each the claims of its captions."""
    turns: defaultdict[Turn, int] = defaultdict(int)
    for captions in images:
        said: dict[str, dict[int, set[str]]] = {}  # of a thing, by caption
        for number, claims in enumerate(captions):
            for thing, value in claims:
                said.setdefault(thing, {}).setdefault(number, set()).add(value)
        for thing, own in said.items():
            news = own if sort == "preposition" else _joined(own, [said[o] for o in said if same(sort, thing, o)])
            total = Counter(new for its in news.values() for new in its)
            for number, olds in own.items():
                for old in olds:
                    turns[old, thing, ""] += len(captions) - 1
                    for new, often in total.items():
                        if others := often - (new in news[number]):
                            turns[old, thing, new] += others
    return turns


def _joined(own: dict[int, set[str]], alike: Sequence[dict[int, set[str]]]) -> dict[int, set[str]]:
    """What captions say of a thing and of those that are the same."""
    if len(alike) == 1:
        return own
    numbers = {number for its in alike for number in its}
    return {number: set[str]().union(*(its.get(number, ()) for its in alike)) for number in numbers}


class Transitions:
    """How likely one value turns into another, read from the counts."""

    def __init__(self, turns: Mapping[Turn, int]) -> None:
        """Add the counts up by kind of thing, and over all things and values."""
        self._counts: Counter[tuple[str, str | int, str]] = Counter(turns)
        for (old, thing, new), number in turns.items():
            for general in ((old, kind(thing), new), (old, "", new), ("", "", new)):
                self._counts[general] += number

    def probability(self, old: str, thing: str, new: str) -> float:
        """p(new | old, thing), above 0."""
        counts = self._counts
        found = (counts["", "", new] + 0.5) / (counts["", "", ""] + 1.0)
        for given in ((old, ""), (old, kind(thing)), (old, thing)):
            found = (counts[*given, new] + SMOOTHING * found) / (counts[*given, ""] + SMOOTHING)
        return found
