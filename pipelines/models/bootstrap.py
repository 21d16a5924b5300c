"""95 % bootstrap intervals of shares over images and trainings: pairs of one image are no independent evidence.

All draws are of one generator (MT19937, modulo n): the same on every machine and for every call with the same n and
seed, so that samples of two models may be subtracted one by one (a paired bootstrap).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .figures import format_interval

RESAMPLES, AT_ONCE = 2000, 100
LEVELS = (2.5, 97.5)  # percentiles of a 95 % interval


class Figure(NamedTuple):
    """A figure, or a difference of two, and its 95 % bootstrap interval, (low, high)."""

    value: float
    interval: tuple[float, float]

    def __str__(self) -> str:
        return format_interval(self.value, self.interval)


def draws(n: int, seed: int, resamples: int = RESAMPLES) -> Iterator[np.ndarray]:
    """How often each of n is drawn in n draws with replacement: parts (<= AT_ONCE, n) of all resamples."""
    random = np.random.RandomState(seed % (1 << 32))
    for start in range(0, resamples, AT_ONCE):
        rows = min(AT_ONCE, resamples - start)
        drawn = random.randint(1 << 32, size=(rows, n), dtype=np.uint32) % n + n * np.arange(rows)[:, None]
        yield np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n).astype(np.float64)


def bootstrap(counts: np.ndarray, sizes: np.ndarray, seed: int, resamples: int = RESAMPLES) -> np.ndarray:
    """Samples (resamples, k) of the k ratios of the sums of counts and sizes over I images and S trainings, in %.

    counts: (I, k) or (S, I, k). sizes: of the same shape, or with k = 1. Each sample draws I images and S trainings
    with replacement; NaN where it has nothing to count.
    """
    counts, sizes = (part if part.ndim == 3 else part[None] for part in (counts, sizes))
    trainings, images = counts.shape[:2]
    samples = []
    for of_images, of_trainings in zip(draws(images, seed, resamples), draws(trainings, seed, resamples), strict=True):
        drawn, number = (np.einsum("rs,srk->rk", of_trainings, of_images @ part) for part in (counts, sizes))
        samples.append(100 * np.divide(drawn, number, out=np.full_like(drawn, np.nan), where=number > 0))
    return np.concatenate(samples)


def interval(samples: np.ndarray) -> tuple[float, float]:
    """The 95 % interval of samples (n,), without those that are NaN."""
    low, high = np.nanpercentile(samples, LEVELS).tolist()
    return low, high


def figures(counts: np.ndarray, sizes: np.ndarray, seed: int, resamples: int = RESAMPLES) -> list[Figure]:
    """The k ratios of the sums of counts and sizes, both (I, k) or sizes (I, 1), over I images, in %."""
    values = (100 * counts.sum(0) / sizes.sum(0)).tolist()
    samples = bootstrap(counts, sizes, seed, resamples)
    return [Figure(value, interval(column)) for value, column in zip(values, samples.T, strict=True)]
