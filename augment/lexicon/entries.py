"""The entries of one kind of a lexicon, and their probabilities in a slot with given contexts.

A slot is a position in a caption whose word may be replaced; its contexts are syntactic features such as its governor.
The probability of an entry in a slot is its prior times its lift in each context of the slot (a product of experts,
each discounted). For word w, context f, semantic class k and counts n:

    log p(w | slot) = log p(w, form) + sum over contexts f of DISCOUNT * log(p(w | f) / p(w)) + const
    p(k | f) = (n(k, f) + CLASS_SMOOTHING * p(k)) / (n(f) + CLASS_SMOOTHING)          for the classes k of nouns
    p(w | f) = (n(w, f) + SMOOTHING * p(w) * p(k(w) | f) / p(k(w))) / (n(f) + SMOOTHING)

If a context has a broader one (negcap.augment.slots.nouns.broader), p(w | broader context) takes the place of p(w),
both in the smoothing and in the ratio.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from ..caption import cached, read_only
from ..language.semantic_classes import CLASSES, semantic_class
from ..reproducible import exp, log
from ..slots.nouns import broader

if TYPE_CHECKING:
    import pyarrow as pa


DISCOUNT = 1.0
SMOOTHING = 20.0
CLASS_SMOOTHING = 4.0
FORM = "form:"
# The minimum share of an entry's uses for a form to count as usual. It is higher for the bare form: headlines omit
# articles ("dog on couch"), so only a noun that is often bare is a mass noun.
MIN_SHARE = 0.03
MIN_SHARE_OF_FORM = {"bare": 0.25}
CONTEXTS = 4096  # number of contexts whose gains are cached, over all kinds of entries
SLOTS = 64  # number of slots whose gains are cached, for operators that use the same slots
# The reference weighs as much as this number of captions, however many it was counted on. tests/benchmarks/lexicon.py
# measures it: of 1,000, 5,000, 20,000 and 138,670, held-out captions of COCO and Flickr8k are about likeliest with it.
REFERENCE_CAPTIONS = 5_000
TINY = 1e-300
ENTRY, KEY = ["kind", "entry"], ["kind", "entry", "place"]


@dataclass(frozen=True, eq=False)
class Entries:
    """The words or phrases of one kind that may replace one another, with their probability in each context.

    A context is what governs a word, such as its verb or preposition. Arrays are indexed by entry number. names,
    counts: each entry and its frequency in the corpus. priors: log probability by form ("" for any form). classes:
    semantic class (0 for all kinds except nouns). contexts: the number of each context. class_gain: log lift of each
    class in each context, shape (contexts, classes). The entries seen in context i are `at[starts[i]:starts[i + 1]]`,
    ascending; parallel to `at` are `seen`, the counts; `gain`, the entry's log lift beyond that of its class; and
    `without`, the change of that gain if one occurrence is not counted. balance: the factors of negcap.augment.balance,
    row 0 for singular, row 1 for plural, shape (2, entries).
    """

    names: tuple[str, ...]
    counts: np.ndarray
    priors: Mapping[str, np.ndarray]
    classes: np.ndarray
    contexts: Mapping[str, int]
    class_gain: np.ndarray
    starts: Sequence[int]
    at: np.ndarray
    seen: np.ndarray
    gain: np.ndarray
    without: np.ndarray
    balance: np.ndarray

    @cached_property
    def number(self) -> dict[str, int]:
        """The number of each entry, from 0, by name."""
        return {name: i for i, name in enumerate(self.names)}

    def has_form(self, entry: str, form: str) -> bool:
        """Whether an entry has a form ("bare", "a", …) in at least a share MIN_SHARE of its uses in the corpus."""
        number, prior = self.number.get(entry), self.priors.get(form)
        return number is not None and prior is not None and prior[number] > -inf

    @cached(SLOTS)
    def without_form(self, form: str) -> np.ndarray:
        """The numbers of the entries that do not have a form that some have: see `has_form`."""
        return np.flatnonzero(self.priors[form] == -inf)

    def rebalanced(self, factors: Mapping[tuple[str, bool], float]) -> Entries:
        """A copy with `balance` set to `factors`, keyed by (entry, is plural); missing keys get 1."""
        balance = [[factors.get((name, plural), 1.0) for name in self.names] for plural in (False, True)]
        return replace(self, balance=read_only(np.array(balance)))

    @cached(SLOTS)
    def gains(self, contexts: tuple[str, ...], old: int | None = None) -> np.ndarray:
        """Log lift of each entry in the contexts of a slot, in nats, up to a constant: shape (entries,), read-only.

        old: the number of the entry that is in the slot now, whose occurrence there is not counted; None: none is.
        """
        gains, at = np.zeros(len(self.names)), self.at.data
        for context in contexts:
            if context not in self.contexts:
                continue
            dense, start, end = self._dense_gain(context)
            gains += dense
            if old is not None:
                row = bisect_left(at, old, start, end)
                if row < end and at[row] == old:
                    gains[old] += self.without[row]
        return read_only(gains)

    @cached(CONTEXTS)
    def _dense_gain(self, context: str) -> tuple[np.ndarray, int, int]:
        """The log lift of all entries in one known context, and the start and end (exclusive) of its rows in `at`."""
        number = self.contexts[context]
        start, end = self.starts[number], self.starts[number + 1]
        gains = self.class_gain[number][self.classes]
        gains[self.at[start:end]] += self.gain[start:end]
        return read_only(gains), start, end

    @cached(CONTEXTS)
    def lift(self, contexts: tuple[str, ...]) -> np.ndarray:
        """p(entry | contexts) / p(entry) of each entry: shape (entries,), read-only."""
        ratio = exp(self.gains(contexts))
        return read_only(ratio / np.add.reduce(ratio * self._shares))

    @cached_property
    def _shares(self) -> np.ndarray:
        shares = exp(self.priors[""])
        return shares / max(np.add.reduce(shares), TINY)

    def probabilities(
        self, slots: Sequence[tuple[str, ...]], form: str = "", olds: Sequence[int | None] | None = None
    ) -> np.ndarray:
        """Probability of each entry in slots with these contexts: (slots, entries); all zeros if no entry has the form.

        olds: the numbers of the entries that are in the slots now, as in `gains`.
        """
        if form not in self.priors or not len(slots):
            return np.zeros((len(slots), len(self.names)))
        known: Sequence[int | None] = olds or [None] * len(slots)
        gains = [self.gains(contexts, old) for contexts, old in zip(slots, known, strict=True)]
        logits = self.priors[form] + np.stack(gains)
        peak = np.maximum.reduce(logits, axis=1, initial=-inf, keepdims=True)
        logits -= np.where(peak == -inf, 0.0, peak)
        weights = exp(logits)
        weights /= np.maximum(np.add.reduce(weights, axis=1, keepdims=True), TINY)
        return weights

    def factors(self, names: Sequence[str], *, plural: bool = False) -> np.ndarray:
        """The balance factors of entries, by name: (names,); 1 for one that is not in the lexicon."""
        factors, number = self.balance[int(plural)], self.number
        return np.array([factors[number[name]] if name in number else 1.0 for name in names])


def read_entries(rows: pa.Table, *, nouns: bool) -> Entries:
    """The entries in the rows of one kind of a `lexicon` table, with all balance factors 1; nouns: whether the kind is
    nouns, the only one with classes (negcap.augment.language.semantic_classes).
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    plain = rows.filter(pc.equal(rows["place"], "")).sort_by("entry")
    names, counts = tuple(plain["entry"].to_pylist()), plain["count"].to_numpy().astype(float)
    total = max(counts.sum(), 1.0)
    rows = rows.filter(pc.not_equal(rows["place"], "")).combine_chunks()
    entry = pc.index_in(rows["entry"], pa.array(names, pa.string())).to_numpy().astype(np.int32)
    seen = rows["count"].to_numpy().astype(float)
    encoded = rows["place"].combine_chunks().dictionary_encode()
    labels, label = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
    priors = {"": read_only(log(counts / total))}
    number = np.full(len(labels), -1)
    contexts: dict[str, int] = {}
    for code, name in enumerate(labels):
        if name.startswith(FORM):
            form, here = name.removeprefix(FORM), label == code
            often = np.zeros(len(counts))
            often[entry[here]] = seen[here]
            usual = often >= MIN_SHARE_OF_FORM.get(form, MIN_SHARE) * counts
            priors[form] = read_only(np.where(usual, log(often / total), -np.inf))
        else:
            number[code] = contexts.setdefault(name, len(contexts))
    # One row per pair of a context and an entry seen in it, sorted; `starts` has the first row of each context.
    standing = np.flatnonzero(number[label] >= 0)
    order = standing[np.lexsort((entry[standing], number[label[standing]]))]
    context, entry, seen = number[label[order]], entry[order], seen[order]
    starts = np.searchsorted(context, np.arange(len(contexts) + 1))
    above = np.array([contexts.get(broader(name), -1) for name in contexts], int)  # -1: no broader context
    classes = np.array([semantic_class(name) if nouns else 0 for name in names], np.int32)
    shares, of_class = counts / total, np.bincount(classes, counts, CLASSES if nouns else 1) / total
    size = len(contexts), len(of_class)
    here = np.bincount(context * size[1] + classes[entry], seen, size[0] * size[1]).reshape(size)
    lift = _class_lift(here, of_class, above)
    expected = shares[entry]  # p(entry) in the broader context, or, if there is none, in the corpus
    for one in np.unique(above[above >= 0]):
        inside, under = slice(starts[one], starts[one + 1]), above[context] == one
        likely = SMOOTHING * shares * lift[one, classes]
        likely[entry[inside]] += seen[inside]
        expected[under] = likely[entry[under]] / likely.sum()
    expected = SMOOTHING * expected * lift[context, classes[entry]]
    gain = DISCOUNT * log(1 + seen / expected)
    without = DISCOUNT * log(1 + np.maximum(seen - 1, 0) / expected) - gain
    return Entries(
        names,
        read_only(counts),
        priors,
        read_only(classes),
        contexts,
        read_only(DISCOUNT * log(np.maximum(lift, 1e-12))),
        starts.tolist(),
        *map(read_only, (entry, seen, gain, without, np.ones((2, len(names))))),
    )


def _class_lift(counts: np.ndarray, shares: np.ndarray, above: np.ndarray) -> np.ndarray:
    """p(k | f) / p(k) for each context f and class k: shape (contexts, classes).

    counts: of each class in each context. shares: p(k). above: of each context, the number of the broader one, or -1;
    p(k | broader context) takes the place of p(k).
    """
    usual = np.broadcast_to(shares, counts.shape)
    known = counts.sum(axis=1, keepdims=True) + CLASS_SMOOTHING
    likely = (counts + CLASS_SMOOTHING * usual) / known
    if (above >= 0).any():
        usual = np.where(above[:, None] >= 0, likely[above], usual)
        likely = (counts + CLASS_SMOOTHING * usual) / known
    return likely / np.maximum(usual, 1e-12)


def blend(counts: pa.Table, usable: pa.Table, reference: pa.Table, weight: float) -> pa.Table:
    """The weighted sum of the counts of a corpus and of a reference, as a sorted `lexicon` table.

        n(w, c) = n_own(w, c) + weight * n_reference(w, c)

    for each entry w (a noun, a verb ...) in each context c (such as the verb that governs it), and likewise for its
    count in all contexts and those of its written forms. A corpus of a few captions then has about the probabilities of
    the reference, and a large corpus its own.

    counts, usable, reference: `lexicon` tables: all counts of the corpus; those that `select` keeps; and the reference.
    The result has the entries of the last two with all their counts; a count of 1 in a context is dropped as noise
    unless the reference has it, too. weight: REFERENCE_CAPTIONS over the number of captions of the reference.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    entries = pa.concat_tables([usable.select(ENTRY), reference.select(ENTRY)]).group_by(ENTRY).aggregate([])
    of_corpus = counts.join(entries, ENTRY, join_type="left semi").cast(counts.schema)
    known = pc.or_(pc.greater(of_corpus["count"], 1), pc.equal(of_corpus["kind"], "surface"))
    scaled = reference.set_column(3, reference.schema.field("count"), pc.multiply(reference["count"], weight))
    of_reference = scaled.append_column("known", pa.repeat(True, len(scaled)))
    rows = pa.concat_tables([of_corpus.append_column("known", known), of_reference])
    added = rows.group_by(KEY, use_threads=False).aggregate([("count", "sum"), ("known", "any")])
    added = added.filter(added["known_any"]).rename_columns({"count_sum": "count"}).select([*KEY, "count"])
    return added.sort_by([(name, "ascending") for name in KEY]).cast(counts.schema).combine_chunks()
