"""Choose at most one negative per caption so that blind models, which never see the images, are at chance. A
candidate's gap is a model's score of the true text minus that of the negative; a model is at chance if the gaps of the
chosen are symmetric about 0. The choice balances several models at once, trained on images of other folds. Then
regressions, one by topic, are trained on the chosen pairs, their gaps balanced, too, and the choice repeated, each time
with other folds and topics.
(SugarCrepe, Hsieh et al. 2023, balances two given models in a grid; adversarial filtering, Zellers et al. 2018,
refits.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_matrix
from sklearn.isotonic import IsotonicRegression

from ...augment.reproducible import exp
from .bias import baselines as blind
from .bias.baselines import FOLDS, folds_of, regression
from .bias.ngrams import NgramVocabulary, train, windows
from .bias.topics import Documents, by_topic, documents, topics_of

ROUNDS = 8
SEEDS = 1_000  # added to the seed of the folds, so that they differ from the folds that the result is measured on
PARTS = 6  # parts of the captions, with one language model each
SATISFIED = 1.0  # percentage points: the rounds end after two in a row that are this close to chance
POOL_PENALTY = 0.3  # C of the regression on the first POOL_DRAWS candidates of all captions, chosen or not
POOL_DRAWS = 3
# Costs of a choice. A row costs the imbalance that it adds; one that costs GAIN or more is left out.
DENSE = 0.05  # cost per pair of imbalance in a model's gaps
SPARSE = 5.0  # cost per occurrence of imbalance beyond chance of an n-gram, divided by its frequency + SMOOTH
SMOOTH = 10.0
COMMON = 5  # n-grams with fewer occurrences cost nothing
DRAW = 0.05  # cost per rank of a later, less likely draw
GAIN = 0.1


class Pool(NamedTuple):
    """The candidates of one operator: of caption i rows start[i] to start[i + 1], the likeliest draw first. matrix:
    (candidates, n-grams) counts of the true text minus the negative's; documents: what tells their topics; words:
    columns that are single words; gaps: (candidates, 2 models) of models not trained on pairs (`_squashed`); images:
    by caption.
    """

    start: np.ndarray
    matrix: csr_matrix
    documents: Documents
    words: np.ndarray
    gaps: np.ndarray
    images: Sequence[str]

    @property
    def caption(self) -> np.ndarray:
        """The index of every candidate's caption: (candidates,)."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))


def pool(rows: pa.Table, corpus: Sequence[tuple[str, str]] = (), seed: int = 0) -> Pool:
    """Score all candidates by rules and language models. rows, grouped by caption: caption_id, image_id, `text`,
    `caption` (the true text to compare), `negative`, plausibility (null: not balanced); corpus: (text, image_id) of
    captions to train language models on, empty: the rows'. Raises ValueError if there are fewer images than folds.
    """
    vocabulary = NgramVocabulary()
    ids = rows["caption_id"].combine_chunks()
    start = np.concatenate([[0], np.cumsum(ids.value_counts().field("counts").to_numpy())])
    first = rows.take(start[:-1])
    images = first["image_id"].to_pylist()
    captions = vocabulary.encode(first["text"].to_pylist())
    texts = rows["negative"].to_pylist()
    beside = rows["caption"].to_pylist()
    negative = vocabulary.encode(texts)
    paired = vocabulary.encode(beside)
    read = vocabulary.encode([text for text, _ in corpus]) if corpus else captions
    everything = [*images, *(image for _, image in corpus)]
    folds = folds_of(everything, seed=seed + SEEDS)
    parts = folds_of(everything, PARTS, seed=seed + SEEDS + 1)
    of_corpus = slice(len(images) if corpus else 0, None)
    of = np.repeat(np.arange(len(images)), np.diff(start))
    likely = []
    for part in range(PARTS):
        mine = np.flatnonzero(parts[of_corpus] == part)
        model = train(read.take(mine), folds[of_corpus][mine], FOLDS, len(vocabulary.number))
        likely.append(model.gaps(paired, negative, folds[of]))
    found = blind.features(paired, negative)
    single = np.flatnonzero(np.isin(found.keys, blind.words(found).keys))
    gaps = [_expected(likely)]
    gaps += [_squashed(_gaps(measure, beside, texts)) for measure in (len, blind.format_faults)]
    if not rows["plausibility"].null_count:
        gaps.append(_squashed(-rows["plausibility"].to_numpy().astype(float)))
    captioned = [image for _, image in corpus] or images
    said = documents(read, captioned, paired, windows(paired, negative).true, rows["image_id"].to_pylist())
    return Pool(start, found.matrix, said, single, np.concatenate(gaps, axis=1), images)


def _expected(gaps: Sequence[np.ndarray]) -> np.ndarray:
    """(candidates, 2): the expected gaps of one more model. A candidate chosen for its gap under one model has a
    smaller one under the next, so each model's is regressed on the mean of the others' (isotonic), and the fits
    averaged.
    """
    total = np.sum(gaps, axis=0)
    made = []
    for one in gaps:
        mean = (total - one) / max(len(gaps) - 1, 1)
        fit = IsotonicRegression(out_of_bounds="clip")
        made.append(np.column_stack([fit.fit(mean, column).predict(mean) for column in _squashed(one).T]))
    return np.mean(made, axis=0).astype(np.float32)


def _gaps(measure: Callable[[str], float], true: Sequence[str], texts: Sequence[str]) -> np.ndarray:
    """measure(negative) - measure(true text) of every candidate."""
    known = {text: measure(text) for text in {*true, *texts}}
    return np.array([known[text] - known[other] for text, other in zip(texts, true, strict=True)], float)


def select(candidates: Pool, seed: int = 0, rounds: int = ROUNDS) -> np.ndarray:
    """The chosen row of `candidates` for every caption, -1 for none (captions,), so that blind models are at chance;
    the same for the same pool and seed. Raises ValueError if there are fewer images than folds.
    """
    rng = np.random.default_rng(seed)
    matrix = candidates.matrix
    caption = candidates.caption
    folds = folds_of(candidates.images, seed=seed + SEEDS)
    dense = [candidates.gaps]
    early = np.flatnonzero(np.arange(matrix.shape[0]) - candidates.start[caption] < POOL_DRAWS)
    dense.append(_squashed(_judge(matrix, early, folds[caption], partial(regression, penalty=POOL_PENALTY))))
    chosen = candidates.start[:-1].copy()
    near = 0
    for turn in range(rounds):
        kept = chosen[chosen >= 0]
        folds = folds_of(candidates.images, seed=seed + SEEDS + turn + 1)[caption]
        topics = by_topic(matrix, topics_of(candidates.documents, seed + SEEDS + turn + 1))
        gaps = [
            _judge(matrix, kept, folds, regression),
            _judge(topics, kept, folds, regression),
            _judge(matrix[:, candidates.words], kept, folds, blind.log_odds),
        ]
        near = near + 1 if all(abs(100 * blind.right(some[kept]).mean() - 50) <= SATISFIED for some in gaps) else 0
        if near == 2:
            break
        dense += map(_squashed, gaps)
        _choose(candidates, chosen, np.concatenate(dense, axis=1), rng)
    return chosen


def _judge(matrix: csr_matrix, rows: np.ndarray, folds: np.ndarray, fit: blind.Fit) -> np.ndarray:
    """The gap of every candidate under the model that is fitted to those of `rows` that are not in its fold."""
    return blind.scores(matrix, blind.fold_weights(matrix[rows], folds[rows], FOLDS, fit), folds)


def _squashed(gaps: np.ndarray) -> np.ndarray:
    """(candidates, 2): the sign of a model's gaps, and the gaps scaled and squashed by tanh to -1 to 1."""
    apart = np.abs(gaps[gaps != 0])
    scale = 2 * np.median(apart) if len(apart) else 1.0
    return np.column_stack([np.sign(gaps), 1 - 2 / (exp(2 * gaps / scale) + 1)]).astype(np.float32)


def _choose(candidates: Pool, chosen: np.ndarray, dense: np.ndarray, rng: np.random.Generator) -> None:
    """Visit the captions in random order and give each the candidate, or none, that adds least imbalance to `chosen`
    (captions,), in place; dense: (candidates, columns), the gaps to balance. An n-gram's imbalance costs only beyond
    the deviation of as many coin flips: more even than chance, one half of the pairs would predict the other.
    """
    matrix = candidates.matrix
    bounds = matrix.indptr
    columns = matrix.indices
    values = matrix.data
    kept = chosen[chosen >= 0]
    often = np.bincount(matrix[kept].indices, np.abs(matrix[kept].data), matrix.shape[1])
    chance = np.sqrt(often)
    price = np.where(often >= COMMON, SPARSE / (often + SMOOTH), 0.0)
    weighted = price[columns] * values
    lean = np.bincount(matrix[kept].indices, matrix[kept].data, matrix.shape[1])
    leans = dense[kept].sum(axis=0, dtype=np.float64)
    start = candidates.start.tolist()
    later = DRAW * np.arange(np.diff(candidates.start).max(initial=0))
    for i in rng.permutation(len(chosen)).tolist():
        old = chosen[i]
        if old >= 0:
            lean[columns[bounds[old] : bounds[old + 1]]] -= values[bounds[old] : bounds[old + 1]]
            leans -= dense[old]
        low = start[i]
        high = start[i + 1]
        first = bounds[low]
        last = bounds[high]
        part = columns[first:last]
        here = lean[part]
        beyond = np.copysign(np.maximum(np.abs(here) - chance[part], 0), here) * weighted[first:last]
        running = np.concatenate([[0.0], np.cumsum(beyond)])
        cost = running[bounds[low + 1 : high + 1] - first] - running[bounds[low:high] - first]
        cost += DENSE * (np.add.reduce(dense[low:high] * leans, axis=1)) + later[: high - low]
        best = int(cost.argmin())
        new = low + best if cost[best] < GAIN else -1
        if new >= 0:
            lean[columns[bounds[new] : bounds[new + 1]]] += values[bounds[new] : bounds[new + 1]]
            leans += dense[new]
        chosen[i] = new
