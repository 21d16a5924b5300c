"""Shares of right answers with their 95 % intervals, and the plain-text tables and lists in which they are printed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import wrap

from ..report.intervals import wilson

WIDTH = 100


@dataclass(frozen=True)
class Accuracy:
    """The percentage of pairs that are right (ties count half), and the bounds of its 95 % Wilson interval in %."""

    percent: float
    low: float
    high: float
    pairs: int

    @property
    def reversed(self) -> bool:
        """Whether the interval lies below 50 %, so that who turns the answers round is right more often than not."""
        return self.high < 50

    @property
    def cue(self) -> Accuracy:
        """What it is worth to a guesser: if it is `reversed`, that of the opposite answers (22 % right is 78 %)."""
        return Accuracy(100 - self.percent, 100 - self.high, 100 - self.low, self.pairs) if self.reversed else self


def accuracy(right: float, pairs: int, effect: float = 1.0) -> Accuracy:
    """An accuracy with the Wilson interval of pairs / effect (the design effect) pairs. ValueError for one below 1."""
    for name, value in (("pairs", pairs), ("effect", effect)):
        if value < 1:
            raise ValueError(f"{name} must be >= 1, was: {value}")
    share = right / pairs
    low, high = wilson(share, pairs / effect)
    return Accuracy(100 * share, 100 * low, 100 * high, pairs)


def by_image(right: Iterable[float], images: Iterable[str]) -> Accuracy:
    """The accuracy of pairs (1 right, 0.5 tie, 0 wrong) with the design effect of clusters by image (Kish 1965), at
    least 1: the share's variance over that of independent pairs; for equal values the mean pairs per image. ValueError
    for no pairs.
    """
    values: dict[str, list[float]] = {}
    for value, image in zip(right, images, strict=True):
        values.setdefault(image, []).append(value)
    pairs = sum(map(len, values.values()))
    clusters = len(values)
    if not pairs:
        return accuracy(0, 0)
    total = sum(map(sum, values.values()))
    share = total / pairs
    effect = pairs / clusters
    plain = share * (1 - share) / pairs
    if plain > 0 and clusters > 1:
        spread = sum((sum(some) - share * len(some)) ** 2 for some in values.values())
        effect = spread * clusters / (clusters - 1) / pairs**2 / plain
    return accuracy(total, pairs, max(effect, 1.0))


def with_interval(share: Accuracy | None) -> str:
    """A share and its interval for a table, in %: "62.5 (44.1–78.0)"; a dash for None."""
    return "–" if share is None else f"{share.percent:.1f} ({max(share.low, 0.0):.1f}–{min(share.high, 100.0):.1f})"


def as_cue(share: Accuracy) -> str:
    """What an accuracy is worth to a guesser, with its interval: "62.5 (44.1–78.0)", "78.0 (61.6–88.6) reversed"."""
    return with_interval(share.cue) + " reversed" * share.reversed


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Format rows of cells, the header first, as lines: the first column left-aligned, the others right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "   ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]).rstrip()
        for row in rows
    ]


def wrapped(label: str, items: Sequence[str]) -> list[str]:
    """A label and a list with commas as lines of at most 100 characters, broken between items, indented by 2 spaces."""
    fixed = ", ".join(item.replace(" ", "\xa0") for item in items)  # no line ends at a no-break space
    lines = wrap(f"{label} {fixed}", WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return [line.replace("\xa0", " ") for line in lines]
