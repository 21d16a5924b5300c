"""Plausibility: how likely words are in the slots of a caption, and a negative as a caption, by the cloze model.

The plausibility of a negative is its log-odds to its caption, in nats: log p(negative) - log p(caption). If one word or
phrase replaces another, this is log p(new | rest) - log p(old | rest). For other edits it is the difference of the
pseudo-log-likelihoods, the sums of log p(word | rest) over all words (Salazar et al. 2020).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from negcap.augment.cache import cached
from negcap.augment.caption import Caption
from negcap.augment.cloze.model import Reading, cloze_model
from negcap.augment.edits import Edit
from negcap.augment.lexicon.lexicon import Lexicon
from negcap.augment.slots.nouns import noun_slots
from negcap.augment.slots.prepositions import preposition_uses
from negcap.augment.slots.verbs import inflected

if TYPE_CHECKING:
    from negcap.augment.lexicon.entries import Entries

WORD = re.compile(r"[^\W_]+|[^\w\s]|_")
LEXICONS = 4  # number of lexicons whose units are cached


class SentenceScorer(Protocol):
    """A language model that scores whole texts."""

    def log_likelihoods(self, texts: Sequence[str]) -> np.ndarray:
        """The log-likelihood of each text in nats: (texts,)."""
        ...


def read(captions: Sequence[Caption]) -> list[Reading]:
    """What the cloze model reads in each caption; the more captions at once, the faster."""
    return cloze_model().read(captions, [_phrases(caption) for caption in captions])


def _phrases(caption: Caption) -> list[tuple[int, int]]:
    """The token spans of nouns and prepositions of several words."""
    spans = [(slot.start, slot.end) for slot in noun_slots(caption)]
    spans += [(use.start, use.end) for use in preposition_uses(caption)]
    return [(start, end) for start, end in spans if end - start > 1]


@cached(LEXICONS)
def entry_units(lexicon: Lexicon, kind: str, form: str = "") -> np.ndarray:
    """The cloze unit of each entry of a kind, -1 if it has none: (entries,), read-only.

    form: for nouns "nn" (singular) or "nns" (plural); for verbs their Penn tag.
    """
    names: Sequence[str | None] = lexicon.entries(kind).names
    if kind == "noun":
        surfaces = lexicon.plural if form == "nns" else lexicon.singular
        names = [surfaces.get(name) for name in lexicon.nouns.names]
    elif kind == "verb":
        surfaces = lexicon.inflected.get(form.lower(), {})
        names = [inflected(name, form, surfaces) for name in lexicon.verbs.names]
    return cloze_model().numbers(names)


def log_probabilities(
    reading: Reading, entries: Entries, units: np.ndarray, span: tuple[int, int], contexts: tuple[str, ...]
) -> np.ndarray:
    """log p(entry | rest of the caption) of each entry in a slot: (entries,).

    units: of the entries. span: the tokens of the slot, end exclusive. An entry that the model does not know gets its
    probability among all entries in `contexts`, by the lexicon's counts.
    """
    found = reading.log_probabilities(*span, units)
    unknown = units < 0
    if unknown.any():
        with np.errstate(divide="ignore"):
            found[unknown] = np.log(entries.probabilities(contexts)[unknown])
    return found


def words_after(caption: Caption, edits: Sequence[Edit]) -> list[str]:
    """The words of a caption after edits, as the cloze model reads them."""
    words: list[str] = []
    pending, at = list(edits), 0
    for token in caption.tokens:
        while at < len(pending) and pending[at].start <= token.start:
            words += WORD.findall(pending[at].new.lower())
            at += 1
        inside = any(edit.start <= token.start < edit.end for edit in pending[max(at - 1, 0) : at])
        if not inside:
            words.append(token.lower)
    for edit in pending[at:]:
        words += WORD.findall(edit.new.lower())
    return words


def log_odds(captions: Sequence[Caption], readings: Sequence[Reading], edits: Sequence[Sequence[Edit]]) -> np.ndarray:
    """The plausibility of whole negatives, from pseudo-log-likelihoods: (negatives,).

    captions, readings, edits: those of each negative.
    """
    texts = [words_after(caption, changes) for caption, changes in zip(captions, edits, strict=True)]
    found = cloze_model().pseudo_log_likelihoods(texts)
    return np.array(
        [float(np.add.reduce(new) - np.add.reduce(reading.own)) for new, reading in zip(found, readings, strict=True)]
    )
