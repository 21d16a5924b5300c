"""Prepositions with their noun objects, and which of them may be replaced."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..cache import cached_on_caption
from ..caption import Caption, Token
from ..language.prepositions import prepositions
from .contexts import before, broader


class PrepositionUse(NamedTuple):
    """A preposition at tokens `start` to `end` (exclusive), its entry in the table, and its noun object."""

    start: int
    end: int
    entry: str
    object: Token


class PrepositionSlot(NamedTuple):
    """A preposition at tokens `start` to `end` (exclusive) that may be replaced; `object` is the token index of its
    noun.

    contexts (see negcap.augment.slots.contexts): its governor and what that backs off to, its object and what that
    backs off to, the word before, the words after, governor and object together.
    """

    start: int
    end: int
    entry: str
    object: int
    contexts: tuple[str, ...]


def preposition_units(caption: Caption) -> Iterator[tuple[int, int]]:
    """Token spans of prepositions, those of several words as one: (2, 5) for "a dog in front of a car"."""
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


@cached_on_caption
def preposition_uses(caption: Caption) -> tuple[PrepositionUse, ...]:
    """The prepositions of data/prepositions.toml with a noun object in a caption, also those in set phrases."""
    table, lowered = prepositions(), caption.lowered
    found = []
    for start, end in preposition_units(caption):
        written = " ".join(lowered[start:end])
        entry = table.same.get(written, written)
        object = next(caption.dependents(end - 1, "pobj"), None)
        if entry in table.entries and object is not None and object.pos in ("NOUN", "PROPN") and object.index >= end:
            found.append(PrepositionUse(start, end, entry, object))
    return tuple(found)


def preposition_slots(caption: Caption) -> tuple[PrepositionSlot, ...]:
    """The prepositions that may be replaced: no particle, no agent, no part of a set phrase."""
    slots = []
    for use in preposition_uses(caption):
        above = caption.tokens[use.start]
        while use.start <= above.index < use.end and above.head != above.index:
            above = caption.tokens[above.head]
        if _is_set(caption, use, above) or _is_bound(caption, use):
            continue
        above_context = f"{'gov' if above.pos == 'NOUN' else 'verb'}:{above.lemma}"
        object_context = f"obj:{use.object.lemma}"
        contexts = (
            above_context,
            broader(above_context),
            object_context,
            broader(object_context),
            f"left:{before(caption, use.start)}",
            f"right:{caption.lowered[use.end]} {use.object.lemma}",
            f"{above.lemma}..{use.object.lemma}",
        )
        slots.append(PrepositionSlot(use.start, use.end, use.entry, use.object.index, contexts))
    return tuple(slots)


def _is_set(caption: Caption, use: PrepositionUse, above: Token) -> bool:
    """Whether a preposition is part of a set phrase, or forms one with its governor `above`."""
    table = prepositions()
    start, end, entry, object = use
    if start > 0 and caption.lowered[start - 1] in table.adverbs:
        return True
    if object.lemma in table.idioms and (object.index == end or end - start == 1):
        return True
    if any(token.index == end for token in caption.dependents(end - 1, "prep")):
        return True
    owned = above.lemma in table.governors or entry in table.owned.get(above.lemma, ())
    return owned or (entry == "by" and above.tag == "VBN")


def _is_bound(caption: Caption, use: PrepositionUse) -> bool:
    """Whether a preposition belongs to other words: "a carry-on", "side by side", "in and out", "from end to end"."""
    start, end, _, object = use
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
