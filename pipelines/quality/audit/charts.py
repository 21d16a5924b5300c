"""The charts of an audit, drawn as SVG: histograms, intervals, words on two axes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import ceil, floor, log10, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from markupsafe import Markup

from ...report.rows import visible

if TYPE_CHECKING:
    import pandas as pd

    from ..accuracy import Accuracy
    from .figures import WordUse

# Lengths are in units of the SVG, about pixels.
WIDTH = 320
HEIGHT = 170
LEFT = 42  # margins around what is plotted
RIGHT = 8
TOP = 8
BOTTOM = 38
SHOWN = 60  # words plotted
NAMED = 20  # words labelled with their name, if there is room
LETTER = 7.2  # the mean width of a letter of such a label
LINE = 13.0  # its height
RADIUS = 3.0  # of a dot
# Differences of more characters go into the bins at the ends.
SPAN = 12
# The share of texts that the histogram of lengths shows: a few very long ones would squeeze all others.
MOST_TEXTS = 0.995
# A text-only accuracy, in %, whose interval lies above the first is suspicious, above the second refused.
LIMITS = (55.0, 60.0)
# The accuracy of fewer pairs is drawn in grey: its interval is wider than 28 points.
LEAST_PAIRS = 50


class Chart(NamedTuple):
    """A drawing, what it shows in words, and whether it is twice as wide as others."""

    summary: str
    svg: Markup
    double: bool = False


def draw(
    summary: str, shapes: Iterable[str], width: float = WIDTH, height: float = HEIGHT, kind: str = "plot"
) -> Markup:
    """An SVG of these shapes, `width` by `height` units, that a screen reader reads as `summary`."""
    head = Markup('<svg class="{}" viewBox="0 0 {} {}" role="img" aria-label="{}">')
    return Markup("\n").join([head.format(kind, width, height, visible(summary)), *shapes, Markup("</svg>")])


def shape(tag: str, text: str = "", kind: str = "", **attributes: object) -> Markup:
    """An SVG element of the CSS class `kind` that says `text`: a text as such, any other as its tooltip."""
    # Markup escapes what is formatted into it: words of a caption may hold < or ".
    attribute_list = Markup("")
    for name, value in {"class": kind, **attributes}.items():
        if value != "":
            attribute_list += Markup(' {}="{}"').format(name, value)
    content: str = visible(text)
    if text and tag != "text":
        content = Markup("<title>{}</title>").format(content)
    return Markup("<{0}{1}>{2}</{0}>").format(tag, attribute_list, content)


def line(kind: str, *points: tuple[float, float]) -> Markup:
    """A line through points."""
    return shape("polyline", kind=kind, points=" ".join(f"{x},{y}" for x, y in points))


def label(x: float, y: float, text: str, anchor: str = "middle", kind: str = "") -> Markup:
    """A text at (x, y); `anchor` says which part of it is at this point: start, middle or end."""
    return shape("text", text, kind, x=x, y=y, **{"text-anchor": anchor})


def scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    """A linear map of values from `low` to `high` to coordinates from `start` to `end`, rounded to one decimal."""
    return lambda value: round(start + (value - low) / (high - low or 1.0) * (end - start), 1)


class Bin(NamedTuple):
    """A bar of a histogram, one unit wide. start: on the axis; share: in %; text: its tooltip; kind: its CSS class."""

    start: float
    share: float
    text: str
    kind: str = ""


class Tick(NamedTuple):
    """A label on the axis of a histogram, and where it is."""

    value: float
    text: str


def _histogram(
    summary: str, axis: str, bins: Sequence[Bin], ticks: Sequence[Tick], outline: Sequence[tuple[float, float]] = ()
) -> Chart:
    """A histogram of adjacent bins, which ascend.

    Args:
        summary: what it shows, in words.
        axis: what its horizontal axis counts.
        bins: the bars.
        ticks: labels of the axis.
        outline: the points (value, share) of a line over the bars.
    """
    low = bins[0].start
    high = bins[-1].start + 1
    highest = max(1.0, *(bar.share for bar in bins), *(share for _, share in outline))
    x = scale(low, high, LEFT, WIDTH - RIGHT)
    y = scale(0, highest, HEIGHT - BOTTOM, TOP)
    one_unit = max(0, ceil(low))  # all bars are one unit wide: this one is measured
    # A gap of one pixel between two bars.
    bar_width = round(x(one_unit + 1) - x(one_unit) - 1, 1)
    shapes = []
    for bar in bins:
        height = round(y(0) - y(bar.share), 1)
        place = {"x": x(bar.start) + 0.5, "y": y(bar.share), "width": bar_width, "height": height}
        shapes.append(shape("rect", bar.text, bar.kind, **place))
    if outline:
        shapes.append(line("outline", *((x(value), y(share)) for value, share in outline)))
    shapes.append(line("frame", (LEFT, y(0)), (WIDTH - RIGHT, y(0))))
    shapes += [label(x(tick.value), HEIGHT - 20, tick.text) for tick in ticks]
    # Only 0 and the largest round number below the highest bar are labelled.
    round_share = next(step for step in (100, 50, 20, 10, 5, 2, 1, 0.5) if step <= highest)
    shapes += [label(LEFT - 4, y(share) + 3, f"{share:g} %", "end") for share in (0, round_share)]
    return Chart(summary, draw(summary, [*shapes, _axis(axis)]))


def lengths(caption: pd.Series, negative: pd.Series) -> Chart:
    """Histograms of words per text, in % of pairs: negatives as bars, captions as an outline.

    caption, negative: the number of texts, indexed by their number of words.
    """
    both = caption.add(negative, fill_value=0)
    shortest = both.index[0]
    longest = both.index[both.cumsum() >= MOST_TEXTS * both.sum()][0]
    bins = []
    outline = []
    for words in range(shortest, longest + 1):
        negatives = 100 * negative.get(words, 0) / negative.sum()
        captions = 100 * caption.get(words, 0) / caption.sum()
        text = f"{words} words: negatives {negatives:.1f} %, captions {captions:.1f} %"
        bins.append(Bin(words - 0.5, negatives, text))
        outline += [(words - 0.5, captions), (words + 0.5, captions)]
    mean_of_captions = np.average(caption.index, weights=caption)
    mean_of_negatives = np.average(negative.index, weights=negative)
    summary = f"Words per text: captions {mean_of_captions:.2f} on average, negatives {mean_of_negatives:.2f}"
    ticks = [Tick(words, str(words)) for words in range(shortest, longest + 1) if words % 5 == 0]
    return _histogram(summary, "words", bins, ticks, outline)


def added(counts: pd.Series) -> Chart:
    """Histogram of the characters that a negative has more than its caption, in % of pairs.

    counts: the number of pairs, indexed by this difference. The bins at both ends hold all larger differences.
    """
    shares = 100 * counts / counts.sum()
    in_span = shares.groupby(shares.index.to_series().clip(-SPAN, SPAN)).sum()
    bins = []
    for characters in range(-SPAN, SPAN + 1):
        share = in_span.get(characters, 0.0)
        text = f"{_with_sign(characters)} characters: {share:.1f} %"
        bins.append(Bin(characters - 0.5, share, text, "middle" if characters == 0 else ""))
    shorter = shares[shares.index < 0].sum()
    as_long = shares[shares.index == 0].sum()
    longer = shares[shares.index > 0].sum()
    summary = f"Negatives that are shorter than their caption {shorter:.1f} %, as long {as_long:.1f} %"
    summary += f", longer {longer:.1f} %"
    ends = 0.9 * SPAN  # so that the labels of the end bins stay inside the chart
    ticks = [Tick(-ends, f"≤ −{SPAN}"), *(Tick(n, _with_sign(n)) for n in (-6, 0, 6)), Tick(ends, f"≥ +{SPAN}")]
    return _histogram(summary, "characters more", bins, ticks)


def _with_sign(characters: int) -> str:
    """A difference in characters: "+3", "0", "−3", and of the bins at the ends "≥ +12", "≤ −12"."""
    if characters == 0:
        return "0"
    text = f"{'−' if characters < 0 else '+'}{abs(characters)}"
    if abs(characters) < SPAN:
        return text
    return f"{'≤' if characters < 0 else '≥'} {text}"


def positions(counts: pd.Series, number: int) -> Chart:
    """Histogram of the positions of edits in the caption, in % of edits.

    Args:
        counts: the number of edits, indexed by bin: 0 is at the start of a caption, `number` - 1 at its end.
        number: of bins.
    """
    shares = 100 * counts.reindex(range(number), fill_value=0) / max(counts.sum(), 1)
    bins = []
    for position, share in enumerate(shares):
        part = f"{100 * position // number}–{100 * (position + 1) // number} % of the caption"
        bins.append(Bin(position, share, f"{part}: {share:.1f} % of the edits"))
    first = shares[: number // 2].sum()
    second = shares[number // 2 :].sum()
    summary = f"Edits in the first half of the caption {first:.1f} %, in the second {second:.1f} %"
    ticks = [Tick(0.06 * number, "start"), Tick(0.5 * number, "middle"), Tick(0.96 * number, "end")]  # inside the edges
    return _histogram(summary, "place in the caption", bins, ticks)


class LabelBox(NamedTuple):
    """A rectangle of a drawing that something fills."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: LabelBox) -> bool:
        """Whether both have a point in common."""
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom


class PlottedWord(NamedTuple):
    """A word of the plot, and where its dots are. high, low: the vertical places of the upper and of the lower one."""

    use: WordUse
    corpus: int
    x: float
    high: float
    low: float


def words(uses: Sequence[WordUse]) -> Chart | None:
    """Plot how often words are inserted (filled dots) and removed (hollow ones) over their count in the corpus; both
    axes are logarithmic. The first SHOWN words with a count are plotted; None if there are none.
    """
    plotted = [(use, use.corpus) for use in uses if use.corpus is not None][:SHOWN]
    if not plotted:
        return None
    width = 2 * WIDTH
    height = 300
    numbers = [number for use, _ in plotted for number in (use.out, use.put)]
    # Both axes are logarithmic; `least` is the exponent of the power of ten below the smallest number.
    least = floor(log10(min(filter(None, numbers))))
    # The logarithm of 0 is drawn a little below.
    zero = least - 0.35
    rarest = log10(min(corpus for _, corpus in plotted)) - 0.1
    commonest = log10(max(corpus for _, corpus in plotted)) + 0.1
    most = max(log10(max(numbers)), least + 1) + 0.1
    x = scale(rarest, commonest, LEFT, width - RIGHT)
    y = scale(zero if 0 in numbers else least, most, height - BOTTOM, TOP + LINE)

    def height_of(number: int) -> float:
        """The vertical place of a number of occurrences."""
        return y(log10(number) if number else zero)

    stems = [line("frame", (LEFT, TOP), (LEFT, height - BOTTOM), (width - RIGHT, height - BOTTOM))]
    dots = []
    places = []
    for use, corpus in plotted:
        left = x(log10(corpus))
        high, low = sorted((height_of(use.out), height_of(use.put)))
        places.append(PlottedWord(use, corpus, left, high, low))
        text = f"{use.word}: {corpus:,} in the corpus, removed {use.out:,}, inserted {use.put:,}"
        stems.append(line("stem", (left, low), (left, high)))
        dots.append(shape("circle", text, "out", cx=left, cy=height_of(use.out), r=RADIUS))
        dots.append(shape("circle", text, "put", cx=left, cy=height_of(use.put), r=RADIUS))
    labels = _names(places, LabelBox(LEFT, 0, width, height - BOTTOM))
    labels += _count_labels(rarest, commonest, x, height)
    for power in range(least, floor(most) + 1):
        labels.append(label(LEFT - 6, y(power) + 4, f"{10**power:,}", "end"))
    if 0 in numbers:
        labels.append(label(LEFT - 6, y(zero) + 4, "0", "end"))
    labels.append(_axis("occurrences in the corpus", width, height))
    summary = f"How often the {len(plotted)} words used most are inserted and removed, over their count in the corpus"
    return Chart(summary, draw(summary, [*stems, *dots, *labels], width, height), double=True)


def _names(places: Sequence[PlottedWord], inside: LabelBox) -> list[Markup]:
    """The names of at most NAMED words, above, below or beside their dots, where they hide neither dots nor names."""
    taken = []
    for place in places:
        taken.append(LabelBox(place.x - 1, place.high, place.x + 1, place.low))  # the stem
        for dot in (place.high, place.low):
            taken.append(LabelBox(place.x - RADIUS, dot - RADIUS, place.x + RADIUS, dot + RADIUS))
    labels: list[Markup] = []
    # Words that are inserted much more or less often than removed come first: they are worth a name.
    for place in sorted(places, key=lambda place: (-_one_sidedness(place.use), place.use.word)):
        half = LETTER * len(place.use.word) / 2
        middle_of_dot = place.high + LINE / 2 - 2
        for middle, bottom in (
            (place.x, place.high - RADIUS - 2),  # above the upper dot
            (place.x + half + 6, middle_of_dot),  # to its right
            (place.x - half - 6, middle_of_dot),  # to its left
            (place.x, place.low + LINE + RADIUS),  # below the lower dot
        ):
            box = LabelBox(middle - half - 2, bottom - LINE + 2, middle + half + 2, bottom + 2)
            fits = box.left >= inside.left and box.right <= inside.right
            fits = fits and box.top >= inside.top and box.bottom <= inside.bottom
            if len(labels) < NAMED and fits and not any(box.overlaps(other) for other in taken):
                taken.append(box)
                labels.append(label(round(middle, 1), round(bottom, 1), place.use.word, kind="word"))
                break
    return labels


def _one_sidedness(use: WordUse) -> float:
    """By how many standard deviations of coin flips a word is more often inserted or removed."""
    return abs(use.put - use.out) / sqrt(use.put + use.out)


def _count_labels(low: float, high: float, x: Callable[[float], float], height: float) -> list[Markup]:
    """Labels of a logarithmic axis from `low` to `high`: 1, 10, 100 …; on a short one 1, 2, 5, 10 …"""
    steps = (1, 2, 5) if high - low < 2 else (1,)
    labels = []
    for power in range(floor(low), ceil(high)):
        for step in steps:
            count = step * 10**power
            if count >= 1 and low <= log10(count) <= high:
                labels.append(label(x(log10(count)), height - 20, f"{count:,}"))
    return labels


def accuracy(measured: Accuracy) -> Markup:
    """A text-only accuracy (%) as a bar from 50 %, its 95 % interval as a line, and the limits of `publish` dashed.

    Its colour says how far the end of the interval that is nearer to 50 % is from 50 %: so a wide interval, of few
    pairs, proves little. Accuracies below 50 % tell as much as those above.
    """
    percent, low, high = measured.percent, measured.low, measured.high
    width = 84
    height = 14
    x = scale(20, 100, 0, width)
    start, end = sorted((x(50), x(max(percent, 20))))
    # How far the whole interval is from 50 %, on either side, as 20 % tells as much as 80 %; below 0 if it holds 50 %.
    from_chance = max(low - 50, 50 - high)
    kind = "good"
    if measured.pairs < LEAST_PAIRS:
        kind = "few"
    elif from_chance > LIMITS[1] - 50:
        kind = "high"
    elif from_chance > LIMITS[0] - 50:
        kind = "some"
    text = f"{percent:.1f} %, 95 % interval {low:.1f} to {high:.1f}, {measured.pairs:,} pairs"
    shapes = [
        shape("rect", text, kind, x=start, y=2.5, width=round(max(end - start, 0.5), 1), height=9),
        line("frame", (x(50), 0), (x(50), height)),
        *(line("limit", (x(limit), 0), (x(limit), height)) for limit in (100 - LIMITS[1], LIMITS[1])),
        line("interval", (x(max(low, 20)), height / 2), (x(max(high, 20)), height / 2)),
    ]
    return draw(text, shapes, width, height, "mark")


def _axis(text: str, width: float = WIDTH, height: float = HEIGHT) -> Markup:
    """The name of a chart's horizontal axis, in the middle below it."""
    return label((LEFT + width - RIGHT) / 2, height - 3, text, kind="axis")
