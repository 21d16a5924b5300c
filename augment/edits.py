"""Edits of a caption's text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .caption import Caption, Casing
from .language.boundaries import begins_sentence


class Edit(NamedTuple):
    """Replace the characters `start` to `end` (exclusive) of the caption by `new`."""

    start: int
    end: int
    new: str


def apply_edits(text: str, edits: Sequence[Edit]) -> str:
    """The text after the edits: apply_edits("A dog.", [Edit(2, 5, "cat")]) -> "A cat.".

    Raises ValueError if edits overlap, are out of order or out of bounds.
    """
    edited = ""
    position = 0
    for start, end, new in edits:
        if start < position or end < start:
            raise ValueError(f"edits must be disjoint and in order, were: {list(edits)}")
        edited += text[position:start] + new
        position = end
    if position > len(text):
        raise ValueError(f"edits must end within the text's {len(text)} characters, was: {position}")
    return edited + text[position:]


# Words that have a capital wherever others have, as they come from names; replacements are kept in small letters.
NAMES = frozenset(
    "african american arabic asian british canadian chinese christmas dutch easter english european french german "
    "greek halloween indian irish italian japanese korean mexican russian spanish swiss thai turkish wii".split()
)


def cased(new: str, old: str, casing: Casing = "sentence", *, first: bool = False) -> str:
    """Write a word in capitals or small letters as the caption needs it: "TV" -> "clock", in a title "Dog" -> "Cat".

    "christmas tree" becomes "Christmas tree" unless the caption has no capitals.

    Args:
        new: the word or words, in small letters unless it is always written otherwise.
        old: another word, in whose place they are put, as the caption has it.
        casing: of the caption (see Caption.casing).
        first: whether `old` begins a sentence, where a capital stays.
    """
    if casing == "upper" and old.isupper():
        return new.upper()
    is_article = old in ("a", "an") and new not in ("a", "an")  # small in titles, what replaces it is not
    if casing == "title" and (old[:1].isupper() or is_article):
        return " ".join(word[:1].upper() + word[1:] for word in new.split(" "))
    if casing != "lower":
        new = " ".join(word.capitalize() if word in NAMES else word for word in new.split(" "))
    return new[:1].upper() + new[1:] if first and old[:1].isupper() else new


def replace_tokens(caption: Caption, start: int, end: int, new: str) -> Edit:
    """The edit that puts other words in place of the tokens `start` to `end` (exclusive), `cased` as the first is."""
    old = caption.tokens[start]
    return Edit(
        old.start,
        caption.tokens[end - 1].end,
        cased(new, old.text, caption.casing, first=begins_sentence(caption, start)),
    )


def cased_like(new: str, old: str, casing: Casing = "sentence") -> str:
    """`new`, another form of the word `old`, written as that is: "TV" -> "TVs", "Man" -> "Men", "IS" -> "ARE".

    casing: of the caption (see Caption.casing).
    """
    if old.islower():
        return new
    if casing != "upper" and new.lower().startswith(old.lower()):
        return old + new[len(old) :]
    if len(old) > 1 and old.isupper():
        return new.upper()
    return new[:1].upper() + new[1:] if old[:1].isupper() else new
