"""Logistic regression for calibration (Platt 1999)."""

from __future__ import annotations

import numpy as np

from ..elementary import exp

STEPS = 50
PRECISION = 1.0


def fit(features: np.ndarray, labels: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """The maximum a posteriori coefficients, shape (d,), for features (n, d) and labels (n,), by Newton's method.

    The prior is normal with the given mean, shape (d,), and variance 1.
    """
    coefficients = mean.copy()
    for _ in range(STEPS):
        # Sums in a fixed order, unlike those of products of matrices: where the slope is 0 decides the result.
        likely = sigmoid(np.add.reduce(features * coefficients, axis=1))
        slope = np.add.reduce(features * (labels - likely)[:, None]) - PRECISION * (coefficients - mean)
        curve = (features * (likely * (1 - likely))[:, None]).T @ features + PRECISION * np.eye(len(mean))
        step = np.linalg.solve(curve, slope)
        coefficients += step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < 1e-9:
            break
    return coefficients


def sigmoid(log_odds: np.ndarray) -> np.ndarray:
    """The probabilities that belong to log odds."""
    return 1.0 / (1.0 + exp(-log_odds))
