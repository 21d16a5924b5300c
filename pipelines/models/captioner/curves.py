"""The three phases as a picture."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from negcap.pipelines.engine.shards import write_atomically

COLOURS = {"mle": "tab:blue", "discriminator": "tab:orange", "gan": "tab:green"}


def draw_curves(history: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw the lines of metrics.jsonl as a PNG: likelihood, reward and entropy, what D tells right, distinct-2."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14, 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    loss, reward, told, distinct = figure.subplots(1, 4)

    def plot(axes: Any, name: str, label: str, **style: Any) -> None:
        lines = [line for line in history if name in line]
        if lines:
            axes.plot(
                [line["epoch"] for line in lines], [line[name] for line in lines], marker=".", label=label, **style
            )

    plot(loss, "loss", "train")
    plot(loss, "validation_loss", "validation")
    loss.set(xlabel="epoch", ylabel="- log likelihood of a word", title="likelihood")
    plot(reward, "reward", "reward", color="tab:green")
    beside = reward.twinx()
    plot(beside, "entropy", "entropy", color="tab:gray")
    reward.set(xlabel="epoch", ylabel="reward (green)", title="policy gradient")
    beside.set(ylabel="entropy at a word, nats (gray)")
    lines = [line for line in history if "told" in line]
    for name in lines[0]["told"] if lines else ():
        told.plot([line["epoch"] for line in lines], [line["told"][name] for line in lines], marker=".", label=name)
    told.set(xlabel="epoch", ylabel="share told right", ylim=(0, 1.02), title="discriminator")
    for phase, colour in COLOURS.items():
        some = [line for line in history if line["phase"] == phase]
        distinct.plot(
            [n["epoch"] for n in some], [n["distinct_2"] for n in some], marker=".", color=colour, label=phase
        )
    distinct.set(xlabel="epoch", ylabel="distinct-2 of samples", ylim=(0, None), title="diversity")
    for axes in (loss, told, distinct):
        if axes.lines:
            axes.legend(fontsize=7)
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=110, metadata={"Software": None})
    write_atomically(path, drawn.getvalue())
