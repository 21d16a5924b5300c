"""PNG figures by matplotlib, without a display."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from negcap.pipelines.engine.shards import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of this size in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def plot_metric(axes: Any, history: Sequence[Mapping[str, Any]], name: str, label: str, **style: Any) -> None:
    """Plot a metric over the epochs of metrics.jsonl that have it."""
    lines = [line for line in history if name in line]
    if lines:
        epochs, values = [line["epoch"] for line in lines], [line[name] for line in lines]
        axes.plot(epochs, values, marker=".", label=label, **style)


def write_png(figure: Figure, path: Path, dpi: int) -> None:
    """Write a figure as a PNG, atomically and without the version of matplotlib, so that bytes do not depend on it."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=dpi, metadata={"Software": None})
    write_atomically(path, drawn.getvalue())
