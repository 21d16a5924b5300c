"""Estimates: the probability that one more caption of the image would make a candidate true."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp, log, log1p
from typing import TYPE_CHECKING

import numpy as np

from ..caption import Caption, cached, read_only
from ..edits import Candidate
from ..lexicon.lexicon import Lexicon
from ..mentions import mentioned_nouns
from ..slots.denials import assertion
from .associations import Associations, Pairs, sigmoid
from .exchange import ASSERTIONS, Assertion, Transitions, is_mentioned_once, value

if TYPE_CHECKING:
    import pyarrow as pa

MAX_P_TRUE = 0.025
# The kind of estimate for each change that a candidate makes; a swap has none.
KIND_OF_CHANGE = {kind: kind for kind in ("noun", "verb", "preposition", "attribute")} | {"quantity": "numeral"}
# Prior means of the calibration's coefficients. Features for words: 1, log odds of the entry, evidence of the captions
# (Associations.score), whether it is a person, log of the number of captions. Features for assertions: 1, log odds of
# the transition, log(1 + number of captions that assert the old value), log of the number of captions. A priori, the
# log odds need no correction, and the more captions there are, the less remains unmentioned.
EXPECTED: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(("noun", "verb"), (0.0, 1.0, 0.5, 0.0, -0.5)),
    **dict.fromkeys(("numeral", "preposition", "attribute"), (0.0, 1.0, 0.0, -0.5)),
}
DIGITS = 4
TRANSITIONS = 1 << 16  # number of transitions whose probabilities are cached
IMAGES = 64  # number of images whose results are cached


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
        return ImageTruth(self, tuple(captions), self.max_p_true)

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
        """Build estimates from a `truth` table (see negcap.schemas.captions) and the lexicon that it was made with."""
        import pyarrow.compute as pc

        associations, transitions, calibration = {}, {}, {}
        fitted = table.filter(pc.is_valid(table["coefficients"]))
        for kind, coefficients in zip(fitted["kind"].to_pylist(), fitted["coefficients"].to_pylist(), strict=True):
            calibration[kind] = read_only(np.array(coefficients))
            mask = pc.and_(pc.equal(table["kind"], kind), pc.is_null(table["coefficients"]))
            rows = table.filter(mask).combine_chunks()
            if kind in ASSERTIONS:
                keys = zip(*(rows[column].to_pylist() for column in ("said", "of", "entry")), strict=True)
                transitions[kind] = Transitions(dict(zip(keys, rows["count"].to_pylist(), strict=True)))
            else:
                associations[kind] = _associations(rows, lexicon.entries(kind).names)
        return cls(associations, transitions, calibration, max_p_true)


def _associations(rows: pa.Table, entries: Sequence[str]) -> Associations:
    """The associations of one kind of word, from its counts; those of words that are not in `entries` are left out."""
    import pyarrow as pa
    import pyarrow.compute as pc

    known = pa.array(["", *entries], pa.string())
    rows = rows.filter(pc.is_in(rows["entry"], known)).combine_chunks()
    words = sorted(set(pc.unique(rows["said"]).to_pylist()) - {""})
    word = pc.index_in(rows["said"], pa.array(["", *words], pa.string())).to_numpy()
    entry = pc.index_in(rows["entry"], known).to_numpy()
    counts = np.zeros((len(words) + 1, len(entries) + 1))
    counts[word, entry] = rows["count"].to_numpy()
    return Associations(Pairs(counts[1:, 1:], counts[1:, 0], counts[0, 1:], float(counts[0, 0])), words, entries)


@dataclass(frozen=True, eq=False)
class ImageTruth:
    """The estimates for candidates of one image, computed when first needed; max_p_true as in `Truth`."""

    truth: Truth
    captions: tuple[Caption, ...]
    max_p_true: float

    def p_true(self, candidate: Candidate, caption: Caption) -> float | None:
        """Probability that one more caption of the image would make `candidate` true; None if not estimated.

        caption: the caption of the image that the candidate was proposed for. Of a denial: that what it
        takes to be absent is there.
        """
        if candidate.change in ("denial", "verb_denial"):
            asserted = assertion(candidate)
            return None if asserted is None else self.p_true(asserted, caption)
        kind = KIND_OF_CHANGE.get(candidate.change, "")
        if kind not in self.truth.calibration:
            return None
        if kind not in ASSERTIONS:
            return self._p_words(kind)[self.truth.associations[kind].entries[candidate.replacement]]
        change = _change(kind, candidate, caption)
        if change is None:
            return None
        return self.truth.p_transition(kind, change, self._agreeing(kind, change), len(self.captions))

    @cached_property
    def likely_nouns(self) -> np.ndarray:
        """The numbers of the lexicon's nouns whose probability of being true is above the limit."""
        if "noun" not in self.truth.calibration:
            return np.zeros(0, int)
        return np.flatnonzero(np.array(self._p_words("noun")) > self.max_p_true)

    def expected_nouns(self, caption: Caption) -> np.ndarray | None:
        """The log-odds that another caption mentions each noun of the lexicon, given this caption alone: (entries,).

        Not calibrated. None if there is no estimate for nouns.
        """
        known = self.truth.associations.get("noun")
        return None if known is None else known.log_odds + known.score(mentioned_nouns(caption))

    @cached(IMAGES)
    def _p_words(self, kind: str) -> list[float]:
        """The calibrated probability of each entry of a kind of word."""
        known, (bias, odds, score, person, number) = self.truth.associations[kind], self.truth.calibration[kind]
        logits = odds * known.log_odds + score * self._score(kind) + person * known.is_person
        return sigmoid(logits + (bias + number * log(len(self.captions)))).round(DIGITS).tolist()

    def features(self, candidate: Candidate, caption: Caption) -> list[float] | None:
        """The features of the calibration for a candidate (see EXPECTED); None if there is no estimate."""
        kind = KIND_OF_CHANGE[candidate.change]
        if kind in ASSERTIONS:
            change = _change(kind, candidate, caption)
            if change is None:
                return None
            agreeing = log1p(self._agreeing(kind, change))
            return [1.0, self.truth.log_odds(kind, change), agreeing, log(len(self.captions))]
        known = self.truth.associations[kind]
        entry = known.entries[candidate.replacement]
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
        return Counter(assertion for one in self.captions for assertion in ASSERTIONS[kind](one))


def _change(kind: str, candidate: Candidate, caption: Caption) -> tuple[str, str, str] | None:
    """Old value, thing and new value of a candidate; None if it adds a value or the thing is mentioned twice."""
    thing = caption.tokens[candidate.slots[-1]].lemma
    if not candidate.replaced or not is_mentioned_once(kind, thing, caption):
        return None
    return value(kind, candidate.replaced), thing, value(kind, candidate.replacement)
