"""The entries of one kind of a lexicon, and how likely each is in a given place.

An entry's probability in a slot is its prior there times, for every place of the slot, how much more often than usual
the corpus puts it in that place (a product of experts, each discounted):

    log p(w | slot) = log p(w, form) + sum over places f of DISCOUNT * log(p(w | f) / p(w)) + const
    p(k | f) = (n(k, f) + KIND_SMOOTHING * p(k)) / (n(f) + KIND_SMOOTHING)          for the kinds k of nouns
    p(w | f) = (n(w, f) + SMOOTHING * p(w) * p(k(w) | f) / p(k(w))) / (n(f) + SMOOTHING)

Where a place has a broader one (augment.slots.nouns.broader) that is a place of the slot too, p(w | broader place)
takes the place of p(w) in what its own count is added to and compared with.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf, log1p
from typing import TYPE_CHECKING

import numpy as np

from negcap.augment.language.kinds import KINDS, kind
from negcap.augment.slots.nouns import broader

if TYPE_CHECKING:
    import pyarrow as pa

DISCOUNT = 1.0
SMOOTHING = 20.0
KIND_SMOOTHING = 4.0
FORM = "form:"
# The share of a noun's uses that a form must have to be one that captions write it in. Headlines leave out any article
# ("dog on couch"), so that a noun is a mass only where it has none as a rule.
USUAL = 0.03
LEAST = {"bare": 0.25}
RECENT = 2048  # places whose gains are kept
LATEST = 64  # slots whose gains are kept, for the operators that look at the same ones


@dataclass(frozen=True)
class Entries:
    """The entries of one kind with their probabilities by place; arrays are indexed by entry number.

    priors: log probability by form, "" for any. places: the number of each place; kind_gain: how much a place favours
    a kind of entry, shape (places, kinds). The entries seen in place i are `at[starts[i]:starts[i + 1]]`, in order;
    beside them stand `seen`, how often, `gain`, how much the place favours the entry within its kind, and `without`,
    the difference that one occurrence less makes. balance: what a draw multiplies the chance of each entry by, its
    plural apart, shape (2, entries), see negcap.augment.lexicon.balance.
    """

    names: tuple[str, ...]
    counts: np.ndarray
    priors: Mapping[str, np.ndarray]
    kinds: np.ndarray
    places: Mapping[str, int]
    kind_gain: np.ndarray
    starts: Sequence[int]
    at: np.ndarray
    seen: np.ndarray
    gain: np.ndarray
    without: np.ndarray
    balance: np.ndarray
    recent: dict[str, tuple[np.ndarray, int, int]] = field(default_factory=dict, compare=False, repr=False)
    ratios: dict[tuple[str, ...], np.ndarray] = field(default_factory=dict, compare=False, repr=False)
    latest: dict[tuple[tuple[str, ...], int | None], np.ndarray] = field(
        default_factory=dict, compare=False, repr=False
    )

    @cached_property
    def number(self) -> dict[str, int]:
        """Entry name -> entry number."""
        return {name: i for i, name in enumerate(self.names)}

    def has_form(self, entry: str, form: str) -> bool:
        """Whether the corpus has an entry in a form as a rule, not by the way."""
        number, prior = self.number.get(entry), self.priors.get(form)
        return number is not None and prior is not None and prior[number] > -inf

    def weighing(self, weights: Mapping[tuple[str, bool], float]) -> Entries:
        """The same entries with other weights in `balance`, by entry and whether plural; 1 where there is none."""
        found = [[weights.get((name, plural), 1.0) for name in self.names] for plural in (False, True)]
        return replace(self, balance=np.array(found))

    def gains(self, places: tuple[str, ...], own: int | None = None) -> np.ndarray:
        """How much the places of a slot favour every entry, in nats, up to a constant; shape (entries,), to be read.

        The occurrence that stands there now, entry `own`, is not counted in its own favour.
        """
        found = self.latest.get((places, own))
        if found is None:
            if len(self.latest) >= LATEST:
                self.latest.clear()
            found = self.latest[places, own] = self._gains(places, own)
        return found

    def _gains(self, places: tuple[str, ...], own: int | None) -> np.ndarray:
        gains, at = np.zeros(len(self.names)), self._at
        for place in places:
            known = self.recent.get(place) or self._known(place)
            if known is None:
                continue
            dense, start, end = known
            gains += dense
            if own is not None:
                row = bisect_left(at, own, start, end)
                if row < end and at[row] == own:
                    gains[own] += self.without[row]
        return gains

    @cached_property
    def _at(self) -> memoryview:
        return self.at.data

    def _known(self, place: str) -> tuple[np.ndarray, int, int] | None:
        """The gains of one place for all entries and where it starts and ends; the places met last are kept."""
        number = self.places.get(place)
        if number is None:
            return None
        if len(self.recent) >= RECENT:
            self.recent.clear()
        start, end = self.starts[number], self.starts[number + 1]
        gains = self.kind_gain[number][self.kinds]
        gains[self.at[start:end]] += self.gain[start:end]
        self.recent[place] = gains, start, end
        return self.recent[place]

    def favoured(self, places: tuple[str, ...], among: np.ndarray | None = None) -> np.ndarray:
        """How many times as often as usual places have every entry, shape (entries,), to be read.

        `among`, a mask, tells as if there were no other entries than these.
        """
        ratio = self.ratios.get(places)
        if ratio is None:
            if len(self.ratios) >= RECENT:
                self.ratios.clear()
            ratio = np.exp(self._gains(places, None))
            ratio = self.ratios[places] = ratio / (ratio @ self._usual)
        if among is None:
            return ratio
        usual = self._usual * among
        return ratio * (np.add.reduce(usual) / max(ratio @ usual, 1e-300))

    @cached_property
    def _usual(self) -> np.ndarray:
        usual = np.exp(self.priors[""])
        return usual / max(np.add.reduce(usual), 1e-300)

    def observed(self, place: str) -> np.ndarray:
        """How often the corpus has every entry in a place, shape (entries,); what it has once only counts as never."""
        seen = np.zeros(len(self.names))
        number = self.places.get(place)
        if number is not None:
            start, end = self.starts[number], self.starts[number + 1]
            seen[self.at[start:end]] = self.seen[start:end]
        return seen

    def probabilities(self, places: tuple[str, ...], prior: str = "", own: int | None = None) -> np.ndarray:
        """Probability of every entry in a slot, shape (entries,); zeros where none fits."""
        if prior not in self.priors:
            return np.zeros(len(self.names))
        logits = self.priors[prior] + self.gains(places, own)
        peak = np.maximum.reduce(logits, initial=-inf)
        if peak == -inf:
            return np.zeros(len(logits))
        logits -= peak
        weights = np.exp(logits, out=logits)
        weights /= np.add.reduce(weights)
        return weights

    def masses(
        self, places: tuple[str, ...], prior: str = "", own: int | None = None, floor: float = 0.0
    ) -> np.ndarray:
        """What a draw goes by, shape (entries,): the probabilities above `floor`, balanced."""
        probabilities = self.probabilities(places, prior, own)
        if floor:
            probabilities[probabilities <= floor] = 0.0
        return self.balanced(probabilities, own)

    def balanced(self, probabilities: np.ndarray, own: int | None, *, plural: bool = False) -> np.ndarray:
        """Probabilities in a slot of entry `own`, corrected so that each enters as often as it leaves."""
        weights = self.balance[int(plural)]
        return probabilities * (weights if own is None else weights / weights[own])


def read_entries(rows: pa.Table, *, nouns: bool) -> Entries:
    """The entries in the rows of one kind of a `lexicon` table; all weigh the same.

    Nouns have the kinds of negcap.augment.language.kinds; the entries of other tables are all of one.
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
    labels, place = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
    priors = {"": np.log(counts / total)}
    number = np.full(len(labels), -1)
    places: dict[str, int] = {}
    for code, label in enumerate(labels):
        if label.startswith(FORM):
            form = label.removeprefix(FORM)
            priors[form] = _prior(counts, entry[place == code], seen[place == code], LEAST.get(form, USUAL))
        else:
            number[code] = places.setdefault(label, len(places))
    standing = np.flatnonzero(number[place] >= 0)
    order = standing[np.lexsort((entry[standing], number[place[standing]]))]
    number, at, seen = number[place[order]], entry[order], seen[order]
    kinds = np.array([kind(name) if nouns else 0 for name in names], np.int32)
    wide = np.array([places.get(broader(place), -1) for place in places], int)
    share = np.bincount(kinds, counts, KINDS if nouns else 1) / total
    ratio = _kind_ratios(number, kinds[at], seen, wide, share)
    usual = SMOOTHING * _expected(counts, kinds, ratio, wide, number, at, seen) * ratio[number, kinds[at]]
    gain = DISCOUNT * np.log1p(seen / usual)
    without = DISCOUNT * np.array([log1p(x) for x in ((seen - 1) / usual).tolist()]) - gain
    return Entries(
        names,
        counts,
        priors,
        kinds,
        places,
        DISCOUNT * np.log(np.maximum(ratio, 1e-12)),
        np.searchsorted(number, np.arange(len(places) + 1)).tolist(),
        at,
        seen,
        gain,
        without,
        np.ones((2, len(names))),
    )


def _expected(
    counts: np.ndarray,
    kinds: np.ndarray,
    ratio: np.ndarray,
    wide: np.ndarray,
    number: np.ndarray,
    at: np.ndarray,
    seen: np.ndarray,
) -> np.ndarray:
    """The share that each entry has where the places that it was seen in are: in the broader ones, else in all."""
    usual = counts / max(counts.sum(), 1.0)
    expected, above = usual[at], wide[number]
    starts = np.searchsorted(number, np.arange(len(wide) + 1))
    for place in np.unique(above[above >= 0]):
        rows = slice(starts[place], starts[place + 1])
        here = SMOOTHING * usual * ratio[place, kinds]
        here[at[rows]] += seen[rows]
        under = above == place
        expected[under] = here[at[under]] / here.sum()
    return expected


def _prior(counts: np.ndarray, entry: np.ndarray, seen: np.ndarray, least: float) -> np.ndarray:
    """Log probabilities of the entries in a form; -inf for those that have it in less than a share of their uses."""
    total = max(counts.sum(), 1.0)
    often = np.zeros(len(counts))
    often[entry] = seen
    with np.errstate(divide="ignore"):
        return np.where((often >= least * counts) & (often >= 2), np.log(often / total), -np.inf)


def _kind_ratios(
    place: np.ndarray, kind: np.ndarray, seen: np.ndarray, wide: np.ndarray, share: np.ndarray
) -> np.ndarray:
    """p(k | f) / p(k) for every place and kind, from how often each kind was seen where; shape (places, kinds).

    For places with a broader one, `wide`, what p(k | f) is in that takes the place of p(k).
    """
    size = len(wide), len(share)
    here = np.bincount(place * len(share) + kind, seen, size[0] * size[1]).reshape(size)
    usual = np.broadcast_to(share, size)
    known = here.sum(axis=1, keepdims=True) + KIND_SMOOTHING
    found = (here + KIND_SMOOTHING * usual) / known
    if (wide >= 0).any():
        usual = np.where(wide[:, None] >= 0, found[wide], usual)
        found = (here + KIND_SMOOTHING * usual) / known
    return found / np.maximum(usual, 1e-12)
