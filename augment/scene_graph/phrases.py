"""Prepositional phrases: which words form one relation ("in front of", "sit on top of"), and what they relate."""

from __future__ import annotations

from typing import NamedTuple

from ..caption import Caption
from .words import BETWEEN, PLACES

_ADVERBS = ("ADV", "ADJ", "SCONJ", "ADP", "PART")


class Phrase(NamedTuple):
    """A preposition of one or more words, attached to token `head`; `object` is its noun, None if stranded."""

    tokens: tuple[int, ...]
    name: str
    head: int
    object: int | None


def phrases(caption: Caption) -> list[Phrase]:
    """The prepositional phrases of a caption, in text order of their first word."""
    tokens = caption.tokens
    inner: set[int] = set()
    found = []
    for token in tokens:
        if token.dep not in ("prep", "dative", "ROOT", "agent") or token.pos not in (
            "ADP",
            "SCONJ",
            "ADV",
            "PART",
            "ADJ",
        ):
            continue
        if token.index in inner:
            continue
        words, object = _downward(caption, token.index)
        if object is None and token.dep != "prep":
            continue
        inner.update(words)
        head = token.head
        above = tokens[head]
        if (
            above.index == head - 0
            and above.pos in _ADVERBS
            and above.dep in ("advmod", "acomp", "amod", "prt", "prep", "ROOT", "npadvmod", "oprd")
        ):
            if above.index == words[0] - 1 and above.dep != "prep" and above.index != token.index:
                words = (above.index, *words)
                head = above.head if above.dep != "ROOT" else above.index
        found.append(Phrase(words, " ".join(caption.lowered[w] for w in words), head, object))
    return found


def _downward(caption: Caption, index: int) -> tuple[tuple[int, ...], int | None]:
    """The words of a preposition and its final noun, through further prepositions and nouns of place with "of"."""
    words = [index]
    tokens, lowered = caption.tokens, caption.lowered
    for _ in range(4):
        noun = preposition = None
        for child in caption.children[words[-1]]:
            dep = tokens[child].dep
            if dep == "pobj" and noun is None and child > words[-1]:
                noun = child
            elif dep == "prep" and preposition is None and child > words[-1]:
                preposition = child
        if noun is None:
            if preposition is None:
                return tuple(words), None
            words.append(preposition)
            continue
        if lowered[noun] not in PLACES:
            return tuple(words), noun
        of = None
        for child in caption.children[noun]:
            if lowered[child] == "of" and tokens[child].dep == "prep":
                of = child
        if of is None:
            return tuple(words), noun
        for child in caption.children[noun]:
            if child < noun and lowered[child] in BETWEEN:
                words.append(child)
        words += [noun, of]
    return tuple(words), None
