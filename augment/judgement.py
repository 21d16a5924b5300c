"""What careful readers would say of a negative beside its caption: that it is odd, which is ungrammatical or describes
what is hardly ever seen or said; and that one photo could be rightly described by both.

Two probabilities, from a network that is fitted to what readers said of negatives, also of such as break these limits
(see `negcap.pipelines.resources.judgement`):

    log-odds = A relu(P v + Q e + T t + K_k + b) + C (R v * S e) + c

v: the vector of the place of the word that is replaced, by the cloze model, and the mean vector of the units that stand
there, one after the other; e: the vector of the new unit; of several edits the means. *: number by number, a product
for each row of R and S. t: the `terms`, how the model compares the negative with its caption; k: the kind of the
change. The parameters are in the file of the cloze model. Those of the shipped model serve models without any, whose
vectors are others: v and e are then 0, as they were for some of the negatives of the fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, get_args

import numpy as np

from .caption import Caption, cached
from .cloze.file import JUDGEMENT, PARTS, read_arrays
from .cloze.model import ClozeModel, Reading
from .cloze.states import Place
from .data import data_path
from .edits import COMPATIBLE, UNNATURAL, Candidate, Kind
from .plausibility import Change, compare, replacements
from .reproducible import log, sigmoid

PREFERRED_UNNATURAL, MAX_UNNATURAL, MAX_COMPATIBLE = 0.25, 0.35, 0.12
PREFERENCE = 2.0  # the power of the odds in `preference`
SURE = 0.01  # the lowest probability of being odd or true as well that counts
KINDS: tuple[Kind, ...] = get_args(Kind)
TERMS = ("log(1 + loss)", "lowest / 5", "whole / 5", "log of the number of units", "mean score / 2", "old score / 5")
LOWEST, WHOLE, MEAN = -12.0, (-15.0, 5.0), -6.0  # nats: what is lower, or outside, is taken for these
TOGETHER = 128  # negatives that are judged together: they fit into a core's cache
EXACT = 2.0**16  # what is added up is a whole multiple of 1 / EXACT, so that sums are the same in any order


class Judgements(NamedTuple):
    """The probabilities that a reader calls negatives odd, and that one says that a photo could be rightly described by
    both the negative and its caption; to 4 digits, both (negatives,).
    """

    odd: np.ndarray
    both: np.ndarray


class Judge:
    """The fitted network. arrays: of the file of a cloze model, those named `judgement.*`; own: whether they were
    fitted with the vectors of the model in use.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray], *, own: bool) -> None:
        """Transpose the weights, as float64: whole numbers of small units, of which sums are exact in any order."""
        self._place, self._unit, self._terms, self._kinds, self._output = (
            arrays[f"{JUDGEMENT}{name}.weight"].T.astype(np.float64) for name in PARTS
        )
        self._bias, self._last = (arrays[f"{JUDGEMENT}{name}.bias"].astype(np.float64) for name in ("hidden", "output"))
        self._own = own

    def of_places(self, places: np.ndarray) -> np.ndarray:
        """P v and R v, as of the equation of the module, of places (`places_of`): (places, hidden units + products)."""
        return self._shares(places, self._place)

    def of_units(self, units: np.ndarray) -> np.ndarray:
        """Q e and S e, as of the same equation, of the word vectors of new units: (units, hidden units + products)."""
        return self._shares(units, self._unit)

    def _shares(self, vectors: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return vectors @ weights if self._own else np.zeros((len(vectors), weights.shape[1]))

    def judge(
        self, kinds: np.ndarray, terms: np.ndarray, places: np.ndarray, units: np.ndarray,
        of: np.ndarray, new: np.ndarray,
    ) -> Judgements:  # fmt: skip
        """The `Judgements` of negatives. For each negative: kinds, its number in KINDS; terms, its row of `terms`; of,
        the row of `places` of the place where a word is replaced; new, the row of `units` of the unit put there.
        places, units: results of `of_places` and `of_units`.
        """
        size, shifts = len(self._bias), self._kinds + self._bias
        logits = np.empty((len(of), len(self._last)))
        for start in range(0, len(of), TOGETHER):
            block = slice(start, start + TOGETHER)
            place, unit = places[of[block]], units[new[block]]
            hidden = place[:, :size] + unit[:, :size] + terms[block] @ self._terms + shifts[kinds[block]]
            np.maximum(hidden, 0.0, out=hidden)
            logits[block] = _exact(hidden) @ self._output[:size]
            logits[block] += _exact(place[:, size:] * unit[:, size:]) @ self._output[size:]
        return Judgements(*sigmoid(logits + self._last).round(4).T)


def p_bad(odd: np.ndarray, both: np.ndarray) -> np.ndarray:
    """The probability that readers call negatives odd, or true of the same photo as their captions: arrays of the two
    probabilities (see `Judgements`), of any shape.
    """
    return 1 - (1 - odd) * (1 - both)


def preference(odd: np.ndarray, both: np.ndarray) -> np.ndarray:
    """The factor of each negative's weight in drawing: ((1 - p) / p) ** PREFERENCE, where p is `p_bad`,
    at least SURE.

    odd, both: the `Judgements`, NaN where they are not known yet: then the factor is 1. The result has their shape.
    """
    wrong = np.maximum(p_bad(odd, both), SURE)
    return np.nan_to_num(((1 - wrong) / wrong) ** PREFERENCE, nan=1.0)


def places_of(readings: Sequence[Reading], places: Sequence[Place]) -> tuple[np.ndarray, np.ndarray]:
    """Places in captions as `Judge` is given them: the cloze model's context vector of each place, followed by the mean
    word vector of the units that the caption has there, (places, 2 * width); and the lowest log p(unit | rest) of these
    units, (places,). A place has at least one unit; there is a reading for each, that of its caption.
    """
    olds = [min(its.scores[before : after - 1]) for its, (before, after) in zip(readings, places, strict=True)]
    units = [its.units[before + 1 : after] for its, (before, after) in zip(readings, places, strict=True)]
    counts = np.array([len(its) for its in units])
    words = readings[0].model.embedding[np.fromiter(chain.from_iterable(units), np.int64)]
    means = _exact(np.add.reduceat(words, np.cumsum(counts) - counts) / counts.astype(np.float32)[:, None])
    vectors = np.stack([reading.at(place) for reading, place in zip(readings, places, strict=True)])
    return np.concatenate([vectors, means], axis=1), np.array(olds)


def terms(changes: np.ndarray, sizes: np.ndarray, means: np.ndarray, olds: np.ndarray) -> np.ndarray:
    """The TERMS of negatives: (negatives, terms).

    changes: a `Change` each, (negatives, 4). Of their captions, each (negatives,): the number of units, the mean log
    p(unit | rest), and the lowest one of what is replaced.
    """
    _, loss, lowest, whole = changes.T
    columns = (
        log(1.0 + loss), np.maximum(lowest, LOWEST) / 5, np.clip(whole, *WHOLE) / 5, log(sizes) - 2.25,
        np.maximum(means, MEAN) / 2, np.maximum(olds, LOWEST) / 5,
    )  # fmt: skip
    return _exact(np.stack(columns, axis=1))


def _exact(numbers: np.ndarray) -> np.ndarray:
    return np.rint(numbers * EXACT) / EXACT


class Inputs(NamedTuple):
    """What the network is given of negatives: the numbers of their kinds in KINDS, (negatives,); the `terms`; the mean
    vector of the places whose words are replaced (`places_of`), (negatives, 2 * width), and that of the new units,
    (negatives, width), 0 if there are none.
    """

    kinds: np.ndarray
    terms: np.ndarray
    places: np.ndarray
    units: np.ndarray

    def take(self, rows: np.ndarray) -> Inputs:
        """Some of the negatives."""
        return Inputs(*(its[rows] for its in self))


def inputs(
    captions: Sequence[Caption], readings: Sequence[Reading], candidates: Sequence[Candidate], changes: Sequence[Change]
) -> Inputs:
    """The inputs of negatives: for each its caption, how the model has read that, the change, and how they compare."""
    embedding = readings[0].model.embedding
    units, places = np.zeros((len(candidates), embedding.shape[1])), np.zeros((len(candidates), 2 * embedding.shape[1]))
    olds, counts = np.zeros(len(candidates)), np.ones(len(candidates))
    every = enumerate(zip(captions, readings, candidates, strict=True))
    if found := [(i, *replaced) for i, its in every for replaced in replacements(*its)]:
        slots: dict[tuple[int, Place], tuple[int, Reading, Place]] = {}  # of each place, its number
        of = [slots.setdefault((id(readings[i]), at), (len(slots), readings[i], at))[0] for i, at, _ in found]
        _, asked, at = zip(*slots.values(), strict=True)
        beside, lowest = places_of(asked, at)
        new = np.array([-1 if unit is None else unit for *_, unit in found])
        words = np.where(new[:, None] < 0, 0.0, embedding[new]).astype(float)
        which, first, number = np.unique([i for i, *_ in found], return_index=True, return_counts=True)
        places[which], units[which] = np.add.reduceat(beside.astype(float)[of], first), np.add.reduceat(words, first)
        olds[which], counts[which] = np.minimum.reduceat(lowest[of], first), number
    kinds = np.array([KINDS.index(candidate.change) for candidate in candidates])
    sizes, means = scores_of(readings)
    return Inputs(
        kinds,
        terms(np.array(changes, float), sizes, means, olds),
        _exact(places / counts[:, None]),
        _exact(units / counts[:, None]),
    )


def judge(
    changes: Sequence[Change], captions: Sequence[Caption], readings: Sequence[Reading], candidates: Sequence[Candidate]
) -> Judgements:
    """Judge negatives; the arguments are those of `inputs`, and all readings are of one model."""
    if not candidates:
        return Judgements(np.zeros(0), np.zeros(0))
    network, given = judge_of(readings[0].model), inputs(captions, readings, candidates, changes)
    places, units, each = network.of_places(given.places), network.of_units(given.units), np.arange(len(candidates))
    return network.judge(given.kinds, given.terms, places, units, each, each)


def compare_and_judge(negatives: Sequence[tuple[Caption, Reading, Candidate]]) -> Iterator[Candidate]:
    """The candidates with their plausibility and the two `Judgements`; all readings are of one model."""
    if negatives:
        its = tuple(zip(*negatives, strict=True))
        changes = compare(*its)
        found = zip(its[2], changes, *(chances.tolist() for chances in judge(changes, *its)), strict=True)
        for candidate, change, odd, both in found:
            yield candidate._replace(plausibility=change.log_odds, p_unnatural=odd, p_compatible=both)


def refusals(odd: np.ndarray, both: np.ndarray, max_unnatural: float, max_compatible: float) -> np.ndarray:
    """Why readers refuse negatives: UNNATURAL or COMPATIBLE, "" if they do not; odd, both: the `Judgements`, of which
    NaN refuses nothing. The result has their shape.
    """
    return np.where(odd > max_unnatural, UNNATURAL, np.where(both > max_compatible, COMPATIBLE, ""))


def is_fallback(odd: np.ndarray, both: np.ndarray, max_bad: float, max_compatible: float) -> np.ndarray:
    """Whether negatives are good enough for a caption of which an operator has no better one: their `p_bad` is at most
    max_bad, and their probability of being true of the same photo as the caption at most max_compatible. odd, both: as
    for `p_bad`; where they are NaN the result is False.
    """
    return (p_bad(odd, both) <= max_bad) & (both <= max_compatible)


def scores_of(readings: Sequence[Reading]) -> tuple[np.ndarray, np.ndarray]:
    """The number of units of each text, but at least 1, and the mean log p(unit | rest); both (texts,)."""
    sizes = np.array([max(len(reading.scores), 1) for reading in readings])
    return sizes, np.array([reading.total for reading in readings]) / sizes


@cached(8)
def judge_of(model: ClozeModel) -> Judge:
    """The network in a model's file, or else that of the shipped model, without the vectors."""
    arrays = model.network.arrays
    own = f"{JUDGEMENT}hidden.bias" in arrays
    return Judge(arrays if own else read_arrays(data_path("cloze") / "model.npz", JUDGEMENT), own=own)
