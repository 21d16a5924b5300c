"""PNG figures by matplotlib; needs no display."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..engine.storage import write_atomically, write_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(width: float, height: float) -> Figure:
    """An empty figure; width and height in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def plot_metric(axes: Any, history: Sequence[Mapping[str, Any]], name: str, label: str, **style: Any) -> None:
    """Plot the metric `name` over those epochs of metrics.jsonl that have it; history: its lines."""
    lines = [line for line in history if name in line]
    if lines:
        epochs, values = [line["epoch"] for line in lines], [line[name] for line in lines]
        axes.plot(epochs, values, marker=".", label=label, **style)


def rendered(figure: Figure, dpi: int) -> bytes:
    """A figure as a PNG; matplotlib's version is not recorded, as the bytes would depend on it."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=dpi, metadata={"Software": None})
    return drawn.getvalue()


def write_png(figure: Figure, path: Path, dpi: int) -> None:
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


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first column is left-aligned, the others right-aligned."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write_results(folder: Path, name: str, values: Any, text: str) -> str:
    """Write `<name>.json` with the values, and the text as `<name>.md`, to a folder; returns the text."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / f"{name}.json", values)
    write_atomically(folder / f"{name}.md", (text + "\n").encode())
    return text
