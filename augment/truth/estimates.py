"""Estimates: the probability that one more caption of the image would make a candidate true.

Associations say how much a word in one caption raises the probability that another caption entails an entry:

    lift(x, y) = p(y | x) / p(y)

where p(y | x) is estimated over ordered pairs of captions of one image: of those whose first caption mentions word x,
the share whose second caption entails entry y. It is smoothed with p', in which x has the same lift for all entries of
y's semantic class k(y); p(k(y) | x) is in turn smoothed with its value given the class of x:

    p(y | x) = (n(x, y) + SMOOTHING * p'(y | x)) / (n(x) + SMOOTHING),   p'(y | x) = p(y) * p(k(y) | x) / p(k(y))

Transitions say how often one caption says "two" of a thing of which another of the image says "three". An assertion is
a value that a caption gives to a thing: a number or an attribute. Prepositions have no estimate: what
another caption says stands on the table is mostly another thing. Let n be counts of ordered pairs of
captions of one image, the first of which asserts `old` of a thing and the second `new`:

    p(new | old, thing) = (n(old, thing, new) + SMOOTHING * p(new | old, class)) / (n(old, thing) + SMOOTHING)

and likewise, backing off to the thing's semantic class, to any thing, and to p(new) for any `old`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import exp, log, log1p
from typing import TYPE_CHECKING

import numpy as np

from .. import reproducible
from ..caption import Caption, cached, read_only
from ..kinds import KINDS
from ..language.coreference import may_corefer
from ..language.semantic_classes import CLASSES, PERSON, semantic_class
from ..lexicon.lexicon import Lexicon
from ..mentions import chunk_heads, mentioned_nouns
from ..rows import Row
from ..slots.nouns import numeral_value

if TYPE_CHECKING:
    import pyarrow as pa

SMOOTHING = 20.0
MAX_P_TRUE = 0.025
# Prior means of the calibration's coefficients. Features for words: 1, log odds of the entry, evidence of the captions
# (Associations.score), whether it is a person, log of the number of captions. Features for assertions: 1, log odds of
# the transition, log(1 + number of captions that assert the old value), log of the number of captions. A priori, the
# log odds need no correction, and the more captions there are, the less remains unmentioned.
EXPECTED_OF_ESTIMATE = {"association": (0.0, 1.0, 1.0, 0.0, -0.5), "transition": (0.0, 1.0, 0.0, -0.5)}
EXPECTED: dict[str, tuple[float, ...]] = {
    name: EXPECTED_OF_ESTIMATE[kind.estimate] for name, kind in KINDS.items() if kind.estimate is not None
}
DIGITS = 4
TRANSITIONS = 1 << 16  # number of transitions whose probabilities are cached
THINGS = 1 << 10  # number of things in captions for which it is cached whether they are mentioned once
IMAGES = 64  # number of images whose results are cached
Assertion = tuple[str, str]  # thing and value
Transition = tuple[str, str, str]  # old value, thing and new value; "" for any


def is_transition(kind: str) -> bool:
    """Whether candidates that replace words of a kind are estimated by transitions, see the module."""
    return kind in KINDS and KINDS[kind].estimate == "transition"


def assertions(kind: str, caption: Caption) -> set[Assertion]:
    """The assertions of a caption by words of a kind: numbers of things ("0" for a bare plural), or attributes."""
    return {(thing, str(value)) for thing, value in KINDS[kind].mentions(caption) if thing}


@lru_cache(maxsize=1 << 12)
def value(kind: str, entry: str) -> str:
    """An entry as the value of an assertion: numerals become digits ("a" -> "1", "three" -> "3"), others stay.

    "One" is not the 1 of "a": of two dogs, a caption in twelve says "a dog" all the same, but none "one dog".
    """
    return str(numeral_value(entry)) if kind == "numeral" and entry not in ("one", "1") else entry


@lru_cache(maxsize=1 << 16)
def is_same_thing(thing: str, other: str) -> bool:
    """Whether assertions about these two nouns count as assertions about one thing."""
    return thing == other or may_corefer(thing, other)


def values_of(thing: str, asserted: Iterable[Assertion]) -> set[str]:
    """The values that a caption's assertions give to a thing, such as the numbers that it gives to dogs.

    thing: the lemma of a noun. asserted: (thing, value) pairs.
    """
    return {value for other, value in asserted if is_same_thing(thing, other)}


@cached(THINGS)
def is_mentioned_once(kind: str, thing: str, caption: Caption) -> bool:
    """Whether a caption mentions a thing in one place, so that its number there is its number in the image.

    "A black dog and a brown dog" mentions dogs twice: "two black dogs and a brown dog" is not true of two dogs. Always
    true for kinds other than "numeral".
    """
    return kind != "numeral" or sum([is_same_thing(thing, head.lemma) for head in chunk_heads(caption)]) <= 1


class Associations:
    """The lifts of words and entries, from a matrix of counts of pairs of captions, see `fit.count_pairs`.

    log_odds: of p(y), shape (entries,). is_person: 1 for words for persons, else 0, shape (entries,). The lifts of a
    word are computed when first needed, since a few captions mention few of thousands of words.
    """

    def __init__(self, pairs: np.ndarray, words: Sequence[str], entries: Sequence[str]) -> None:
        """`words` and `entries` name the rows and columns of `pairs` behind the first."""
        self.words = {word: row for row, word in enumerate(words)}
        self.entries = {entry: column for column, entry in enumerate(entries)}
        self._mentioned = pairs[1:, 0].copy()
        together = pairs[1:, 1:]  # a view would keep the whole matrix
        row, column = np.nonzero(together)
        self._column = column.astype(np.int32)
        self._count = together[row, column]
        self._starts = np.searchsorted(row, np.arange(len(words) + 1)).tolist()
        self._usual = (pairs[0, 1:] + 0.5) / (pairs[0, 0] + 1.0)
        self.log_odds = reproducible.log(self._usual / (1 - self._usual))
        self._class_of_word, self._class_of_entry = (
            np.array([semantic_class(word) for word in names], int) for names in (words, entries)
        )
        self.is_person = (self._class_of_entry == PERSON).astype(float)
        mentioned = np.bincount(self._class_of_word, self._mentioned, CLASSES)[:, None]  # of the words of each class
        of_class = np.bincount(self._class_of_word[row] * len(entries) + column, self._count, CLASSES * len(entries))
        self._by_class = (of_class.reshape(CLASSES, -1) + SMOOTHING * self._usual) / (mentioned + SMOOTHING)
        self._lifts = np.zeros(together.shape, np.float32)
        self._known = np.zeros(len(words), bool)

    def score(self, mentioned: Iterable[str]) -> np.ndarray:
        """The evidence of mentioned words for each entry, in nats: shape (entries,). Unknown words are ignored.

        It is the log of the mean of p(y | x) / p(y) over the words x, so that one word that names the same thing, such
        as "couch" for "sofa", is not outvoted by the others.
        """
        rows = sorted(self.words[word] for word in mentioned if word in self.words)
        if not rows:
            return np.zeros(len(self.log_odds))
        for row in rows:
            if not self._known[row]:
                self._lifts[row] = self._lift(row)
                self._known[row] = True
        return reproducible.log(self._lifts[rows].sum(axis=0, dtype=np.float64) / len(rows))

    def strongest(self, mentioned: Iterable[str], entry: str) -> str | None:
        """The mentioned word with the highest lift for an entry, after they have been scored; None: none is known."""
        words = sorted(word for word in mentioned if word in self.words)
        column = self.entries[entry]
        return max(words, key=lambda word: self._lifts[self.words[word], column], default=None)

    def _lift(self, row: int) -> np.ndarray:
        """p(y | x) / p(y) of a word x and each entry y, smoothed by their semantic classes: shape (entries,)."""
        part = slice(self._starts[row], self._starts[row + 1])
        together = np.zeros(len(self._usual))
        together[self._column[part]] = self._count[part]
        given = self._mentioned[row] + SMOOTHING
        share = self._by_class[self._class_of_word[row]]
        seen, likely, usual = (
            np.bincount(self._class_of_entry, values, CLASSES) for values in (together, share, self._usual)
        )
        of_class = (seen + SMOOTHING * likely) / given / np.maximum(usual, 1e-12)
        expected = of_class[self._class_of_entry] * self._usual
        return (together + SMOOTHING * expected) / given / self._usual


class Transitions:
    """P(new value | old value, thing), estimated from transition counts."""

    def __init__(self, counts: Mapping[Transition, int]) -> None:
        """`counts`: (old, thing, new) -> pairs; summed when a probability is first needed."""
        self._unsummed = counts

    @cached_property
    def _counts(self) -> Counter[tuple[str, str | int, str]]:
        """The counts, with their sums over the things of a class, over all things, and over all old values."""
        summed: Counter[tuple[str, str | int, str]] = Counter(self._unsummed)
        for (old, thing, new), number in self._unsummed.items():
            for general in ((old, semantic_class(thing), new), (old, "", new), ("", "", new)):
                summed[general] += number
        return summed

    def probability(self, old: str, thing: str, new: str) -> float:
        """p(new | old, thing): how probable it is that another caption gives the value `new` to a thing that one gives
        the value `old`.

        Backs off from the thing to its class to any thing; always above 0.
        """
        counts = self._counts
        likely = (counts["", "", new] + 0.5) / (counts["", "", ""] + 1.0)
        for given in ((old, ""), (old, semantic_class(thing)), (old, thing)):
            likely = (counts[*given, new] + SMOOTHING * likely) / (counts[*given, ""] + SMOOTHING)
        return likely


@dataclass(frozen=True, eq=False)
class Truth:
    """A corpus' estimates: associations by kind of word, transitions by kind of assertion, and their calibration.

    calibration: coefficients by kind (see EXPECTED); kinds that are missing have no estimate. max_p_true: candidates
    with a higher probability of being true are rejected.
    """

    associations: Mapping[str, Associations]
    transitions: Mapping[str, Transitions]
    calibration: Mapping[str, np.ndarray]
    max_p_true: float = MAX_P_TRUE

    def of_image(self, captions: Sequence[Caption]) -> ImageTruth:
        """The estimates for candidates of one image, given all its captions."""
        return ImageTruth(self, tuple(captions))

    @cached(TRANSITIONS)
    def p_transition(self, kind: str, change: tuple[str, str, str], agreeing: int, captions: int) -> float:
        """The calibrated probability that a change (old value, thing, new value) is true of an image.

        agreeing: the number of captions of the image that assert the old value. captions: the number of its captions.
        """
        bias, odds, others, number = self.calibration[kind]
        logit = bias + odds * self.log_odds(kind, change) + others * log1p(agreeing) + number * log(captions)
        return round(1 / (1 + exp(-logit)), DIGITS)

    def log_odds(self, kind: str, change: tuple[str, str, str]) -> float:
        """The log odds of a change (old value, thing, new value), before calibration."""
        chance = self.transitions[kind].probability(*change)
        return log(chance / (1 - chance))

    @classmethod
    def from_table(cls, table: pa.Table, lexicon: Lexicon, max_p_true: float = MAX_P_TRUE) -> Truth:
        """Build estimates from a `truth` table (see negcap.schemas.captions), its texts dictionary-encoded or not, and
        the lexicon that it was made with.
        """
        import pyarrow.compute as pc

        associations = {}
        transitions = {}
        calibration = {}
        is_count = pc.is_null(table["coefficients"]).to_numpy()
        fitted = table.filter(~is_count)
        (kinds, kind_of), *keys = (_numbered(table[name]) for name in ("kind", "said", "of", "entry"))
        for kind, coefficients in zip(fitted["kind"].to_pylist(), fitted["coefficients"].to_pylist(), strict=True):
            calibration[kind] = read_only(np.array(coefficients))
            rows = np.flatnonzero((kind_of == kinds.index(kind)) & is_count)
            counts = table["count"].to_numpy()[rows]
            said, of, entry = ((words, numbers[rows]) for words, numbers in keys)
            if is_transition(kind):
                texts = ([words[number] for number in numbers.tolist()] for words, numbers in (said, of, entry))
                transitions[kind] = Transitions(dict(zip(zip(*texts, strict=True), counts.tolist(), strict=True)))
            else:
                associations[kind] = _associations(said, entry, counts, lexicon.entries(kind).names)
        return cls(associations, transitions, calibration, max_p_true)


Numbered = tuple[list[str], np.ndarray]  # the words of a column, and the number of each row's


def _numbered(column: pa.ChunkedArray) -> Numbered:
    encoded = column.combine_chunks().dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy()


def _associations(said: Numbered, entry: Numbered, counts: np.ndarray, entries: Sequence[str]) -> Associations:
    """The associations of one kind of word, from its counts; those of words that are not in `entries` are left out."""
    column_of = {name: column for column, name in enumerate(["", *entries])}
    column = np.array([column_of.get(name, -1) for name in entry[0]], int)[entry[1]]
    known = column >= 0
    number = said[1][known]
    words = sorted({said[0][one] for one in np.unique(number).tolist()} - {""})
    row_of = {word: row for row, word in enumerate(["", *words])}
    row = np.array([row_of.get(word, -1) for word in said[0]], int)[number]
    pairs = np.zeros((len(words) + 1, len(entries) + 1), np.int32)  # half the memory of floats: there are millions
    pairs[row, column[known]] = counts[known]
    return Associations(pairs, words, entries)


@dataclass(frozen=True, eq=False)
class ImageTruth:
    """The estimates for candidates of one image, computed when first needed."""

    truth: Truth
    captions: tuple[Caption, ...]

    def p_true(self, row: Row, caption: Caption) -> float | None:
        """Probability that one more caption of the image would make `row` true; None if not estimated.

        caption: the caption of the image that the candidate was proposed for. Of a negation: that what it takes to be
        absent is present.
        """
        if row.change in ("negated_noun", "negated_verb"):
            return None if row.assertion is None else self.p_true(row.assertion, caption)
        kind = row.change
        if kind not in self.truth.calibration:
            return None
        if not is_transition(kind):
            entry = self.truth.associations[kind].entries.get(row.replacement)
            return None if entry is None else float(self._p_words(kind)[entry])
        change = _change(kind, row, caption)
        if change is None:
            return None
        return self.truth.p_transition(kind, change, self._agreeing(kind, change), len(self.captions))

    @cached_property
    def likely_nouns(self) -> np.ndarray:
        """Boolean mask of the lexicon's nouns that are true of the image with a probability above `Truth.max_p_true`:
        (nouns,), or (1,) if none is estimated.
        """
        if "noun" not in self.truth.calibration:
            return np.zeros(1, bool)
        return self._p_words("noun") > self.truth.max_p_true

    def expected_nouns(self, caption: Caption) -> np.ndarray | None:
        """The log-odds that another caption mentions each noun of the lexicon, given this caption alone: (entries,).

        Not calibrated. None if there is no estimate for nouns.
        """
        known = self.truth.associations.get("noun")
        return None if known is None else known.log_odds + known.score(mentioned_nouns(caption))

    @cached(IMAGES)
    def _p_words(self, kind: str) -> np.ndarray:
        """The calibrated probability of each entry of a kind of word: (entries,), read-only."""
        known = self.truth.associations[kind]
        (bias, odds, score, person, number) = self.truth.calibration[kind]
        logits = odds * known.log_odds + score * self._score(kind) + person * known.is_person
        return read_only(reproducible.sigmoid(logits + (bias + number * log(len(self.captions)))).round(DIGITS))

    def features(self, row: Row, caption: Caption) -> list[float] | None:
        """The features of the calibration for a candidate (see EXPECTED); None if there is no estimate."""
        kind = row.change
        if is_transition(kind):
            change = _change(kind, row, caption)
            if change is None:
                return None
            agreeing = log1p(self._agreeing(kind, change))
            return [1.0, self.truth.log_odds(kind, change), agreeing, log(len(self.captions))]
        known = self.truth.associations[kind]
        entry = known.entries[row.replacement]
        return [1.0, known.log_odds[entry], self._score(kind)[entry], known.is_person[entry], log(len(self.captions))]

    @cached(IMAGES)
    def _score(self, kind: str) -> np.ndarray:
        mentioned = frozenset[str]().union(*map(mentioned_nouns, self.captions))
        return read_only(self.truth.associations[kind].score(mentioned))

    def _agreeing(self, kind: str, change: tuple[str, str, str]) -> int:
        """The number of captions that assert the old value of a thing, including the one to be changed."""
        old, thing, _ = change
        return self._assertions(kind)[thing, old]

    @cached(IMAGES)
    def _assertions(self, kind: str) -> Counter[Assertion]:
        return Counter(assertion for one in self.captions for assertion in assertions(kind, one))


def _change(kind: str, row: Row, caption: Caption) -> tuple[str, str, str] | None:
    """Old value, thing and new value of a candidate; None if it adds a value or the thing is mentioned twice."""
    thing = caption.tokens[row.tokens[-1]].lemma
    if not row.replaced or not is_mentioned_once(kind, thing, caption):
        return None
    return value(kind, row.replaced), thing, value(kind, row.replacement)
