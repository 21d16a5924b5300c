"""Edits of a caption's text, and candidates made of them; `apply` is what builds a negative's text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple


class Edit(NamedTuple):
    """Replace the characters `start` to `end` (exclusive) of the original text by `new`."""

    start: int
    end: int
    new: str


class Candidate(NamedTuple):
    """A proposed negative: disjoint edits in text order, and what was replaced by what.

    `change` names the check of negcap.augment.truth.contradiction for it; `slots` are the token indices that the check
    reads (a head, a counted noun, a preposition and its object, two swapped heads, an attribute and its noun). A word
    that is added has `replaced` "".
    Synsets are WordNet names ("dog.n.01") or preposition sets ("prepositions:6"), None where there is none. `refused`
    is the reason of a refusal by the grammar.
    """

    change: Literal["noun", "quantity", "preposition", "swap", "attribute", "attribute_swap", "verb", "none"]
    edits: tuple[Edit, ...]
    slots: tuple[int, ...]
    replaced: str
    replacement: str
    replaced_synset: str | None = None
    replacement_synset: str | None = None
    refused: str | None = None


class Accepted(NamedTuple):
    """A candidate that passed, the text it makes, and the estimated probability that it is true (None: no estimate)."""

    candidate: Candidate
    text: str
    p_true: float | None


class Refused(NamedTuple):
    """A candidate that was refused, and why (one of negcap.schemas.negatives.REASONS); p_true as for `Accepted`."""

    candidate: Candidate
    reason: str
    p_true: float | None


def apply(text: str, edits: Sequence[Edit]) -> str:
    """The text with every edit carried out: apply("A dog.", [Edit(2, 5, "cat")]) -> "A cat.".

    Raises ValueError when edits overlap, are out of order or out of bounds.
    """
    made, position = "", 0
    for start, end, new in edits:
        if start < position or end < start:
            raise ValueError(f"edits must be disjoint and in order, were: {list(edits)}")
        made += text[position:start] + new
        position = end
    if position > len(text):
        raise ValueError(f"edits must end within the text's {len(text)} characters, was: {position}")
    return made + text[position:]


def cased(new: str, old: str, *, first: bool = False) -> str:
    """`new` in the casing of `old`: at a sentence start or in capitals as `old` is.

    `first`: `old` is the caption's first word, whose capital is not its own.
    """
    if old.islower():
        return new
    if len(old) > 1 and old.isupper():
        return new.upper()
    if old[:1].isupper() and (first or not new[:1].isupper()):
        return new[:1].upper() + new[1:]
    return new
