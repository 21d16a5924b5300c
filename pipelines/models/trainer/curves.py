"""A figure of a training's progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..figures import new_figure, write_png


def draw_curves(history: Sequence[Mapping[str, Any]], path: Path, title: str) -> None:
    """Draw loss per pair, recalls on validation and rsum over the epochs as a PNG; history: lines of metrics.jsonl."""
    figure = new_figure(11, 3.6)
    left, middle, right = figure.subplots(1, 3)
    epochs = [line["epoch"] for line in history]
    steps, losses = [], []
    for line in history:
        parts = line["losses"]
        steps += [line["epoch"] - 1 + (n + 1) / len(parts) for n in range(len(parts))]
        losses += parts
    left.plot(steps, losses, color="tab:gray", linewidth=1)
    left.set(title=title, xlabel="epoch", ylabel="loss per pair", yscale="log")
    for name, style in (("i2t", "-"), ("t2i", "--")):
        for k, colour in ((1, "tab:blue"), (5, "tab:orange"), (10, "tab:green")):
            values = [line["validation"][f"{name} R@{k}"] for line in history]
            middle.plot(epochs, values, style, color=colour, marker=".", label=f"{name} R@{k}")
    middle.set(xlabel="epoch", ylabel="recall on validation, %", ylim=(0, None))
    middle.legend(fontsize=7, ncols=2)
    right.plot(epochs, [line["validation"]["rsum"] for line in history], marker=".", color="tab:red")
    right.set(xlabel="epoch", ylabel="rsum on validation")
    write_png(figure, path, 120)
