"""A figure of the progress of a captioner's training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..figures import new_figure, plot_metric, write_png

COLOURS = {"mle": "tab:blue", "discriminator": "tab:orange", "gan": "tab:green"}


def draw_curves(history: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw likelihood, reward and entropy, the discriminator's accuracy, and distinct-2 over the epochs as a PNG.

    history: the lines of metrics.jsonl.
    """
    figure = new_figure(14, 3.4)
    loss, reward, accuracy, distinct = figure.subplots(1, 4)
    plot_metric(loss, history, "loss", "train")
    plot_metric(loss, history, "validation_loss", "validation")
    loss.set(xlabel="epoch", ylabel="- log likelihood per word", title="likelihood")
    plot_metric(reward, history, "reward", "reward", color="tab:green")
    beside = reward.twinx()
    plot_metric(beside, history, "entropy", "entropy", color="tab:gray")
    reward.set(xlabel="epoch", ylabel="reward (green)", title="policy gradient")
    beside.set(ylabel="entropy per word, nats (gray)")
    lines = [{"epoch": line["epoch"], **line["accuracy"]} for line in history if "accuracy" in line]
    for name in ("real", "generated", "mismatched"):
        plot_metric(accuracy, lines, name, name)
    accuracy.set(xlabel="epoch", ylabel="accuracy", ylim=(0, 1.02), title="discriminator")
    for phase, colour in COLOURS.items():
        plot_metric(distinct, [line for line in history if line["phase"] == phase], "distinct_2", phase, color=colour)
    distinct.set(xlabel="epoch", ylabel="distinct-2 of samples", ylim=(0, None), title="diversity")
    for axes in (loss, accuracy, distinct):
        if axes.lines:
            axes.legend(fontsize=7)
    write_png(figure, path, 110)
