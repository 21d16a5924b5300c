"""The accuracy of a baseline, with a confidence interval that allows for several pairs an image."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

Z = 1.96


@dataclass(frozen=True)
class Accuracy:
    """The share of pairs that are right, in %, with the bounds of its 95 % Wilson interval; ties count half."""

    percent: float
    low: float
    high: float
    pairs: int


def accuracy(right: float, pairs: int, effect: float = 1.0) -> Accuracy:
    """An accuracy with its Wilson interval. effect: the design effect, by which dependent pairs count for fewer.

    Raises ValueError without pairs, or for an effect below 1.
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
    """The accuracy of pairs (1 right, 0.5 a tie, 0 wrong), their images the clusters of a design effect.

    The effect is the clustered variance of the share over that of as many independent pairs (Kish 1965), at least 1;
    where all pairs have the same value it is the mean number of pairs an image. Raises ValueError without pairs.
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
