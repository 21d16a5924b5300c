"""Figures as numbers, with bootstrap intervals, and as pictures by matplotlib, which need no display; result tables.

Intervals are over images, since pairs of one image are no independent evidence. The bootstrap draws from MT19937, the
same on every machine and in every call with the same n and seed, so that samples of two models may be subtracted one by
one (a paired bootstrap). Intervals over images and a few trainings are t intervals, see `MetricOfTrainings`.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..engine.lock import locked
from ..engine.storage import write_atomically, write_json
from ..report.intervals import wilson
from ..report.tables import markdown_table as markdown_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

    from .checkpoint import JsonMapping


# The colours of Okabe and Ito, which colour-blind readers tell apart; the first four can be read as letters on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def new_figure(width: float, height: float) -> Picture:
    """An empty figure of matplotlib; width and height in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Picture

    figure = Picture(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def colour_of(number: int) -> str:
    """The colour of the line, bar or point of this number, from 0; after seven, the colours begin anew."""
    return COLOURS[number % len(COLOURS)]


def label_axes(axes: Axes, title: str, x: str = "", y: str = "") -> None:
    """Name axes and what they measure, and draw a grid instead of a frame; epochs have ticks at whole numbers."""
    from matplotlib.ticker import MaxNLocator

    axes.set_title(title, loc="left", fontsize=11, fontweight="bold")
    axes.set(xlabel=x, ylabel=y)
    if x == "epoch":
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)


def legend_below(axes: Axes, columns: int, distance: float = 0.2) -> None:
    """A legend below axes, where it hides nothing; none if nothing in them has a label.

    Args:
        axes: whose lines and bars have labels.
        columns: of the legend.
        distance: from the axes, in heights of the axes: as much as the labels of the ticks need.
    """
    if axes.get_legend_handles_labels()[0]:
        axes.legend(
            loc="upper left",
            bbox_to_anchor=(0, -distance),
            borderaxespad=0,
            fontsize=9,
            ncols=columns,
            frameon=False,
            handlelength=2.8,  # two dashes of a dashed line
        )


def label_points(axes: Axes, points: np.ndarray, texts: Sequence[str], colours: Sequence[str], size: float) -> None:
    """Write a text above, below or beside each point, or none where it would cover a point or an earlier text.

    Args:
        axes: with all that is to be drawn, whose limits do not change any more.
        points: (n, 2), in the units of the axes.
        texts: of the points.
        colours: of the texts.
        size: of the letters, in points.
    """
    from matplotlib.transforms import Bbox

    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()  # until then, the place of the axes in the picture is not known
    places = axes.transData.transform(points) * 72 / figure.dpi  # pixels as points
    taken = [Bbox([place - 2, place + 2]) for place in places]  # the points themselves
    for point, place, text, colour in zip(points, places, texts, colours, strict=True):
        box_size = np.array([0.66 * size * len(text), 1.2 * size])  # about that of the text
        for direction in ((0, 1), (0, -1), (1, 0), (-1, 0)):
            offset = np.array(direction) * (box_size / 2 + 3)
            corner = place + offset - box_size / 2
            box = Bbox([corner, corner + box_size])
            if not box.count_overlaps(taken):
                taken.append(box)
                label = axes.annotate(
                    text,
                    (point[0], point[1]),
                    (offset[0], offset[1]),
                    textcoords="offset points",
                    fontsize=size,
                    color=colour,
                    ha="center",
                    va="center",
                )
                label.set_in_layout(False)  # a layout that makes room for it would move the points
                break


def plot_metric(axes: Axes, history: Sequence[JsonMapping], name: str, label: str, **style: Any) -> None:
    """Plot the metric `name` over those epochs of metrics.jsonl that have it; history: its lines."""
    lines = [line for line in history if name in line]
    if lines:
        epochs = [line["epoch"] for line in lines]
        values = [line[name] for line in lines]
        axes.plot(epochs, values, marker=".", label=label, **style)


def rendered(figure: Picture, dpi: int) -> bytes:
    """A figure as a PNG; matplotlib's version is not recorded, as the bytes would depend on it."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=dpi, metadata={"Software": None})
    return file.getvalue()


def write_png(figure: Picture, path: Path, dpi: int) -> None:
    """Write a figure as a PNG, atomically."""
    write_atomically(path, rendered(figure, dpi))


def format_interval(value: float, interval: Sequence[float]) -> str:
    """A value with the bounds of its interval, to one decimal: `45.7 (41.2–50.1)`."""
    return f"{value:.1f} ({interval[0]:.1f}–{interval[1]:.1f})"


def mean_and_range(values: Sequence[float]) -> str:
    """The mean of values to one decimal, with the lowest and highest if there are several: `45.7 (41.2–50.1)`."""
    mean = sum(values) / len(values)
    return format_interval(mean, (min(values), max(values))) if len(values) > 1 else f"{mean:.1f}"


def format_difference(value: float, interval: Sequence[float]) -> str:
    """A difference with the bounds of its interval, to one decimal: `+5.3 (+2.1 to +8.4)`."""
    return f"{value:+.1f} ({interval[0]:+.1f} to {interval[1]:+.1f})"


def table_if_any(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; empty without rows."""
    return markdown_table(head, rows) if rows else ""


def write_results(folder: Path, name: str, values: JsonMapping, text: str) -> str:
    """Write `<name>.json` with the values, and the text as `<name>.md`, to a folder; returns the text."""
    with locked(folder):
        write_json(folder / f"{name}.json", values)
        write_atomically(folder / f"{name}.md", (text + "\n").encode())
    return text


RESAMPLES = 2000  # of the bootstrap
AT_ONCE = 100  # resamples that are drawn at a time
LEVELS = (2.5, 97.5)  # percentiles of a 95 % interval


class Interval(NamedTuple):
    """The bounds of an interval."""

    low: float
    high: float


class Figure(NamedTuple):
    """A figure, or a difference of two, and its 95 % interval."""

    value: float
    interval: tuple[float, float]

    def __str__(self) -> str:
        return format_interval(self.value, self.interval)


def resample_counts(n: int, seed: int, resamples: int = RESAMPLES) -> Iterator[np.ndarray]:
    """Yield how often each resample draws each of n images, (<= AT_ONCE, n): n draws each, with replacement."""
    # the legacy generator, whose numbers NumPy has promised never to change
    random = np.random.RandomState(seed % (1 << 32))
    for start in range(0, resamples, AT_ONCE):
        rows = min(AT_ONCE, resamples - start)
        images = random.randint(1 << 32, size=(rows, n), dtype=np.uint32) % n
        # each resample and image gets its own number, so that one bincount counts all
        numbers = images + n * np.arange(rows)[:, None]
        yield np.bincount(numbers.ravel(), minlength=rows * n).reshape(rows, n).astype(np.float64)


def bootstrap(counts: np.ndarray, sizes: np.ndarray, seed: int, resamples: int = RESAMPLES) -> np.ndarray:
    """Bootstrap samples of k ratios in %: (resamples, k). Each sample draws I images with replacement.

    A ratio is the sum of counts divided by the sum of sizes over the images; NaN where a sample has nothing to count.

    Args:
        counts: (I, k) the hits in each of I images.
        sizes: (I, k) or (I, 1) the cases in each image.
        seed: of the draws.
        resamples: their number.
    """
    samples = []
    for times_drawn in resample_counts(len(counts), seed, resamples):
        count = times_drawn @ counts
        size = times_drawn @ sizes
        samples.append(100 * np.divide(count, size, out=np.full_like(count, np.nan), where=size > 0))
    return np.concatenate(samples)


def percentile_interval(samples: np.ndarray) -> Interval:
    """The 95 % interval of samples (n,), without those that are NaN."""
    low, high = np.nanpercentile(samples, LEVELS).tolist()
    return Interval(low, high)


def ratios_with_intervals(counts: np.ndarray, sizes: np.ndarray, seed: int, resamples: int = RESAMPLES) -> list[Figure]:
    """k ratios in %, each with its 95 % interval over images: the sum of its counts divided by the sum of its sizes.

    Args:
        counts: (I, k) the hits in each of I images.
        sizes: (I, k) or (I, 1) the cases in each image.
        seed: of the resamples of the images.
        resamples: their number.

    Returns:
        The k ratios. The interval of 0 and of 100 % is Wilson's, where an image with cases is one independent case.
    """
    values = (100 * counts.sum(0) / sizes.sum(0)).tolist()
    samples = bootstrap(counts, sizes, seed, resamples)
    images_with_cases = np.broadcast_to(np.count_nonzero(sizes, axis=0), len(values)).tolist()
    ratios = []
    for value, images, samples_of_value in zip(values, images_with_cases, samples.T, strict=True):
        # with only hits, or only misses, all resamples are equal, and their interval would be a point
        is_at_limit = value in (0.0, 100.0) and images
        interval = interval_at_limit(value, images) if is_at_limit else percentile_interval(samples_of_value)
        ratios.append(Figure(value, interval))
    return ratios


def interval_at_limit(percent: float, cases: int) -> Interval:
    """Wilson's interval of 0 or 100 % of some independent cases: of 0 of 10 it is 0 to 27.8 %."""
    low, high = wilson(percent / 100, cases)
    return Interval(0.0, 100 * high) if percent == 0 else Interval(100 * low, 100.0)


@dataclass(frozen=True, eq=False)
class MetricOfTrainings:
    """A metric of S trainings of a model, or the difference of two models' metrics, training by training.

    values: (S,), the metric of each training. samples: (n,) bootstrap samples of their mean, over images alone: every
    sample has all trainings.
    """

    values: np.ndarray
    samples: np.ndarray

    def __add__(self, other: MetricOfTrainings) -> MetricOfTrainings:
        """The sum with another metric of the same trainings and images."""
        return MetricOfTrainings(self.values + other.values, self.samples + other.samples)

    def __sub__(self, other: MetricOfTrainings) -> MetricOfTrainings:
        """The difference from another model's metric. Training s of one is compared with training s of the other."""
        return MetricOfTrainings(self.values - other.values, self.samples - other.samples)

    def figure(self) -> Figure:
        """The mean over trainings with its 95 % interval, over images and trainings.

        With S > 1 it is mean ± t(ν) · √(v + w). v = s² / S is the variance of the mean from one set of trainings to
        the next; s² is the variance of `values`, with S - 1 in its denominator. w is the variance from one set of
        images to the next, that of `samples`. t(ν) is the 97.5 % quantile of Student's distribution with
        ν = (v + w)² / (v² / (S - 1)) degrees of freedom, by Welch and Satterthwaite: hundreds of images estimate w
        well, a few trainings estimate v badly. So for three trainings t is 4.30 if v is much greater than w, and 1.96
        if it is much less. The effect of an image on one training only is in both v and w, which makes the interval
        rather too wide than too narrow.

        With one training nothing is known of v: the interval is that of the bootstrap over images, for this training.
        """
        mean = float(self.values.mean())
        if len(self.values) == 1:
            return Figure(mean, percentile_interval(self.samples))
        of_trainings = float(self.values.var(ddof=1)) / len(self.values)  # v
        of_images = float(np.nanvar(self.samples, ddof=1))  # w
        half = t_quantile(of_trainings, of_images, len(self.values)) * (of_trainings + of_images) ** 0.5
        return Figure(mean, Interval(mean - half, mean + half))


def t_quantile(of_trainings: float, of_images: float, trainings: int) -> float:
    """How many standard errors a 95 % interval reaches to either side: 1.96, or more for few trainings that differ.

    of_trainings, of_images: the variances v and w of `MetricOfTrainings.figure`. trainings: S.
    """
    from scipy.special import stdtrit

    # equal trainings say nothing of their variance: the interval is over images alone
    if of_trainings == 0:
        return float(stdtrit(np.inf, LEVELS[1] / 100))
    freedom = (of_trainings + of_images) ** 2 * (trainings - 1) / of_trainings**2  # Welch and Satterthwaite
    return float(stdtrit(freedom, LEVELS[1] / 100))
