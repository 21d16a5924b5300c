"""Estimates: the probability that one more caption of the image would make a candidate true.

Associations say how much a word in one caption raises the probability that another caption entails an entry:

    lift(x, y) = p(y | x) / p(y)

where p(y | x) is estimated over ordered pairs of captions of one image: of those whose first caption mentions word x,
the share whose second caption entails entry y. It is smoothed with p', in which x has the same lift for all entries of
y's semantic class k(y); p(k(y) | x) is in turn smoothed with its value given the class of x:

    p(y | x) = (n(x, y) + SMOOTHING * p'(y | x)) / (n(x) + SMOOTHING),   p'(y | x) = p(y) * p(k(y) | x) / p(k(y))

Transitions say how often a caption says "three" of a thing where another caption of the image says "two". An assertion
is a value that a caption gives to a thing: a number or an attribute. Prepositions have no estimate: the thing that
another caption puts on the table is mostly another one. Let n be counts of ordered pairs of captions of one image, the
first of which asserts `old` of a thing and the second `new`:

    p(new | old, thing) = (n(old, thing, new) + SMOOTHING * p(new | old, class)) / (n(old, thing) + SMOOTHING)

and likewise, backing off to the thing's semantic class, to any thing, and to p(new) for any `old`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import exp, log, log1p
from typing import TYPE_CHECKING, NamedTuple

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

# Counts of a word are mixed with this many imagined ones of its class, see the equations above.
SMOOTHING = 20.0
MAX_P_TRUE = 0.025  # the highest probability of a negative that is kept, by default
# The calibration is a logistic regression with one coefficient per feature. Features for words: 1, log odds of the
# entry, evidence of the captions (Associations.score), whether it is a person, log of the number of captions. Features
# for assertions: 1, log odds of the transition, log(1 + number of captions that assert the old value), log of the
# number of captions. Here are the coefficients that are expected before the fit, the means of their prior: the log odds
# need no correction, and the more captions there are, the less remains unmentioned.
EXPECTED_OF_ESTIMATE = {"association": (0.0, 1.0, 1.0, 0.0, -0.5), "transition": (0.0, 1.0, 0.0, -0.5)}
EXPECTED: dict[str, tuple[float, ...]] = {
    name: EXPECTED_OF_ESTIMATE[kind.estimate] for name, kind in KINDS.items() if kind.estimate is not None
}
DIGITS = 4  # decimals of an estimate
TRANSITIONS = 1 << 16  # number of transitions whose probabilities are cached
THINGS = 1 << 10  # number of things in captions for which it is cached whether they are mentioned once
IMAGES = 64  # number of images whose results are cached
Assertion = tuple[str, str]  # thing and value


class Transition(NamedTuple):
    """A value that one caption gives to a thing, and the one that another caption of the image gives it; "" for any."""

    old: str
    thing: str
    new: str


# A Transition, or the same for all things of a semantic class, with the number of the class instead of the thing.
GeneralTransition = tuple[str, str | int, str]


def is_transition(kind: str) -> bool:
    """Whether candidates that replace words of a kind are estimated by transitions, see the module."""
    return kind in KINDS and KINDS[kind].estimate == "transition"


def assertions_of(kind: str, caption: Caption) -> set[Assertion]:
    """The assertions of a caption by words of a kind: {("dog", "2"), ("tree", "0")}, or {("couch", "red")}.

    The number of a bare plural ("trees") is "0". Mentions without a thing assert nothing.
    """
    return {(thing, str(value)) for thing, value in KINDS[kind].mentions(caption) if thing}


@lru_cache(maxsize=1 << 12)
def assertion_value(kind: str, entry: str) -> str:
    """An entry as the value of an assertion: numerals become digits ("a" -> "1", "three" -> "3"), others stay.

    "one" stays, too, as it says more than "a": of two dogs, a caption in twelve says "a dog", but none "one dog".
    """
    return str(numeral_value(entry)) if kind == "numeral" and entry != "one" else entry


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
    if kind != "numeral":
        return True
    return sum(is_same_thing(thing, head.lemma) for head in chunk_heads(caption)) <= 1


class Associations:
    """The lifts of words and entries, from a matrix of counts of pairs of captions, see `fit.count_pairs`.

    The lift of a word x and an entry y is p(y | x) / p(y): how much likelier another caption of an image entails the
    entry if one mentions the word. The lifts of a word are computed when first needed, since a few captions mention few
    of thousands of words.

    log_odds: of p(y), shape (entries,).
    is_person: 1 for words for persons, else 0, shape (entries,).
    """

    def __init__(self, pairs: np.ndarray, words: Sequence[str], entries: Sequence[str]) -> None:
        """Keep the counts of pairs of a word and an entry, and sum them over the words of each semantic class.

        Args:
            pairs: numbers of pairs of captions, (1 + words, 1 + entries): row 0 is of any word, column 0 of any entry.
            words: the words of the rows from 1 on.
            entries: the entries of the columns from 1 on.
        """
        self.words = {word: row for row, word in enumerate(words)}
        self.entries = {entry: column for column, entry in enumerate(entries)}
        self._mentioned = pairs[1:, 0].copy()
        together = pairs[1:, 1:]  # a view would keep the whole matrix
        row, column = np.nonzero(together)
        # Most pairs of a word and an entry never occur. Those of word i that do are at positions _starts[i] to
        # _starts[i + 1]: _column has their entries, _count their numbers.
        self._column = column.astype(np.int32)
        self._count = together[row, column]
        self._starts = np.searchsorted(row, np.arange(len(words) + 1)).tolist()
        self._usual = (pairs[0, 1:] + 0.5) / (pairs[0, 0] + 1.0)  # p(y), never 0
        self.log_odds = reproducible.log(self._usual / (1 - self._usual))
        self._class_of_word = np.array([semantic_class(word) for word in words], int)
        self._class_of_entry = np.array([semantic_class(entry) for entry in entries], int)
        self.is_person = (self._class_of_entry == PERSON).astype(float)
        # p(y | class of x), shape (CLASSES, entries): what a rare word falls back on.
        mentioned = np.bincount(self._class_of_word, self._mentioned, CLASSES)[:, None]
        class_and_entry = self._class_of_word[row] * len(entries) + column
        together_of_class = np.bincount(class_and_entry, self._count, CLASSES * len(entries)).reshape(CLASSES, -1)
        self._by_class = (together_of_class + SMOOTHING * self._usual) / (mentioned + SMOOTHING)
        # The lifts of each word, in float32 as there are millions, and whether they are computed: `score` does that.
        self._lifts = np.zeros(together.shape, np.float32)
        self._is_computed = np.zeros(len(words), bool)

    def score(self, mentioned: Iterable[str]) -> np.ndarray:
        """The evidence of mentioned words for each entry, in nats: shape (entries,). Unknown words are ignored.

        It is the log of the mean of p(y | x) / p(y) over the words x, so that one word that names the same thing, such
        as "couch" for "sofa", is not outvoted by the others.
        """
        rows = sorted(self.words[word] for word in mentioned if word in self.words)
        if not rows:
            return np.zeros(len(self.log_odds))
        for row in rows:  # sorted, so that sums do not depend on the order of a set
            if not self._is_computed[row]:
                self._lifts[row] = self._lift_of_entries(row)
                self._is_computed[row] = True
        return reproducible.log(self._lifts[rows].sum(axis=0, dtype=np.float64) / len(rows))

    def strongest(self, mentioned: Iterable[str], entry: str) -> str | None:
        """The mentioned word that makes an entry likelier than the others do, by its lift; None: no word is known.

        The words have been given to `score` before, which computes their lifts.
        """
        words = sorted(word for word in mentioned if word in self.words)
        column = self.entries[entry]
        return max(words, key=lambda word: self._lifts[self.words[word], column], default=None)

    def _lift_of_entries(self, row: int) -> np.ndarray:
        """p(y | x) / p(y) of a word x and each entry y, smoothed by their semantic classes: shape (entries,).

        row: the number of the word x.
        """
        of_row = slice(self._starts[row], self._starts[row + 1])
        together = np.zeros(len(self._usual))  # n(x, y)
        together[self._column[of_row]] = self._count[of_row]
        given = self._mentioned[row] + SMOOTHING  # n(x) + SMOOTHING
        share = self._by_class[self._class_of_word[row]]  # p(y | class of x)
        # Sums over the entries of each class, (CLASSES,): of n(x, y), of p(y | class of x) and of p(y).
        together_of_class = np.bincount(self._class_of_entry, together, CLASSES)
        share_of_class = np.bincount(self._class_of_entry, share, CLASSES)
        usual_of_class = np.bincount(self._class_of_entry, self._usual, CLASSES)
        smoothed_of_class = (together_of_class + SMOOTHING * share_of_class) / given  # p(k(y) | x)
        # A class may have no entry, and then p(k) is 0; each entry has p(y) > 0.
        lift_of_class = smoothed_of_class / np.maximum(usual_of_class, 1e-12)
        expected = lift_of_class[self._class_of_entry] * self._usual  # p'(y | x)
        return (together + SMOOTHING * expected) / given / self._usual


class Transitions:
    """P(new value | old value, thing), estimated from transition counts."""

    def __init__(self, counts: Mapping[Transition, int]) -> None:
        """`counts`: the pairs of captions of each transition; summed when a probability is first needed."""
        self._unsummed = counts

    @cached_property
    def _counts(self) -> Counter[GeneralTransition]:
        """The counts, and their sums: over the things of a class, under its number; over all things and old values,
        under "".
        """
        summed: Counter[GeneralTransition] = Counter(self._unsummed)
        for (old, thing, new), number in self._unsummed.items():
            summed[old, semantic_class(thing), new] += number
            summed[old, "", new] += number
            summed["", "", new] += number
        return summed

    def probability(self, old: str, thing: str, new: str) -> float:
        """p(new | old, thing): how probable it is that another caption gives the value `new` to a thing that one gives
        the value `old`.

        Backs off from the thing to its class to any thing; always above 0.
        """
        counts = self._counts
        likely = (counts["", "", new] + 0.5) / (counts["", "", ""] + 1.0)
        # From the general to the specific: each estimate is the prior of the next.
        for things in ("", semantic_class(thing), thing):
            likely = (counts[old, things, new] + SMOOTHING * likely) / (counts[old, things, ""] + SMOOTHING)
        return likely


@dataclass(frozen=True, eq=False)
class Truth:
    """A corpus' estimates: associations by kind of word, transitions by kind of assertion, and their calibration.

    calibration: coefficients by kind (see EXPECTED); kinds that are missing have no estimate.
    max_p_true: candidates with a higher probability of being true are rejected.
    """

    associations: Mapping[str, Associations]
    transitions: Mapping[str, Transitions]
    calibration: Mapping[str, np.ndarray]
    max_p_true: float = MAX_P_TRUE

    def of_image(self, captions: Sequence[Caption]) -> ImageTruth:
        """The estimates for candidates of one image, given all its captions."""
        return ImageTruth(self, tuple(captions))

    @cached(TRANSITIONS)
    def p_transition(self, kind: str, transition: Transition, agreeing: int, captions: int) -> float:
        """The calibrated probability that the new value of a thing is true of an image.

        agreeing: the number of captions of the image that assert the old value. captions: the number of its captions.
        """
        # A logistic regression; its features are 1, and the three that the coefficients are multiplied with below.
        bias, of_log_odds, of_agreeing, of_captions = self.calibration[kind]
        logit = bias + of_log_odds * self.log_odds(kind, transition)
        logit += of_agreeing * log1p(agreeing)
        logit += of_captions * log(captions)
        return round(1 / (1 + exp(-logit)), DIGITS)

    def log_odds(self, kind: str, transition: Transition) -> float:
        """The log odds that another caption gives a thing the new value, before calibration."""
        chance = self.transitions[kind].probability(*transition)
        return log(chance / (1 - chance))

    @classmethod
    def from_table(cls, table: pa.Table, lexicon: Lexicon, max_p_true: float = MAX_P_TRUE) -> Truth:
        """Build estimates from a `truth` table (see negcap.schemas.captions), its texts dictionary-encoded or not, and
        the lexicon that it was made with.
        """
        import pyarrow.compute as pc

        associations: dict[str, Associations] = {}
        transitions: dict[str, Transitions] = {}
        calibration: dict[str, np.ndarray] = {}
        # Rows with coefficients are the calibration, one for each kind; the others are counts.
        is_count = pc.is_null(table["coefficients"]).to_numpy()
        fitted = table.filter(~is_count)
        encoded = {name: table[name].combine_chunks().dictionary_encode() for name in ("kind", "said", "of", "entry")}
        # A dictionary-encoded column has distinct texts, and for each row the code of one: its number among these.
        kind_of_code = encoded["kind"].dictionary.to_pylist()
        kind_code_of_row = encoded["kind"].indices.to_numpy()
        for kind, coefficients in zip(fitted["kind"].to_pylist(), fitted["coefficients"].to_pylist(), strict=True):
            calibration[kind] = read_only(np.array(coefficients))
            rows = np.flatnonzero((kind_code_of_row == kind_of_code.index(kind)) & is_count)
            counts = table["count"].to_numpy()[rows]
            said, thing, entry = (encoded[name].take(rows) for name in ("said", "of", "entry"))
            if is_transition(kind):  # such as "2", "dog", "3"
                changes = zip(said.to_pylist(), thing.to_pylist(), entry.to_pylist(), strict=True)
                count_of_transition = zip(map(Transition._make, changes), counts.tolist(), strict=True)
                transitions[kind] = Transitions(dict(count_of_transition))
            else:
                associations[kind] = _associations_from_counts(said, entry, counts, lexicon.entries(kind).names)
        return cls(associations, transitions, calibration, max_p_true)


def _associations_from_counts(
    said: pa.DictionaryArray, entailed: pa.DictionaryArray, counts: np.ndarray, entries: Sequence[str]
) -> Associations:
    """The associations of one kind of word, from its counts; counts of entries that are not in `entries` are left out.

    They need the counts as a matrix, with a row for each word and a column for each entry. Row and column 0 are of any
    word and any entry.

    said, entailed: for each count, the word that one caption says, and the entry that another entails; "" for any. They
    are dictionary-encoded: distinct texts, and for each count the code of one, its number among these.
    """
    column_of_entry = {name: column for column, name in enumerate(["", *entries])}
    column_of_code = np.array([column_of_entry.get(name, -1) for name in entailed.dictionary.to_pylist()], int)
    column = column_of_code[entailed.indices.to_numpy()]  # of each count
    is_known = column >= 0
    # The words of these counts, and the row of each count.
    said_code = said.indices.to_numpy()[is_known]
    word_of_code = said.dictionary.to_pylist()
    words = sorted({word_of_code[code] for code in np.unique(said_code).tolist()} - {""})
    row_of_word = {word: row for row, word in enumerate(["", *words])}
    # -1 for the words of counts that are left out, which `said_code` does not have.
    row_of_code = np.array([row_of_word.get(word, -1) for word in word_of_code], int)
    pairs = np.zeros((len(words) + 1, len(entries) + 1), np.int32)  # half the memory of floats: there are millions
    pairs[row_of_code[said_code], column[is_known]] = counts[is_known]
    return Associations(pairs, words, entries)


@dataclass(frozen=True, eq=False)
class ImageTruth:
    """The estimates for candidates of one image, computed when first needed."""

    truth: Truth
    captions: tuple[Caption, ...]

    def p_true(self, row: Row, caption: Caption) -> float | None:
        """Probability that one more caption of the image would make the negative `row` true; None if not estimated.

        There is no estimate for changes without a calibration (such as swaps), for a word that the lexicon lacks, and
        for a value that is added to a thing or given to one that the caption mentions twice. For a negation ("a dog
        without a ball") it is the probability of its `assertion`: that the image shows what the row denies.

        caption: the caption of the image that the row was proposed for.
        """
        if row.change in ("negated_noun", "negated_verb"):
            return None if row.assertion is None else self.p_true(row.assertion, caption)
        kind = row.change
        if kind not in self.truth.calibration:
            return None
        if not is_transition(kind):
            entry = self.truth.associations[kind].entries.get(row.replacement)
            return None if entry is None else float(self._p_words(kind)[entry])
        transition = _transition_of_row(kind, row, caption)
        if transition is None:
            return None
        agreeing = self._captions_with_old_value(kind, transition)
        return self.truth.p_transition(kind, transition, agreeing, len(self.captions))

    @cached_property
    def likely_nouns(self) -> np.ndarray:
        """Boolean mask of the lexicon's nouns that are true of the image with a probability above `Truth.max_p_true`:
        (nouns,), or (1,) if none is estimated.
        """
        if "noun" not in self.truth.calibration:
            return np.zeros(1, bool)
        return self._p_words("noun") > self.truth.max_p_true

    def expected_nouns(self, caption: Caption) -> np.ndarray | None:
        """The log-odds that another caption of the image mentions each noun of the lexicon, given this one: (entries,).

        They are the log-odds for any caption, plus the evidence of the nouns of this one; not calibrated. None if there
        is no estimate for nouns.
        """
        associations = self.truth.associations.get("noun")
        return None if associations is None else associations.log_odds + associations.score(mentioned_nouns(caption))

    @cached(IMAGES)
    def _p_words(self, kind: str) -> np.ndarray:
        """The calibrated probability that each entry of a kind of word is true of the image: (entries,), read-only."""
        associations = self.truth.associations[kind]
        # A logistic regression; its coefficients are in the order of the features in EXPECTED.
        bias, of_log_odds, of_evidence, of_person, of_captions = self.truth.calibration[kind]
        logits = of_log_odds * associations.log_odds + of_evidence * self._evidence_for_entries(kind)
        logits += of_person * associations.is_person
        same_for_all = bias + of_captions * log(len(self.captions))
        return read_only(reproducible.sigmoid(logits + same_for_all).round(DIGITS))

    def features(self, row: Row, caption: Caption) -> list[float] | None:
        """The features of the calibration for a candidate (see EXPECTED); None if there is no estimate."""
        kind = row.change
        if is_transition(kind):
            transition = _transition_of_row(kind, row, caption)
            if transition is None:
                return None
            agreeing = log1p(self._captions_with_old_value(kind, transition))
            return [1.0, self.truth.log_odds(kind, transition), agreeing, log(len(self.captions))]
        associations = self.truth.associations[kind]
        entry = associations.entries[row.replacement]
        return [
            1.0,
            associations.log_odds[entry],
            self._evidence_for_entries(kind)[entry],
            associations.is_person[entry],
            log(len(self.captions)),
        ]

    @cached(IMAGES)
    def _evidence_for_entries(self, kind: str) -> np.ndarray:
        """The evidence of all captions for each entry of a kind of word: (entries,), read-only."""
        mentioned = frozenset[str]().union(*map(mentioned_nouns, self.captions))
        return read_only(self.truth.associations[kind].score(mentioned))

    def _captions_with_old_value(self, kind: str, transition: Transition) -> int:
        """The number of captions that assert the old value of a thing, including the one to be changed."""
        return self._captions_of_assertions(kind)[transition.thing, transition.old]

    @cached(IMAGES)
    def _captions_of_assertions(self, kind: str) -> Counter[Assertion]:
        """How many captions of the image make each assertion: {("dog", "2"): 3}."""
        return Counter(assertion for caption in self.captions for assertion in assertions_of(kind, caption))


def _transition_of_row(kind: str, row: Row, caption: Caption) -> Transition | None:
    """The transition that a candidate makes, such as ("2", "dog", "3") if it turns two dogs into three; None if it adds
    a value or the thing is mentioned twice.

    kind: numeral or another kind that is estimated by transitions; the values are numbers or attributes.
    """
    # The last of the tokens is the noun that is counted or described, see `Row`.
    thing = caption.tokens[row.tokens[-1]].lemma
    if not row.replaced or not is_mentioned_once(kind, thing, caption):
        return None
    return Transition(old=assertion_value(kind, row.replaced), thing=thing, new=assertion_value(kind, row.replacement))
