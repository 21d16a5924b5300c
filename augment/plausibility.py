"""Plausibility: how likely words are in the slots of a caption, and a negative as a caption, by the cloze model.

The plausibility of a negative is its log-odds to its caption, in nats: log p(negative) - log p(caption). If one noun,
attribute or verb replaces another, this is log p(new | rest) - log p(old | rest). For other edits it is the difference
of the pseudo-log-likelihoods, the sums of log p(word | rest) over all words (Salazar et al. 2020).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from negcap.augment.cache import cached
from negcap.augment.caption import Caption
from negcap.augment.cloze.model import ClozeModel, Reading, Span, cloze_model
from negcap.augment.cloze.units import normalised
from negcap.augment.edits import Candidate, Edit
from negcap.augment.lexicon.lexicon import Lexicon
from negcap.augment.slots.nouns import noun_slots
from negcap.augment.slots.prepositions import preposition_uses
from negcap.augment.slots.verbs import inflected

if TYPE_CHECKING:
    from negcap.augment.lexicon.entries import Entries

WORD = re.compile(r"['’]s\b|[^\W_]+|[^\w\s]|_")
WINDOW = 3  # number of words on either side of an edit that are looked at with it
CACHED = 64  # number of lexicons, kinds and forms whose units are cached


class SentenceScorer(Protocol):
    """A language model that scores whole texts."""

    def log_likelihoods(self, texts: Sequence[str]) -> np.ndarray:
        """The log-likelihood of each text in nats: (texts,)."""
        ...


def read(captions: Sequence[Caption], model: ClozeModel | None = None) -> list[Reading]:
    """What a cloze model (None: the shipped one) reads in each caption; the more captions at once, the faster."""
    texts = [caption.lowered for caption in captions]
    return (model or cloze_model()).read(texts, [_phrases(caption) for caption in captions])


def _phrases(caption: Caption) -> list[Span]:
    """The token spans of nouns and prepositions of several words."""
    spans = [(slot.start, slot.end) for slot in noun_slots(caption)]
    spans += [(use.start, use.end) for use in preposition_uses(caption)]
    return [(start, end) for start, end in spans if end - start > 1]


@cached(CACHED)
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
    return (lexicon.cloze or cloze_model()).numbers(names)


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


def words_after(caption: Caption, edits: Sequence[Edit]) -> tuple[list[str], list[int]]:
    """The words of a caption after edits, in lower case, and the number of the first word of each edit."""
    words: list[str] = []
    starts: list[int] = []
    end = -1
    for token in caption.tokens:
        while len(starts) < len(edits) and edits[len(starts)].start <= token.start:
            edit = edits[len(starts)]
            starts.append(len(words))
            words += WORD.findall(edit.new.lower())
            end = edit.end
        if token.start >= end:
            words.append(token.lower)
    for edit in edits[len(starts) :]:
        starts.append(len(words))
        words += WORD.findall(edit.new.lower())
    return words, starts


class Change(NamedTuple):
    """How a negative compares with its caption, in nats.

    log_odds: of the negative to the caption. drop: the most that a word which both have loses in log p(word | rest).
    lowest: the lowest log p(word | rest) of the words that are edited and of WINDOW words on either side.
    """

    log_odds: float
    drop: float = 0.0
    lowest: float = 0.0


def compare(captions: Sequence[Caption], readings: Sequence[Reading], candidates: Sequence[Candidate]) -> list[Change]:
    """Compare whole negatives with their captions, by pseudo-log-likelihoods.

    captions, readings, candidates: those of each negative. Negatives of a caption that differ in a number alone are
    read once, with the first of their numbers.
    """
    edited = [words_after(one, candidate.edits) for one, candidate in zip(captions, candidates, strict=True)]
    texts = [words for words, _ in edited]
    numbers = [_number_at(starts, candidate) for (_, starts), candidate in zip(edited, candidates, strict=True)]
    first: dict[tuple, int] = {}
    same = []
    for i, (caption, text, number) in enumerate(zip(captions, texts, numbers, strict=True)):
        key = (i,) if number is None else (caption.caption_id, *text[:number], None, *text[number + 1 :])
        same.append(first.setdefault(key, i))
    read_ones = sorted(set(same))
    found = dict(zip(read_ones, readings[0].model.read([texts[i] for i in read_ones]), strict=True)) if readings else {}
    measured = {
        i: (_drop(readings[i], new), _lowest(new, edited[i][1], candidates[i].edits)) for i, new in found.items()
    }
    changes = []
    for i, (own, reading, number) in enumerate(zip(same, readings, numbers, strict=True)):
        new = found[own]
        total = new.own.sum() if own == i or number is None else new.own_with(number, texts[i][number])
        changes.append(Change(float(total - reading.own.sum()), *measured[own]))
    return changes


def compare_exchanges(
    captions: Sequence[Caption], readings: Sequence[Reading], negatives: Sequence[tuple[Candidate, float]]
) -> list[Change]:
    """Compare negatives in which one unit is exchanged, and whose log-odds are known, with their captions.

    captions, readings, negatives: of each negative; the log-odds come with the candidate. The drop is that of the two
    units before the exchange and of the two behind it; it is 0 if the units that differ are not just one.
    """
    changes = [Change(odds) for _, odds in negatives]
    rows, places, units = [], [], []
    for row, (caption, reading, (candidate, _)) in enumerate(zip(captions, readings, negatives, strict=True)):
        new, _ = reading.model.units.read(words_after(caption, candidate.edits)[0])
        differ = [i for i, (a, b) in enumerate(zip(new, reading.units, strict=False)) if a != b]
        if len(new) == len(reading.units) and len(differ) == 1:
            rows.append(row)
            places.append(differ[0])
            units.append(new[differ[0]])
    if rows:
        drops = readings[0].model.drops([readings[row] for row in rows], places, units)
        for row, drop in zip(rows, drops.tolist(), strict=True):
            changes[row] = changes[row]._replace(drop=drop)
    return changes


def _drop(old: Reading, new: Reading) -> float:
    """The most that a unit which two texts share loses in log p; of texts of unequal length, their common start and
    end are compared.
    """
    before, after = np.array(old.units[1:-1]), np.array(new.units[1:-1])
    shared = min(len(before), len(after))
    same, same_behind = before[:shared] == after[:shared], before[-shared:] == after[-shared:]
    lost, lost_behind = old.own[:shared] - new.own[:shared], old.own[-shared:] - new.own[-shared:]
    if len(before) == len(after):
        return float(lost[same].max(initial=0.0))
    start = int(np.argmin([*same, False]))
    end = min(int(np.argmin([*same_behind[::-1], False])), shared - start)
    return float(max(lost[:start].max(initial=0.0), lost_behind[shared - end :].max(initial=0.0)))


def _lowest(new: Reading, starts: Sequence[int], edits: Sequence[Edit]) -> float:
    """The lowest log p of a unit in or near an edit; starts: the number of the first word of each edit."""
    lowest, last = 0.0, len(new.own)
    for start, edit in zip(starts, edits, strict=True):
        end = max(start, min(start + len(WORD.findall(edit.new)), len(new.place_of)) - 1)
        first, final = new.place_of[min(start, len(new.place_of) - 1)], new.place_of[min(end, len(new.place_of) - 1)]
        here = new.own[max(first - 1 - WINDOW, 0) : min(final + WINDOW, last)]
        lowest = min(lowest, float(here.min(initial=0.0)))
    return lowest


def _number_at(starts: Sequence[int], candidate: Candidate) -> int | None:
    """The number of the word that is the new quantity, None if no quantity is replaced; starts: of the edits' words."""
    if candidate.change != "quantity":
        return None
    for start, edit in zip(starts, candidate.edits, strict=True):
        if normalised(edit.new) == candidate.replacement:
            return start
    return None
