"""Does a caption stay true when two of its noun phrases are swapped?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..cache import cached_on_caption
from ..caption import Caption, Token
from ..language.prepositions import prepositions
from ..scene_graph import scene_graph
from ..slots.contexts import first_conjunct

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
    first = first_conjunct(caption, one), first_conjunct(caption, other)
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
