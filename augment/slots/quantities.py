"""Quantity slots: the articles and numbers of a caption that count a noun."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ..cache import cached_on_caption
from ..caption import Caption, Token
from ..language.determiners import ARTICLES, NUMBERS
from .contexts import after, before, broader, governor
from .nouns import NOUN_TAGS, is_cut_compound


class QuantitySlot(NamedTuple):
    """The article or number at token index `index` counts the noun at token index `noun`; entry "a" has value 1.

    contexts (see negcap.augment.slots.contexts): the noun, its governor, what that backs off to, the words before the
    quantity, the word after it or after the noun.
    """

    index: int  # type: ignore[assignment]  # hides tuple.index
    noun: int
    entry: str
    value: int
    contexts: tuple[str, ...]


def quantity(token: Token) -> tuple[str, int] | None:
    """The entry and value of a quantity word, None for another: "an" -> ("a", 1), "three" -> ("three", 3), "12" ->
    ("12", 12).
    """
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
    """The number that a quantity means: "a" -> 1, "three" -> 3, "12" -> 12."""
    return 1 if entry == "a" else NUMBERS.get(entry) or int(entry)


@cached_on_caption
def quantity_slots(caption: Caption) -> tuple[QuantitySlot, ...]:
    """The articles and numbers that count the head of a noun phrase: "**Two** dogs on **a** couch"."""
    slots = []
    tokens, lowered = caption.tokens, caption.lowered
    for chunk in caption.chunks:
        root = tokens[chunk.root]
        if root.tag not in NOUN_TAGS or is_cut_compound(caption, chunk.root):
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
            contexts = (
                f"noun:{root.lemma}",
                governed,
                broader(governed),
                f"left:{before(caption, index)}",
                f"right:{lowered[index + 1]}" if index + 1 < chunk.root else f"behind:{after(caption, root.index + 1)}",
            )
            slots.append(QuantitySlot(index, root.index, entry, value, contexts))
            break
    return tuple(slots)
