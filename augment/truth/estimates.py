"""The answers: for every candidate of an image, how likely a further caption would make it true."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import exp, log, log1p
from typing import TYPE_CHECKING

import numpy as np

from negcap.augment.caption import Caption
from negcap.augment.context import nouns_said
from negcap.augment.edits import Candidate
from negcap.augment.lexicon.lexicon import Lexicon
from negcap.augment.truth.associations import Associations, Pairs
from negcap.augment.truth.calibration import sigmoid
from negcap.augment.truth.most import MAX_TRUE
from negcap.augment.truth.transitions import CLAIMS, Claim, Transitions, is_alone, value

if TYPE_CHECKING:
    import pyarrow as pa

# The kind of estimate for each change that a candidate makes; a swap has none.
OF_CHANGE = {
    "noun": "noun",
    "verb": "verb",
    "quantity": "numeral",
    "preposition": "preposition",
    "attribute": "attribute",
}
# Features of the calibration: 1, log odds of the estimate, how much the captions speak for it, whether the entry is a
# person; or 1, log odds, how many other captions say the old value. Last, how many captions there are.
#
# What they are expected to weigh: the log odds are right as they are, and the more captions, the less is left unsaid.
EXPECTED = {
    "noun": (0.0, 1.0, 0.5, 0.0, -0.5),
    "verb": (0.0, 1.0, 0.5, 0.0, -0.5),
    "numeral": (0.0, 1.0, 0.0, -0.5),
    "preposition": (0.0, 1.0, 0.0, -0.5),
    "attribute": (0.0, 1.0, 0.0, -0.5),
}
DIGITS = 4
KNOWN = 1 << 16


@dataclass(frozen=True)
class Truth:
    """What a corpus tells of the truth of replacements. `calibration` holds the coefficients of every kind it knows.

    A candidate that is likelier than `most` to be true is to be refused.
    """

    associations: Mapping[str, Associations]
    transitions: Mapping[str, Transitions]
    calibration: Mapping[str, np.ndarray]
    most: float = MAX_TRUE
    known: dict[tuple, float] = field(default_factory=dict, compare=False, repr=False)

    def of_image(self, captions: Sequence[Caption]) -> ImageTruth:
        """The estimates for the candidates of one image, by all its captions."""
        return ImageTruth(self, tuple(captions), self.most)

    @classmethod
    def from_table(cls, table: pa.Table, lexicon: Lexicon, most: float = MAX_TRUE) -> Truth:
        """Read a `truth` table (see negcap.schemas.truth) made with a lexicon."""
        import pyarrow.compute as pc

        associations, transitions, calibration = {}, {}, {}
        fitted = table.filter(pc.is_valid(table["coefficients"]))
        for name, coefficients in zip(fitted["kind"].to_pylist(), fitted["coefficients"].to_pylist(), strict=True):
            calibration[name] = np.array(coefficients)
            mask = pc.and_(pc.equal(table["kind"], name), pc.is_null(table["coefficients"]))
            rows = table.filter(mask).combine_chunks()
            if name in CLAIMS:
                keys = (rows[column].to_pylist() for column in ("said", "of", "entry"))
                transitions[name] = Transitions(
                    dict(zip(zip(*keys, strict=True), rows["count"].to_pylist(), strict=True))
                )
            else:
                associations[name] = _associations(rows, lexicon.entries(name).names)
        return cls(associations, transitions, calibration, most)


def _associations(rows: pa.Table, entries: Sequence[str]) -> Associations:
    """The associations of one kind from its counts."""
    import pyarrow as pa
    import pyarrow.compute as pc

    words = sorted(set(pc.unique(rows["said"]).to_pylist()) - {""})
    word = pc.index_in(rows["said"], pa.array(["", *words], pa.string())).to_numpy()
    entry = pc.index_in(rows["entry"], pa.array(["", *entries], pa.string())).to_numpy()
    counts = np.zeros((len(words) + 1, len(entries) + 1))
    counts[word, entry] = rows["count"].to_numpy()
    return Associations(Pairs(counts[1:, 1:], counts[1:, 0], counts[0, 1:], float(counts[0, 0])), words, entries)


@dataclass(frozen=True)
class ImageTruth:
    """What the captions of one image say of the truth of replacements; each kind is worked out when first asked for.

    most: as in Truth.
    """

    truth: Truth
    captions: tuple[Caption, ...]
    most: float

    def of(self, candidate: Candidate, caption: Caption) -> float | None:
        """How likely a further caption makes the candidate true; None where there is no estimate."""
        kind = OF_CHANGE.get(candidate.change)
        if kind is None or kind not in self.truth.calibration:
            return None
        if kind not in CLAIMS:
            return self._likely(kind)[self.truth.associations[kind].entries[candidate.replacement]]
        thing = caption.tokens[candidate.slots[-1]].lemma
        if not candidate.replaced or not is_alone(kind, thing, caption):
            return None
        claim = (kind, candidate.replaced, thing, candidate.replacement)
        found = self._turned.get(claim)
        if found is None:
            found = self._turned[claim] = self._turning(*claim)
        return found

    @cached_property
    def likely_nouns(self) -> np.ndarray:
        """The numbers of the lexicon's nouns that are too likely true."""
        if "noun" not in self.truth.calibration:
            return np.zeros(0, int)
        return np.flatnonzero(np.array(self._likely("noun")) > self.most)

    def _likely(self, kind: str) -> list[float]:
        """The estimate of every entry of a kind of word, kept."""
        found = self._estimated.get(kind)
        if found is None:
            found = self._estimated[kind] = self._estimates(kind)
        return found

    @cached_property
    def _estimated(self) -> dict[str, list[float]]:
        return {}

    @cached_property
    def _turned(self) -> dict[tuple, float]:
        return {}

    def _estimates(self, kind: str) -> list[float]:
        """The estimate of every entry of a kind of word."""
        known, (bias, odds, score, person, number) = self.truth.associations[kind], self.truth.calibration[kind]
        logits = odds * known.odds + score * self._score(kind) + person * known.person + (bias + number * self._number)
        return sigmoid(logits).round(DIGITS).tolist()

    def _turning(self, kind: str, old: str, thing: str, new: str) -> float:
        """The estimate of a change from one value of a thing to another."""
        old, new = value(kind, old), value(kind, new)
        agreeing = self._agreeing(kind)[thing, old]
        key = (kind, old, thing, new, agreeing, len(self.captions))
        found = self.truth.known.get(key)
        if found is None:
            if len(self.truth.known) >= KNOWN:
                self.truth.known.clear()
            bias, odds, others, number = self.truth.calibration[kind]
            logit = bias + odds * self._odds(kind, old, thing, new) + others * log1p(agreeing) + number * self._number
            found = self.truth.known[key] = round(1 / (1 + exp(-logit)), DIGITS)
        return found

    def features(self, candidate: Candidate, caption: Caption) -> list[float] | None:
        """What the calibration of the candidate's kind is fitted on."""
        kind = OF_CHANGE[candidate.change]
        if kind in CLAIMS:
            if not candidate.replaced:
                return None
            old, new = value(kind, candidate.replaced), value(kind, candidate.replacement)
            thing = caption.tokens[candidate.slots[-1]].lemma
            if not is_alone(kind, thing, caption):
                return None
            agreeing = self._agreeing(kind)[thing, old]
            return [1.0, self._odds(kind, old, thing, new), log1p(agreeing), self._number]
        known = self.truth.associations[kind]
        entry = known.entries[candidate.replacement]
        return [1.0, known.odds[entry], self._score(kind)[entry], known.person[entry], self._number]

    def _score(self, kind: str) -> np.ndarray:
        found = self._scores.get(kind)
        if found is None:
            said = frozenset[str]().union(*map(nouns_said, self.captions))
            found = self._scores[kind] = self.truth.associations[kind].score(said)
        return found

    @cached_property
    def _scores(self) -> dict[str, np.ndarray]:
        return {}

    @cached_property
    def _number(self) -> float:
        return log(len(self.captions))

    def _agreeing(self, kind: str) -> Counter[Claim]:
        """How many captions make each claim, the one to be changed included."""
        found = self._claims.get(kind)
        if found is None:
            found = self._claims[kind] = Counter(claim for one in self.captions for claim in CLAIMS[kind](one))
        return found

    @cached_property
    def _claims(self) -> dict[str, Counter[Claim]]:
        return {}

    def _odds(self, kind: str, old: str, thing: str, new: str) -> float:
        chance = self.truth.transitions[kind].probability(old, thing, new)
        return log(chance / (1 - chance))
