"""Does a caption stay true when two of its noun phrases are swapped?

Transitions of assertions: how often one caption says "two" of a thing of which another of the image says "three".

An assertion is a value that a caption gives to a thing: a quantity, a preposition or an attribute. Let n be counts of
ordered pairs of captions of one image, the first of which asserts `old` of a thing and the second `new`:

    p(new | old, thing) = (n(old, thing, new) + SMOOTHING * p(new | old, class)) / (n(old, thing) + SMOOTHING)

and likewise, backing off to the thing's semantic class, to any thing, and to p(new) for any `old`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

from ..caption import Caption, Token, cached_on_caption
from ..language.coreference import may_corefer
from ..language.semantic_classes import prepositions, semantic_class
from ..mentions import chunk_heads, mentioned_attributes, mentioned_quantities, mentioned_relations
from ..scene_graph import scene_graph
from ..slots.nouns import quantity_value

# Symmetric prepositions and verbs: "a dog near a cat" means "a cat near a dog".
SYMMETRIC = {
    "with", "near", "next to", "beside", "by", "alongside", "along with", "around", "among", "at", "between", "against",
    "close to", "in between", "across from",
}  # fmt: skip
SYMMETRIC_VERBS = {
    "face", "meet", "hug", "kiss", "fight", "touch", "join", "resemble", "match", "accompany", "marry", "embrace",
    "wrestle", "race", "tackle", "be", "have", "include",
}  # fmt: skip


def interchangeable(caption: Caption, one: Token, other: Token) -> bool:
    """Whether two heads are in a conjunction, in a symmetric relation, or in equivalent positions.

    "A trick on a bike on a ramp": objects of equal prepositions may be in either order. "A girl is
    behind a car and a boy is behind the car": two clauses state the same of each.
    """
    first = caption.first_conjunct(one), caption.first_conjunct(other)
    pairs = ((one, other), (other, one), first, first[::-1])
    if all(token.dep == "pobj" for token in first) and len({caption.lowered[token.head] for token in first}) == 1:
        return True
    if _beside_each_other(caption, one, other) or any(_with(caption, *pair) for pair in pairs):
        return True
    if _listed(caption, one, other) or _follows_after_swap(caption, one.index, other.index):
        return True
    return first[0].index == first[1].index or any(_symmetric(caption, *pair) for pair in pairs)


class Statement(NamedTuple):
    """A relation that a caption states of two nouns: their token indices, its verb and its preposition, "" if none."""

    subject: int
    object: int
    verb: str
    preposition: str

    def implies(self, other: Statement, caption: Caption) -> bool:
        """Whether this makes `other` true: the same relation of the same nouns, in either order if symmetric."""
        if self.verb != other.verb and "" not in (self.verb, other.verb):
            return False
        if not (self.preposition == other.preposition or prepositions().overlap(self.preposition, other.preposition)):
            return False
        straight, turned = (self.subject, self.object), (self.object, self.subject)
        orders = (straight, turned) if other.is_symmetric else (straight,)
        return any(_same(caption, a, other.subject) and _same(caption, b, other.object) for a, b in orders)

    @property
    def is_symmetric(self) -> bool:
        """Whether the relation holds in both orders if it holds in one."""
        return self.preposition in SYMMETRIC if self.preposition else self.verb in SYMMETRIC_VERBS


@cached_on_caption
def _statements(caption: Caption) -> tuple[Statement, ...]:
    return tuple(_read_statements(caption))


def _read_statements(caption: Caption) -> Iterator[Statement]:
    for relation in scene_graph(caption).relations:
        if relation.tokens:
            verbs = [caption.tokens[i].lemma for i in relation.tokens if caption.tokens[i].pos in ("VERB", "AUX")]
            words = [caption.lowered[i] for i in relation.tokens if caption.tokens[i].pos not in ("VERB", "AUX")]
            yield Statement(relation.subject, relation.object, " ".join(verbs), " ".join(words))


def _follows_after_swap(caption: Caption, one: int, other: int) -> bool:
    """Whether all statements after the swap are implied by relations that the caption states, and there are any."""
    stated = _statements(caption)
    swapped = {one: other, other: one}
    new = [
        old._replace(subject=swapped.get(old.subject, old.subject), object=swapped.get(old.object, old.object))
        for old in stated
        if old.subject in swapped or old.object in swapped
    ]
    return bool(new) and all(any(old.implies(statement, caption) for old in stated) for statement in new)


def _same(caption: Caption, one: int, other: int) -> bool:
    """Whether two nouns mean one thing: the same token, or the same noun again with "the"."""
    if one == other:
        return True
    tokens = caption.tokens
    if tokens[one].lemma != tokens[other].lemma:
        return False
    return any(child.lower == "the" for child in caption.dependents(max(one, other), "det"))


def _listed(caption: Caption, one: Token, other: Token) -> bool:
    """Whether only noun phrases, commas and conjunctions are between two heads, regardless of the parse."""
    start = next((chunk.start for chunk in caption.chunks if chunk.root == other.index), other.index)
    inside = {i for chunk in caption.chunks for i in range(chunk.start, chunk.end)}
    between = (caption.lowered[i] for i in range(one.index + 1, start) if i not in inside)
    return set(between) <= {",", "and", "or", "&", "as", "well", "plus"}


def _beside_each_other(caption: Caption, one: Token, other: Token) -> bool:
    """Whether two prepositions locate the same noun: "a man in the water, on a boat"."""
    if not one.dep == other.dep == "pobj":
        return False
    above, beside = caption.tokens[one.head].head, caption.tokens[other.head].head
    return above == beside and caption.tokens[above].pos == "NOUN"


def _with(caption: Caption, one: Token, other: Token) -> bool:
    """Whether `other` is with `one`, regardless of the parse: "a plate with oranges"."""
    governor = caption.tokens[other.head]
    if other.dep != "pobj" or governor.lower != "with":
        return False
    start = next((chunk.start for chunk in caption.chunks if chunk.root == other.index), other.index)
    if start == governor.index + 1 and one.index == governor.index - 1:
        return True
    above = caption.tokens[one.head]
    return governor.head in (above.index, above.head) and one.dep in ("dobj", "pobj")


def _symmetric(caption: Caption, one: Token, other: Token) -> bool:
    """Whether a symmetric preposition or verb relates `one` to `other`: "a dog next to a cat"."""
    governor = caption.tokens[other.head]
    if governor.dep == "prep" or governor.pos == "ADP":
        outer, words = governor, [governor.lower]
        while outer.head != outer.index and caption.tokens[outer.head].pos in ("ADP", "ADV"):
            outer = caption.tokens[outer.head]
            words.append(outer.lower)
        if governor.lower not in SYMMETRIC and " ".join(reversed(words)) not in SYMMETRIC:
            return False
        above = caption.tokens[outer.head]
        holder = above
        while holder.dep == "pobj":  # "sausage in a bowl with salad": the salad is with the sausage
            holder = caption.tokens[caption.tokens[holder.head].head]
        return (
            one.index in (above.index, holder.index)
            or (one.dep in ("nsubj", "nsubjpass", "dobj", "attr") and one.head == above.index)
            or (above.dep in ("acl", "relcl") and above.head == one.index)
        )
    return (
        one.dep == "nsubj"
        and other.dep in ("dobj", "attr")
        and other.head == one.head
        and caption.tokens[one.head].lemma in SYMMETRIC_VERBS
    )


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
