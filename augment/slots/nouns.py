"""Where replaceable words stand in a caption: the slots operators edit, and the places a corpus counts them in.

The same functions serve the counting and the operators, so a replacement is weighted by what was counted.
A place is a short string such as `pobj:in`, `left:on a` or `right:wearing`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from negcap.augment.caption import Caption, Chunk, Token, remembered
from negcap.augment.language.attributes import is_part_of_name
from negcap.augment.language.determiners import (
    ARTICLES,
    NUMBERS,
    PLURAL_DETERMINERS,
    SINGULAR_DETERMINERS,
    singular_form,
)
from negcap.augment.language.kinds import kind, verb_kind

NOUN_TAGS = {"NN", "NNS"}
COUNTED = PLURAL_DETERMINERS | {"couple", "dozen"}


class NounSlot(NamedTuple):
    """A common noun that heads a noun phrase, with its compound modifiers: tokens `start` to `end` (exclusive)."""

    start: int
    end: int
    entry: str
    plural: bool
    form: str
    places: tuple[str, ...]

    @property
    def root(self) -> int:
        """Index of the head noun."""
        return self.end - 1


class QuantitySlot(NamedTuple):
    """An article or number at token `index` that counts the noun at token `noun`."""

    index: int  # type: ignore[assignment]  # hides tuple.index
    noun: int
    entry: str
    value: int
    places: tuple[str, ...]


def before(caption: Caption, index: int) -> str:
    """The one or two words before token `index`: two when the nearer one is an article ("on a")."""
    lowered = caption.lowered
    if index == 0:
        return "^"
    if lowered[index - 1] in ("a", "an", "the"):
        article = "the" if lowered[index - 1] == "the" else "a"
        return f"{lowered[index - 2] if index > 1 else '^'} {article}"
    return lowered[index - 1]


@lru_cache(maxsize=1 << 14)
def broader(place: str) -> str:
    """The place that holds a place and its like, by which one that was seldom seen is judged; "" where there is none.

    "obj:poodle" -> "obj kind:1", "verb:stroll" -> "verb kind:verb.motion", "pobj:sit on" -> "pobj:on",
    "pobj:roof of" -> "of kind:18", what there is of an artifact
    """
    sort, _, word = place.partition(":")
    if sort == "pobj" and " " in word:
        above, _, preposition = word.rpartition(" ")
        return f"of kind:{kind(above)}" if preposition == "of" else f"pobj:{preposition}"
    if sort in ("subj", "gov", "obj", "pobj"):
        return f"{sort.removeprefix('p')} kind:{kind(word) if word else ''}"
    return f"{sort} kind:{verb_kind(word)}" if sort in ("verb", "nsubj", "nsubjpass", "dobj") else ""


def after(caption: Caption, index: int) -> str:
    """The word at token `index`, "$" behind the last."""
    return caption.lowered[index] if index < len(caption.tokens) else "$"


def governor(caption: Caption, token: Token) -> str:
    """How a noun is governed, e.g. `dobj:hold`, `pobj:sit in`; conjuncts take the place of the first."""
    while token.dep == "conj" and token.head != token.index:
        token = caption.tokens[token.head]
    head = caption.tokens[token.head]
    if token.dep == "pobj":
        return f"pobj:{caption.tokens[head.head].lemma} {head.lower}"
    if token.dep == "ROOT":
        for child in caption.dependents(token.index, "acl", "relcl"):
            return f"nsubj:{child.lemma}"
        return "ROOT:" + next((child.lower for child in caption.dependents(token.index, "prep")), "")
    return f"{token.dep}:{head.lemma}"


def _is_cut(caption: Caption, root: int) -> bool:
    """Whether a noun stands right behind a head: the parse has cut a compound, "the blue ice | skates"."""
    following = caption.tokens[root + 1 : root + 2]
    return bool(following) and following[0].pos == "NOUN" and following[0].dep not in ("appos", "npadvmod")


def _number_unclear(caption: Caption, chunk: Chunk) -> bool:
    """Whether a noun phrase has a determiner of singulars and a plural head, so that no edit of it is safe.

    A possessive without its apostrophe ("licks a girls | hand"), a slip ("a women"), or a verb tagged as a noun
    ("a bee clings"). "A few dogs", "a dozen eggs" and "another two men" are plurals.
    """
    if caption.tokens[chunk.root].tag != "NNS":
        return False
    inside = caption.tokens[chunk.start : chunk.root]
    counted = any(token.lower in COUNTED or token.tag == "CD" for token in inside if token.lower != "one")
    return not counted and any(token.lower in SINGULAR_DETERMINERS and token.head == chunk.root for token in inside)


@remembered
def noun_slots(caption: Caption) -> tuple[NounSlot, ...]:
    """Heads of noun phrases that are common nouns: "a **tennis racket** on a **bench**"."""
    slots = []
    tokens, lowered = caption.tokens, caption.lowered
    for chunk in caption.chunks:
        root = tokens[chunk.root]
        if root.tag not in NOUN_TAGS or not root.text.replace("-", "").isalpha() or _is_cut(caption, chunk.root):
            continue
        if _number_unclear(caption, chunk):
            continue
        start = chunk.root
        while start > chunk.start and tokens[start - 1].dep in ("compound", "nmod") and tokens[start - 1].head >= start:
            start -= 1
        if any(not token.text.replace("-", "").isalpha() for token in tokens[start : chunk.root]):
            continue
        if start == chunk.root > chunk.start and tokens[start - 1].dep == "amod":
            start -= is_part_of_name(lowered[start - 1], root.lemma)
        entry = " ".join([*lowered[start : chunk.root], root.lemma])
        own = [token for token in tokens[chunk.start : start] if token.head == root.index]
        plural = root.tag == "NNS" or not PLURAL_DETERMINERS.isdisjoint([token.lower for token in own])
        form = "plural" if plural else singular_form(own, start > 0 and tokens[start - 1].dep == "case")
        governed = governor(caption, root)
        places = (
            governed,
            broader(governed),
            f"left:{before(caption, start)}",
            f"right:{after(caption, chunk.root + 1)}",
        )
        slots.append(NounSlot(start, chunk.root + 1, entry, plural, form, places))
    return tuple(slots)


def quantity(token: Token) -> tuple[str, int] | None:
    """The entry and the value a token counts: "an" -> ("a", 1), "three" -> ("three", 3), "12" -> ("12", 12)."""
    lower = token.lower
    if lower in ARTICLES and token.tag == "DT":
        return "a", 1
    if lower in NUMBERS and token.tag in ("CD", "DT"):
        return lower, NUMBERS[lower]
    if token.tag == "CD" and lower.isascii() and lower.isdigit() and lower == str(int(lower)) and 0 < int(lower) <= 100:
        return lower, int(lower)
    return None


@lru_cache(maxsize=1 << 10)
def quantity_value(entry: str) -> int:
    """The number an entry stands for: "a" -> 1, "three" -> 3, "12" -> 12."""
    return 1 if entry == "a" else NUMBERS.get(entry) or int(entry)


@remembered
def quantity_slots(caption: Caption) -> tuple[QuantitySlot, ...]:
    """Articles and numbers that count the head of a noun phrase: "**Two** dogs on **a** couch"."""
    slots = []
    tokens, lowered = caption.tokens, caption.lowered
    for chunk in caption.chunks:
        root = tokens[chunk.root]
        if root.tag not in NOUN_TAGS or _is_cut(caption, chunk.root):
            continue
        for index in range(chunk.start, chunk.root):
            token = tokens[index]
            if token.head != root.index or token.dep not in ("det", "nummod"):
                continue
            if index > 0 and lowered[index - 1] in ARTICLES:  # "a three wheeler", "a two dogs"
                continue
            counted = quantity(token)
            if counted is None:
                continue
            entry, value = counted
            if (root.tag == "NNS") != (value > 1):
                continue
            governed = governor(caption, root)
            places = (
                f"noun:{root.lemma}",
                governed,
                broader(governed),
                f"left:{before(caption, index)}",
                f"right:{lowered[index + 1]}" if index + 1 < chunk.root else f"behind:{after(caption, root.index + 1)}",
            )
            slots.append(QuantitySlot(index, root.index, entry, value, places))
            break
    return tuple(slots)
