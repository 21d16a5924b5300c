"""What a corpus' own counts allow as replacements, and how likely each is in a given place.

Counting is a map over captions (`observe`) and a sum; `select` keeps the usable entries; `Lexicon` answers the
operators. An entry's probability in a slot is its prior there times, for every place of the slot, how much more often
than usual the corpus puts it in that place (a product of experts, each discounted):

    log p(w | slot) = log p(w, form) + sum over places f of DISCOUNT * log(p(w | f) / p(w)) + const
    p(k | f) = (n(k, f) + KIND_SMOOTHING * p(k)) / (n(f) + KIND_SMOOTHING)          for the kinds k of nouns
    p(w | f) = (n(w, f) + SMOOTHING * p(w) * p(k(w) | f) / p(k(w))) / (n(f) + SMOOTHING)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, reduce
from math import log1p
from typing import TYPE_CHECKING, Any

import numpy as np

from augment.caption import Caption
from augment.language.attributes import attribute_slots
from augment.language.clashes import Clashes, numbers
from augment.language.kinds import KINDS, kind
from augment.language.overlaps import head, is_person, overlaps
from augment.language.places import noun_slots, preposition_slots, quantity_slots
from augment.language.verbs import verb_slots

if TYPE_CHECKING:
    import pyarrow as pa

    from augment.language.concreteness import Concreteness

DISCOUNT = 1.0
SMOOTHING = 20.0
KIND_SMOOTHING = 4.0
PAPER_MIN_COUNT = 200
PAPER_CAPTIONS = 566_435  # COCO train + restval, the corpus of the paper's threshold
FLOOR = 5
RECENT = 4096


def default_min_count(captions: int) -> int:
    """Occurrences that make a head frequent: VSE-C's 200 scaled to the corpus, at least 5, at most 200."""
    return min(PAPER_MIN_COUNT, max(FLOOR, round(PAPER_MIN_COUNT * captions / PAPER_CAPTIONS)))


def observe(caption: Caption) -> Iterator[tuple[str, str, str]]:
    """What a caption adds to the counts: (kind, entry, place) triples, see schemas.lexicon."""
    for slot in noun_slots(caption):
        yield "noun", slot.entry, ""
        yield "noun", slot.entry, f"form:{slot.form}"
        for place in slot.places:
            yield "noun", slot.entry, place
        yield (
            "surface",
            slot.entry,
            ("nns:" if slot.plural else "nn:") + caption.span(slot.start, slot.end).lower(),
        )
        root = caption.tokens[slot.root]
        if slot.end - slot.start > 1:
            yield "surface", root.lemma, ("nns:" if slot.plural else "nn:") + root.lower
        if slot.form == "a":
            yield "surface", root.lemma, "counted"
    for preposition in preposition_slots(caption):
        yield "preposition", preposition.entry, ""
        for place in preposition.places:
            yield "preposition", preposition.entry, place
    for quantity in quantity_slots(caption):
        yield "numeral", quantity.entry, ""
        for place in quantity.places:
            yield "numeral", quantity.entry, place
    for attribute in attribute_slots(caption):
        yield "attribute", attribute.entry, ""
        yield "attribute", attribute.entry, f"form:{attribute.form}"
        for place in attribute.places:
            yield "attribute", attribute.entry, place
    for verb in verb_slots(caption):
        yield "verb", verb.entry, ""
        yield "verb", verb.entry, f"form:{verb.pattern}"
        for place in verb.places:
            yield "verb", verb.entry, place
        yield "surface", verb.entry, f"{verb.tag.lower()}:{caption.lowered[verb.index]}"


def count(captions: Iterable[Caption]) -> pa.Table:
    """The counts of some captions as a `lexicon` table, sorted."""
    import pyarrow as pa

    from schemas.lexicon import LEXICON

    counter: Counter[tuple[str, str, str]] = Counter()
    for caption in captions:
        counter.update(observe(caption))
    rows = sorted(counter.items())
    kinds, entries, places = zip(*(key for key, _ in rows), strict=True) if rows else ((), (), ())
    return pa.Table.from_arrays(
        [
            pa.array(kinds, pa.string()),
            pa.array(entries, pa.string()),
            pa.array(places, pa.string()),
            pa.array([n for _, n in rows], pa.int64()),
        ],
        schema=LEXICON,
    )


def select(
    counts: pa.Table,
    min_count: int,
    concreteness: Concreteness,
    theta: float,
    attributes: frozenset[str] | None = None,
) -> pa.Table:
    """The counts of the entries that may replace one another.

    Nouns: at least `min_count` times the head of a noun phrase, concreteness of at least `theta`, not vague. Persons
    count as concrete: one sees them, whatever a list says of the word.
    Attributes and verbs: at least `min_count` times; `attributes` names the attributes instead, if given. Prepositions
    and numerals: at least 3 times. Places seen once say nothing and are dropped.
    Raises ValueError when min_count is below 1.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if min_count < 1:
        raise ValueError(f"min_count must be >= 1, was: {min_count}")
    plain = counts.filter(pc.equal(counts["place"], ""))
    vague = overlaps().vague
    kept: dict[str, list[str]] = {"noun": [], "preposition": [], "numeral": [], "attribute": [], "verb": []}
    for sort, entry, n in zip(*(plain[c].to_pylist() for c in ("kind", "entry", "count")), strict=True):
        if sort == "noun":
            if n >= min_count and entry not in vague and head(entry) not in vague:
                score = theta if is_person(entry) else concreteness.score(entry)
                if score is not None and score >= theta:
                    kept[sort].append(entry)
        elif sort == "attribute" and attributes is not None:
            if entry in attributes:
                kept[sort].append(entry)
        elif n >= (min_count if sort in ("attribute", "verb") else 3) and sort in kept:
            kept[sort].append(entry)
    masks = [
        pc.and_(
            pc.equal(counts["kind"], kind),
            pc.is_in(counts["entry"], value_set=pa.array(entries, pa.string())),
        )
        for kind, entries in kept.items()
    ]
    surfaces = pc.equal(counts["kind"], "surface")
    known = reduce(pc.or_, masks, surfaces)
    telling = pc.or_(pc.greater(counts["count"], 1), pc.equal(counts["kind"], "surface"))
    return counts.filter(pc.and_(known, telling)).combine_chunks()


@dataclass(frozen=True)
class Entries:
    """The entries of one kind with their probabilities by place; arrays are indexed by entry number."""

    names: tuple[str, ...]
    counts: np.ndarray
    priors: Mapping[str, np.ndarray]
    places: Mapping[str, tuple[int, int]]
    at: np.ndarray
    seen: np.ndarray
    usual: np.ndarray
    gain: np.ndarray
    kinds: np.ndarray
    kind_gain: Mapping[str, np.ndarray]
    balance: np.ndarray
    recent: dict[str, np.ndarray] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def number(self) -> dict[str, int]:
        """Entry name -> entry number."""
        return {name: i for i, name in enumerate(self.names)}

    def gains(self, places: Iterable[str], own: int | None = None) -> np.ndarray:
        """How much the places of a slot favour every entry, in nats, up to a constant; shape (entries,).

        The occurrence that stands there now, entry `own`, is not counted in its own favour.
        """
        gains = np.zeros(len(self.names))
        for place in places:
            span = self.places.get(place)
            if span is None:
                continue
            gains += self._dense(place, *span)
            if own is not None:
                row = span[0] + int(self.at[span[0] : span[1]].searchsorted(own))
                if row < span[1] and self.at[row] == own:
                    gains[own] += DISCOUNT * log1p((self.seen[row] - 1) / self.usual[row]) - self.gain[row]
        return gains

    def _dense(self, place: str, start: int, end: int) -> np.ndarray:
        """The gains of one place for all entries; the places met last are kept."""
        gains = self.recent.get(place)
        if gains is None:
            if len(self.recent) >= RECENT:
                self.recent.clear()
            gains = self.kind_gain[place][self.kinds]
            gains[self.at[start:end]] += self.gain[start:end]
            self.recent[place] = gains
        return gains

    def probabilities(self, places: Iterable[str], prior: str = "", own: int | None = None) -> np.ndarray:
        """Probability of every entry in a slot, shape (entries,); zeros where none fits."""
        if prior not in self.priors:
            return np.zeros(len(self.names))
        logits = self.priors[prior] + self.gains(places, own)
        peak = logits.max(initial=-np.inf)
        if peak == -np.inf:
            return np.zeros(len(logits))
        weights = np.exp(logits - peak)
        return weights / weights.sum()

    def masses(self, places: Iterable[str], prior: str = "", own: int | None = None, floor: float = 0.0) -> np.ndarray:
        """What a draw goes by, shape (entries,): the probabilities above `floor`, balanced."""
        probabilities = self.probabilities(places, prior, own)
        return self.balanced(np.where(probabilities > floor, probabilities, 0.0), own)

    def balanced(self, probabilities: np.ndarray, own: int | None) -> np.ndarray:
        """Probabilities in a slot of entry `own`, corrected: each enters as often as it leaves (augment.balance)."""
        return probabilities * (self.balance if own is None else self.balance / self.balance[own])


@dataclass(frozen=True)
class Lexicon:
    """Replacement entries of a corpus: frequent concrete nouns, prepositions, numerals, attributes, verbs; their forms.

    `inflected` holds, by Penn tag in lower case, the commonest written form of every verb.
    """

    nouns: Entries
    prepositions: Entries
    numerals: Entries
    attributes: Entries
    verbs: Entries
    singular: Mapping[str, str]
    plural: Mapping[str, str]
    inflected: Mapping[str, Mapping[str, str]]
    countable: frozenset[str]

    @cached_property
    def clashes(self) -> Clashes:
        """Which of the nouns may be true where another is said."""
        return Clashes(self.nouns.names)

    def same_things(self, noun: str) -> np.ndarray:
        """The numbers of the nouns that may name what `noun` names: no other thing, so not proposed for it."""
        found = self._same.get(noun)
        if found is None:
            found = self._same[noun] = numbers(self.clashes.with_noun(noun).all)
        return found

    @cached_property
    def _same(self) -> dict[str, np.ndarray]:
        return {}

    def entries(self, kind: str) -> Entries:
        """The entries of one kind: noun, preposition, numeral, attribute, verb."""
        return {
            "noun": self.nouns,
            "preposition": self.prepositions,
            "numeral": self.numerals,
            "attribute": self.attributes,
            "verb": self.verbs,
        }[kind]

    @classmethod
    def from_table(cls, table: pa.Table, balance: pa.Table | None = None) -> Lexicon:
        """Read a `lexicon` table (see schemas.lexicon) and the `balance` table fitted to it (see schemas.balance)."""
        columns = {name: np.asarray(table[name].to_pylist()) for name in ("kind", "entry", "place")}
        n = table["count"].to_numpy()
        forms, countable = _surfaces(columns, n)
        weights: dict[str, dict[str, float]] = {}
        for row in balance.to_pylist() if balance is not None else ():
            weights.setdefault(row["kind"], {})[row["entry"]] = row["weight"]
        nouns, prepositions, numerals, attributes, verbs = (
            _entries(columns["entry"][m], columns["place"][m], n[m], weights.get(name, {}), nouns=name == "noun")
            for name in ("noun", "preposition", "numeral", "attribute", "verb")
            for m in [columns["kind"] == name]
        )
        singular, plural = forms.pop("nn"), forms.pop("nns")
        return cls(nouns, prepositions, numerals, attributes, verbs, singular, plural, forms, countable)


def _surfaces(columns: dict[str, Any], n: np.ndarray) -> tuple[dict[str, dict[str, str]], frozenset[str]]:
    """The commonest written form of every noun and verb by Penn tag in lower case, and the nouns that are counted."""
    forms: dict[str, dict[str, str]] = {"nn": {}, "nns": {}}
    countable = set()
    rows = np.flatnonzero(columns["kind"] == "surface")
    for i in rows[np.argsort(-n[rows], kind="stable")]:
        entry, place = str(columns["entry"][i]), str(columns["place"][i])
        if place == "counted":
            countable.add(entry)
        else:
            tag, _, surface = place.partition(":")
            forms.setdefault(tag, {}).setdefault(entry, surface)
    forms["nn"]["people"] = "person"
    forms["nns"]["person"] = "people"
    return forms, frozenset(countable | set(forms["nns"]))


def _entries(
    entry: np.ndarray, place: np.ndarray, n: np.ndarray, weights: Mapping[str, float], *, nouns: bool
) -> Entries:
    plain = place == ""
    order = np.argsort(entry[plain], kind="stable")
    names, counts = entry[plain][order], n[plain][order].astype(float)
    total = max(counts.sum(), 1.0)
    number = np.searchsorted(names, entry) if len(names) else np.zeros(len(entry), int)
    priors = {"": np.log(counts / total)}
    for form in np.unique(place[np.char.startswith(place.astype(str), "form:")]):
        seen = np.zeros(len(names))
        rows = place == form
        seen[number[rows]] = n[rows]
        with np.errstate(divide="ignore"):
            priors[str(form).removeprefix("form:")] = np.where(
                (seen >= 0.03 * counts) & (seen >= 2), np.log(seen / total), -np.inf
            )
    rows = np.flatnonzero(~plain & ~np.char.startswith(place.astype(str), "form:"))
    rows = rows[np.lexsort((number[rows], place[rows]))]
    at = number[rows].astype(np.int32)
    labels, starts = np.unique(place[rows], return_index=True)
    ends = np.append(starts[1:], len(rows))
    kinds = np.array([kind(str(name)) if nouns else 0 for name in names], np.int32)
    share = np.bincount(kinds, counts, KINDS) / total
    safe = np.maximum(share, 1e-12)
    seen = n[rows].astype(float)
    usual = np.zeros(len(rows))
    places, kind_gain = {}, {}
    for label, a, b in zip(labels, starts, ends, strict=True):
        here = np.bincount(kinds[at[a:b]], n[rows[a:b]], KINDS)
        ratio = (here + KIND_SMOOTHING * share) / (here.sum() + KIND_SMOOTHING) / safe
        places[str(label)] = (int(a), int(b))
        kind_gain[str(label)] = DISCOUNT * np.log(np.maximum(ratio, 1e-12))
        usual[a:b] = SMOOTHING * counts[at[a:b]] / total * ratio[kinds[at[a:b]]]
    gain = DISCOUNT * np.log1p(seen / usual)
    balance = np.array([weights.get(str(name), 1.0) for name in names])
    return Entries(tuple(map(str, names)), counts, priors, places, at, seen, usual, gain, kinds, kind_gain, balance)
