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
from .cloze.model import CaptionEncoding, ClozeModel, Span, cloze_model
from .cloze.network import single_threaded
from .cloze.states import Place, normalise_word
from .cloze.surrogate import surrogate_of
from .edits import Edit
from .kinds import KINDS
from .lexicon.lexicon import Lexicon
from .reproducible import log
from .rows import Row
from .slots.nouns import noun_slots, numeral_value
from .slots.verbs import inflect_verb, preposition_uses

if TYPE_CHECKING:
    from .lexicon.entries import Entries

WORD = re.compile(r"['’]s\b|[^\W_]+|[^\w\s]|_")
# Changes that may replace a single unit, and nothing else.
REPLACED = tuple(name for name, kind in KINDS.items() if not kind.others_agree)
WINDOW = 3  # number of words on either side of an edit that are looked at with it
CACHED = 64  # number of lexicons, kinds and forms whose units are cached


def encode_captions(captions: Sequence[Caption], model: ClozeModel | None = None) -> list[CaptionEncoding]:
    """Each caption as a cloze model (None: the shipped one) has read it; faster for many captions in one call."""
    # Nouns and prepositions of several words get a place of their own, for which the model can predict other words.
    phrases: list[list[Span]] = []
    for caption in captions:
        spans = [(slot.start, slot.end) for slot in noun_slots(caption)]
        spans += [(use.start, use.end) for use in preposition_uses(caption)]
        phrases.append([(start, end) for start, end in spans if end - start > 1])
    return (model or cloze_model()).read([caption.lowered for caption in captions], phrases)


@cached(CACHED)
def entry_units(lexicon: Lexicon, kind: str, form: str = "") -> np.ndarray:
    """The unit of each lexicon entry of a kind: (entries,), read-only.

    A unit is a word, or a phrase such as "tennis racket", in the vocabulary of the lexicon's cloze model. It is given
    by its number there; -1 for an entry that the model does not know in this form.

    form: for nouns "nn" (singular) or "nns" (plural), for verbs a Penn tag such as "VBZ"; other kinds have one form.
    """
    return (lexicon.cloze or cloze_model()).numbers(surfaces_of(lexicon, kind, form))


@cached(CACHED)
def head_units(lexicon: Lexicon, kind: str, form: str = "") -> np.ndarray:
    """The number of each lexicon entry's unit: (entries,), read-only; -1 for one that the model does not know at all.

    A phrase that the model does not know as a whole gets the number of its last word: "beach umbrella" that of
    "umbrella". kind, form: see `entry_units`.
    """
    units = (lexicon.cloze or cloze_model()).units
    surfaces = surfaces_of(lexicon, kind, form)
    numbers = [None if surface is None else units.number_of_head(surface) for surface in surfaces]
    return read_only(np.array([-1 if number is None else number for number in numbers], np.int64))


def surfaces_of(lexicon: Lexicon, kind: str, form: str = "") -> Sequence[str | None]:
    """Each lexicon entry of a kind in a form, as it is written: "box" as "nns" -> "boxes"; None for one without it."""
    names: Sequence[str | None] = lexicon.entries(kind).names
    if kind == "noun":
        surfaces = lexicon.forms(many=form == "nns")
        names = [surfaces.get(name) for name in lexicon.nouns.names]
    elif kind == "verb":
        surfaces = lexicon.inflected.get(form.lower(), {})
        names = [inflect_verb(name, form, surfaces) for name in lexicon.entries("verb").names]
    return names


@cached(CACHED)
def entry_vectors(lexicon: Lexicon, kind: str, form: str = "") -> np.ndarray:
    """The word vector of each unit of `entry_units`, (entries, width), read-only; to look them up takes long."""
    return read_only((lexicon.cloze or cloze_model()).embedding[entry_units(lexicon, kind, form)])


@single_threaded()
def log_probabilities(
    slots: Sequence[tuple[CaptionEncoding, Span, tuple[str, ...]]],
    entries: Entries,
    units: np.ndarray,
    vectors: np.ndarray,
) -> np.ndarray:
    """log p(entry | rest of the caption) of each lexicon entry of a kind in slots of captions: (slots, entries).

    An entry that the cloze model does not know gets the probability that the lexicon gives it in the contexts of the
    slot, so that it can be sampled, too. One thread, as for all small products of the cloze network.

    Args:
        slots: for each, how its caption was read; its first token and the one after its last; and its contexts, such
            as ("dobj:throw", "left:a"), by which the lexicon knows a slot.
        entries: of the kind of word.
        units: of the entries, (entries,), from `entry_units`.
        vectors: of the entries, (entries, width), from `entry_vectors`.
    """
    if not slots:
        return np.zeros((0, len(units)), np.float32)
    model = slots[0][0].model
    log_p = np.stack([encoding.vector(*span) for encoding, span, _ in slots]) @ vectors.T
    log_p += model.bias[units]
    np.minimum(log_p, 0.0, out=log_p)  # the model is trained to be normalised: what exceeds log 1 is cut off
    # The unit -1 has indexed the last row of the model's arrays: the columns of unknown entries are overwritten.
    unknown = np.flatnonzero(units < 0)
    if len(unknown):
        log_p[:, unknown] = log(entries.probabilities([contexts for *_, contexts in slots])[:, unknown])
    return log_p


class KeptRun(NamedTuple):
    """Consecutive tokens of a caption that no edit touches.

    first, end: the first token, and the one after the last. new_first: where the first stands in the negative's words.
    """

    first: int
    end: int
    new_first: int


class Edited(NamedTuple):
    """A caption after edits.

    words: in lower case.
    starts: for each edit, the position in `words` of its first new word, or of the word that follows if it has none.
    ends: for each edit, the position after its last new word.
    kept: the tokens that are not edited.
    """

    words: list[str]
    starts: list[int]
    ends: list[int]
    kept: list[KeptRun]


def words_after(caption: Caption, edits: Sequence[Edit]) -> Edited:
    """A caption after edits, which are disjoint and in text order."""
    edited = Edited(words=[], starts=[], ends=[], kept=[])
    lowered = caption.lowered
    token_starts = caption.token_starts
    token = 0  # the first that is neither copied nor replaced so far
    last = len(token_starts)
    for start, end, new in edits:
        first = bisect_left(token_starts, start, token)
        if first > token:
            edited.kept.append(KeptRun(token, first, len(edited.words)))
            edited.words.extend(lowered[token:first])
        edited.starts.append(len(edited.words))
        edited.words.extend(WORD.findall(new.lower()))
        edited.ends.append(len(edited.words))
        token = bisect_left(token_starts, end, first)
    if last > token:
        edited.kept.append(KeptRun(token, last, len(edited.words)))
        edited.words.extend(lowered[token:])
    return edited


class Comparison(NamedTuple):
    """How a negative compares with its caption, in nats; see `compare` for which numbers are estimates.

    log_odds: the plausibility of the negative, log p(negative) - log p(caption).
    loss: at least 0; the sum of the decreases in log p(word | rest) of the words that both texts have, leaving out
        words that become likelier.
    lowest: the lowest log p(word | rest), in the negative, of an edited word or one of WINDOW words on either side.
    whole: the pseudo-log-likelihood of the negative minus that of the caption.
    """

    log_odds: float
    loss: float
    lowest: float
    whole: float


def compare(captions: Sequence[Caption], encodings: Sequence[CaptionEncoding], rows: Sequence[Row]) -> list[Comparison]:
    """Compare negatives (false captions) with their captions by the cloze model.

    Args:
        captions: of each negative.
        encodings: of each negative, how the model has read its caption.
        rows: of each negative, what is changed.

    Returns:
        A `Comparison` of each negative.

    Where one noun, attribute, verb or preposition is replaced, `loss`, `lowest` and `whole` are estimates of the
    model's surrogate (see `negcap.augment.cloze.surrogate`), if it has one. All other negatives are read as a whole.
    `log_odds` is the row's plausibility if it has one, else `whole`.
    """
    # The surrogate estimates together what was read in one call. Encodings of one call share the object `states`, so
    # its identity tells the calls apart; the encodings keep it alive.
    replaced_together: dict[int, list[ReplacedUnit]] = {}
    for number, (caption, encoding, row) in enumerate(zip(captions, encodings, rows, strict=True)):
        replaced = _replaced_unit(number, caption, encoding, row)
        if replaced is not None:
            replaced_together.setdefault(id(encoding.states), []).append(replaced)
    comparisons: dict[int, Comparison] = {}
    for together in replaced_together.values():
        comparisons |= _estimated_comparisons(together, encodings, rows)
    rest = [number for number in range(len(captions)) if number not in comparisons]
    read = read_and_compare(
        [captions[number] for number in rest], [encodings[number] for number in rest], [rows[number] for number in rest]
    )
    comparisons |= zip(rest, read, strict=True)
    return [comparisons[number] for number in range(len(captions))]


class ReplacedUnit(NamedTuple):
    """A negative that replaces one unit of its caption.

    negative: its number. place: of the unit that is replaced. unit: the number of the new one.
    """

    negative: int
    place: Place
    unit: int


def _replaced_unit(number: int, caption: Caption, encoding: CaptionEncoding, row: Row) -> ReplacedUnit | None:
    """The one unit (a word or phrase) that negative `number` replaces; None: it does more, or must be read as a whole.

    A new phrase that the model does not know as a unit counts as its last word. "an" in place of "a" is no change.
    """
    # The surrogate estimates the change from the states of the caption's GRUs, which only some encodings keep.
    if row.change not in REPLACED or surrogate_of(encoding.model) is None or encoding.states is None:
        return None
    changes = list(_changed_tokens(caption, row.edits))
    if len(changes) != 1:
        return None
    place = encoding.place(changes[0].first, changes[0].end)
    unit = encoding.model.units.number_of_head(changes[0].new)
    return None if place is None or unit is None else ReplacedUnit(number, place, unit)


def _estimated_comparisons(
    replaced: Sequence[ReplacedUnit], encodings: Sequence[CaptionEncoding], rows: Sequence[Row]
) -> dict[int, Comparison]:
    """The surrogate's comparisons of the negatives in `replaced` with their captions, by the negative's number.

    encodings, rows: of all negatives, by that number. Those of `replaced` were read in one call.
    """
    # A slot is a place in a caption; the surrogate does the work of a slot once for all units that may stand there.
    slot_number: dict[tuple[int, Place], int] = {}
    slot_encodings: list[CaptionEncoding] = []
    slot_of = []  # of each of `replaced`, the number of its slot
    for change in replaced:
        encoding = encodings[change.negative]
        slot = (encoding.number, change.place)
        if slot not in slot_number:
            slot_number[slot] = len(slot_number)
            slot_encodings.append(encoding)
        slot_of.append(slot_number[slot])
    surrogate = surrogate_of(slot_encodings[0].model)
    assert surrogate is not None
    slots = surrogate.at_slots(slot_encodings, np.array([place for _, place in slot_number]))
    order = np.argsort(slot_of, kind="stable")  # the surrogate wants ascending slots
    changes = [replaced[index] for index in order.tolist()]
    estimates = surrogate.estimate(
        slots, np.array(slot_of)[order], np.array([change.unit for change in changes]), WINDOW
    )
    comparisons = {}
    for change, loss, lowest, whole in zip(
        changes, estimates.loss.tolist(), estimates.lowest.tolist(), estimates.whole.tolist(), strict=True
    ):
        negative = change.negative
        log_odds = rows[negative].plausibility
        comparisons[negative] = Comparison(
            log_odds=whole if log_odds is None else log_odds, loss=loss, lowest=lowest, whole=whole
        )
    return comparisons


def replaced_units(caption: Caption, encoding: CaptionEncoding, row: Row) -> Iterator[tuple[Place, int | None]]:
    """The place of each word or phrase that a row replaces, and the number of the unit that is put there.

    Pure insertions, "an" in place of "a", and the noun and verb that agree with a new numeral are left out. A new
    phrase that is no unit has the unit of its last word, None if the model does not know that. An old phrase without a
    place (`CaptionEncoding.place`) has that of its last word.
    """
    for change in _changed_tokens(caption, row.edits):
        is_replaced = row.change != "numeral" or normalise_word(change.new) == row.replacement
        if change.first < change.end and is_replaced:
            place = encoding.place(change.first, change.end) or encoding.place_of_token(change.end - 1)
            if place is not None:
                yield place, encoding.model.units.number_of_head(change.new)


class ChangedTokens(NamedTuple):
    """The tokens that an edit replaces, from `first` to the one before `end`, and the new text."""

    first: int
    end: int
    new: str


def _changed_tokens(caption: Caption, edits: Sequence[Edit]) -> Iterator[ChangedTokens]:
    """The tokens that each edit replaces, with the new text; an "an" in place of "a" is no change."""
    for start, end, new in edits:
        first = bisect_left(caption.token_starts, start)
        behind = bisect_left(caption.token_starts, end)
        is_one_token = behind == first + 1
        if not is_one_token or normalise_word(new) != normalise_word(caption.lowered[first]):
            yield ChangedTokens(first, behind, new)


def read_and_compare(
    captions: Sequence[Caption], encodings: Sequence[CaptionEncoding], rows: Sequence[Row]
) -> list[Comparison]:
    """Compare negatives with their captions by a cloze model that reads each negative as a whole text.

    Args:
        captions: of each row.
        encodings: how the cloze model has read each of these captions.
        rows: the negatives, whose edits are applied here.

    Returns:
        The comparison of each row. Unlike that of `compare`, it does not depend on which other rows there are.

    Equal negatives of a caption are read once. Negatives that differ only in the number that they insert ("three dogs",
    "four dogs") are read as one text, with the lowest number, even if no row has that: so the result for a negative
    does not depend on which others there are. Between them only log p(number | rest) differs.
    """
    if not captions:
        return []
    edited = [words_after(caption, row.edits) for caption, row in zip(captions, rows, strict=True)]
    numerals = [_numeral_position(after.starts, row) for after, row in zip(edited, rows, strict=True)]
    text_number: dict[tuple[str, ...], int] = {}
    texts: list[list[str]] = []  # those that are read
    first_row: list[int] = []  # for each text, the first row that it stands for
    text_of: list[int] = []  # for each row, the number of its text
    for i, (caption, row) in enumerate(zip(captions, rows, strict=True)):
        words = edited[i].words
        position = numerals[i]
        if position is not None:
            words = [*words[:position], lowest_number(row.replaced, row.replacement), *words[position + 1 :]]
        key = (caption.caption_id, *words)
        if key not in text_number:
            text_number[key] = len(texts)
            texts.append(words)
            first_row.append(i)
        text_of.append(text_number[key])
    old_encodings = [encodings[i] for i in first_row]  # of the caption of each text
    new_encodings = encodings[0].model.read_edited(old_encodings, texts)
    losses = _lost_log_p(old_encodings, new_encodings, [edited[i].kept for i in first_row]).tolist()
    scores: list[Sequence[float]] = [new_encodings[number].scores for number in text_of]
    # Rows whose text was read with another number than theirs: only the score at the number's place is exchanged.
    exchanged: list[int] = []
    numbers: list[str] = []  # of each of these rows, its number
    places: list[int] = []  # and where the number is among the vectors and scores of the text
    for i, position in enumerate(numerals):
        if position is not None and edited[i].words != texts[text_of[i]]:
            exchanged.append(i)
            numbers.append(edited[i].words[position])
            # Vectors and scores have no entry for the start of the text, which is place 0.
            places.append(new_encodings[text_of[i]].unit_of_token[position] - 1)
    if exchanged:
        model = encodings[0].model
        vectors = [new_encodings[text_of[i]].vectors[place] for i, place in zip(exchanged, places, strict=True)]
        new_scores = model.scores(np.stack(vectors), model.numbers(numbers)).tolist()
        for i, place, score in zip(exchanged, places, new_scores, strict=True):
            scores[i] = [*scores[i][:place], score, *scores[i][place + 1 :]]
    comparisons: list[Comparison] = []
    for i, (old, row) in enumerate(zip(encodings, rows, strict=True)):
        whole = sum(scores[i]) - old.total
        comparisons.append(
            Comparison(
                log_odds=whole if row.plausibility is None else row.plausibility,
                loss=losses[text_of[i]],
                lowest=_lowest_near_edits(new_encodings[text_of[i]].unit_of_token, scores[i], edited[i]),
                whole=whole,
            )
        )
    return comparisons


def lowest_number(old: str, new: str) -> str:
    """The lowest number that is written as `new` is (digits or words), means one if `new` does, and is not `old`.

    (two, five) -> three, (two, one) -> a, (1, 5) -> 2.
    """
    digits = new.isdigit()
    if numeral_value(new) == 1:
        return "1" if digits else "a"
    if numeral_value(old) == 2:
        return "3" if digits else "three"
    return "2" if digits else "two"


def _lost_log_p(
    old: Sequence[CaptionEncoding], new: Sequence[CaptionEncoding], kept: Sequence[Sequence[KeptRun]]
) -> np.ndarray:
    """How much log p the words lose that caption and negative share, summed (`Comparison.loss`): (negatives,).

    old, new: how each caption and its negative were read. kept: the tokens of the caption that the negative keeps.
    """
    # One entry per kept token, those of all negatives one after the other: its place in both texts.
    old_places: list[int] = []
    new_places: list[int] = []
    ends: list[int] = []  # where each negative's tokens end in these lists
    for old_encoding, new_encoding, runs in zip(old, new, kept, strict=True):
        for run in runs:
            old_places += old_encoding.unit_of_token[run.first : run.end]
            new_places += new_encoding.unit_of_token[run.new_first : run.new_first + run.end - run.first]
        ends.append(len(old_places))
    negative = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
    before = _scores_at(old, negative, np.array(old_places, np.int64))
    after = _scores_at(new, negative, np.array(new_places, np.int64))
    # A token may be part of a phrase in one text only, and then the two units have nothing to compare.
    is_comparable = before.has_score & after.has_score & (before.units == after.units)
    negative = negative[is_comparable]
    place = np.array(new_places, np.int64)[is_comparable]
    lost = (before.scores - after.scores)[is_comparable]
    # The tokens of a phrase have one place, since they are one unit: it is counted once.
    is_repeated = np.zeros(len(negative), bool)
    is_repeated[1:] = (negative[1:] == negative[:-1]) & (place[1:] == place[:-1])
    # A word that becomes likelier does not make up for one that becomes odd.
    losses = np.maximum(lost[~is_repeated], 0.0)
    return np.bincount(negative[~is_repeated], losses, len(ends))


class ScoresAtPlaces(NamedTuple):
    """The unit and log p(unit | rest) at places of texts, and whether the place has one; all (places,)."""

    units: np.ndarray
    scores: np.ndarray
    has_score: np.ndarray


def _scores_at(encodings: Sequence[CaptionEncoding], text: np.ndarray, places: np.ndarray) -> ScoresAtPlaces:
    """The unit at each of some places, and the log p that the cloze model gives it; a place is a position in a text.

    Args:
        encodings: of each text. Its units are `<s> unit_1 … unit_n </s>`, its scores those of unit_1 … unit_n.
        text: of each place, the number of its text, (places,).
        places: positions among the units of that text, from 1, (places,); n + 1 is that of `</s>`, which has no score.
    """
    # The units of all texts lie one after the other, and so do the scores, which are two fewer in each text.
    counts = np.array([len(encoding.scores) for encoding in encodings], np.int64)
    units = np.fromiter(chain.from_iterable(encoding.units for encoding in encodings), np.int64, (counts + 2).sum())
    first_unit = np.cumsum(counts + 2) - (counts + 2)
    scores = np.fromiter(chain.from_iterable(encoding.scores for encoding in encodings), np.float64, counts.sum())
    first_score = np.cumsum(counts) - counts
    position = first_score[text] + places - 1  # of unit_1 it is the text's first score
    return ScoresAtPlaces(
        units=units[first_unit[text] + places],
        # The last `</s>` of all would be past the end. It gets another score, which `has_score` marks as invalid.
        scores=scores[np.minimum(position, len(scores) - 1)] if len(scores) else np.zeros(len(position)),
        has_score=places <= counts[text],
    )


def _lowest_near_edits(unit_of_token: Sequence[int], scores: Sequence[float], edited: Edited) -> float:
    """The lowest log p of a unit in an edit, or at most WINDOW units before or behind it; at most 0.

    A unit is a word, or a phrase that the cloze model knows as a whole. So a negative has positions of two sorts: of
    its tokens, and of its units. The units are `<s> unit_1 … unit_n </s>`: the first one of the text has number 1.

    Args:
        unit_of_token: for each token of the negative, the index of its unit, (tokens,).
        scores: log p(unit | rest) of unit_1 … unit_n, (n,): that of unit u is `scores[u - 1]`.
        edited: the negative; `starts` and `ends` of its edits are positions of tokens.
    """
    lowest = 0.0
    last_token = len(unit_of_token) - 1
    for start, end in zip(edited.starts, edited.ends, strict=True):
        # An edit that only deletes has no token of its own: the one that follows stands for it, or the last of all.
        final = max(start, min(end, last_token + 1) - 1)
        first_unit = unit_of_token[min(start, last_token)]
        last_unit = unit_of_token[min(final, last_token)]
        first_score = max(first_unit - 1 - WINDOW, 0)
        end_score = last_unit - 1 + WINDOW + 1
        lowest = min(lowest, *scores[first_score:end_score], 0.0)
    return lowest


def _numeral_position(starts: Sequence[int], row: Row) -> int | None:
    """The position of the new numeral among the words of a negative; None if no numeral is replaced.

    starts: for each edit of the row, the position of its first new word.
    """
    if row.change != "numeral":
        return None
    for start, edit in zip(starts, row.edits, strict=True):
        if normalise_word(edit.new) == row.replacement:
            return start
    return None
