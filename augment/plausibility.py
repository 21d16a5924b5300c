"""Plausibility: how likely a word is in a slot of a caption, and a negative compared with its caption.

The plausibility of a negative is its log-odds to its caption, in nats: log p(negative) - log p(caption). If one noun,
attribute or verb replaces another, this is log p(new | rest) - log p(old | rest) by the cloze model (see
negcap.augment.cloze.model). For other edits it is the difference of the pseudo-log-likelihoods of the two texts, which
are the sums of log p(word | rest) over all their words (Salazar et al. 2020).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .caption import Caption, cached, read_only
from .cloze.model import ClozeModel, Reading, Span, cloze_model
from .cloze.network import single_threaded
from .cloze.states import Place, normalised
from .cloze.surrogate import surrogate_of
from .edits import Candidate, Edit
from .lexicon.lexicon import Lexicon
from .reproducible import log
from .slots.nouns import noun_slots
from .slots.verbs import inflected, preposition_uses

if TYPE_CHECKING:
    from .lexicon.entries import Entries

WORD = re.compile(r"['’]s\b|[^\W_]+|[^\w\s]|_")
REPLACED = ("noun", "attribute", "verb", "preposition")  # changes that may replace a single unit
WINDOW = 3  # number of words on either side of an edit that are looked at with it
CACHED = 64  # number of lexicons, kinds and forms whose units are cached


def read(captions: Sequence[Caption], model: ClozeModel | None = None) -> list[Reading]:
    """Each caption as a cloze model (None: the shipped one) has read it; faster for many captions in one call. Nouns
    and prepositions of several words can be asked for as a whole.
    """
    phrases: list[list[Span]] = []
    for caption in captions:
        spans = [(slot.start, slot.end) for slot in noun_slots(caption)]
        spans += [(use.start, use.end) for use in preposition_uses(caption)]
        phrases.append([(start, end) for start, end in spans if end - start > 1])
    return (model or cloze_model()).read([caption.lowered for caption in captions], phrases)


@cached(CACHED)
def entry_units(lexicon: Lexicon, kind: str, form: str = "") -> np.ndarray:
    """The number of each lexicon entry of a kind in the vocabulary of the lexicon's cloze model: (entries,), read-only;
    -1 for one that the model does not know in this form.

    form: of nouns "nn" (singular) or "nns" (plural); of verbs a Penn tag, such as "VBZ"; other kinds have one form.
    """
    return (lexicon.cloze or cloze_model()).numbers(surfaces_of(lexicon, kind, form))


@cached(CACHED)
def head_units(lexicon: Lexicon, kind: str, form: str = "") -> np.ndarray:
    """As `entry_units`, but a phrase that the model does not know gets the number of its last word."""
    units = (lexicon.cloze or cloze_model()).units
    heads = (name and units.of_head(name) for name in surfaces_of(lexicon, kind, form))
    return read_only(np.array([head or -1 for head in heads], np.int64))


def surfaces_of(lexicon: Lexicon, kind: str, form: str = "") -> Sequence[str | None]:
    """Each lexicon entry of a kind in a form, as it is written; None for one that has none."""
    names: Sequence[str | None] = lexicon.entries(kind).names
    if kind == "noun":
        surfaces = lexicon.forms(many=form == "nns")
        names = [surfaces.get(name) for name in lexicon.nouns.names]
    elif kind == "verb":
        surfaces = lexicon.inflected.get(form.lower(), {})
        names = [inflected(name, form, surfaces) for name in lexicon.verbs.names]
    return names


@cached(CACHED)
def entry_vectors(lexicon: Lexicon, kind: str, form: str = "") -> np.ndarray:
    """The word vector of each unit of `entry_units`, (entries, width), read-only; to look them up takes long."""
    return read_only((lexicon.cloze or cloze_model()).embedding[entry_units(lexicon, kind, form)])


@single_threaded()
def log_probabilities(
    slots: Sequence[tuple[Reading, Span, tuple[str, ...]]], entries: Entries, units: np.ndarray, vectors: np.ndarray
) -> np.ndarray:
    """log p(entry | rest of the caption) of each lexicon entry of a kind in slots of captions: (slots, entries).

    slots: how the caption was read, the first token of the slot and the one after its last, and the contexts of the
    slot. units, vectors: of the entries, from `entry_units` and `entry_vectors`. An entry that the cloze model does not
    know gets the probability that the lexicon gives it in the contexts, so that it can be drawn, too.
    """
    if not slots:
        return np.zeros((0, len(units)), np.float32)
    model = slots[0][0].model
    likely = np.stack([reading.vector(*span) for reading, span, _ in slots]) @ vectors.T
    likely += model.bias[units]
    np.minimum(likely, 0.0, out=likely)
    unknown = (units < 0).nonzero()[0]
    if len(unknown):
        likely[:, unknown] = log(entries.probabilities([contexts for *_, contexts in slots])[:, unknown])
    return likely


class Edited(NamedTuple):
    """A caption after edits.

    words: in lower case. starts: for each edit, the position in `words` of its first new word; if it only deletes, of
    the word that follows. ends: that of the word after its last new word. kept: of the tokens that are not edited, runs
    of the caption and where they are now: (first token, one past the last, position in `words`).
    """

    words: list[str]
    starts: list[int]
    ends: list[int]
    kept: list[tuple[int, int, int]]


def words_after(caption: Caption, edits: Sequence[Edit]) -> Edited:
    """A caption after edits, which are disjoint and in text order."""
    words, starts, ends, kept = edited = Edited([], [], [], [])
    lowered, begins = caption.lowered, caption.begins
    token, last = 0, len(begins)
    for start, end, new in edits:
        first = bisect_left(begins, start, token)
        if first > token:
            kept.append((token, first, len(words)))
            words += lowered[token:first]
        starts.append(len(words))
        words += WORD.findall(new.lower())
        ends.append(len(words))
        token = bisect_left(begins, end, first)
    if last > token:
        kept.append((token, last, len(words)))
        words += lowered[token:]
    return edited


class Change(NamedTuple):
    """How a negative compares with its caption, in nats; see `compare` for which numbers are estimates.

    log_odds: the plausibility of the negative, log p(negative) - log p(caption). loss: at least 0; the sum of the
    decreases in log p(word | rest) of the words that both texts have, leaving out words that become likelier. lowest:
    the lowest log p(word | rest), in the negative, of an edited word or one of WINDOW words on either side. whole: the
    pseudo-log-likelihood of the negative minus that of the caption.
    """

    log_odds: float
    loss: float
    lowest: float
    whole: float


def compare(captions: Sequence[Caption], readings: Sequence[Reading], candidates: Sequence[Candidate]) -> list[Change]:
    """Compare negatives (false captions) with their captions by the cloze model; returns a `Change` of each negative.

    captions, readings, candidates: for each negative, its caption, how the model has read the caption, and what is
    changed. Where one noun, attribute, verb or preposition is replaced, `loss`, `lowest` and `whole` are estimates of
    the model's surrogate (see `negcap.augment.cloze.surrogate`). All other negatives are read as a whole, and so are
    these if the model has no surrogate. `log_odds` is the candidate's plausibility if it has one, else `whole`.
    """
    changes: dict[int, Change] = {}
    together: dict[int, list[tuple[int, Place, int]]] = {}
    for i, (caption, reading, candidate) in enumerate(zip(captions, readings, candidates, strict=True)):
        if replaced := _replaced_unit(caption, reading, candidate):
            together.setdefault(id(reading.states), []).append((i, *replaced))
    for own in together.values():
        slots: dict[tuple[int, Place], int] = {}
        of = [slots.setdefault((readings[i].number, place), len(slots)) for i, place, _ in own]
        numbers, places, units = zip(*(own[at] for at in np.argsort(of, kind="stable").tolist()), strict=True)
        of_slot = {slot: readings[i] for slot, (i, *_) in zip(of, own, strict=True)}
        asked = [of_slot[slot] for slot in range(len(slots))]
        surrogate = surrogate_of(asked[0].model)
        assert surrogate is not None
        beside = np.array([place for _, place in slots])
        estimates = surrogate.estimate(asked, beside, np.sort(of), np.array(units), WINDOW)
        for i, change in zip(numbers, zip(*(its.tolist() for its in estimates), strict=True), strict=True):
            odds = candidates[i].plausibility
            changes[i] = Change(change[3] if odds is None else odds, *change[1:])
    rest = [i for i in range(len(captions)) if i not in changes]
    left = [captions[i] for i in rest], [readings[i] for i in rest], [candidates[i] for i in rest]
    changes |= zip(rest, read_and_compare(*left), strict=True)
    return [changes[i] for i in range(len(captions))]


def _replaced_unit(caption: Caption, reading: Reading, candidate: Candidate) -> tuple[Place, int] | None:
    """The place of the one unit that a candidate replaces, and the number of the new one, or of the head of a phrase
    that is no unit; None if it does anything else, but for "an" in place of "a", or there is no surrogate.
    """
    if candidate.change not in REPLACED or surrogate_of(reading.model) is None or reading.states is None:
        return None
    found = list(_changed(caption, candidate.edits))
    if len(found) != 1:
        return None
    first, last, new = found[0]
    place, unit = reading.place(first, last), reading.model.units.of_head(new)
    return None if place is None or unit is None else (place, unit)


def replacements(caption: Caption, reading: Reading, candidate: Candidate) -> Iterator[tuple[Place, int | None]]:
    """The place of each word or phrase that a candidate replaces, and the number of the new unit, or of the head of a
    phrase that is no unit; None for what the model does not know.

    Where a quantity is replaced, it alone; not "an" in place of "a", nor what is only put in. What is no unit, nor
    asked for when the caption was read, has the place of its last word.
    """
    for first, last, new in _changed(caption, candidate.edits):
        if first < last and (candidate.change != "numeral" or normalised(new) == candidate.replacement):
            place = reading.place(first, last) or reading.around(last - 1)
            if place is not None:
                yield place, reading.model.units.of_head(new)


def _changed(caption: Caption, edits: Sequence[Edit]) -> Iterator[tuple[int, int, str]]:
    """The first token of each edit, the one after its last, and the new text; not of "an" in place of "a"."""
    for start, end, new in edits:
        first, last = bisect_left(caption.begins, start), bisect_left(caption.begins, end)
        if last != first + 1 or normalised(new) != normalised(caption.lowered[first]):
            yield first, last, new


def read_and_compare(
    captions: Sequence[Caption], readings: Sequence[Reading], candidates: Sequence[Candidate]
) -> list[Change]:
    """As `compare`, but the cloze model reads all negatives as a whole.

    Equal negatives of a caption are read once, as are those that differ only in the number they put in ("three dogs",
    "four dogs"): their log-odds differ by log p(number | rest) alone, and loss and lowest of the first are used for
    all.
    """
    if not captions:
        return []
    edited = [words_after(caption, one.edits) for caption, one in zip(captions, candidates, strict=True)]
    numbers = [_number_at(after.starts, candidate) for after, candidate in zip(edited, candidates, strict=True)]
    first: dict[tuple[str | None, ...], int] = {}
    same = []  # for each negative, the index of the first one that is read in its place
    for i, (caption, (words, *_), number) in enumerate(zip(captions, edited, numbers, strict=True)):
        blanked = words if number is None else [*words[:number], None, *words[number + 1 :]]
        same.append(first.setdefault((caption.caption_id, *blanked), i))
    distinct = sorted(set(same))
    own = [readings[i] for i in distinct]
    new_readings = readings[0].model.read_edited(own, [edited[i].words for i in distinct])
    losses = _losses(own, new_readings, [edited[i].kept for i in distinct]).tolist()
    read_as = {i: (new, loss) for i, new, loss in zip(distinct, new_readings, losses, strict=True)}
    model, likely, places = readings[0].model, dict[int, float](), dict[int, int]()
    if others := {i: number for i, number in enumerate(numbers) if number is not None and same[i] != i}:
        places = {i: read_as[same[i]][0].place_of[number] - 1 for i, number in others.items()}
        vectors = np.stack([read_as[same[i]][0].vectors[place] for i, place in places.items()])
        units = model.numbers(edited[i].words[number] for i, number in others.items())
        likely = dict(zip(others, model.scores(vectors, units).tolist(), strict=True))
    changes: list[Change] = []
    for i, (old, candidate) in enumerate(zip(readings, candidates, strict=True)):
        (new, loss), odds, total = read_as[same[i]], candidate.plausibility, read_as[same[i]][0].total
        if i in likely:  # only its number differs from the text that was read
            total = total - new.scores[places[i]] + likely[i]
        whole = total - old.total
        lowest = changes[same[i]].lowest if i in likely else _lowest(new, edited[i])
        changes.append(Change(whole if odds is None else odds, loss, lowest, whole))
    return changes


def _losses(
    old: Sequence[Reading], new: Sequence[Reading], kept: Sequence[Sequence[tuple[int, int, int]]]
) -> np.ndarray:
    """How much log p is lost in all that caption and negative share (`Change`): (negatives,); kept: of `Edited`."""
    before, after, of = list[int](), list[int](), list[int]()  # places in both texts of tokens that are kept
    for one, other, runs in zip(old, new, kept, strict=True):
        for start, end, position in runs:
            before += one.place_of[start:end]
            after += other.place_of[position : position + end - start]
        of.append(len(before))
    number = np.repeat(np.arange(len(of)), np.diff(of, prepend=0))
    units, scores, counted = [], [], np.ones(len(number), bool)
    for readings, places in ((old, np.array(before, np.int64)), (new, np.array(after, np.int64))):
        counts = np.array([len(reading.scores) for reading in readings], np.int64)
        counted &= places <= counts[number]
        flat = np.fromiter(chain.from_iterable(reading.units for reading in readings), np.int64, (counts + 2).sum())
        units.append(flat[(np.cumsum(counts + 2) - counts - 2)[number] + places])
        flat = np.fromiter(chain.from_iterable(reading.scores for reading in readings), np.float64, counts.sum())
        at = (np.cumsum(counts) - counts)[number] + places - 1
        scores.append(flat[np.minimum(at, len(flat) - 1)] if len(flat) else np.zeros(len(at)))
    counted &= units[0] == units[1]
    # The tokens of a phrase are one unit.
    number, places, lost = number[counted], np.array(after, np.int64)[counted], (scores[0] - scores[1])[counted]
    again = np.zeros(len(number), bool)
    again[1:] = (number[1:] == number[:-1]) & (places[1:] == places[:-1])
    return np.bincount(number[~again], np.maximum(lost[~again], 0.0), len(of))


def _lowest(new: Reading, edited: Edited) -> float:
    """The lowest log p of a unit in or near an edit."""
    lowest, last = 0.0, len(new.place_of) - 1
    for start, end in zip(edited.starts, edited.ends, strict=True):
        final = max(start, min(end, last + 1) - 1)
        low, high = new.place_of[min(start, last)], new.place_of[min(final, last)]
        lowest = min(lowest, *new.scores[max(low - 1 - WINDOW, 0) : high + WINDOW], 0.0)
    return lowest


def _number_at(starts: Sequence[int], candidate: Candidate) -> int | None:
    """The number of the word that is the new quantity, None if no quantity is replaced; starts: of the edits' words."""
    if candidate.change != "numeral":
        return None
    for start, edit in zip(starts, candidate.edits, strict=True):
        if normalised(edit.new) == candidate.replacement:
            return start
    return None
