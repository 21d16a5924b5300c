"""Operators that replace a word of a caption by another of its kind, sampled by weight."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..candidates import FREE, REASONS, Batch, Candidates, Limits, RatingEstimates, rows_of_slots
from ..evidence import Evidence
from ..kinds import KINDS
from ..language.grammar import ARTICLES
from ..lexicon.entries import Entries
from ..lexicon.lexicon import Lexicon
from ..plausibility import entry_units, entry_vectors, head_units, log_probabilities
from ..raters import change_number
from ..reproducible import exp, log
from ..rows import COMPATIBLE, LIKELY_TRUE, Row
from ..sampling import Sampler
from ..slots.nouns import Slot
from .operator import Operator, Source, Traits

LOWEST = -1e30  # below every log p of a word, but above -inf, which marks entries that never replace a word
PLURAL_NOUNS = "nns"  # the form of a lexicon's nouns in the plural


class WeightedCandidates(NamedTuple):
    """The numbers of candidates in a batch's table, and their weights before the ratings; both (candidates,)."""

    candidates: np.ndarray
    weights: np.ndarray


class Unfit(NamedTuple):
    """Entries of the lexicon that never replace the word in a slot, by number.

    never: all of these. compatible: those of them that may be true of the same thing as the word there. They get into
    the table of candidates as refused, so that users see the reason.
    """

    never: np.ndarray
    compatible: np.ndarray


# A slot and the number of its caption in the batch.
SlotOfCaption = tuple[int, Slot]


class SamplingOperator(Operator):
    """An operator that chooses among the candidates of the batch's table."""

    @abstractmethod
    def weighted_candidates(self, batch: Batch) -> WeightedCandidates:
        """The candidates that it may take."""

    @abstractmethod
    def replacer(self, kind: str) -> ReplacingOperator:
        """The operator whose edits replace a word of a kind."""

    def rows(self, batch: Batch, seed: int) -> Source:
        """The rows of the candidates that it may take, sampled by their weights."""
        weighted = self.weighted_candidates(batch)
        return SampledRows(self, batch, Sampler(batch, weighted.candidates, weighted.weights, seed, self.name))

    def row(self, candidate: int, batch: Batch) -> Row | None:
        """The row of a candidate, with what is estimated of it; None if the replacement has no form that fits.

        What is estimated holds for the replaced word and an article before it. Where other words change as well, the
        text has to be read.
        """
        table = batch.candidates
        slot = table.slots[table.slot[candidate]]
        evidence = batch.evidence[table.caption[table.slot[candidate]]]
        new = batch.lexicon.entries(slot.kind).names[table.entry[candidate]]
        row = self.replacer(slot.kind).edit(slot, new, evidence, batch.lexicon)
        if row is None:
            return None
        log_odds = float(table.log_odds[candidate])
        p_unnatural = float(table.p_unnatural[candidate])
        # NaN: it was not compared with the caption. -inf: its entry never replaces this word, so it has no log p.
        if np.isfinite(log_odds):
            row.plausibility = log_odds
        edits_of_words = [edit for edit in row.edits if edit.new.lower() not in ARTICLES]
        replaces_only_the_word = len(row.edits) == 1 or len(edits_of_words) == 1
        if replaces_only_the_word and not np.isnan(p_unnatural):
            row.p_unnatural = p_unnatural
            row.p_compatible = float(table.p_compatible[candidate])
        return row


class SampledRows(NamedTuple):
    """The rows of an operator's candidates, in the order in which they are sampled."""

    operator: SamplingOperator
    batch: Batch
    sampler: Sampler

    def take(self, wanted: Mapping[int, int]) -> dict[int, list[Row]]:
        """The rows of the next candidates that are sampled for each of these captions, at most as many as wanted."""
        taken: dict[int, list[Row]] = {caption: [] for caption in wanted}
        waiting = dict(wanted)
        while waiting:
            candidates = self.sampler.take(waiting)
            for caption, numbers in candidates.items():
                rows = (self.operator.row(number, self.batch) for number in numbers)
                taken[caption] += [row for row in rows if row is not None]
            # Where a candidate gave no row, as it has no form that fits, further candidates are taken. A caption that
            # got fewer candidates than it asked for has no more of them.
            may_have_more = {caption for caption, numbers in candidates.items() if len(numbers) == waiting[caption]}
            waiting = {
                caption: wanted[caption] - len(rows)
                for caption, rows in taken.items()
                if caption in may_have_more and len(rows) < wanted[caption]
            }
        return taken


class ReplacingOperator(SamplingOperator):
    """An operator that replaces words of one kind, and knows what is special about these: where they may be replaced,
    which entries never replace them, and how the text changes.
    """

    def __init__(self, name: str, traits: Traits) -> None:
        """Read the kind of the words from the traits, which have only this one."""
        super().__init__(name, traits)
        (self.kind,) = traits.kinds

    def weighted_candidates(self, batch: Batch) -> WeightedCandidates:
        """All candidates of the kind, with their weights."""
        candidates = batch.candidates.of_kinds([self.kind])
        return WeightedCandidates(candidates, batch.candidates.weight[candidates])

    def replacer(self, kind: str) -> ReplacingOperator:
        """The operator itself."""
        return self

    @abstractmethod
    def slots(self, evidence: Evidence, lexicon: Lexicon) -> Iterable[Slot]:
        """The words of a caption that may be replaced."""

    @abstractmethod
    def edit(self, slot: Slot, new: str, evidence: Evidence, lexicon: Lexicon) -> Row | None:
        """The row that inserts the entry `new` in a slot; None if it has no form that fits, and with a reason if the
        sentence around it cannot be made grammatical.
        """

    def required_form(self, slot: Slot, evidence: Evidence) -> str:
        """The form that a replacement in a slot has to have: "nn" or "nns" of nouns, a Penn tag of verbs, else ""."""
        return ""

    def never_replaces(self, slot: Slot, evidence: Evidence, lexicon: Lexicon) -> Unfit:
        """The entries that never replace the word in a slot."""
        nothing = np.zeros(0, int)
        return Unfit(never=nothing, compatible=nothing)

    def propose(self, slots: Sequence[SlotOfCaption], evidence: Sequence[Evidence], lexicon: Lexicon) -> Candidates:
        """List the entries of the lexicon that are plausible in some slots, each with the number of its caption.

        Slots of one form, such as plural nouns, are treated together. Entries that may be true of the same thing as the
        word in the slot are in the table, but refused.
        """
        by_form: dict[str, list[SlotOfCaption]] = {}
        for number, slot in slots:
            by_form.setdefault(self.required_form(slot, evidence[number]), []).append((number, slot))
        return Candidates.join(
            self._propose_in_form(form, by_form[form], evidence, lexicon) for form in sorted(by_form)
        )

    def _propose_in_form(
        self, form: str, slots: Sequence[SlotOfCaption], evidence: Sequence[Evidence], lexicon: Lexicon
    ) -> Candidates:
        """The candidates in slots of one form: the entries that are plausible there.

        Entries that may be true of the same thing as the word there get the weight 0 and the reason COMPATIBLE, so that
        users see why they are missing. slots: each with the number of its caption.
        """
        entries = lexicon.entries(self.kind)
        floor = max(KINDS[self.kind].floor, LOWEST)
        asked = [(evidence[number].encoding, (slot.start, slot.end), slot.contexts) for number, slot in slots]
        units = entry_units(lexicon, self.kind, form)
        vectors = entry_vectors(lexicon, self.kind, form)
        log_p = log_probabilities(asked, entries, units, vectors)  # (slots, entries)
        old_log_p = self.old_log_p(log_p, slots, evidence, lexicon)

        is_compatible = np.zeros(log_p.shape, bool)
        for row, (number, slot) in enumerate(slots):
            log_p[row, self.without_form(slot, lexicon)] = -np.inf
            unfit = self.never_replaces(slot, evidence[number], lexicon)
            # Before their log p is overwritten: compatible entries are listed only if they are plausible there.
            is_compatible[row, unfit.compatible] = log_p[row, unfit.compatible] >= floor
            log_p[row, unfit.never] = -np.inf

        # From here on each candidate is one row: its slot, its entry and its score.
        slot_of, entry = np.nonzero((log_p >= floor) | is_compatible)
        scores = self.scores(log_p, slot_of, entry, slots, lexicon)
        is_kept = is_compatible[slot_of, entry] | (scores > LOWEST)
        slot_of = slot_of[is_kept]
        entry = entry[is_kept]
        scores = scores[is_kept]
        weight = exp(scores) * balance_ratios(entries, slots, slot_of, entry, plural=form == PLURAL_NOUNS)
        is_refused = is_compatible[slot_of, entry]
        return Candidates(
            slots=[slot for _, slot in slots],
            caption=np.array([number for number, _ in slots], int),
            slot=slot_of,
            entry=entry,
            change=self.changes(slots, slot_of, entry, lexicon),
            unit=head_units(lexicon, self.kind, form)[entry],
            is_head=units[entry] < 0,  # the model does not know the phrase, at most its last word
            log_p=log_p[slot_of, entry].astype(float),
            log_odds=(log_p[slot_of, entry] - old_log_p[slot_of]).astype(float),
            weight=np.where(is_refused, 0.0, weight),
            reason=np.where(is_refused, REASONS.index(COMPATIBLE), FREE).astype(np.int8),
        )

    def changes(
        self, slots: Sequence[SlotOfCaption], slot_of: np.ndarray, entry: np.ndarray, lexicon: Lexicon
    ) -> np.ndarray:
        """What kind of change raters see in each candidate, as a number in `raters.CHANGES`: (candidates,).

        slots, slot_of, entry, lexicon: as for `scores`.
        """
        return np.full(len(entry), change_number(self.kind))

    def old_log_p(
        self, log_p: np.ndarray, slots: Sequence[SlotOfCaption], evidence: Sequence[Evidence], lexicon: Lexicon
    ) -> np.ndarray:
        """log p of the word that is in each slot now; the log-odds of a replacement are its log p minus this: (slots,).

        This method is for words of one token, which are units of the model. Operators of longer words override it: they
        look them up in `log_p`, (slots, entries), or give NaN where only the whole text tells.
        """
        scores = [evidence[number].encoding.log_probability(slot.start) for number, slot in slots]
        return np.array(scores, np.float32)

    def possible_entries(self, slot: Slot, evidence: Evidence, lexicon: Lexicon) -> np.ndarray | None:
        """A mask of the entries that may be true of the image in place of the word in a slot, (entries,).

        None: no mask can tell, and each negative is checked alone, see `violation`.
        """
        return None

    def without_form(self, slot: Slot, lexicon: Lexicon) -> np.ndarray:
        """The numbers of the entries that the corpus does not have in the form of the slot, such as mass nouns."""
        return np.zeros(0, int)

    def scores(
        self, log_p: np.ndarray, slot_of: np.ndarray, entry: np.ndarray, slots: Sequence[SlotOfCaption],
        lexicon: Lexicon,
    ) -> np.ndarray:  # fmt: skip
        """The score of each candidate, whose exponential is its weight, (candidates,); -inf leaves it out.

        Args:
            log_p: log p(entry | rest of the caption), (slots, entries).
            slot_of: of each candidate, the position of its slot in `slots`, (candidates,).
            entry: of each candidate, the number of its entry, (candidates,).
            slots: each with the number of its caption.
            lexicon: has the entries.
        """
        return log_p[slot_of, entry]


def balance_ratios(
    entries: Entries, slots: Sequence[SlotOfCaption], slot_of: np.ndarray, entry: np.ndarray, *, plural: bool = False
) -> np.ndarray:
    """The balance factor of each candidate's new entry over that of the entry that it replaces: (candidates,).

    The factors even out how often words are inserted and removed, see negcap.augment.balance.

    Args:
        entries: of the kind of word, with their factors.
        slots: each with the number of its caption.
        slot_of: of each candidate, the position of its slot in `slots`, (candidates,).
        entry: of each candidate, the number of the new entry, (candidates,).
        plural: whether the slots are plural nouns, which have factors of their own.
    """
    old = entries.factors([slot.entry for _, slot in slots], plural=plural)
    return entries.balance[int(plural)][entry] / old[slot_of]


def lift_scores(
    log_p: np.ndarray, slot_of: np.ndarray, entry: np.ndarray, slots: Sequence[SlotOfCaption], entries: Entries,
    power: float, max_lift: float,
) -> np.ndarray:  # fmt: skip
    """The scores of candidates by the cloze model and the lexicon: log p + power * min(log lift, max_lift).

    The lift is how much likelier the lexicon's corpus has the entry where the governor of the slot (a verb, preposition
    or noun) is than elsewhere.

    Args:
        log_p: log p(entry | rest of the caption), (slots, entries).
        slot_of: of each candidate, the position of its slot in `slots`, ascending, (candidates,).
        entry: of each candidate, the number of its entry, (candidates,).
        slots: each with the number of its caption.
        entries: of the kind of word.
        power: of the lift.
        max_lift: the highest log lift that counts, in nats.

    Returns:
        (candidates,).
    """
    # Slot by slot, as each governor has its own lifts; `slot_of` ascends, so that the parts join in its order.
    lifts = [np.zeros(0)]
    for (_, slot), rows in zip(slots, rows_of_slots(slot_of, len(slots)), strict=True):
        governor = slot.contexts[:2]  # such as "dobj:throw" and its broader context; then come the neighbours
        lifts.append(entries.lift(governor)[entry[rows]])
    log_lift = np.minimum(log(np.concatenate(lifts) + 1e-9), max_lift)  # 1e-9: so that no lift has the log -inf
    return (log_p[slot_of, entry] + power * log_lift).astype(log_p.dtype)


def propose_batch(
    replacers: Iterable[ReplacingOperator], evidence: Sequence[Evidence], lexicon: Lexicon, limits: Limits
) -> Batch:
    """Put captions and all that could replace their words into a batch, and refuse what is surely too bad.

    Args:
        replacers: the operators that replace words; several may replace the same kind.
        evidence: of each caption.
        lexicon: its entries may replace words.
        limits: of the ratings.
    """
    by_kind = {replacer.kind: replacer for replacer in replacers}  # once, if several operators replace a kind
    tables = []
    for replacer in by_kind.values():
        slots = [
            (number, slot) for number, of_caption in enumerate(evidence) for slot in replacer.slots(of_caption, lexicon)
        ]
        tables.append(replacer.propose(slots, evidence, lexicon))
    candidates = Candidates.join(tables)
    # What captions say comes before the ratings: it is cheaper to find, and a better reason to tell.
    refuse_possible(candidates, by_kind, evidence, lexicon)
    estimates = RatingEstimates(candidates, evidence, limits)
    estimates.rate_at_best()
    candidates.is_proposed = candidates.reason == FREE
    return Batch(evidence=evidence, lexicon=lexicon, limits=limits, candidates=candidates, estimates=estimates)


def refuse_possible(
    candidates: Candidates, replacers: Mapping[str, ReplacingOperator], evidence: Sequence[Evidence], lexicon: Lexicon
) -> None:
    """Refuse the candidates that are likely true of the image, or that a word of its captions may make true.

    replacers: by kind.
    """
    # A mask of entries for each slot; most slots of an image share one, which `possible_nouns` caches.
    is_possible = np.zeros(len(candidates), bool)
    slots = zip(candidates.slots, candidates.caption.tolist(), candidates.rows_of_slots, strict=True)
    for slot, number, rows in slots:
        possible = replacers[slot.kind].possible_entries(slot, evidence[number], lexicon)
        if possible is not None:
            is_possible[rows] = possible[candidates.entry[rows]]
    candidates.refuse(is_possible, LIKELY_TRUE)
