"""Blind models that learn from pairs: word log-odds and logistic regression on n-gram differences, cross-validated.

A model has one weight per n-gram; its score (gap) of a pair is the weighted sum of the n-gram counts of the true text
minus those of the negative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from ....augment.reproducible import log
from .ngrams import BITS, Texts, differences

FOLDS = 5
PENALTY = 1.0
MIN_PAIRS = 2
PRIOR = 1.0
TOLERANCE = 1e-3
STEP = 2.0**-10  # weights are multiples: what the fit rounds differs with the processor, near the 14th digit
Fit = Callable[[csr_matrix], np.ndarray]


class Features(NamedTuple):
    """n-gram differences of pairs. matrix: (pairs, n-grams), sparse; keys: the n-grams of the columns, ascending."""

    matrix: csr_matrix
    keys: np.ndarray


def features(true: Texts, negative: Texts) -> Features:
    """The n-gram counts of each true text minus those of its negative."""
    (rows, columns, values), keys = differences(true, negative)
    bounds = np.searchsorted(rows, np.arange(len(true) + 1))
    matrix = csr_matrix((values, columns.astype(np.int32), bounds), shape=(len(true), len(keys)))
    return Features(matrix, keys)


def folds_of(images: Sequence[str], count: int = FOLDS, seed: int = 0) -> np.ndarray:
    """Assign images at random to `count` folds; returns the fold of each entry of `images`, (n,).

    Raises ValueError if there are fewer images than folds.
    """
    names, number = np.unique(np.asarray(images, dtype=object).astype(str), return_inverse=True)
    if len(names) < count:
        raise ValueError(f"too few images: {len(names)}, needs {count}")
    return np.random.default_rng(seed).permutation(np.arange(len(names)) % count)[number]


def regression(matrix: csr_matrix, penalty: float = PENALTY) -> np.ndarray:
    """The weights (n-grams,) of a logistic regression that tells which text of a pair is the true one.

    matrix: (pairs, n-grams) differences; every second row is negated and forms the other class. penalty: the C of
    scikit-learn. n-grams that are in only one pair have weight 0.
    """
    weights = np.zeros(matrix.shape[1])
    kept = np.flatnonzero(np.bincount(matrix.indices, minlength=matrix.shape[1]) >= MIN_PAIRS)
    if not len(kept) or matrix.shape[0] < 2:
        return weights
    sign = np.where(np.arange(matrix.shape[0]) % 2, -1.0, 1.0)
    signed = csr_matrix(matrix[:, kept].multiply(sign[:, None]))
    model = LogisticRegression(C=penalty, fit_intercept=False, solver="liblinear", tol=TOLERANCE, random_state=0)
    weights[kept] = np.rint(model.fit(signed, sign > 0).coef_[0] / STEP) * STEP
    return weights


def log_odds(matrix: csr_matrix) -> np.ndarray:
    """(n-grams,): log of (count in true texts only + 1) / (count in negatives only + 1)."""
    true, negative = sides(matrix)
    return log((true + PRIOR) / (negative + PRIOR))


def sides(matrix: csr_matrix) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays (n-grams,): how often only the true text has each n-gram, and how often only the negative has it."""
    up, down = np.maximum(matrix.data, 0), np.maximum(-matrix.data, 0)
    return tuple(np.bincount(matrix.indices, part, matrix.shape[1]) for part in (up, down))  # type: ignore[return-value]


def words(found: Features) -> Features:
    """Only those columns that are single words."""
    kept = np.flatnonzero(found.keys < 1 << BITS)
    return Features(found.matrix[:, kept], found.keys[kept])


def fold_weights(matrix: csr_matrix, folds: np.ndarray, count: int, fit: Fit) -> np.ndarray:
    """(n-grams, folds): for each fold, the weights that `fit` learns from the pairs of all other folds."""
    return np.column_stack([fit(matrix[np.flatnonzero(folds != fold)]) for fold in range(count)])


def scores(matrix: csr_matrix, weights: np.ndarray, folds: np.ndarray) -> np.ndarray:
    """(pairs,): the score of every pair by the weights of its fold (a column of `fold_weights`)."""
    return (matrix @ weights)[np.arange(matrix.shape[0]), folds]


def right(gaps: np.ndarray) -> np.ndarray:
    """For each gap (score of the true text minus the negative's): 1 if it is above 0, 0.5 if it is 0, else 0."""
    return np.where(gaps > 0, 1.0, np.where(gaps == 0, 0.5, 0.0))
