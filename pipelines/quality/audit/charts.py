"""The charts of an audit, drawn as SVG: histograms, intervals, words on two axes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import ceil, floor, log10
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from markupsafe import Markup

from ...report.rows import visible

if TYPE_CHECKING:
    import pandas as pd

WIDTH = 320
HEIGHT = 160
LEFT = 36
RIGHT = 8
TOP = 8
BOTTOM = 30
SHOWN = 60  # words plotted
NAMED = 14  # words labelled with their name
SPAN = 12  # larger differences in characters go into the bins at the ends
LIMITS = (55.0, 60.0)  # %: a blind accuracy whose interval is above the first is suspicious, above the second refused


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
    named = {"class": kind, **attributes}.items()
    given = Markup("").join(Markup(' {}="{}"').format(name, value) for name, value in named if value != "")
    said = visible(text) if tag == "text" or not text else Markup("<title>{}</title>").format(visible(text))
    return Markup("<{0}{1}>{2}</{0}>").format(tag, given, said)


def line(kind: str, *points: tuple[float, float]) -> Markup:
    """A line through points."""
    return shape("polyline", kind=kind, points=" ".join(f"{x},{y}" for x, y in points))


def label(x: float, y: float, text: str, anchor: str = "middle", kind: str = "") -> Markup:
    """A text at (x, y); `anchor` is which part of it is there: start, middle or end."""
    return shape("text", text, kind, x=x, y=y, **{"text-anchor": anchor})


def scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    """A linear map of values from `low` to `high` to coordinates from `start` to `end`, rounded to one decimal."""
    return lambda value: round(start + (value - low) / (high - low or 1.0) * (end - start), 1)


def _histogram(
    summary: str,
    axis: str,
    bins: Sequence[tuple[float, float, str, str]],
    ticks: Sequence[tuple[float, str]],
    outline: Sequence[tuple[float, float]] = (),
) -> Chart:
    """A histogram of bins one unit wide: start, share in %, tooltip, CSS class; outline: points (value, share)."""
    low = bins[0][0]
    high = bins[-1][0] + 1
    top = max(1.0, *(share for _, share, *_ in bins), *(share for _, share in outline))
    x = scale(low, high, LEFT, WIDTH - RIGHT)
    y = scale(0, top, HEIGHT - BOTTOM, TOP)
    unit = max(0, ceil(low))
    wide = round(x(unit + 1) - x(unit) - 1, 1)
    shapes = [
        shape("rect", title, kind, x=x(at) + 0.5, y=y(n), width=wide, height=round(y(0) - y(n), 1))
        for at, n, title, kind in bins
    ]
    if outline:
        shapes.append(line("outline", *((x(at), y(share)) for at, share in outline)))
    shapes.append(line("frame", (LEFT, y(0)), (WIDTH - RIGHT, y(0))))
    step = next(step for step in (100, 50, 20, 10, 5, 2, 1, 0.5) if step <= top)
    shapes += [label(x(at), HEIGHT - 17, text) for at, text in ticks]
    shapes += [label(LEFT - 4, y(value) + 3, f"{value:g} %", "end") for value in (0, step)]
    return Chart(summary, draw(summary, [*shapes, _axis(axis)]))


def lengths(caption: pd.Series, negative: pd.Series) -> Chart:
    """Histograms of words per text, in % of pairs, negatives as bars, captions as an outline; given texts by length."""
    both = caption.add(negative, fill_value=0)
    low = both.index[0]
    high = both.index[both.cumsum() >= 0.995 * both.sum()][0]
    bins = []
    outline = []
    for n in range(low, high + 1):
        false, true = (100 * some.get(n, 0) / negative.sum() for some in (negative, caption))
        bins.append((n - 0.5, false, f"{n} words: negatives {false:.1f} %, captions {true:.1f} %", ""))
        outline += [(n - 0.5, true), (n + 0.5, true)]
    mean = [np.average(some.index, weights=some) for some in (caption, negative)]
    summary = f"Words per text: captions {mean[0]:.2f} on average, negatives {mean[1]:.2f}"
    return _histogram(summary, "words", bins, [(n, str(n)) for n in range(low, high + 1) if n % 5 == 0], outline)


def added(counts: pd.Series) -> Chart:
    """Histogram of the characters that a negative has more than its caption, in % of pairs; the end bins are open."""
    shares = 100 * counts / counts.sum()
    inside = shares.groupby(shares.index.to_series().clip(-SPAN, SPAN)).sum()
    bins = []
    for n in range(-SPAN, SPAN + 1):
        share = inside.get(n, 0.0)
        bins.append((n - 0.5, share, f"{_beyond(n)} characters: {share:.1f} %", "middle" if n == 0 else ""))
    sides = (shares[some].sum() for some in (shares.index < 0, shares.index == 0, shares.index > 0))
    summary = "Negatives that are shorter than their caption {:.1f} %, as long {:.1f} %, longer {:.1f} %".format(*sides)
    return _histogram(summary, "characters more", bins, [(n, _beyond(n)) for n in (-SPAN, -6, 0, 6, SPAN)])


def _beyond(n: int) -> str:
    sign = "−" if n < 0 else "+" if n > 0 else ""
    return ("≤ " if n == -SPAN else "≥ " if n == SPAN else "") + f"{sign}{abs(n)}"


def positions(counts: pd.Series, number: int) -> Chart:
    """Histogram of the positions of edits in the caption, in % of edits; counts: by bin, from 0 to `number` - 1."""
    shares = 100 * counts.reindex(range(number), fill_value=0) / max(counts.sum(), 1)
    bins = [
        (n, share, f"{100 * n // number}–{100 * (n + 1) // number} % of the caption: {share:.1f} % of the edits", "")
        for n, share in enumerate(shares)
    ]
    first = shares[: number // 2].sum()
    second = shares[number // 2 :].sum()
    summary = f"Edits in the first half of the caption {first:.1f} %, in the second {second:.1f} %"
    ticks = [(number * share, text) for share, text in ((0.0, "start"), (0.5, "middle"), (0.96, "end"))]
    return _histogram(summary, "place in the caption", bins, ticks)


def words(uses: pd.DataFrame) -> Chart | None:
    """Log-log plot of how often the first 60 words are put in (filled) and out (hollow), by corpus count; or None."""
    some = uses[uses["corpus"].notna()][:SHOWN]
    if not len(some):
        return None
    width = 2 * WIDTH
    height = 260
    numbers = some[["out", "put"]].to_numpy()
    least = floor(log10(numbers[numbers > 0].min()))
    zero = least - 0.35  # where 0 is drawn, below the smallest power of ten
    first = log10(min(some["corpus"])) - 0.1
    last = log10(max(some["corpus"])) + 0.1
    top = max(log10(numbers.max()), least + 1) + 0.1
    x = scale(first, last, LEFT, width - RIGHT)
    y = scale(zero if 0 in numbers else least, top, height - BOTTOM, TOP)

    def place(n: int) -> float:
        return y(log10(n) if n else zero)

    frame = ((LEFT, TOP), (LEFT, height - BOTTOM), (width - RIGHT, height - BOTTOM))
    stems = [line("frame", *frame)]
    dots = []
    labels = []
    for word, corpus, out, put in some.itertuples(index=False):
        at = x(log10(corpus))
        said = f"{word}: {corpus:,} in the corpus, taken out {out:,}, put in {put:,}"
        stems.append(line("stem", (at, place(out)), (at, place(put))))
        dots += [shape("circle", said, kind, cx=at, cy=place(n), r=3) for kind, n in (("out", out), ("put", put))]
    taken: list[tuple[float, float]] = []
    lean = ((some["put"] - some["out"]) / (some["put"] + some["out"]) ** 0.5).abs()  # standard deviations of coin flips
    for word, corpus, out, put, _ in some.assign(lean=-lean).sort_values(["lean", "word"]).itertuples(index=False):
        at = x(log10(corpus))
        above = min(place(out), place(put)) - 4
        if len(taken) < NAMED and all(abs(at - a) > 52 or abs(above - b) > 12 for a, b in taken):
            taken.append((at, above))
            labels.append(label(min(max(at, LEFT + 16), width - 22), max(above, 9), word, kind="word"))
    steps = (1, 2, 5) if last - first < 2 else (1,)
    for count in (step * 10**power for power in range(floor(first), ceil(last)) for step in steps):
        if count >= 1 and first <= log10(count) <= last:
            labels.append(label(x(log10(count)), height - 17, f"{count:,}"))
    for power in range(least, floor(top) + 1):
        labels.append(label(LEFT - 4, y(power) + 3, f"{10**power:,}", "end"))
    if 0 in numbers:
        labels.append(label(LEFT - 4, y(zero) + 3, "0", "end"))
    labels.append(_axis("occurrences in the corpus", width, height))
    summary = f"How often the {len(some)} words used most are taken out and put in, over their count in the corpus"
    return Chart(summary, draw(summary, [*stems, *dots, *labels], width, height), double=True)


def accuracy(percent: float, low: float, high: float) -> Markup:
    """A blind accuracy (%) as a bar from 50 %, its 95 % interval as a line, dashed the publish limit. Its colour is
    that of the interval's end nearer to 50: few pairs prove little, and below 50 tells as much as above.
    """
    wide = 84
    tall = 14
    x = scale(25, 100, 0, wide)
    start, end = sorted((x(50), x(max(percent, 25))))
    apart = max(low - 50, 50 - high)
    kind = "high" if apart > LIMITS[1] - 50 else "some" if apart > LIMITS[0] - 50 else "good"
    said = f"{percent:.1f} %, 95 % interval {low:.1f} to {high:.1f}"
    shapes = [
        shape("rect", said, kind, x=start, y=2.5, width=round(max(end - start, 0.5), 1), height=9),
        line("frame", (x(50), 0), (x(50), tall)),
        line("limit", (x(LIMITS[1]), 0), (x(LIMITS[1]), tall)),
        line("interval", (x(max(low, 25)), tall / 2), (x(max(high, 25)), tall / 2)),
    ]
    return draw(said, shapes, wide, tall, "mark")


def _axis(text: str, width: float = WIDTH, height: float = HEIGHT) -> Markup:
    return label((LEFT + width - RIGHT) / 2, height - 3, text, kind="axis")
