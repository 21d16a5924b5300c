"""Transitions of assertions: how often one caption says "two" of a thing of which another of the image says "three".

An assertion is a value that a caption gives to a thing: a quantity, a preposition or an attribute. Let n be counts of
ordered pairs of captions of one image, the first of which asserts `old` of a thing and the second `new`:

    p(new | old, thing) = (n(old, thing, new) + SMOOTHING * p(new | old, class)) / (n(old, thing) + SMOOTHING)

and likewise, backing off to the thing's semantic class, to any thing, and to p(new) for any `old`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache

from ..cache import cached_on_caption
from ..caption import Caption
from ..language.coreference import may_corefer
from ..language.semantic_classes import semantic_class
from ..mentions import chunk_heads, mentioned_attributes, mentioned_quantities, mentioned_relations
from ..slots.quantities import quantity_value

SMOOTHING = 20.0

Assertion = tuple[str, str]  # thing and value
Transition = tuple[str, str, str]  # old value, thing and new value; "" for any


def quantities(caption: Caption) -> set[Assertion]:
    """The (thing, number) assertions of a caption; the number is "0" for a bare plural."""
    return {(noun, str(value)) for noun, value in mentioned_quantities(caption)}


def relations(caption: Caption) -> set[Assertion]:
    """The (object of a preposition, preposition) assertions of a caption."""
    return {(thing, preposition) for preposition, thing in mentioned_relations(caption)}


def attributes(caption: Caption) -> set[Assertion]:
    """The (thing, attribute) assertions of a caption."""
    return {(noun, attribute) for attribute, noun in mentioned_attributes(caption) if noun}


ASSERTIONS: Mapping[str, Callable[[Caption], set[Assertion]]] = {
    "numeral": quantities,
    "preposition": relations,
    "attribute": attributes,
}


@lru_cache(maxsize=1 << 12)
def value(kind: str, entry: str) -> str:
    """An entry as the value of an assertion: numerals become digits ("a" -> "1", "three" -> "3"), others stay."""
    return str(quantity_value(entry)) if kind == "numeral" else entry


@lru_cache(maxsize=1 << 16)
def is_same_thing(kind: str, thing: str, other: str) -> bool:
    """Whether assertions of a kind about these two nouns count as assertions about one thing."""
    return thing == other or (kind != "preposition" and may_corefer(thing, other))


def values_of(kind: str, thing: str, assertions: Iterable[Assertion]) -> set[str]:
    """The values that a caption's assertions give to a thing, such as the numbers that it gives to dogs.

    kind: of the assertion, a key of ASSERTIONS. assertions: (thing, value) pairs. thing: the lemma of a noun.
    """
    return {value for other, value in assertions if is_same_thing(kind, thing, other)}


def is_mentioned_once(kind: str, thing: str, caption: Caption) -> bool:
    """Whether a caption mentions a thing in one place, so that its number there is its number in the image.

    "A black dog and a brown dog" mentions dogs twice: "two black dogs and a brown dog" is not true of two dogs. Always
    true for kinds other than "numeral".
    """
    return kind != "numeral" or sum([is_same_thing(kind, thing, other) for other in _things(caption)]) <= 1


@cached_on_caption
def _things(caption: Caption) -> tuple[str, ...]:
    return tuple(head.lemma for head in chunk_heads(caption))


def count(kind: str, images: Iterable[Sequence[set[Assertion]]]) -> dict[Transition, int]:
    """Count the transitions in images; each image is a list of the assertions of its captions."""
    counts: defaultdict[Transition, int] = defaultdict(int)
    for captions in images:
        values: dict[str, dict[int, set[str]]] = {}  # of a thing, by caption
        for number, assertions in enumerate(captions):
            for thing, value in assertions:
                values.setdefault(thing, {}).setdefault(number, set()).add(value)
        for thing, own in values.items():
            same = [] if kind == "preposition" else [values[o] for o in values if is_same_thing(kind, thing, o)]
            news = _joined(own, same)
            total = Counter(new for its in news.values() for new in its)
            for number, olds in own.items():
                for old in olds:
                    counts[old, thing, ""] += len(captions) - 1
                    for new, often in total.items():
                        if others := often - (new in news[number]):
                            counts[old, thing, new] += others
    return counts


def _joined(own: dict[int, set[str]], same: Sequence[dict[int, set[str]]]) -> dict[int, set[str]]:
    """By caption, the values given to a thing (`own`) or to any noun for the same thing (`same`)."""
    if len(same) <= 1:
        return own
    numbers = {number for its in same for number in its}
    return {number: set[str]().union(*(its.get(number, ()) for its in same)) for number in numbers}


class Transitions:
    """P(new value | old value, thing), estimated from transition counts."""

    def __init__(self, counts: Mapping[Transition, int]) -> None:
        """`counts`: (old, thing, new) -> pairs; summed when a probability is first needed."""
        self._own = counts

    @cached_property
    def _counts(self) -> Counter[tuple[str, str | int, str]]:
        """The counts, with their sums over the things of a class, over all things, and over all old values."""
        summed: Counter[tuple[str, str | int, str]] = Counter(self._own)
        for (old, thing, new), number in self._own.items():
            for general in ((old, semantic_class(thing), new), (old, "", new), ("", "", new)):
                summed[general] += number
        return summed

    def probability(self, old: str, thing: str, new: str) -> float:
        """p(new | old, thing): how probable it is that another caption gives the value `new` to a thing that one gives
        the value `old`.

        Backs off from the thing to its class to any thing; always above 0.
        """
        counts = self._counts
        found = (counts["", "", new] + 0.5) / (counts["", "", ""] + 1.0)
        for given in ((old, ""), (old, semantic_class(thing)), (old, thing)):
            found = (counts[*given, new] + SMOOTHING * found) / (counts[*given, ""] + SMOOTHING)
        return found
