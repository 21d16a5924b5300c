"""Shares of right answers with their 95 % intervals, and how tables show them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..report.intervals import wilson


@dataclass(frozen=True)
class Accuracy:
    """The percentage of pairs that are right (ties count half), and the bounds of its 95 % Wilson interval in %."""

    percent: float
    low: float
    high: float
    pairs: int

    @property
    def reversed(self) -> bool:
        """Whether the interval lies below 50 %, so that the opposite answers are right more often than not."""
        return self.high < 50

    @property
    def cue(self) -> Accuracy:
        """The accuracy of a guesser who gives the opposite answers if these are mostly wrong: 78 % for 22 %."""
        if not self.reversed:
            return self
        return Accuracy(100 - self.percent, 100 - self.high, 100 - self.low, self.pairs)


def accuracy(right: float, pairs: int, effect: float = 1.0) -> Accuracy:
    """An accuracy with its Wilson interval. Raises ValueError for a number of pairs or an effect below 1.

    Args:
        right: the number of pairs that are right; a tie is half of one.
        pairs: the number of all pairs.
        effect: the design effect: so many pairs say no more than one independent pair.
    """
    for name, value in (("pairs", pairs), ("effect", effect)):
        if value < 1:
            raise ValueError(f"{name} must be >= 1, was: {value}")
    share = right / pairs
    low, high = wilson(share, pairs / effect)
    return Accuracy(100 * share, 100 * low, 100 * high, pairs)


def by_image(right: Iterable[float], images: Iterable[str]) -> Accuracy:
    """The accuracy of pairs, of which those of one image are no independent evidence. Raises ValueError for no pairs.

    The design effect is that of clusters by image (Kish 1965), at least 1: the variance of the share over that of
    independent pairs. If all pairs are right, or none, it is the mean number of pairs per image.

    Args:
        right: of each pair 1 if it is right, 0.5 for a tie, else 0.
        images: the image_id of each pair.
    """
    values_of_image: dict[str, list[float]] = {}
    for value, image in zip(right, images, strict=True):
        values_of_image.setdefault(image, []).append(value)
    pairs = sum(map(len, values_of_image.values()))
    clusters = len(values_of_image)
    if not pairs:
        return accuracy(0, 0)  # raises the ValueError
    total = sum(map(sum, values_of_image.values()))
    share = total / pairs
    # If all pairs are right, or none, the variances below are 0. Then each image counts as one pair.
    effect = pairs / clusters
    independent_variance = share * (1 - share) / pairs
    if independent_variance > 0 and clusters > 1:
        squares = sum((sum(values) - share * len(values)) ** 2 for values in values_of_image.values())
        variance = squares * clusters / (clusters - 1) / pairs**2
        effect = variance / independent_variance
    return accuracy(total, pairs, max(effect, 1.0))


def with_interval(share: Accuracy | None) -> str:
    """A share and its interval for a table, in %: "62.5 (44.1–78.0)"; a dash for None."""
    if share is None:
        return "–"
    # By rounding, the bounds of 0 and of 100 % lie a little beyond, and "-0.0" would be shown.
    low = max(share.low, 0.0)
    high = min(share.high, 100.0)
    return f"{share.percent:.1f} ({low:.1f}–{high:.1f})"


def as_cue(share: Accuracy) -> str:
    """What an accuracy is worth to a guesser, with its interval: "62.5 (44.1–78.0)", "78.0 (61.6–88.6) reversed"."""
    return with_interval(share.cue) + (" reversed" if share.reversed else "")
