"""The table of candidates: every word that could replace a word of the captions of a batch, and what is known of it.

A candidate is one lexicon entry in one slot of one caption. The table has a column for each thing that is known of a
candidate, and the checks of `negcap.augment.checks` fill them in or give a reason for which it is refused. No text is
made here: `negcap.augment.sampling` chooses candidates, and only for these an operator makes the edits.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np

from .cloze.states import Place
from .cloze.surrogate import Surrogate, surrogate_of
from .evidence import Evidence
from .kinds import KINDS
from .lexicon.lexicon import Lexicon
from .plausibility import REPLACED, WINDOW, Comparison
from .raters import (
    CHANGES,
    MAX_COMPATIBLE,
    MAX_UNNATURAL,
    PREFERRED_UNNATURAL,
    Ratings,
    is_fallback,
    place_inputs,
    preference,
    rater_features,
    rater_model_of,
    refusals,
    sizes_and_mean_scores,
)
from .rows import COMPATIBLE, LIKELY_TRUE, UNNATURAL
from .sentences import group_by_caption
from .slots.nouns import Slot

REASONS = ("", UNNATURAL, COMPATIBLE, LIKELY_TRUE)  # of refused candidates, by the number in `Candidates.reason`
FREE = REASONS.index("")  # the reason of candidates that are not refused
# How little the best replacements change a caption, in nats: they decrease log p of the other words by LEAST_LOSS in
# all, and leave none of them below LEAST_LOG_P. A candidate that raters would call unnatural even so is refused without
# an estimate: of 336,307 candidates of COCO 46 % of the nouns, 71 % of the prepositions, and 0.1 % of those that an
# estimate would keep.
LEAST_LOSS = 0.5
LEAST_LOG_P = -1.0
# The same for numerals, with which nouns and verbs change, too: the best fifth of them change their captions so little.
LEAST_OF_NUMERALS = Comparison(log_odds=0.0, loss=0.73, lowest=-3.9, whole=-1.9)


@dataclass(frozen=True)
class Limits:
    """The highest estimated probabilities that are accepted, see `negcap.augment.generate.NegativesConfig`."""

    preferred_unnatural: float = PREFERRED_UNNATURAL
    max_unnatural: float = MAX_UNNATURAL
    max_compatible: float = MAX_COMPATIBLE

    @property
    def unnatural(self) -> float:
        """The highest probability of being unnatural that is accepted, except for fallbacks."""
        return min(self.preferred_unnatural, self.max_unnatural)


@dataclass(eq=False)
class Candidates:
    """The candidates of a batch. Columns of slots have shape (slots,), those of candidates (candidates,).

    slots: the words and phrases of the captions that may be replaced.
    caption: of each slot, the number of its caption in the batch.
    slot: of each candidate, the number of its slot, ascending.
    entry: the number of the replacement among the lexicon's entries (words and phrases) of the slot's kind.
    change: the kind of change that it is to raters, as a number in `raters.CHANGES`.
    unit: the number of the replacement in the vocabulary of the cloze model, whose units are words and phrases such as
        "tennis racket". It is that of the form that is needed, or that of its last word if the model does not know it
        as a whole; -1: neither is known.
    is_head: whether the unit is only that of its last word; then the lexicon gives `log_p`.
    log_p: log p(replacement | rest of the caption), in nats.
    log_odds: of the negative to its caption, in nats; NaN where only reading the whole text tells.
    weight: its chance of being sampled, not normalised and before the ratings: e^(its score) times its balance.
    reason: why it is refused, as a number in REASONS; FREE if it may be sampled.
    least_unnatural: p_unnatural if it changed its caption as little as the best replacements do; 0 if that was not
        estimated, as for numerals, which replace more than one unit.
    p_unnatural, p_compatible: the ratings, estimated without reading the text; NaN where there is no estimate.
    rating_is_tried: whether an operator has asked for its ratings, which cannot be estimated for all.
    is_proposed: whether it may be sampled as far as is known without its ratings. What operators take by weight depends
        on this column, not on `reason`: a reason may be a rating that another operator has asked for.
    """

    slots: list[Slot]
    caption: np.ndarray
    slot: np.ndarray
    entry: np.ndarray
    change: np.ndarray
    unit: np.ndarray
    is_head: np.ndarray
    log_p: np.ndarray
    log_odds: np.ndarray
    weight: np.ndarray
    reason: np.ndarray
    least_unnatural: np.ndarray = field(init=False)
    p_unnatural: np.ndarray = field(init=False)
    p_compatible: np.ndarray = field(init=False)
    rating_is_tried: np.ndarray = field(init=False)
    is_proposed: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        size = len(self.slot)
        self.least_unnatural = np.zeros(size)
        self.p_unnatural = np.full(size, np.nan)
        self.p_compatible = np.full(size, np.nan)
        self.rating_is_tried = np.zeros(size, bool)
        self.is_proposed = np.zeros(size, bool)

    @classmethod
    def join(cls, tables: Iterable[Candidates]) -> Candidates:
        """Join tables of candidates of one batch, such as one per kind of word, to one.

        All of them number the captions of the batch alike, so those numbers stay. The slots are numbered anew: those of
        the first table, then those of the second, and so on.
        """
        tables = list(tables)
        # The new number of the first slot of each table; the last element is not used.
        firsts = np.cumsum([0, *(len(table.slots) for table in tables)])
        renumbered = [table.slot + first for table, first in zip(tables, firsts, strict=False)]

        def column(name: str, dtype: type) -> np.ndarray:
            """A column of all tables; the empty array gives it its type if there are none."""
            return np.concatenate([np.zeros(0, dtype), *(getattr(table, name) for table in tables)])

        return cls(
            slots=[slot for table in tables for slot in table.slots],
            caption=column("caption", int),
            slot=np.concatenate([np.zeros(0, int), *renumbered]),
            entry=column("entry", int),
            change=column("change", int),
            unit=column("unit", int),
            is_head=column("is_head", bool),
            log_p=column("log_p", float),
            log_odds=column("log_odds", float),
            weight=column("weight", float),
            reason=column("reason", np.int8),
        )

    def __len__(self) -> int:
        return len(self.slot)

    @cached_property
    def caption_of_candidate(self) -> np.ndarray:
        """The number of each candidate's caption: (candidates,)."""
        return self.caption[self.slot]

    @cached_property
    def kind_of_slot(self) -> np.ndarray:
        """The name of each slot's kind: (slots,)."""
        return np.array([slot.kind for slot in self.slots], object)

    def is_of_kinds(self, kinds: Container[str]) -> np.ndarray:
        """Whether each slot is of one of these kinds of word: (slots,)."""
        return np.array([slot.kind in kinds for slot in self.slots], bool)

    def of_kinds(self, kinds: Container[str]) -> np.ndarray:
        """The numbers of the candidates whose slots are of one of these kinds of word, ascending."""
        return np.flatnonzero(self.is_of_kinds(kinds)[self.slot])

    @cached_property
    def rows_of_slots(self) -> list[slice]:
        """For each slot, the slice of its candidates, which are sorted by slot."""
        return rows_of_slots(self.slot, len(self.slots))

    def refuse(self, candidates: np.ndarray, reason: str) -> None:
        """Refuse candidates for a reason, unless they are refused already: the first reason stays.

        candidates: their numbers, or a mask of all, (candidates,). reason: one of REASONS.
        """
        numbers = np.flatnonzero(candidates) if candidates.dtype == bool else candidates
        numbers = numbers[self.reason[numbers] == FREE]
        self.reason[numbers] = REASONS.index(reason)


def rows_of_slots(slot: np.ndarray, slots: int) -> list[slice]:
    """The candidates of each of so many slots; slot: of each candidate, the number of its slot, ascending."""
    ends = np.searchsorted(slot, np.arange(slots), "right").tolist()
    return [slice(start, end) for start, end in pairwise([0, *ends])]


class RatingEstimates:
    """Estimates what raters would say of the candidates of one table, without reading any text.

    First all candidates are rated as if they changed their captions as little as the best do (`rate_at_best`), which is
    cheap and refuses most of them; then those about to be sampled, by the surrogate of the cloze model (`rate`).
    """

    def __init__(self, candidates: Candidates, evidence: Sequence[Evidence], limits: Limits) -> None:
        """Compute what both ratings need: the place of each slot in its text, and the raters' projection of it.

        A place is where the cloze model predicts a unit, given the units before and behind it; None for a slot without.

        evidence: of each caption of the batch, all read together by the cloze model.
        """
        self._candidates = candidates
        self._limits = limits
        encodings = [evidence[number].encoding for number in candidates.caption.tolist()]
        places: list[Place | None] = [
            encoding.place(slot.start, slot.end) for encoding, slot in zip(encodings, candidates.slots, strict=True)
        ]
        has_place = np.array([place is not None for place in places], bool)  # (slots,)
        self._model = encodings[0].model if encodings else None
        is_change = np.array([slot.kind in CHANGES for slot in candidates.slots], bool)
        self._can_estimate = (candidates.unit >= 0) & (has_place & is_change)[candidates.slot]
        preferences = [KINDS[slot.kind].preference if slot.kind in KINDS else 0.0 for slot in candidates.slots]
        self._preference_of_slot = np.array(preferences, float)
        self._replaces_one_unit = candidates.is_of_kinds(REPLACED)
        self._surrogate: Surrogate | None = None
        if self._model is None or not self._can_estimate.any():
            self._can_estimate[:] = False
            return
        # The arrays below have a row only for each slot with a place; here is the number of that row, by slot.
        self._number_of_slot = np.cumsum(has_place) - 1
        self._encodings = [encoding for encoding, place in zip(encodings, places, strict=True) if place is not None]
        self._places = [place for place in places if place is not None]
        self._raters = rater_model_of(self._model)
        self._surrogate = surrogate_of(self._model)
        if self._surrogate is not None:
            # The part of the surrogate's estimates that is the same for all units in a slot.
            self._surrogate_terms_of_slots = self._surrogate.at_slots(self._encodings, np.array(self._places))
        vectors, self._old_log_p = place_inputs(self._encodings, self._places)
        self._projected_places = self._raters.project_places(vectors)
        self._sizes, self._means = sizes_and_mean_scores(self._encodings)
        units = candidates.unit[self._can_estimate]
        self._projected_units = self._raters.project_vocabulary(units, self._model.embedding)

    def _rate(self, numbers: np.ndarray, comparisons: np.ndarray) -> Ratings:
        """The ratings of some candidates, as the raters' model predicts them.

        numbers: of the candidates. comparisons: how each compares with its caption, a `Comparison`, (candidates, 4).
        """
        slot = self._candidates.slot[numbers]
        place = self._number_of_slot[slot]  # the row of each candidate's slot in the arrays of slots with a place
        features = rater_features(comparisons, self._sizes[place], self._means[place], self._old_log_p[place])
        return self._raters.predict(
            changes=self._candidates.change[numbers],
            features=features,
            places=self._projected_places,
            units=self._projected_units,
            place=place,
            unit=self._candidates.unit[numbers],
        )

    def rate_at_best(self) -> None:
        """Refuse what raters would call unnatural even if it changed its caption as little as the best do."""
        table = self._candidates
        numbers = np.flatnonzero(self._can_estimate & (table.reason == FREE))
        if not len(numbers):
            return
        place = self._number_of_slot[table.slot[numbers]]
        # Raters are predicted for the unit that the model knows, for "beach umbrella" that is "umbrella", and so log p
        # must be that of this unit.
        log_p = table.log_p[numbers].copy()
        is_head = table.is_head[numbers]
        heads = np.flatnonzero(is_head)
        if len(heads) and self._model is not None:
            vectors = np.stack([self._encodings[i].vector_at(self._places[i]) for i in place[heads].tolist()])
            log_p[heads] = self._model.scores(vectors, table.unit[numbers[heads]])
        # The table's log odds are missing, or are those of the whole phrase: here they are the unit's.
        needs_log_odds = np.isnan(table.log_odds[numbers]) | is_head
        log_odds = np.where(needs_log_odds, log_p - self._old_log_p[place], table.log_odds[numbers])
        # In the order of `Comparison`: log odds, loss, lowest log p, and the whole text.
        comparisons = np.stack(
            [log_odds, np.full(len(numbers), LEAST_LOSS), np.minimum(log_p, LEAST_LOG_P), log_odds - LEAST_LOSS], axis=1
        )
        is_numeral = table.change[numbers] == CHANGES.index("numeral")
        comparisons[is_numeral] = LEAST_OF_NUMERALS
        unnatural = self._rate(numbers, comparisons).unnatural
        table.least_unnatural[numbers] = np.where(is_numeral, 0.0, unnatural)
        limit = np.where(is_numeral, self._limits.unnatural, self._limits.max_unnatural)
        table.refuse(numbers[unnatural > limit], UNNATURAL)

    def rate(self, numbers: np.ndarray) -> None:
        """Estimate the ratings of candidates and refuse those that raters would reject; each candidate is tried once.

        Only candidates that replace one unit, which the cloze model knows, can be rated. numbers: of the candidates.
        """
        table = self._candidates
        is_new = ~table.rating_is_tried[numbers]
        can_rate = self._can_estimate[numbers] & self._replaces_one_unit[table.slot[numbers]]
        table.rating_is_tried[numbers] = True
        numbers = np.sort(numbers[is_new & can_rate])
        if not len(numbers) or self._surrogate is None:
            return
        slot = self._number_of_slot[table.slot[numbers]]
        # The surrogate estimates what the cloze model would say of the new texts, which are not read.
        estimates = self._surrogate.estimate(self._surrogate_terms_of_slots, slot, table.unit[numbers], WINDOW)
        ratings = self._rate(numbers, np.stack(estimates, axis=1))
        table.p_unnatural[numbers] = ratings.unnatural
        table.p_compatible[numbers] = ratings.compatible
        # The log-odds that only a reading of the whole text would give are estimated, too.
        unknown = np.isnan(table.log_odds[numbers])
        table.log_odds[numbers] = np.where(unknown, estimates.whole, table.log_odds[numbers])
        reasons = refusals(ratings.unnatural, ratings.compatible, self._limits.unnatural, self._limits.max_compatible)
        for reason in (UNNATURAL, COMPATIBLE):
            table.refuse(numbers[reasons == reason], reason)

    def preferences(self, numbers: np.ndarray) -> np.ndarray:
        """The factors of candidates' weights by their ratings (`raters.preference`), 1 where these are not estimated.

        Each is at most the factor of the best possible rating, by which `negcap.augment.sampling` orders candidates.
        """
        table = self._candidates
        power = self._preference_of_slot[table.slot[numbers]]
        factors = preference(table.p_unnatural[numbers], table.p_compatible[numbers], power)
        return np.minimum(factors, self.best_preferences(numbers))

    def best_preferences(self, numbers: np.ndarray) -> np.ndarray:
        """The highest factor that the ratings may give the weight of each candidate; 1 if nothing is estimated.

        numbers: of the candidates. It is the factor if each were as natural as the best are, and surely not compatible.
        """
        least = self._candidates.least_unnatural[numbers]  # the lowest p_unnatural that each may have
        power = self._preference_of_slot[self._candidates.slot[numbers]]
        return np.where(least > 0, preference(least, np.zeros(len(least)), power), 1.0)

    def fallbacks(self, numbers: np.ndarray) -> np.ndarray:
        """The numbers of the candidates that were refused as unnatural and may be taken if there is nothing better.

        numbers: of the candidates that are looked at. See `raters.is_fallback`.
        """
        table = self._candidates
        limits = self._limits
        unnatural = table.p_unnatural[numbers]
        compatible = table.p_compatible[numbers]
        good = is_fallback(unnatural, compatible, limits.max_unnatural, limits.max_compatible)
        return numbers[good & (table.reason[numbers] == REASONS.index(UNNATURAL))]


@dataclass(frozen=True, eq=False)
class Batch:
    """The captions of some images, read together, and all that could replace their words.

    evidence: of each caption, or each sentence of a caption of several.
    lexicon: its entries may replace words.
    limits: the highest probabilities of bad ratings that are accepted.
    candidates: the table of all that could replace their words.
    estimates: of the ratings of the candidates. Candidates that would be too bad at best are refused already.
    """

    evidence: Sequence[Evidence]
    lexicon: Lexicon
    limits: Limits
    candidates: Candidates
    estimates: RatingEstimates

    @cached_property
    def sentences(self) -> list[list[int]]:
        """For each whole caption, the numbers of its sentences in `evidence`."""
        return group_by_caption([sentence.caption for sentence in self.evidence])
