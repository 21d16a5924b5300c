"""The entries of one kind of a lexicon, and their probabilities in a slot with given contexts.

A slot is a position in a caption whose word may be replaced; its contexts are syntactic features such as its governor.
The probability of an entry in a slot is its prior times its lift in each context of the slot (a product of experts,
each discounted). For word w, context f, semantic class k and counts n:

    log p(w | slot) = log p(w, form) + sum over contexts f of DISCOUNT * log(p(w | f) / p(w)) + const
    p(k | f) = (n(k, f) + CLASS_SMOOTHING * p(k)) / (n(f) + CLASS_SMOOTHING)          for the classes k of nouns
    p(w | f) = (n(w, f) + SMOOTHING * p(w) * p(k(w) | f) / p(k(w))) / (n(f) + SMOOTHING)

If a context has a broader one (negcap.augment.slots.nouns.broader_context), p(w | broader context) takes the place of
p(w), both in the smoothing and in the ratio.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import groupby, pairwise
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...schemas.fields import table_of
from ..caption import cached, read_only
from ..kinds import KINDS
from ..language.semantic_classes import CLASSES, semantic_class
from ..reproducible import exp, log
from ..slots.nouns import broader_context

if TYPE_CHECKING:
    import pyarrow as pa


DISCOUNT = 1.0  # the power of each context's lift; one below 1 would let contexts count less
# Counts in a context are mixed with this many imagined ones, of entries and of classes, see the equations above.
SMOOTHING = 20.0
CLASS_SMOOTHING = 4.0
FORM = "form:"  # begins the `place` of a row that counts a form of an entry ("form:plural"), not one of its contexts
# The minimum share of an entry's uses for a form to count as usual. It is higher for the bare form: headlines omit
# articles ("dog on couch"), so only a noun that is often bare is a mass noun.
MIN_SHARE = 0.03
MIN_SHARE_OF_FORM = {"bare": 0.25}
CONTEXTS = 4096  # number of contexts whose gains are cached, over all kinds of entries
SLOTS = 64  # number of slots whose gains are cached, for operators that use the same slots
# The reference weighs as much as this number of captions, however many it was counted on. tests/benchmarks/lexicon.py
# measures it: of 1,000, 5,000, 20,000 and 138,670, held-out captions of COCO and Flickr8k are about likeliest with it.
REFERENCE_CAPTIONS = 5_000
# How often a corpus far from the reference must have a word that the reference has, too, to take it from there. Words
# that only the corpus has need more (negcap.augment.lexicon.lexicon.FLOOR): among these are misspelled ones.
LEAST_OF_FAR = 2
# Nouns, attributes and verbs: of these each corpus has its own, where prepositions and numerals are the same in all.
TOPICAL_KINDS = tuple(name for name, kind in KINDS.items() if kind.least_count is None)
# A word that a context never has, where by chance it would have it at least so often, does not go with it. Readers call
# 84 % of 31 nouns odd behind such an attribute ("brick" before "girl"), and 48 % of 21 where it were 2 to 4 times.
EXPECTED_BY_CHANCE = 4.0
TINY = 1e-300  # avoids a division by 0
ENTRY = ["kind", "entry"]
KEY = ["kind", "entry", "place"]


@dataclass(frozen=True, eq=False)
class Layout:
    """Which rows of a `lexicon` table belong to which entry and context of one kind; it does not depend on the counts.

    Rows are numbers of rows of the table; contexts and entries have numbers from 0.

    names: the entries, sorted, which number them.
    plain: the row of each entry's count, (entries,).
    forms: for each written form, the rows that count it, and the entry of each.
    contexts: the number of each context.
    seen_entries: the entries seen in each context, one context after the other: those of context i are
        `seen_entries[starts[i]:starts[i + 1]]`, ascending.
    starts: see `seen_entries`, (contexts + 1,).
    rows: the rows of their counts, parallel to `seen_entries`.
    above: the number of each context's broader one, or -1, (contexts,).
    classes: the semantic class of each entry (0 for all kinds except nouns), (entries,).
    class_count: the number of classes.
    """

    names: tuple[str, ...]
    plain: np.ndarray
    forms: Mapping[str, tuple[np.ndarray, np.ndarray]]
    contexts: Mapping[str, int]
    starts: Sequence[int]
    seen_entries: np.ndarray
    rows: np.ndarray
    above: np.ndarray
    classes: np.ndarray
    class_count: int

    @cached_property
    def number(self) -> dict[str, int]:
        """The number of each entry, from 0, by name."""
        return {name: i for i, name in enumerate(self.names)}


class ContextGains(NamedTuple):
    """How a context changes the log probability of entries.

    of_class: log lift of each class, (classes,).
    gain: for each entry seen in the context, its log lift beyond that of its class.
    correction: for each of these, what is added to its gain if one occurrence of it is not counted.
    """

    of_class: np.ndarray
    gain: np.ndarray
    correction: np.ndarray


@dataclass(frozen=True, eq=False)
class Entries:
    """The words or phrases of one kind that may replace one another, with their probability in each context.

    A context is what governs a word, such as its verb or preposition. Arrays are indexed by entry number.

    counts: the frequency of each entry in the corpus.
    priors: by form ("" for any form), the log probability of each entry in it; -inf where it has the form too rarely.
    seen: how often each entry was seen in each context, parallel to `layout.seen_entries`.
    balance: the factors of negcap.augment.balance, row 0 for singular, row 1 for plural, shape (2, entries).

    What a context changes is computed when the context is first asked for: a few captions have few of the tens of
    thousands of contexts.
    """

    layout: Layout
    counts: np.ndarray
    priors: Mapping[str, np.ndarray]
    seen: np.ndarray
    balance: np.ndarray

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each entry, sorted."""
        return self.layout.names

    @property
    def number(self) -> dict[str, int]:
        """The number of each entry, from 0, by name."""
        return self.layout.number

    def has_form(self, entry: str, form: str) -> bool:
        """Whether an entry has a form ("bare", "a", …) in at least a share MIN_SHARE of its uses in the corpus."""
        number = self.number.get(entry)
        prior = self.priors.get(form)
        return number is not None and prior is not None and prior[number] > -inf  # -inf: too rare, see `priors`

    def avoids(self, entry: str, contexts: Sequence[str]) -> np.ndarray:
        """In which contexts the corpus never has an entry, although both are frequent: (contexts,), bool.

        "leather" is never before "floor", where by chance it would be EXPECTED_BY_CHANCE times. For where the entries
        of a context stand in `seen`, see `Layout`.
        """
        avoided = np.zeros(len(contexts), bool)
        number = self.number.get(entry)
        known = [i for i, context in enumerate(contexts) if context in self.layout.contexts]
        if number is None or not known:
            return avoided
        starts = np.asarray(self.layout.starts)
        # The contexts that have the entry, by where it stands among those seen in them.
        has_entry = np.zeros(len(self._uses_of_contexts), bool)
        has_entry[np.searchsorted(starts, np.flatnonzero(self.layout.seen_entries == number), side="right") - 1] = True
        of_known = np.array([self.layout.contexts[contexts[i]] for i in known])
        expected = self.counts[number] * self._uses_of_contexts[of_known] / self._words_counted
        avoided[known] = (expected >= EXPECTED_BY_CHANCE) & ~has_entry[of_known]
        return avoided

    @cached(SLOTS)
    def without_form(self, form: str) -> np.ndarray:
        """The numbers of the entries that lack a form, such as "bare", or have it too rarely: see `has_form`."""
        return np.flatnonzero(self.priors[form] == -inf)

    def rebalanced(self, factors: Mapping[tuple[str, bool], float]) -> Entries:
        """A copy with other balance factors, by entry and whether plural: {("dog", True): 1.2}; 1 where missing."""
        balance = [[factors.get((name, plural), 1.0) for name in self.names] for plural in (False, True)]
        return replace(self, balance=read_only(np.array(balance)))

    @cached(SLOTS)
    def gains(self, contexts: tuple[str, ...], old: int | None = None) -> np.ndarray:
        """Log lift of each entry in the contexts of a slot, in nats, up to a constant: shape (entries,), read-only.

        Args:
            contexts: of the slot, such as ("dobj:throw", "left:a").
            old: the number of the entry that is in the slot now, whose occurrence there is not counted; None: none is.
        """
        # A product of experts: the log lifts of the contexts add up.
        gains = np.zeros(len(self.names))
        # The entries seen in each context, ascending, one context after the other (see Layout). As a memoryview, in
        # which `bisect_left` finds a number without making arrays of one.
        seen_entries = self.layout.seen_entries.data
        for context in contexts:
            if context not in self.layout.contexts:
                continue
            number = self.layout.contexts[context]
            gains += self._dense_gain(number)
            if old is not None:
                start = self.layout.starts[number]
                end = self.layout.starts[number + 1]
                position = bisect_left(seen_entries, old, start, end)
                if position < end and seen_entries[position] == old:  # the context has counts of it
                    gains[old] += self._gains_in_context(number).correction[position - start]
        return read_only(gains)

    @cached(CONTEXTS)
    def _dense_gain(self, number: int) -> np.ndarray:
        """The log lift of all entries in context `number`: (entries,), read-only.

        An entry that the context was not seen with has the lift of its semantic class: "puppy" that of animals.
        """
        of_context = self._gains_in_context(number)
        gains = of_context.of_class[self.layout.classes]
        gains[self.layout.seen_entries[self._rows(number)]] += of_context.gain
        return read_only(gains)

    def _rows(self, number: int) -> slice:
        """Where the entries seen in context `number` are in `layout.seen_entries` and `seen`."""
        return slice(self.layout.starts[number], self.layout.starts[number + 1])

    @cached(CONTEXTS)
    def _gains_in_context(self, number: int) -> ContextGains:
        """How context `number` changes the log probability of entries, by the equations at the top of the module."""
        rows = self._rows(number)
        classes = self.layout.classes
        above = int(self.layout.above[number])  # the broader context
        # The entries that were seen in the context, and how often each: (seen entries,).
        entry = self.layout.seen_entries[rows]
        seen = self.seen[rows]
        lift = self._class_lift(number)
        # Up to a constant, p(w | f) / p(w) is the lift of w's class times 1 + n(w, f) / expected: a word that was not
        # seen in the context has the lift of its class.
        usual = self._usual_probabilities(above)[entry]
        expected = SMOOTHING * usual * lift[classes[entry]]
        beyond_class = 1 + seen / expected
        # As if one occurrence were not counted: the caption's own must not speak for its word.
        without_one = 1 + np.maximum(seen - 1, 0) / expected
        # One call of `log` for all three: a call takes longer than so few numbers.
        logs = DISCOUNT * log(np.concatenate([beyond_class, without_one, np.maximum(lift, 1e-12)]))
        gain, gain_without, of_class = np.split(logs, [len(seen), 2 * len(seen)])
        correction = read_only(gain_without - gain)
        return ContextGains(of_class=read_only(of_class), gain=read_only(gain), correction=correction)

    @cached(CONTEXTS)
    def _usual_probabilities(self, above: int) -> np.ndarray:
        """p(entry) in the broader context `above`, or, if there is none (-1), in the whole corpus: (entries,)."""
        shares = self.counts / self._words_counted  # p(w)
        if above < 0:
            return shares
        rows = self._rows(above)
        # n(w, f) + SMOOTHING * p'(w | f), where p' = p(w) times the lift of the word's class in the context.
        likely = SMOOTHING * shares * self._class_lift(above)[self.layout.classes]
        likely[self.layout.seen_entries[rows]] += self.seen[rows]
        return likely / likely.sum()

    @cached_property
    def _uses_of_contexts(self) -> np.ndarray:
        """How often any entry was seen in each context: (contexts,)."""
        starts = np.asarray(self.layout.starts)
        seen_up_to = np.concatenate([[0.0], np.cumsum(self.seen)])
        return seen_up_to[starts[1:]] - seen_up_to[starts[:-1]]

    @cached_property
    def _words_counted(self) -> float:
        """The number of words that were counted, at least 1."""
        return max(self.counts.sum(), 1.0)

    @cached_property
    def _class_shares(self) -> np.ndarray:
        """p(k) of each class k: (classes,)."""
        return np.bincount(self.layout.classes, self.counts, self.layout.class_count) / self._words_counted

    def _smoothed_classes(self, number: int, usual: np.ndarray) -> np.ndarray:
        """p(k | f) of each class k in context f, smoothed with `usual`: (classes,)."""
        rows = self._rows(number)
        classes = self.layout.classes[self.layout.seen_entries[rows]]
        counts = np.bincount(classes, self.seen[rows], self.layout.class_count)
        return (counts + CLASS_SMOOTHING * usual) / (counts.sum() + CLASS_SMOOTHING)

    @cached(CONTEXTS)
    def _class_lift(self, number: int) -> np.ndarray:
        """p(k | f) / p(k): how much likelier each class k of words is in context f than anywhere, (classes,).

        If the context has a broader one (`above`), the ratio is to p(k | broader context).
        """
        usual = self._class_shares
        above = int(self.layout.above[number])
        if above >= 0:
            usual = self._smoothed_classes(above, usual)
        return self._smoothed_classes(number, usual) / np.maximum(usual, 1e-12)

    @cached(CONTEXTS)
    def lift(self, contexts: tuple[str, ...]) -> np.ndarray:
        """p(entry | contexts) / p(entry) of each entry: shape (entries,), read-only."""
        ratio = exp(self.gains(contexts))
        return read_only(ratio / np.add.reduce(ratio * self._shares))

    @cached_property
    def _shares(self) -> np.ndarray:
        """p(entry): (entries,), sum 1, unless nothing was counted."""
        shares = exp(self.priors[""])
        return shares / max(np.add.reduce(shares), TINY)

    def probabilities(
        self, slots: Sequence[tuple[str, ...]], form: str = "", olds: Sequence[int | None] | None = None
    ) -> np.ndarray:
        """Probability of each entry in slots with these contexts: (slots, entries); all zeros if no entry has the form.

        olds: the numbers of the entries that are in the slots now, whose occurrences there are not counted.
        """
        if form not in self.priors or not len(slots):
            return np.zeros((len(slots), len(self.names)))
        old_of_slot: Sequence[int | None] = olds or [None] * len(slots)
        gains = [self.gains(contexts, old) for contexts, old in zip(slots, old_of_slot, strict=True)]
        logits = self.priors[form] + np.stack(gains)
        # The softmax of each row; one in which no entry has the form is all -inf, and becomes zeros.
        peak = np.maximum.reduce(logits, axis=1, initial=-inf, keepdims=True)
        logits -= np.where(peak == -inf, 0.0, peak)
        weights = exp(logits)
        weights /= np.maximum(np.add.reduce(weights, axis=1, keepdims=True), TINY)
        return weights

    def factors(self, names: Sequence[str], *, plural: bool = False) -> np.ndarray:
        """The balance factors of named entries: (names,); 1 for a name that the lexicon lacks. They multiply weights of
        replacements, so that each word is inserted as often as it is removed (negcap.augment.balance).
        """
        factors = self.balance[int(plural)]  # row 0 is of singulars, row 1 of plurals
        number = self.number
        return np.array([factors[number[name]] if name in number else 1.0 for name in names])


class Keys:
    """The key columns of a `lexicon` table (KEY), as a key of caches: equal to those of a table with the same rows."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table.select(KEY)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Keys) and self.table.equals(other.table)

    def __hash__(self) -> int:
        # Cheap, and enough: only a few tables are cached, and `__eq__` compares them whole.
        return self.table.num_rows


@lru_cache(maxsize=2 * len(KINDS))  # the layouts of all kinds, for two lexicons
def layout_of(keys: Keys, kind: str) -> Layout:
    """Find which rows of a `lexicon` table are of which entry and context of one kind of word.

    A row counts an entry in a place: in any ("", its row in `plain`), in a written form, or in a context.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    are_nouns = kind == "noun"
    of_kind = np.flatnonzero(pc.equal(keys.table["kind"], kind).to_numpy())
    rows = keys.table.take(pa.array(of_kind)).append_column("row", pa.array(of_kind)).combine_chunks()
    # Each entry has one row without a place, by which it is named and numbered; all others are of a form or a context.
    plain = rows.filter(pc.equal(rows["place"], "")).sort_by("entry")
    names = tuple(plain["entry"].to_pylist())
    rows = rows.filter(pc.not_equal(rows["place"], "")).combine_chunks()
    # The arrays from here on have one number for each row: first that of its entry.
    entry = pc.index_in(rows["entry"], pa.array(names, pa.string())).to_numpy().astype(np.int32)
    table_row = rows["row"].to_numpy()  # its number in the whole table
    encoded = rows["place"].combine_chunks().dictionary_encode()
    places = encoded.dictionary.to_pylist()  # distinct
    place = encoded.indices.to_numpy()  # the number in `places`
    context_of_place = np.full(len(places), -1)  # the number of its context; -1 for a form
    contexts: dict[str, int] = {}
    forms = {}
    # A place is a written form ("form:plural"), or else a context.
    for number, name in enumerate(places):
        if name.startswith(FORM):
            is_of_form = place == number
            forms[name.removeprefix(FORM)] = table_row[is_of_form], entry[is_of_form]
        else:
            contexts[name] = context_of_place[number] = len(contexts)
    # The rows of contexts, sorted by context, then by entry.
    context = context_of_place[place]
    rows_in_contexts = np.flatnonzero(context >= 0)
    order = rows_in_contexts[np.lexsort((entry[rows_in_contexts], context[rows_in_contexts]))]
    return Layout(
        names=names,
        plain=plain["row"].to_numpy(),
        forms=forms,
        contexts=contexts,
        # The first of the sorted rows of each context, and at the end their number.
        starts=np.searchsorted(context[order], np.arange(len(contexts) + 1)).tolist(),
        seen_entries=read_only(entry[order]),
        rows=table_row[order],
        above=np.array([contexts.get(broader_context(name), -1) for name in contexts], int),
        classes=read_only(np.array([semantic_class(name) if are_nouns else 0 for name in names], np.int32)),
        class_count=CLASSES if are_nouns else 1,
    )


def read_entries(layout: Layout, count_of_row: np.ndarray) -> Entries:
    """The entries of one kind, with all balance factors 1. count_of_row: of all rows of the `lexicon` table."""
    counts = count_of_row[layout.plain].astype(float)  # of each entry
    priors = {"": read_only(log(counts / max(counts.sum(), 1.0)))}
    for form, (rows, entry) in layout.forms.items():
        in_form = np.zeros(len(counts))  # how often each entry has the form, (entries,)
        in_form[entry] = count_of_row[rows]
        is_usual = in_form >= MIN_SHARE_OF_FORM.get(form, MIN_SHARE) * counts
        priors[form] = read_only(np.where(is_usual, log(in_form / max(counts.sum(), 1.0)), -np.inf))
    seen = count_of_row[layout.rows].astype(float)
    balance = np.ones((2, len(counts)))
    return Entries(
        layout=layout, counts=read_only(counts), priors=priors, seen=read_only(seen), balance=read_only(balance)
    )


@lru_cache(maxsize=1)
def rows_of_entries(keys: Keys) -> dict[tuple[str, str], tuple[int, int]]:
    """Where each entry stands in a sorted `lexicon` table: {("noun", "dog"): (first row, the one behind its last)}."""
    pairs = list(zip(*(keys.table[name].to_pylist() for name in ENTRY), strict=True))
    # The table is sorted, so that the rows of an entry are neighbours.
    first_rows = [row for row in range(len(pairs)) if not row or pairs[row] != pairs[row - 1]]
    return {pairs[start]: (start, end) for start, end in pairwise([*first_rows, len(pairs)])}


def blend_counts(
    counts: pa.Table, usable: pa.Table, reference: pa.Table, weight: float, *, is_far: bool = False
) -> pa.Table:
    """The weighted sum of the counts of a corpus and of a reference, as a sorted `lexicon` table.

        n(w, c) = n_own(w, c) + weight * n_reference(w, c)

    for each entry w (a noun, a verb ...) in each context c (such as the verb that governs it), and likewise for its
    count in all contexts and those of its written forms. A corpus of a few captions then has about the probabilities of
    the reference, and a large corpus its own.

    The result has the entries of `usable` and `reference` with all their counts; a count of 1 in a context is dropped
    as noise unless the reference has it, too.

    Args:
        counts: a `lexicon` table of all counts of the corpus.
        usable: those of them that `negcap.augment.lexicon.lexicon.select_entries` keeps.
        reference: a `lexicon` table, sorted.
        weight: REFERENCE_CAPTIONS over the number of captions of the reference, times
            `negcap.augment.lexicon.nearness.reference_weight`.
        is_far: whether the corpus is unlike the reference (`reference_weight` below 1). Then the reference's nouns,
            attributes and verbs are left out that the corpus has less than LEAST_OF_FAR times: its captions are about
            other things.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if is_far:
        reference = _rows_of_common_words(reference, counts)
    rows_of_reference = rows_of_entries(Keys(reference))
    entries = rows_of_reference.keys() | set(zip(*(usable[name].to_pylist() for name in ENTRY), strict=True))
    # Rows of the corpus, (kind, entry, place, count), of which the first two name the entry.
    own = [row for row in zip(*counts.to_pydict().values(), strict=True) if row[:2] in entries]
    places = reference["place"].combine_chunks()
    blended = reference["count"].to_numpy() * weight
    added = []  # the rows that the reference lacks
    for entry, rows in groupby(sorted(own), key=lambda row: row[:2]):
        start, end = rows_of_reference.get(entry, (0, 0))  # no rows, if the reference lacks the entry
        rows_of_entry = list(rows)
        places_of_entry = pa.array([place for _, _, place, _ in rows_of_entry], pa.string())
        # Which row of the entry in the reference, from 0, has the same place; None if none has it.
        rows_in_reference = pc.index_in(places_of_entry, places[start:end]).to_pylist()
        for row, row_in_reference in zip(rows_of_entry, rows_in_reference, strict=True):
            kind, _, _, count = row
            if row_in_reference is not None:
                blended[start + row_in_reference] += count
            elif count > 1 or kind == "surface":  # a single count is noise in a context, but not of a written form
                added.append(row)
    position = reference.schema.get_field_index("count")
    table = reference.set_column(position, reference.schema.field("count"), pa.array(blended))
    if added:  # else the key columns are those of the reference, and so is the layout that is cached for them
        table = pa.concat_tables([table, table_of(added, counts.schema)])
        table = table.sort_by([(name, "ascending") for name in KEY])
    return table.cast(counts.schema).combine_chunks()


def _rows_of_common_words(reference: pa.Table, counts: pa.Table) -> pa.Table:
    """The rows of a reference whose word a corpus with these counts has at least LEAST_OF_FAR times; they stay sorted.

    Prepositions and numerals are the same in every corpus, and written forms bring no word in: all of them are kept.
    """
    import pyarrow.compute as pc

    often = counts.filter((pc.field("place") == "") & (pc.field("count") >= LEAST_OF_FAR))
    attested = set(zip(*(often[name].to_pylist() for name in ENTRY), strict=True))
    kept: list[int] = []
    for entry, (start, end) in rows_of_entries(Keys(reference)).items():
        kind, _ = entry
        if entry in attested or kind not in TOPICAL_KINDS:
            kept += range(start, end)
    return reference.take(kept)
