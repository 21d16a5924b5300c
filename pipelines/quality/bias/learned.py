"""Blind models that learn from pairs: word log-odds and logistic regression on n-gram differences, out of fold.

A model is a weight an n-gram; its score of a pair is the sum over what the true text has more of minus the negative's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from negcap.pipelines.quality.bias.ngrams import BITS, Texts, differences

FOLDS = 5
PENALTY = 1.0
MIN_PAIRS = 2
PRIOR = 1.0
TOLERANCE = 1e-3
Fit = Callable[[csr_matrix], np.ndarray]


class Features(NamedTuple):
    """Pairs as n-gram differences. matrix: (pairs, n-grams), sparse; keys: of the n-grams, ascending."""

    matrix: csr_matrix
    keys: np.ndarray


def features(true: Texts, negative: Texts) -> Features:
    """The n-gram differences of pairs of texts."""
    (rows, columns, values), keys = differences(true, negative)
    bounds = np.searchsorted(rows, np.arange(len(true) + 1))
    matrix = csr_matrix((values, columns.astype(np.int32), bounds), shape=(len(true), len(keys)))
    return Features(matrix, keys)


def folds_of(images: Sequence[str], count: int = FOLDS, seed: int = 0) -> np.ndarray:
    """The fold of every pair, at random by image. Raises ValueError with fewer images than folds."""
    names, number = np.unique(np.asarray(images, dtype=object).astype(str), return_inverse=True)
    if len(names) < count:
        raise ValueError(f"images must be >= {count} for {count} folds, were: {len(names)}")
    return np.random.default_rng(seed).permutation(np.arange(len(names)) % count)[number]


def regression(matrix: csr_matrix, penalty: float = PENALTY) -> np.ndarray:
    """The weights of a logistic regression that tells which text of a pair is the true one.

    It is fitted to the rows of differences, every other one negated, as class. n-grams of a single pair weigh nothing.
    """
    weights = np.zeros(matrix.shape[1])
    kept = np.flatnonzero(np.bincount(matrix.indices, minlength=matrix.shape[1]) >= MIN_PAIRS)
    if not len(kept) or matrix.shape[0] < 2:
        return weights
    sign = np.where(np.arange(matrix.shape[0]) % 2, -1.0, 1.0)
    signed = csr_matrix(matrix[:, kept].multiply(sign[:, None]))
    model = LogisticRegression(C=penalty, fit_intercept=False, solver="liblinear", tol=TOLERANCE, random_state=0)
    weights[kept] = model.fit(signed, sign > 0).coef_[0]
    return weights


def log_odds(matrix: csr_matrix) -> np.ndarray:
    """For every n-gram, the smoothed log of how often only the true text has it, over how often only the negative."""
    true, negative = sides(matrix)
    return np.log((true + PRIOR) / (negative + PRIOR))


def sides(matrix: csr_matrix) -> tuple[np.ndarray, np.ndarray]:
    """How often each n-gram is in the true texts only, and in the negatives only."""
    up, down = np.maximum(matrix.data, 0), np.maximum(-matrix.data, 0)
    return tuple(np.bincount(matrix.indices, part, matrix.shape[1]) for part in (up, down))  # type: ignore[return-value]


def words(found: Features) -> Features:
    """The columns of single words."""
    kept = np.flatnonzero(found.keys < 1 << BITS)
    return Features(found.matrix[:, kept], found.keys[kept])


def fold_weights(matrix: csr_matrix, folds: np.ndarray, count: int, fit: Fit) -> np.ndarray:
    """(n-grams, folds): for each fold, the weights fitted to the pairs of all others."""
    return np.column_stack([fit(matrix[np.flatnonzero(folds != fold)]) for fold in range(count)])


def scores(matrix: csr_matrix, weights: np.ndarray, folds: np.ndarray) -> np.ndarray:
    """The score of every pair by the weights of its fold (a column of `fold_weights`)."""
    return (matrix @ weights)[np.arange(matrix.shape[0]), folds]


def right(gaps: np.ndarray) -> np.ndarray:
    """1 where a gap (score of the true text minus the negative's) is above 0, 0.5 where it is 0, else 0."""
    return np.where(gaps > 0, 1.0, np.where(gaps == 0, 0.5, 0.0))
