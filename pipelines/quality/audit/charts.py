"""The charts of an audit: histograms, intervals, words on two axes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import ceil, floor, log10
from typing import NamedTuple

from .figures import Use

WIDTH, HEIGHT = 320, 160


class Bar(NamedTuple):
    """A rectangle with its top left corner at (x, y); `kind` is its CSS class, `title` its tooltip."""

    x: float
    y: float
    width: float
    height: float
    title: str = ""
    kind: str = ""


class Line(NamedTuple):
    """A line through `points`, given as "x,y x,y …"; `kind` is its CSS class."""

    points: str
    kind: str


class Dot(NamedTuple):
    """A circle centred at (x, y); `kind` is its CSS class, `title` its tooltip."""

    x: float
    y: float
    title: str
    kind: str


class Label(NamedTuple):
    """A text at (x, y); `anchor` is which part of it is there: start, middle or end; `kind` is its CSS class."""

    x: float
    y: float
    text: str
    anchor: str = "middle"
    kind: str = ""


class Chart(NamedTuple):
    """A chart of `width` by `height` units; `summary` describes in words what it shows."""

    summary: str
    bars: Sequence[Bar] = ()
    lines: Sequence[Line] = ()
    dots: Sequence[Dot] = ()
    labels: Sequence[Label] = ()
    width: float = WIDTH
    height: float = HEIGHT


class Scale(NamedTuple):
    """A linear map of values from `low` to `high` to coordinates from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The coordinate of a value, rounded to one decimal."""
        span = self.high - self.low or 1.0
        return round(self.start + (value - self.low) / span * (self.end - self.start), 1)


LEFT, RIGHT, TOP, BOTTOM = 36, 8, 8, 30
SHOWN = 60  # words plotted
NAMED = 14  # words labelled with their name
SPAN = 12  # larger differences in characters go into the bins at the ends
LIMITS = (55.0, 60.0)  # %: a blind accuracy whose interval is above the first is suspicious, above the second refused


def _histogram(
    summary: str,
    axis: str,
    bars: Sequence[tuple[float, float, str, str]],
    ticks: Sequence[tuple[float, str]],
    low: float,
    high: float,
    unit: float = 0,
    outline: Sequence[tuple[float, float]] = (),
) -> Chart:
    """A histogram over values from `low` to `high`, in %.

    bars: the left end of each bin, its share, tooltip and CSS class; ticks: labels under the axis; unit: where the
    width of a bin is measured; outline: points (value, share) of a line.
    """
    top = max(1.0, *(share for _, share, _, _ in bars), *(share for _, share in outline))
    x, y = Scale(low, high, LEFT, WIDTH - RIGHT), Scale(0, top, HEIGHT - BOTTOM, TOP)
    wide = round(x(unit + 1) - x(unit) - 1, 1)
    drawn = [Bar(x(at) + 0.5, y(n), wide, round(y(0) - y(n), 1), title, kind) for at, n, title, kind in bars]
    lines = [Line(f"{LEFT},{y(0)} {WIDTH - RIGHT},{y(0)}", "frame")]
    if outline:
        lines.insert(0, Line(" ".join(f"{x(at)},{y(share)}" for at, share in outline), "outline"))
    step = next(step for step in (100, 50, 20, 10, 5, 2, 1, 0.5) if step <= top)
    percents = [Label(LEFT - 4, y(value) + 3, f"{value:g} %", "end") for value in (0, step)]
    labels = [*(Label(x(at), HEIGHT - 17, text) for at, text in ticks), *percents, _axis(axis)]
    return Chart(summary, drawn, lines, labels=labels)


def lengths(caption: Counter[int], negative: Counter[int]) -> Chart:
    """Histograms of the number of words per text, in % of pairs: negatives as bars, captions as an outline.

    caption, negative: how many texts have each number of words.
    """
    total = sum(negative.values()) or 1
    low, high = min(caption | negative), min(max(caption | negative), _quantile(caption + negative, 0.995))
    bars, outline = [], []
    for n in range(low, high + 1):
        false, true = 100 * negative[n] / total, 100 * caption[n] / total
        bars.append((n - 0.5, false, f"{n} words: negatives {false:.1f} %, captions {true:.1f} %", ""))
        outline += [(n - 0.5, true), (n + 0.5, true)]
    mean = [sum(n * k for n, k in counter.items()) / (sum(counter.values()) or 1) for counter in (caption, negative)]
    summary = f"Words per text: captions {mean[0]:.2f} on average, negatives {mean[1]:.2f}"
    ticks = [(n, str(n)) for n in range(low, high + 1) if n % 5 == 0]
    return _histogram(summary, "words", bars, ticks, low - 0.5, high + 0.5, low, outline)


def _quantile(counter: Counter[int], share: float) -> int:
    """The smallest value such that at least this share (0 to 1) of the counts is at or below it."""
    left = share * sum(counter.values())
    for value in sorted(counter):
        left -= counter[value]
        if left <= 0:
            break
    return value


def added(counter: Counter[int]) -> Chart:
    """Histogram of `counter`, the characters a negative has more than its caption, in % of pairs.

    Differences beyond ±12 are in the bins at the ends.
    """
    total = sum(counter.values()) or 1
    bins: Counter[int] = Counter()
    for n, count in counter.items():
        bins[max(-SPAN, min(SPAN, n))] += count
    bars = []
    for n in range(-SPAN, SPAN + 1):
        share = 100 * bins[n] / total
        bars.append((n - 0.5, share, f"{_beyond(n)} characters: {share:.1f} %", "middle" if n == 0 else ""))
    sides = [100 * sum(c for n, c in counter.items() if (n > 0) - (n < 0) == sign) / total for sign in (-1, 0, 1)]
    summary = "Negatives that are shorter than their caption {:.1f} %, as long {:.1f} %, longer {:.1f} %".format(*sides)
    ticks = [(n, _beyond(n)) for n in (-SPAN, -6, 0, 6, SPAN)]
    return _histogram(summary, "characters more", bars, ticks, -SPAN - 0.5, SPAN + 0.5)


def _beyond(n: int) -> str:
    sign = "−" if n < 0 else "+" if n > 0 else ""
    return ("≤ " if n == -SPAN else "≥ " if n == SPAN else "") + f"{sign}{abs(n)}"


def positions(counter: Counter[int], bins: int) -> Chart:
    """Histogram of the positions of edits in the caption, in % of edits; counter: edits by bin, from 0 to bins - 1."""
    total = sum(counter.values()) or 1
    shares = [100 * counter[n] / total for n in range(bins)]
    bars = [
        (n, share, f"{100 * n // bins}–{100 * (n + 1) // bins} % of the caption: {share:.1f} % of the edits", "")
        for n, share in enumerate(shares)
    ]
    halves = [sum(shares[: bins // 2]), sum(shares[bins // 2 :])]
    summary = "Edits in the first half of the caption {:.1f} %, in the second {:.1f} %".format(*halves)
    ticks = [(bins * share, text) for share, text in ((0.0, "start"), (0.5, "middle"), (0.96, "end"))]
    return _histogram(summary, "place in the caption", bars, ticks, 0, bins)


def words(found: Sequence[Use]) -> Chart | None:
    """Scatter plot of how often words are put in (filled) and taken out (hollow) against their corpus count.

    Both axes are logarithmic. Only the first 60 words with a corpus count are shown; None if there are none.
    """
    some = [use for use in found if use.corpus][:SHOWN]
    if not some:
        return None
    width, height = 2 * WIDTH, 260
    counts = [use.corpus or 1 for use in some]
    numbers = [n for use in some for n in (use.out, use.put)]
    least = floor(log10(min(n for n in numbers if n)))
    zero = least - 0.35  # where 0 is drawn, below the smallest power of ten
    x = Scale(log10(min(counts)) - 0.1, log10(max(counts)) + 0.1, LEFT, width - RIGHT)
    low = zero if 0 in numbers else least
    y = Scale(low, max(log10(max(numbers)), least + 1) + 0.1, height - BOTTOM, TOP)

    def place(n: int) -> float:
        return y(log10(n) if n else zero)

    lines, dots, labels = [], [], []
    for use, corpus in zip(some, counts, strict=True):
        at, said = x(log10(corpus)), f"{use.word}: {corpus:,} in the corpus, taken out {use.out:,}, put in {use.put:,}"
        lines.append(Line(f"{at},{place(use.out)} {at},{place(use.put)}", "stem"))
        dots += [Dot(at, place(use.out), said, "out"), Dot(at, place(use.put), said, "put")]
    taken: list[tuple[float, float]] = []
    for use in sorted(some, key=lambda use: (-abs(use.lean), use.word)):
        at, above = x(log10(use.corpus or 1)), min(place(use.out), place(use.put)) - 4
        if len(taken) < NAMED and all(abs(at - a) > 52 or abs(above - b) > 12 for a, b in taken):
            taken.append((at, above))
            labels.append(Label(min(max(at, LEFT + 16), width - 22), max(above, 9), use.word, kind="word"))
    steps = (1, 2, 5) if x.high - x.low < 2 else (1,)
    for count in (step * 10**power for power in range(floor(x.low), ceil(x.high)) for step in steps):
        if count >= 1 and x.low <= log10(count) <= x.high:
            labels.append(Label(x(log10(count)), height - 17, f"{count:,}"))
    for power in range(least, floor(y.high) + 1):
        labels.append(Label(LEFT - 4, y(power) + 3, f"{10**power:,}", "end"))
    if 0 in numbers:
        labels.append(Label(LEFT - 4, y(zero) + 3, "0", "end"))
    labels.append(_axis("occurrences in the corpus", width, height))
    frame = Line(f"{LEFT},{TOP} {LEFT},{height - BOTTOM} {width - RIGHT},{height - BOTTOM}", "frame")
    summary = f"How often the {len(some)} words used most are taken out and put in, over their count in the corpus"
    return Chart(summary, (), [frame, *lines], dots, labels, width, height)


def accuracy(percent: float, low: float, high: float, reversible: bool = True) -> Chart:
    """A blind accuracy (%) as a bar from 50 %, with its 95 % interval as a line; the dashed line is the publish limit.

    The colour depends on the end of the interval that is nearer to 50, since few pairs prove little. reversible:
    whether the opposite of the baseline is a baseline, too, so that an interval below 50 tells as much as one above.
    """
    wide, tall = 120, 14
    x = Scale(25, 100, 0, wide)
    start, end = sorted((x(50), x(max(percent, 25))))
    apart = max(low - 50, 50 - high) if reversible else low - 50
    kind = "high" if apart > LIMITS[1] - 50 else "some" if apart > LIMITS[0] - 50 else "good"
    marks = [
        Line(f"{x(50)},0 {x(50)},{tall}", "frame"),
        Line(f"{x(LIMITS[1])},0 {x(LIMITS[1])},{tall}", "limit"),
        Line(f"{x(max(low, 25))},{tall / 2} {x(max(high, 25))},{tall / 2}", "interval"),
    ]
    said = f"{percent:.1f} %, 95 % interval {low:.1f} to {high:.1f}"
    return Chart(
        said, [Bar(start, 2.5, round(max(end - start, 0.5), 1), 9, said, kind)], marks, width=wide, height=tall
    )


def _axis(text: str, width: float = WIDTH, height: float = HEIGHT) -> Label:
    return Label((LEFT + width - RIGHT) / 2, height - 3, text, kind="axis")
