"""Edits of a caption's text, and the candidates for negatives that are made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from .caption import Caption, Casing

Kind = Literal[
    "noun", "numeral", "preposition", "swap", "attribute", "attribute_swap", "verb", "negated_noun", "negated_verb",
    "none",
]  # fmt: skip
NO = "not "  # precedes a noun that is negated, in `replaced` and `replacement` of a candidate
BOTH = " | "  # between a noun that is asserted and one that is negated


class Edit(NamedTuple):
    """Replace the characters `start` to `end` (exclusive) of the caption by `new`."""

    start: int
    end: int
    new: str


class Candidate(NamedTuple):
    """A proposed negative: what to edit, and which word replaces which.

    change: the kind of change, which selects the check in negcap.augment.truth.contradiction. edits: disjoint, in text
    order. slots: the token indices that this check reads (a head; a counted noun; a preposition and its object; two
    swapped heads; an attribute and its noun). replaced, replacement: entries of the lexicon, or "a | b" and "b | a" for
    a swap; `replaced` is "" if a word is added. Synsets are WordNet names ("dog.n.01"), None if there is none.
    rejected: the reason if the edits would be ungrammatical, else None. plausibility: the log-odds of the negative to
    the caption (see negcap.augment.plausibility), None if its operator does not know it. absent: of a negation, the
    noun or verb that it takes to be false of the image. p_unnatural, p_compatible: the estimated probabilities that a
    reader calls it odd, and that one says that it and its caption may be true of one photo, see
    negcap.augment.judgement; None if not estimated.
    """

    change: Kind
    edits: tuple[Edit, ...]
    slots: tuple[int, ...]
    replaced: str
    replacement: str
    replaced_synset: str | None = None
    replacement_synset: str | None = None
    rejected: str | None = None
    plausibility: float | None = None
    absent: str | None = None
    p_unnatural: float | None = None
    p_compatible: float | None = None

    @property
    def assertion(self) -> Candidate | None:
        """The candidate that would assert the noun or verb that a negation takes to be absent; None if none is."""
        if self.absent is None:
            return None
        change: Kind = "verb" if self.change == "negated_verb" else "noun"
        return self._replace(change=change, replaced=self.replaced.partition(BOTH)[0], replacement=self.absent)

    @property
    def negates_caption(self) -> bool:
        """Whether it negates what its caption says, and nothing else: "hat" -> "not hat"."""
        return self.replacement == NO + self.replaced


class Judged(NamedTuple):
    """A candidate, what was found about it, and whether it was accepted: `reason` is None, or why it was rejected.

    text: the negative; it may be empty if the candidate was rejected. p_true: the estimated probability that one more
    caption of the image would make it true; None if not estimated. reason: one of
    negcap.schemas.negatives.REASONS. detail: the limit that it does not keep, or the word of a caption that decided; of
    a caption that is rejected whole, with the candidate NOTHING: which rule it breaks, which operator failed and how,
    or that no word was drawn. sibling_id: the caption_id of the sibling caption that decided, if one did (see
    negcap.augment.truth.contradiction).
    """

    candidate: Candidate
    text: str
    p_true: float | None
    reason: str | None = None
    detail: str | None = None
    sibling_id: str | None = None


# Reasons of rejections: readers would call it odd, or true of the same photo; or it is likely true of the image.
UNNATURAL, COMPATIBLE, LIKELY_TRUE = "unnatural", "compatible", "likely_true"
NOTHING = Candidate("none", (), (), "", "")  # stands for all that could have been made of a caption


class Generated(NamedTuple):
    """What one operator made of one caption: accepted candidates (positives for a paraphrase) and rejected ones."""

    accepted: list[Judged]
    rejected: list[Judged]


def apply(text: str, edits: Sequence[Edit]) -> str:
    """The text after the edits: apply("A dog.", [Edit(2, 5, "cat")]) -> "A cat.".

    Raises ValueError if edits overlap, are out of order or out of bounds.
    """
    edited, position = "", 0
    for start, end, new in edits:
        if start < position or end < start:
            raise ValueError(f"edits must be disjoint and in order, were: {list(edits)}")
        edited += text[position:start] + new
        position = end
    if position > len(text):
        raise ValueError(f"edits must end within the text's {len(text)} characters, was: {position}")
    return edited + text[position:]


def cased(new: str, old: str, casing: Casing = "sentence", *, first: bool = False) -> str:
    """`new` in place of another word `old`, as the caption is written: "TV" -> "clock", in a title "Dog" -> "Cat".

    casing: of the caption (see Caption.casing). first: `old` begins the caption, where a capital stays.
    """
    if casing == "upper" and old.isupper():
        return new.upper()
    if casing == "title" and old[:1].isupper():
        return " ".join(word[:1].upper() + word[1:] for word in new.split(" "))
    return new[:1].upper() + new[1:] if first and old[:1].isupper() else new


def replace(caption: Caption, start: int, end: int, new: str) -> Edit:
    """The edit that puts other words in place of the tokens `start` to `end` (exclusive), `cased` as the first is."""
    old = caption.tokens[start]
    return Edit(old.start, caption.tokens[end - 1].end, cased(new, old.text, caption.casing, first=start == 0))


def exchanged(one: str, other: str) -> tuple[str, str]:
    """`Candidate.replaced` and `replacement` where two words change places: "cat | dog" and "dog | cat"."""
    return f"{one} | {other}", f"{other} | {one}"


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
