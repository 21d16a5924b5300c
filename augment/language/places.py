"""Where replaceable words stand in a caption: the slots operators edit, and the places a corpus counts them in.

The same functions serve the counting and the operators, so a replacement is weighted by what was counted.
A place is a short string such as `pobj:in`, `left:on a` or `right:wearing`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from augment.caption import Caption, Token, remembered
from augment.language.attributes import is_part_of_name
from augment.language.determiners import ARTICLES, NUMBERS, PLURAL_DETERMINERS, singular_form
from augment.language.kinds import kind, verb_kind
from augment.language.prepositions import prepositions

NOUN_TAGS = {"NN", "NNS"}


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


class PrepositionSlot(NamedTuple):
    """A preposition of one or more tokens with its object noun `object` (a token index).

    The first two places are what governs it and the kind of that, the next two the object and its kind.
    """

    start: int
    end: int
    entry: str
    object: int
    places: tuple[str, ...]


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
    "pobj:roof of" -> "pobj:12 of", what there is of a structure
    """
    sort, _, word = place.partition(":")
    if sort == "pobj" and " " in word:
        above, _, preposition = word.rpartition(" ")
        return f"pobj:{kind(above)} of" if preposition == "of" and not above.isdigit() else f"pobj:{preposition}"
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
    return bool(following) and following[0].pos == "NOUN" and following[0].dep != "appos"


@remembered
def noun_slots(caption: Caption) -> tuple[NounSlot, ...]:
    """Heads of noun phrases that are common nouns: "a **tennis racket** on a **bench**"."""
    slots = []
    tokens, lowered = caption.tokens, caption.lowered
    for chunk in caption.chunks:
        root = tokens[chunk.root]
        if root.tag not in NOUN_TAGS or not root.text.replace("-", "").isalpha() or _is_cut(caption, chunk.root):
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


def preposition_units(caption: Caption) -> Iterator[tuple[int, int]]:
    """Token spans of prepositions, multi-word ones as one: (2, 5) for "in front of" in "a dog in front of a car"."""
    lowered, tokens = caption.lowered, caption.tokens
    phrases = prepositions().phrases
    i = 0
    while i < len(tokens):
        for words in phrases.get(lowered[i], ()):
            if lowered[i : i + len(words)] == words:
                yield i, i + len(words)
                i += len(words)
                break
        else:
            if tokens[i].dep == "prep" and tokens[i].pos == "ADP":
                yield i, i + 1
            i += 1


def _is_bound(caption: Caption, start: int, end: int, object: Token) -> bool:
    """Whether a preposition belongs to other words: "a carry-on", "side by side", "in and out", "from end to end"."""
    tokens, lowered, text = caption.tokens, caption.lowered, caption.text
    if lowered[start] in ("from", "to") and end - start == 1:
        beside = {token.lower for token in caption.dependents(tokens[start].head, "prep")}
        if beside >= {"from", "to"}:
            return True
    if text[tokens[end - 1].end : tokens[end - 1].end + 1] == "-" or lowered[end] in ("and", "or"):
        return True
    behind = object.index + 1
    if lowered[behind : behind + 1] in (("on",), ("off",)) and not any(
        True for _ in caption.dependents(behind, "pobj")
    ):
        return True  # "in a shirt with a stripe on"
    if start == 0:
        return False
    if text[tokens[start].start - 1] == "-" or tokens[start - 1].lemma == object.lemma:
        return True
    return start > 1 and tokens[start - 1].pos == "CCONJ" and tokens[start - 2].pos in ("ADP", "ADV")


@remembered
def preposition_slots(caption: Caption) -> tuple[PrepositionSlot, ...]:
    """Prepositions with a noun object that may be exchanged: no particle, no agent, no part of a set phrase."""
    table = prepositions()
    tokens, lowered = caption.tokens, caption.lowered
    slots = []
    for start, end in preposition_units(caption):
        written = " ".join(lowered[start:end])
        entry = table.same.get(written, written)
        if entry not in table.entries:
            continue
        if start > 0 and lowered[start - 1] in table.adverbs:
            continue
        object = next(caption.dependents(end - 1, "pobj"), None)
        if object is None or object.pos not in ("NOUN", "PROPN") or object.index < end:
            continue
        if _is_bound(caption, start, end, object):
            continue
        bare = object.index == end
        if object.lemma in table.idioms and (bare or end - start == 1):
            continue
        if any(token.dep == "prep" and token.index == end for token in caption.dependents(end - 1, "prep")):
            continue
        above = tokens[start]
        while start <= above.index < end and above.head != above.index:
            above = tokens[above.head]
        if (
            above.lemma in table.governors
            or entry in table.owned.get(above.lemma, ())
            or (entry == "by" and above.tag == "VBN")
        ):
            continue
        above_place = f"{'gov' if above.pos == 'NOUN' else 'verb'}:{above.lemma}"
        object_place = f"obj:{object.lemma}"
        places = (
            above_place,
            broader(above_place),
            object_place,
            broader(object_place),
            f"left:{before(caption, start)}",
            f"right:{lowered[end]} {object.lemma}",
            f"{above.lemma}..{object.lemma}",
        )
        slots.append(PrepositionSlot(start, end, entry, object.index, places))
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
