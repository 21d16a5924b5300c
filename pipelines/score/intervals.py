"""Percentages with bootstrap intervals over images: several pairs of one image are no independent evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

LEVELS = (2.5, 97.5)  # percentiles of a 95 % interval
BLOCK = 1 << 22  # weights drawn at a time


class Percent(NamedTuple):
    """A percentage over `n` cases, and its 95 % interval."""

    value: float
    low: float
    high: float
    n: int


class Cases(NamedTuple):
    """Cases that are right (1), wrong (0) or between, (n,) float, and the image of each, (n,)."""

    right: np.ndarray
    image: np.ndarray


def percents(cases: Sequence[Cases], images: int, resamples: int, seed: int) -> list[Percent]:
    """The percentage right of each of K lists of cases, with percentile intervals of one bootstrap over all I images.

    Every list must have a case. A resample draws I images with replacement, and takes all their cases; a resample that
    has none of a list does not count for it.
    """
    sums = np.zeros((images, 2 * len(cases)))
    for k, (right, image) in enumerate(cases):
        sums[:, k] = np.bincount(image, right, images)
        sums[:, len(cases) + k] = np.bincount(image, minlength=images)
    totals = sums.sum(0)
    drawn = _resampled(sums, resamples, np.random.default_rng(seed))
    right, number = drawn[:, : len(cases)], drawn[:, len(cases) :]
    shares = 100 * np.divide(right, number, out=np.full_like(right, np.nan), where=number > 0)
    bounds = np.nanpercentile(shares, LEVELS, axis=0) if len(cases) else np.empty((2, 0))
    values = 100 * totals[: len(cases)] / totals[len(cases) :]
    return [
        Percent(float(value), float(low), float(high), len(some.right))
        for value, low, high, some in zip(values, *bounds, cases, strict=True)
    ]


def _resampled(sums: np.ndarray, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """The sums (I, 2 K) summed over each of the resamples: (resamples, 2 K)."""
    images = len(sums)
    at_once = max(1, BLOCK // images)
    parts = []
    for start in range(0, resamples, at_once):
        rows = min(at_once, resamples - start)
        drawn = rng.integers(images, size=(rows, images)) + images * np.arange(rows)[:, None]
        weights = np.bincount(drawn.ravel(), minlength=rows * images).reshape(rows, images)
        parts.append(weights.astype(np.float64) @ sums)
    return np.concatenate(parts)
