"""The entries of one kind of a lexicon, and how likely each is in a slot with given contexts.

An entry's probability in a slot is its prior there times, for every context of the slot, its lift there (a product of
experts, each discounted). For word w, contexts f, semantic class k, counts n:

    log p(w | slot) = log p(w, form) + sum over contexts f of DISCOUNT * log(p(w | f) / p(w)) + const
    p(k | f) = (n(k, f) + CLASS_SMOOTHING * p(k)) / (n(f) + CLASS_SMOOTHING)          for the classes k of nouns
    p(w | f) = (n(w, f) + SMOOTHING * p(w) * p(k(w) | f) / p(k(w))) / (n(f) + SMOOTHING)

Where a context has a broader one (negcap.augment.slots.contexts.broader), p(w | broader context) stands for p(w) in
what its own count is smoothed with and compared with.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, log1p
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from negcap.augment.cache import cached, read_only
from negcap.augment.language.semantic_classes import CLASSES, semantic_class
from negcap.augment.slots.contexts import broader

if TYPE_CHECKING:
    import pyarrow as pa

DISCOUNT = 1.0
SMOOTHING = 20.0
CLASS_SMOOTHING = 4.0
FORM = "form:"
# The share of a noun's uses that a form must have to be one that captions write it in. Headlines leave out any article
# ("dog on couch"), so that a noun is a mass noun only where it has none as a rule.
LEAST_SHARE = 0.03
LEAST_SHARE_OF_FORM = {"bare": 0.25}
CONTEXTS = 4096  # contexts whose gains are kept, of all kinds of entries
SLOTS = 64  # slots whose gains are kept, for the operators that look at the same ones


@dataclass(frozen=True, eq=False)
class Entries:
    """The entries of one kind with their probabilities by context; arrays are indexed by entry number.

    names, counts: each entry and how often the corpus has it. priors: log probability by form, "" for any. classes:
    semantic class (all 0 but for nouns). contexts: the number of each context. class_gain: log lift of every class in
    every context, shape (contexts, classes). The entries seen in context i are `at[starts[i]:starts[i + 1]]`, in order;
    beside them stand `seen`, how often; `gain`, the entry's log lift beyond its class'; `without`, what one occurrence
    less adds to that. balance: the factors of negcap.augment.lexicon.balance that the chance of each entry to enter is
    multiplied by, singular and plural, shape (2, entries).
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
        """Entry name -> entry number."""
        return {name: i for i, name in enumerate(self.names)}

    def has_form(self, entry: str, form: str) -> bool:
        """Whether the corpus writes an entry in a form ("bare", "a", …) in a fair share of its uses (LEAST_SHARE)."""
        number, prior = self.number.get(entry), self.priors.get(form)
        return number is not None and prior is not None and prior[number] > -inf

    def rebalanced(self, factors: Mapping[tuple[str, bool], float]) -> Entries:
        """The same entries with other factors in `balance`, by entry and whether plural; 1 where there is none."""
        found = [[factors.get((name, plural), 1.0) for name in self.names] for plural in (False, True)]
        return replace(self, balance=read_only(np.array(found)))

    @cached(SLOTS)
    def gains(self, contexts: tuple[str, ...], own: int | None = None) -> np.ndarray:
        """Log lift of every entry in the contexts of a slot, in nats, up to a constant; shape (entries,), read-only.

        The occurrence that stands there now, entry `own`, is not counted in its own favour.
        """
        gains, at = np.zeros(len(self.names)), self.at.data
        for context in contexts:
            if context not in self.contexts:
                continue
            dense, start, end = self._dense_gain(context)
            gains += dense
            if own is not None:
                row = bisect_left(at, own, start, end)
                if row < end and at[row] == own:
                    gains[own] += self.without[row]
        return read_only(gains)

    @cached(CONTEXTS)
    def _dense_gain(self, context: str) -> tuple[np.ndarray, int, int]:
        """The log lift of all entries in one context that was seen, and the first and last row of `at` that are its."""
        number = self.contexts[context]
        start, end = self.starts[number], self.starts[number + 1]
        gains = self.class_gain[number][self.classes]
        gains[self.at[start:end]] += self.gain[start:end]
        return read_only(gains), start, end

    @cached(CONTEXTS)
    def lift(self, contexts: tuple[str, ...]) -> np.ndarray:
        """p(entry | contexts) / p(entry) of every entry, shape (entries,), read-only."""
        ratio = np.exp(self.gains(contexts))
        return read_only(ratio / (ratio @ self._shares))

    def lift_among(self, contexts: tuple[str, ...], among: np.ndarray) -> np.ndarray:
        """`lift`, as if there were no other entries than those of a mask; shape (entries,)."""
        ratio, shares = self.lift(contexts), self._shares * among
        return ratio * (np.add.reduce(shares) / max(ratio @ shares, 1e-300))

    @cached_property
    def _shares(self) -> np.ndarray:
        shares = np.exp(self.priors[""])
        return shares / max(np.add.reduce(shares), 1e-300)

    def counts_in(self, context: str) -> np.ndarray:
        """How often the corpus has every entry in a context, shape (entries,); once only counts as never."""
        seen = np.zeros(len(self.names))
        number = self.contexts.get(context)
        if number is not None:
            start, end = self.starts[number], self.starts[number + 1]
            seen[self.at[start:end]] = self.seen[start:end]
        return seen

    def probabilities(self, contexts: tuple[str, ...], form: str = "", own: int | None = None) -> np.ndarray:
        """Probability of every entry in a slot, shape (entries,); zeros where none has the form."""
        if form not in self.priors:
            return np.zeros(len(self.names))
        logits = self.priors[form] + self.gains(contexts, own)
        peak = np.maximum.reduce(logits, initial=-inf)
        if peak == -inf:
            return np.zeros(len(logits))
        logits -= peak
        weights = np.exp(logits, out=logits)
        weights /= np.add.reduce(weights)
        return weights

    def sampling_weights(
        self, contexts: tuple[str, ...], form: str = "", own: int | None = None, floor: float = 0.0
    ) -> np.ndarray:
        """What replacements are sampled by, shape (entries,): the probabilities above `floor`, balanced."""
        probabilities = self.probabilities(contexts, form, own)
        if floor:
            probabilities[probabilities <= floor] = 0.0
        return self.balanced(probabilities, own)

    def balanced(self, probabilities: np.ndarray, own: int | None, *, plural: bool = False) -> np.ndarray:
        """Probabilities in a slot of entry `own`, corrected so that each enters as often as it leaves."""
        factors = self.balance[int(plural)]
        return probabilities * (factors if own is None else factors / factors[own])


class _Seen(NamedTuple):
    """The entries seen in contexts, a row for each pair, sorted by context and entry: their numbers, and how often.

    starts: the first row of each context, and the number of rows. broader: for each context the number of its broader
    one, or -1.
    """

    context: np.ndarray
    entry: np.ndarray
    often: np.ndarray
    starts: np.ndarray
    broader: np.ndarray


def read_entries(rows: pa.Table, *, nouns: bool) -> Entries:
    """The entries in the rows of one kind of a `lexicon` table, with factors of balance of 1.

    Nouns have the classes of negcap.augment.language.semantic_classes; the entries of other kinds are all of class 0.
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
    priors = {"": read_only(np.log(counts / total))}
    number = np.full(len(labels), -1)
    contexts: dict[str, int] = {}
    for code, name in enumerate(labels):
        if name.startswith(FORM):
            form, here = name.removeprefix(FORM), label == code
            least = LEAST_SHARE_OF_FORM.get(form, LEAST_SHARE)
            priors[form] = read_only(_prior(counts, entry[here], seen[here], least))
        else:
            number[code] = contexts.setdefault(name, len(contexts))
    standing = np.flatnonzero(number[label] >= 0)
    order = standing[np.lexsort((entry[standing], number[label[standing]]))]
    context = number[label[order]]
    found = _Seen(
        context,
        entry[order],
        seen[order],
        np.searchsorted(context, np.arange(len(contexts) + 1)),
        np.array([contexts.get(broader(name), -1) for name in contexts], int),
    )
    classes = np.array([semantic_class(name) if nouns else 0 for name in names], np.int32)
    ratio = _class_lift(found, classes, np.bincount(classes, counts, CLASSES if nouns else 1) / total)
    expected = SMOOTHING * _expected(found, counts / total, classes, ratio) * ratio[context, classes[found.entry]]
    gain = DISCOUNT * np.log1p(found.often / expected)
    without = DISCOUNT * np.array([log1p(x) for x in ((found.often - 1) / expected).tolist()]) - gain
    return Entries(
        names,
        read_only(counts),
        priors,
        read_only(classes),
        contexts,
        read_only(DISCOUNT * np.log(np.maximum(ratio, 1e-12))),
        found.starts.tolist(),
        read_only(found.entry),
        read_only(found.often),
        read_only(gain),
        read_only(without),
        read_only(np.ones((2, len(names)))),
    )


def _expected(found: _Seen, shares: np.ndarray, classes: np.ndarray, ratio: np.ndarray) -> np.ndarray:
    """For every row of `found` the share that its entry has in the broader context, or else in the whole corpus."""
    expected, above = shares[found.entry], found.broader[found.context]
    for context in np.unique(above[above >= 0]):
        rows = slice(found.starts[context], found.starts[context + 1])
        here = SMOOTHING * shares * ratio[context, classes]
        here[found.entry[rows]] += found.often[rows]
        under = above == context
        expected[under] = here[found.entry[under]] / here.sum()
    return expected


def _prior(counts: np.ndarray, entry: np.ndarray, seen: np.ndarray, least: float) -> np.ndarray:
    """Log probabilities of the entries in a form; -inf for those that have it in less than a share of their uses."""
    total = max(counts.sum(), 1.0)
    often = np.zeros(len(counts))
    often[entry] = seen
    with np.errstate(divide="ignore"):
        return np.where((often >= least * counts) & (often >= 2), np.log(often / total), -np.inf)


def _class_lift(found: _Seen, classes: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """p(k | f) / p(k) for every context f and class k, shape (contexts, classes); `shares` are p(k).

    For contexts with a broader one, p(k | broader context) stands for p(k).
    """
    size = len(found.broader), len(shares)
    cell = found.context * len(shares) + classes[found.entry]
    here = np.bincount(cell, found.often, size[0] * size[1]).reshape(size)
    usual = np.broadcast_to(shares, size)
    known = here.sum(axis=1, keepdims=True) + CLASS_SMOOTHING
    likely = (here + CLASS_SMOOTHING * usual) / known
    if (found.broader >= 0).any():
        usual = np.where(found.broader[:, None] >= 0, likely[found.broader], usual)
        likely = (here + CLASS_SMOOTHING * usual) / known
    return likely / np.maximum(usual, 1e-12)
