"""What careful raters would say of a negative beside its caption: that it is unnatural (ungrammatical, or it describes
what is hardly ever seen or said), and that one photo could be rightly described by both (they are compatible).

Two probabilities, from a network that is fitted to what raters said of negatives, also of such as break these limits
(see `negcap.pipelines.resources.judgement`):

    log-odds = A relu(P v + Q e + T t + K_k + b) + C (R v * S e) + c

v: the cloze model's context vector of the place where a word is replaced, followed by the mean vector of the units that
stand there; e: the vector of the new unit; both are means if there are several edits. *: the element-wise product. t:
the FEATURES, which say how the cloze model compares the negative with its caption; k: the kind of the change.

The parameters P, Q, R, S, T, K, A, C, b and c are in the file of the cloze model. A cloze model without them uses those
of the shipped one, with v = e = 0, as they do not fit its own vectors; some of the negatives of the fit had v = e = 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple, get_args

import numpy as np

from .caption import Caption, cached
from .cloze.file import JUDGEMENT, PARTS, read_arrays
from .cloze.model import CaptionEncoding, ClozeModel
from .cloze.network import single_threaded
from .cloze.states import Place
from .data import data_path
from .language.semantic_classes import sort_of
from .plausibility import Comparison, compare, replaced_units
from .reproducible import exp, log, sigmoid
from .rows import COMPATIBLE, UNNATURAL, Change, Row

PREFERRED_UNNATURAL = 0.25  # these are the default limits of the ratings
MAX_UNNATURAL = 0.35  # for a caption that has no better negative
MAX_COMPATIBLE = 0.12
LEAST_P = 0.01  # a lower `p_bad` counts as this, and one above 1 - LEAST_P as that: no rating is surer
# A noun in place of one of another sort, such as a dog for a man, is a change of its own: raters call it unnatural more
# often than such a word in such a place alone would say.
OTHER_SORT = "noun of another sort"
CHANGES: tuple[str, ...] = (*get_args(Change), OTHER_SORT)
# Columns of `rater_features`: scaled, so that all of them vary about as much.
FEATURES = ("log(1 + loss)", "lowest / 5", "whole / 5", "log of the number of units", "mean score / 2", "old score / 5")
# Limits of the features, in nats, at which values beyond them are cut.
LOWEST = -12.0
WHOLE = (-15.0, 5.0)
MEAN = -6.0
UNKNOWN_UNIT = -1
TOGETHER = 128  # negatives that are rated together: they fit into a core's cache
EXACT = 2.0**16  # what is added up is a whole multiple of 1 / EXACT, so that sums are the same in any order


def change_number(change: str) -> int:
    """The number of a change in CHANGES; that of "none" if raters were never asked about it."""
    return CHANGES.index(change if change in CHANGES else "none")


def change_of_row(row: Row) -> int:
    """The number of a row's change in CHANGES."""
    is_other_sort = row.change == "noun" and sort_of(row.replaced) != sort_of(row.replacement)
    return change_number(OTHER_SORT if is_other_sort else row.change)


class Ratings(NamedTuple):
    """The probabilities that a rater calls negatives unnatural, and that one says that a photo could be rightly
    described by both the negative and its caption; to 4 digits, both (negatives,).
    """

    unnatural: np.ndarray
    compatible: np.ndarray


class RaterModel:
    """The fitted network, which predicts what raters would say of negatives."""

    def __init__(self, arrays: Mapping[str, np.ndarray], *, own: bool) -> None:
        """Transpose the weights, as float64: whole numbers of small units, of which sums are exact in any order.

        arrays: of the file of a cloze model, those named `judgement.*`. own: whether they were fitted with the vectors
        of the model in use; if not, its vectors count as 0.
        """
        # In the module's equation: P above R, Q above S, T, K, and A beside C; then b and c.
        weights = {name: arrays[f"{JUDGEMENT}{name}.weight"].T.astype(np.float64) for name in PARTS}
        self._place, self._unit, self._features, self._changes, self._output = weights.values()
        self._hidden_bias = arrays[f"{JUDGEMENT}hidden.bias"].astype(np.float64)
        self._output_bias = arrays[f"{JUDGEMENT}output.bias"].astype(np.float64)
        self._own = own
        self._vocabulary: np.ndarray | None = None  # the projections of units that were asked for
        self._is_projected = np.zeros(0, bool)

    def project_places(self, places: np.ndarray) -> np.ndarray:
        """P v and R v of the module's equation, for places (see `place_inputs`): (places, hidden + products)."""
        return self._projected(places, self._place)

    def project_units(self, units: np.ndarray) -> np.ndarray:
        """Q e and S e of the module's equation, for the word vectors of new units: (units, hidden + products)."""
        return self._projected(units, self._unit)

    def project_vocabulary(self, units: np.ndarray, embedding: np.ndarray) -> np.ndarray:
        """Q e and S e for units by their numbers: an array with a row for every unit, (vocabulary, hidden + products).

        Only the rows of `units`, and of those asked for before, are filled in.

        units: the numbers of the units. embedding: the word vectors of the model's vocabulary.
        """
        if self._vocabulary is None or len(self._is_projected) != len(embedding):
            # Rows that are never written take no memory.
            self._vocabulary = np.empty((len(embedding), self._unit.shape[1]))
            self._is_projected = np.zeros(len(embedding), bool)
        is_asked = np.zeros(len(embedding), bool)
        is_asked[units] = True
        new = np.flatnonzero(is_asked & ~self._is_projected)
        if len(new):
            self._vocabulary[new] = self.project_units(embedding[new])
            self._is_projected[new] = True
        return self._vocabulary

    @single_threaded()
    def _projected(self, vectors: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Vectors times weights; zeros if the weights were fitted with the vectors of another model."""
        return vectors @ weights if self._own else np.zeros((len(vectors), weights.shape[1]))

    @single_threaded()
    def predict(
        self,
        changes: np.ndarray,
        features: np.ndarray,
        places: np.ndarray,
        units: np.ndarray,
        place: np.ndarray,
        unit: np.ndarray,
    ) -> Ratings:
        """The `Ratings` of negatives.

        Args:
            changes: the number of each negative's change in CHANGES, (negatives,).
            features: the FEATURES of each, (negatives, features).
            places: P v and R v of the places where words are replaced, see `project_places`.
            units: Q e and S e of the units that are inserted, see `project_units`.
            place: for each negative, the row of its place in `places`, (negatives,).
            unit: for each, the row of its new unit in `units`, (negatives,).
        """
        # The first columns of `places` and `units`, P v and Q e, are added; the others, R v and S e, are multiplied.
        hidden_size = len(self._hidden_bias)
        shifts = self._changes + self._hidden_bias  # K + b, a row for each kind of change
        logits = np.empty((len(place), len(self._output_bias)))
        for start in range(0, len(place), TOGETHER):
            block = slice(start, start + TOGETHER)
            at_place = places[place[block]]
            of_unit = units[unit[block]]
            hidden = at_place[:, :hidden_size] + of_unit[:, :hidden_size]
            hidden += features[block] @ self._features
            hidden += shifts[changes[block]]
            np.maximum(hidden, 0.0, out=hidden)
            logits[block] = _round_for_exact_sums(hidden) @ self._output[:hidden_size]
            products = at_place[:, hidden_size:] * of_unit[:, hidden_size:]
            logits[block] += _round_for_exact_sums(products) @ self._output[hidden_size:]
        return Ratings(*sigmoid(logits + self._output_bias).round(4).T)


def p_bad(unnatural: np.ndarray, compatible: np.ndarray) -> np.ndarray:
    """The probability that raters find any fault with negatives: call them unnatural, or compatible with their caption.

    unnatural, compatible: the two probabilities (see `Ratings`), arrays of one shape, which the result has, too.
    """
    return 1 - (1 - unnatural) * (1 - compatible)


def preference(unnatural: np.ndarray, compatible: np.ndarray, power: np.ndarray) -> np.ndarray:
    """The factor by which ratings change each negative's weight in sampling: the odds of being good, to a power.

        ((1 - p) / p) ** power, where p is `p_bad` (that raters find a fault), from LEAST_P to 1 - LEAST_P

    Args:
        unnatural, compatible: the `Ratings`, NaN where they are not known yet: then the factor is 1.
        power: how much ratings count for the kind of word that each replaces, see
            `negcap.augment.kinds.Kind.preference`. All three have one shape, that of the result.
    """
    bad = np.clip(p_bad(unnatural, compatible), LEAST_P, 1 - LEAST_P)
    odds = np.where(np.isnan(bad), 1.0, (1 - bad) / bad)
    # Not `odds ** power`: NumPy's power differs in the last bit from processor to processor.
    return exp(power * log(odds))


def place_inputs(encodings: Sequence[CaptionEncoding], places: Sequence[Place]) -> tuple[np.ndarray, np.ndarray]:
    """Places in captions as `RaterModel` is given them.

    encodings: for each place, how its caption was read. places: each has at least one unit.

    Returns:
        The cloze model's context vector of each place, followed by the mean word vector of the units that the caption
        has there, (places, 2 * width); and the lowest log p(unit | rest) of these units, (places,).
    """
    old_log_p: list[float] = []
    old_units: list[Sequence[int]] = []
    for encoding, (before, after) in zip(encodings, places, strict=True):
        # The scores of a text have no entry for its start, its units have one.
        old_log_p.append(min(encoding.scores[before : after - 1]))
        old_units.append(encoding.units[before + 1 : after])
    counts = np.array([len(units) for units in old_units])
    words = encodings[0].model.embedding[np.fromiter(chain.from_iterable(old_units), np.int64)]
    sums = np.add.reduceat(words, np.cumsum(counts) - counts)
    means = _round_for_exact_sums(sums / counts.astype(np.float32)[:, None])
    vectors = np.stack([encoding.vector_at(place) for encoding, place in zip(encodings, places, strict=True)])
    return np.concatenate([vectors, means], axis=1), np.array(old_log_p)


def rater_features(comparisons: np.ndarray, sizes: np.ndarray, means: np.ndarray, old_log_p: np.ndarray) -> np.ndarray:
    """The FEATURES of negatives: (negatives, features).

    Args:
        comparisons: the four numbers of the `Comparison` of each, (negatives, 4).
        sizes: the number of units of each caption, (negatives,).
        means: the mean log p(unit | rest) of each caption, (negatives,).
        old_log_p: the lowest log p(unit | rest) of the words that each replaces, (negatives,).
    """
    _, loss, lowest, whole = comparisons.T
    columns = (
        log(1.0 + loss), np.maximum(lowest, LOWEST) / 5, np.clip(whole, *WHOLE) / 5, log(sizes) - 2.25,
        np.maximum(means, MEAN) / 2, np.maximum(old_log_p, LOWEST) / 5,
    )  # fmt: skip
    return _round_for_exact_sums(np.stack(columns, axis=1))


def _round_for_exact_sums(numbers: np.ndarray) -> np.ndarray:
    """Numbers as whole multiples of 1 / EXACT, whose sums are the same in any order and on any processor."""
    return np.rint(numbers * EXACT) / EXACT


class Inputs(NamedTuple):
    """What the network is given of negatives.

    changes: the number of each one's change in CHANGES, (negatives,).
    features: the `rater_features`, (negatives, features).
    places: the mean vector of the places whose words are replaced (`place_inputs`), (negatives, 2 * width).
    units: the mean word vector of what is inserted there, (negatives, width). Both are 0 where no word is replaced.
    """

    changes: np.ndarray
    features: np.ndarray
    places: np.ndarray
    units: np.ndarray

    def take(self, rows: np.ndarray) -> Inputs:
        """Some of the negatives."""
        return Inputs(*(column[rows] for column in self))


def rater_inputs(
    captions: Sequence[Caption],
    encodings: Sequence[CaptionEncoding],
    rows: Sequence[Row],
    comparisons: Sequence[Comparison],
) -> Inputs:
    """What the network of raters is given of some negatives; captions, encodings, rows and comparisons are of each.

    A row may replace several words ("man | dog"): their places and new units are averaged.
    """
    embedding = encodings[0].model.embedding
    units = np.zeros((len(rows), embedding.shape[1]))
    places = np.zeros((len(rows), 2 * embedding.shape[1]))
    old_log_p = np.zeros(len(rows))
    counts = np.ones(len(rows))  # how many words each row replaces, but at least 1
    # One entry per replaced word, those of a row one after the other.
    row_of: list[int] = []
    slot_of: list[int] = []
    new_units: list[int] = []
    # A slot is a place in a caption: many rows replace the word there, and its vector is looked up once.
    slot_number: dict[tuple[int, Place], int] = {}
    slot_encodings: list[CaptionEncoding] = []
    for number, (caption, encoding, row) in enumerate(zip(captions, encodings, rows, strict=True)):
        for place, unit in replaced_units(caption, encoding, row):
            slot = (id(encoding), place)  # the encodings of one caption are one object
            if slot not in slot_number:
                slot_number[slot] = len(slot_number)
                slot_encodings.append(encoding)
            row_of.append(number)
            slot_of.append(slot_number[slot])
            new_units.append(UNKNOWN_UNIT if unit is None else unit)
    if row_of:
        vectors, lowest = place_inputs(slot_encodings, [place for _, place in slot_number])
        is_unknown = np.array(new_units) == UNKNOWN_UNIT
        words = np.where(is_unknown[:, None], 0.0, embedding[new_units]).astype(float)
        changed_rows, first, number_of_words = np.unique(row_of, return_index=True, return_counts=True)
        places[changed_rows] = np.add.reduceat(vectors.astype(float)[slot_of], first)
        units[changed_rows] = np.add.reduceat(words, first)
        old_log_p[changed_rows] = np.minimum.reduceat(lowest[slot_of], first)
        counts[changed_rows] = number_of_words
    sizes, means = sizes_and_mean_scores(encodings)
    return Inputs(
        changes=np.array([change_of_row(row) for row in rows]),
        features=rater_features(np.array(comparisons, float), sizes, means, old_log_p),
        places=_round_for_exact_sums(places / counts[:, None]),
        units=_round_for_exact_sums(units / counts[:, None]),
    )


def predict_ratings(
    comparisons: Sequence[Comparison],
    captions: Sequence[Caption],
    encodings: Sequence[CaptionEncoding],
    rows: Sequence[Row],
) -> Ratings:
    """The ratings of negatives, by the comparison, caption, encoding and row of each, all by one cloze model."""
    if not rows:
        return Ratings(np.zeros(0), np.zeros(0))
    model = rater_model_of(encodings[0].model)
    inputs = rater_inputs(captions, encodings, rows, comparisons)
    places = model.project_places(inputs.places)
    units = model.project_units(inputs.units)
    own_row = np.arange(len(rows))  # each negative has a place and a unit of its own
    return model.predict(inputs.changes, inputs.features, places, units, place=own_row, unit=own_row)


def rate_rows(captions: Sequence[Caption], encodings: Sequence[CaptionEncoding], rows: Sequence[Row]) -> None:
    """Fill in `plausibility`, `p_unnatural` and `p_compatible` of rows, given the caption of each and its encoding."""
    if not rows:
        return
    comparisons = compare(captions, encodings, rows)
    ratings = predict_ratings(comparisons, captions, encodings, rows)
    # A negative that asserts what its caption denies ("a man without a hat" -> "a man with a hat") is never true of the
    # same photo.
    asserts_denied = np.array([row.asserts_denied for row in rows], bool)
    compatible = np.where(asserts_denied, 0.0, ratings.compatible)
    for number, row in enumerate(rows):
        row.plausibility = comparisons[number].log_odds
        row.p_unnatural = float(ratings.unnatural[number])
        row.p_compatible = float(compatible[number])


def refusals(unnatural: np.ndarray, compatible: np.ndarray, max_unnatural: float, max_compatible: float) -> np.ndarray:
    """Why raters refuse negatives: UNNATURAL or COMPATIBLE, "" if they do not; an array of the shape of the ratings.

    unnatural, compatible: the two probabilities of each (see `Ratings`); NaN refuses nothing.
    """
    return np.where(unnatural > max_unnatural, UNNATURAL, np.where(compatible > max_compatible, COMPATIBLE, ""))


def is_fallback(unnatural: np.ndarray, compatible: np.ndarray, max_bad: float, max_compatible: float) -> np.ndarray:
    """Whether negatives are good enough for a caption of which an operator has no better one: an array of booleans.

    unnatural, compatible: the two probabilities of each (see `Ratings`); where they are NaN the result is False.
    max_bad, max_compatible: the highest `p_bad`, and probability of being compatible, that are good enough.
    """
    return (p_bad(unnatural, compatible) <= max_bad) & (compatible <= max_compatible)


def sizes_and_mean_scores(encodings: Sequence[CaptionEncoding]) -> tuple[np.ndarray, np.ndarray]:
    """The number of units of each text, but at least 1, and the mean log p(unit | rest); both (texts,)."""
    sizes = np.array([max(len(encoding.scores), 1) for encoding in encodings])
    return sizes, np.array([encoding.total for encoding in encodings]) / sizes


@cached(8)
def rater_model_of(model: ClozeModel) -> RaterModel:
    """The raters' network in a model's file; if it has none, that of the shipped model, which then ignores vectors."""
    arrays = model.network.arrays
    if f"{JUDGEMENT}hidden.bias" in arrays:
        return RaterModel(arrays, own=True)
    return RaterModel(read_arrays(data_path("cloze") / "model.npz", JUDGEMENT), own=False)
