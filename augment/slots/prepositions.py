"""Where prepositions stand: what a caption says with them, and the slots of the preposition operator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from negcap.augment.caption import Caption, Token, remembered
from negcap.augment.language.prepositions import prepositions
from negcap.augment.slots.nouns import before, broader


class Said(NamedTuple):
    """A preposition of tokens `start` to `end` (exclusive), its entry in the table, and its noun object."""

    start: int
    end: int
    entry: str
    object: Token


class PrepositionSlot(NamedTuple):
    """A preposition of one or more tokens with its object noun `object` (a token index).

    The first two places are what governs it and the kind of that, the next two the object and its kind.
    """

    start: int
    end: int
    entry: str
    object: int
    places: tuple[str, ...]


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


@remembered
def prepositions_said(caption: Caption) -> tuple[Said, ...]:
    """The prepositions of the table that a caption has before a noun, set phrases too."""
    table, lowered = prepositions(), caption.lowered
    found = []
    for start, end in preposition_units(caption):
        written = " ".join(lowered[start:end])
        entry = table.same.get(written, written)
        object = next(caption.dependents(end - 1, "pobj"), None)
        if entry in table.entries and object is not None and object.pos in ("NOUN", "PROPN") and object.index >= end:
            found.append(Said(start, end, entry, object))
    return tuple(found)


@remembered
def preposition_slots(caption: Caption) -> tuple[PrepositionSlot, ...]:
    """Prepositions with a noun object that may be exchanged: no particle, no agent, no part of a set phrase."""
    slots = []
    for said in prepositions_said(caption):
        above = caption.tokens[said.start]
        while said.start <= above.index < said.end and above.head != above.index:
            above = caption.tokens[above.head]
        if _is_set(caption, said, above) or _is_bound(caption, said):
            continue
        above_place = f"{'gov' if above.pos == 'NOUN' else 'verb'}:{above.lemma}"
        object_place = f"obj:{said.object.lemma}"
        places = (
            above_place,
            broader(above_place),
            object_place,
            broader(object_place),
            f"left:{before(caption, said.start)}",
            f"right:{caption.lowered[said.end]} {said.object.lemma}",
            f"{above.lemma}..{said.object.lemma}",
        )
        slots.append(PrepositionSlot(said.start, said.end, said.entry, said.object.index, places))
    return tuple(slots)


def _is_set(caption: Caption, said: Said, above: Token) -> bool:
    """Whether a preposition is part of a set phrase, or `above`, what governs it, makes one meaning with it."""
    table = prepositions()
    start, end, entry, object = said
    if start > 0 and caption.lowered[start - 1] in table.adverbs:
        return True
    if object.lemma in table.idioms and (object.index == end or end - start == 1):
        return True
    if any(token.index == end for token in caption.dependents(end - 1, "prep")):
        return True
    owned = above.lemma in table.governors or entry in table.owned.get(above.lemma, ())
    return owned or (entry == "by" and above.tag == "VBN")


def _is_bound(caption: Caption, said: Said) -> bool:
    """Whether a preposition belongs to other words: "a carry-on", "side by side", "in and out", "from end to end"."""
    start, end, _, object = said
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
