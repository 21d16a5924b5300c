"""What one caption says where another says something else: assertions, and noun phrases that may be swapped.

`interchangeable` tells whether a caption stays true when two of its noun phrases are swapped. `Transitions` says how
often one caption says "two" of a thing of which another of the image says "three".

An assertion is a value that a caption gives to a thing: a quantity, a preposition or an attribute. Let n be counts of
ordered pairs of captions of one image, the first of which asserts `old` of a thing and the second `new`:

    p(new | old, thing) = (n(old, thing, new) + SMOOTHING * p(new | old, class)) / (n(old, thing) + SMOOTHING)

and likewise, backing off to the thing's semantic class, to any thing, and to p(new) for any `old`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from typing import NamedTuple

from ..caption import Caption, Token, cached_on_caption
from ..language.coreference import may_corefer
from ..language.semantic_classes import prepositions, semantic_class
from ..mentions import chunk_heads, mentioned_attributes, mentioned_quantities, mentioned_relations
from ..scene_graph import scene_graph
from ..slots.nouns import quantity_value

SMOOTHING = 20.0
Assertion = tuple[str, str]  # thing and value
Transition = tuple[str, str, str]  # old value, thing and new value; "" for any
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
    if one.dep == other.dep == "pobj":  # both locate the same noun: "a man in the water, on a boat"
        above = caption.tokens[one.head].head
        if above == caption.tokens[other.head].head and caption.tokens[above].pos == "NOUN":
            return True
    return (
        any(_with(caption, *pair) for pair in pairs)
        or _listed(caption, one, other)
        or _follows_after_swap(caption, one.index, other.index)
        or first[0].index == first[1].index
        or any(_symmetric(caption, *pair) for pair in pairs)
    )


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
        if not prepositions().overlap(self.preposition, other.preposition):
            return False
        orders = [(self.subject, self.object)]
        if other.preposition in SYMMETRIC if other.preposition else other.verb in SYMMETRIC_VERBS:
            orders.append((self.object, self.subject))
        return any(_same(caption, a, other.subject) and _same(caption, b, other.object) for a, b in orders)


@cached_on_caption
def _statements(caption: Caption) -> tuple[Statement, ...]:
    statements = []
    for relation in scene_graph(caption).relations:
        if relation.tokens:
            verbs = [caption.tokens[i].lemma for i in relation.tokens if caption.tokens[i].pos in ("VERB", "AUX")]
            words = [caption.lowered[i] for i in relation.tokens if caption.tokens[i].pos not in ("VERB", "AUX")]
            statements.append(Statement(relation.subject, relation.object, " ".join(verbs), " ".join(words)))
    return tuple(statements)


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
    same = caption.tokens[one].lemma == caption.tokens[other].lemma
    determiners = caption.dependents(max(one, other), "det")
    return one == other or (same and any(word.lower == "the" for word in determiners))


def _listed(caption: Caption, one: Token, other: Token) -> bool:
    """Whether only noun phrases, commas and conjunctions are between two heads, regardless of the parse."""
    start = _start(caption, other)
    inside = {i for chunk in caption.chunks for i in range(chunk.start, chunk.end)}
    between = (caption.lowered[i] for i in range(one.index + 1, start) if i not in inside)
    return set(between) <= {",", "and", "or", "&", "as", "well", "plus"}


def _with(caption: Caption, one: Token, other: Token) -> bool:
    """Whether `other` is with `one`, regardless of the parse: "a plate with oranges"."""
    governor = caption.tokens[other.head]
    if other.dep != "pobj" or governor.lower != "with":
        return False
    if _start(caption, other) == governor.index + 1 and one.index == governor.index - 1:
        return True
    above = caption.tokens[one.head]
    return governor.head in (above.index, above.head) and one.dep in ("dobj", "pobj")


def _start(caption: Caption, noun: Token) -> int:
    """The first token of the noun phrase that a noun heads."""
    return next((chunk.start for chunk in caption.chunks if chunk.root == noun.index), noun.index)


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
    of_one_verb = one.dep == "nsubj" and other.dep in ("dobj", "attr") and other.head == one.head
    return of_one_verb and caption.tokens[one.head].lemma in SYMMETRIC_VERBS


# The assertions of a caption by kind: numbers of things ("0" for a bare plural), prepositions of objects, attributes.
ASSERTIONS: Mapping[str, Callable[[Caption], set[Assertion]]] = {
    "numeral": lambda caption: {(noun, str(value)) for noun, value in mentioned_quantities(caption)},
    "preposition": lambda caption: {(thing, preposition) for preposition, thing in mentioned_relations(caption)},
    "attribute": lambda caption: {(noun, attribute) for attribute, noun in mentioned_attributes(caption) if noun},
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
    return kind != "numeral" or sum([is_same_thing(kind, thing, head.lemma) for head in chunk_heads(caption)]) <= 1


def count(kind: str, images: Iterable[Sequence[set[Assertion]]]) -> dict[Transition, int]:
    """Count the transitions in images; each image is a list of the assertions of its captions."""
    counts: defaultdict[Transition, int] = defaultdict(int)
    for captions in images:
        values: dict[str, dict[int, set[str]]] = {}  # of a thing, by caption
        for number, assertions in enumerate(captions):
            for thing, value in assertions:
                values.setdefault(thing, {}).setdefault(number, set()).add(value)
        for thing, own in values.items():
            news = own  # by caption, the values given to any noun for the same thing
            same = [] if kind == "preposition" else [values[o] for o in values if is_same_thing(kind, thing, o)]
            if len(same) > 1:
                numbers = set(chain.from_iterable(same))
                news = {number: set[str]().union(*(its.get(number, ()) for its in same)) for number in numbers}
            total = Counter(new for its in news.values() for new in its)
            for number, olds in own.items():
                for old in olds:
                    counts[old, thing, ""] += len(captions) - 1
                    for new, often in total.items():
                        if others := often - (new in news[number]):
                            counts[old, thing, new] += others
    return counts


class Transitions:
    """P(new value | old value, thing), estimated from transition counts."""

    def __init__(self, counts: Mapping[Transition, int]) -> None:
        """`counts`: (old, thing, new) -> pairs; summed when a probability is first needed."""
        self._unsummed = counts

    @cached_property
    def _counts(self) -> Counter[tuple[str, str | int, str]]:
        """The counts, with their sums over the things of a class, over all things, and over all old values."""
        summed: Counter[tuple[str, str | int, str]] = Counter(self._unsummed)
        for (old, thing, new), number in self._unsummed.items():
            for general in ((old, semantic_class(thing), new), (old, "", new), ("", "", new)):
                summed[general] += number
        return summed

    def probability(self, old: str, thing: str, new: str) -> float:
        """p(new | old, thing): how probable it is that another caption gives the value `new` to a thing that one gives
        the value `old`.

        Backs off from the thing to its class to any thing; always above 0.
        """
        counts = self._counts
        likely = (counts["", "", new] + 0.5) / (counts["", "", ""] + 1.0)
        for given in ((old, ""), (old, semantic_class(thing)), (old, thing)):
            likely = (counts[*given, new] + SMOOTHING * likely) / (counts[*given, ""] + SMOOTHING)
        return likely
