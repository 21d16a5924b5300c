"""The accuracy of a baseline, with a confidence interval that takes several pairs per image into account."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

Z = 1.96


@dataclass(frozen=True)
class Accuracy:
    """The percentage of pairs that are right (ties count half), and the bounds of its 95 % Wilson interval in %."""

    percent: float
    low: float
    high: float
    pairs: int


def with_interval(share: Accuracy | None) -> str:
    """A share and its interval for a table, in %: "62.5 (44.1–78.0)"; a dash for None."""
    return "–" if share is None else f"{share.percent:.1f} ({max(share.low, 0.0):.1f}–{min(share.high, 100.0):.1f})"


def accuracy(right: float, pairs: int, effect: float = 1.0) -> Accuracy:
    """An accuracy with its Wilson interval, from the number of right pairs and of all pairs.

    effect: the design effect; the interval is that of pairs / effect independent pairs. Raises ValueError for no pairs
    or an effect below 1.
    """
    if pairs < 1:
        raise ValueError(f"pairs must be >= 1, was: {pairs}")
    if effect < 1:
        raise ValueError(f"effect must be >= 1, was: {effect}")
    n, share = pairs / effect, right / pairs
    centre = (share + Z * Z / (2 * n)) / (1 + Z * Z / n)
    half = Z * math.sqrt(share * (1 - share) / n + Z * Z / (4 * n * n)) / (1 + Z * Z / n)
    return Accuracy(100 * share, 100 * (centre - half), 100 * (centre + half), pairs)


def by_image(right: Iterable[float], images: Iterable[str]) -> Accuracy:
    """The accuracy of pairs (1 right, 0.5 tie, 0 wrong), with the design effect of several pairs per image.

    images: the image_id of each pair. The effect is the variance of the share with images as clusters, divided by the
    variance for as many independent pairs (Kish 1965), at least 1; if all pairs have the same value, it is the mean
    number of pairs per image. Raises ValueError for no pairs.
    """
    sums: dict[str, float] = defaultdict(float)
    sizes: dict[str, int] = defaultdict(int)
    for value, image in zip(right, images, strict=True):
        sums[image] += value
        sizes[image] += 1
    pairs, clusters, total = sum(sizes.values()), len(sizes), sum(sums.values())
    if not pairs:
        return accuracy(0, 0)
    share = total / pairs
    plain = share * (1 - share) / pairs
    effect = pairs / clusters
    if plain > 0 and clusters > 1:
        spread = sum((sums[image] - share * size) ** 2 for image, size in sizes.items())
        effect = spread * clusters / (clusters - 1) / pairs**2 / plain
    return accuracy(total, pairs, max(effect, 1.0))
