"""Logistic regression for calibration (Platt 1999), shrunk to trusting the estimate as it is."""

from __future__ import annotations

import numpy as np

STEPS = 50
PRECISION = 1.0


def fit(features: np.ndarray, labels: np.ndarray, trusted: int) -> np.ndarray:
    """The coefficients, shape (features,), that make the labels likeliest, with a normal prior of variance 1.

    The prior's mean is 1 for feature number `trusted`, the log odds of the estimate, and 0 for others. Newton's method.
    """
    mean = np.zeros(features.shape[1])
    mean[trusted] = 1.0
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
    """Probabilities of log odds."""
    return 1.0 / (1.0 + np.exp(-log_odds))
