"""Logistic regression for calibration (Platt 1999)."""

from __future__ import annotations

import numpy as np

STEPS = 50
PRECISION = 1.0


def fit(features: np.ndarray, labels: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """The maximum a posteriori coefficients, shape (d,), for features (n, d) and labels (n,), by Newton's method.

    The prior is normal with the given mean, shape (d,), and variance 1.
    """
    coefficients = mean.copy()
    for _ in range(STEPS):
        likely = sigmoid(features @ coefficients)
        slope = features.T @ (labels - likely) - PRECISION * (coefficients - mean)
        curve = (features * (likely * (1 - likely))[:, None]).T @ features + PRECISION * np.eye(len(mean))
        step = np.linalg.solve(curve, slope)
        coefficients += step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < 1e-9:
            break
    return coefficients


def sigmoid(log_odds: np.ndarray) -> np.ndarray:
    """The probabilities that belong to log odds."""
    return 1.0 / (1.0 + np.exp(-log_odds))
