"""An evaluation as Markdown tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..figures import format_interval, markdown_table, new_figure, plot_metric, write_png

RECALLS = ("R@1", "R@5", "R@10")
LEAST_PAIRS = 10  # whose share is printed
COLUMNS = (*RECALLS, "median rank", "mean rank")
WAYS = {"i2t": "image to text", "t2i": "text to image"}
ATTACKS = {
    "vse-c": "vse-c: image to text, each image with the negatives of its own captions",
    "univse": "univse: image to text, all images with the negatives of all captions",
}


def to_markdown(metrics: Mapping[str, Any]) -> str:
    """The tables of an evaluation, with 95 % bootstrap intervals in brackets; metrics: as in evaluation.json."""
    families, without = metrics["negative_families"], metrics["images_without_features"]
    name = metrics["model"] + (f" (+{', +'.join(families)})" if families else "")
    if "caption" in metrics:
        name += f" (α {metrics['caption']['alpha']:g}, {'+'.join(metrics['caption']['components']) or 'sentence only'})"
    if metrics.get("language", "en") != "en":
        name += f" ({metrics['language']})"
    about = f"**{name}** on {metrics['split']}: {metrics['images']:,} images, {metrics['captions']:,} captions"
    about += f"; {without:,} more captions are of images without features" if without else ""
    parts = [about, _retrieval(metrics, "retrieval")]

    def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        if filled := list(rows):
            parts.append(markdown_table(head, filled))

    for language, entry in metrics.get("languages", {}).items():
        title = f"retrieval, {language}: {entry['images']:,} images, {entry['captions']:,} captions"
        parts.append(_retrieval(entry, title))
    heads = metrics.get("heads", {}).items()
    table(["two different attention heads of", "mean cosine"], ([name, f"{cosine:.2f}"] for name, cosine in heads))
    for protocol, title in ATTACKS.items():
        table(
            [title, *COLUMNS, "negatives", "per caption"],
            (
                [name, *_cells(entry), f"{entry['negatives']:,}", f"{entry['negatives_a_caption']:.1f}"]
                for name, entry in metrics.get(protocol, {}).items()
            ),
        )
    if found := metrics.get("univse"):
        total = sum(entry[column] for entry in found.values() for column in RECALLS)
        parts.append(f"The sum of R@1, R@5 and R@10 over univse's attacks is {total:.1f}.")
    if plural := metrics.get("plural"):
        title = f"plural split: {plural['images']:,} images, {plural['captions']:,} captions"
        numbers = {"plain": "", "numeral": f"{plural['negatives']:,}"}
        table([title, *COLUMNS, "negatives"], ([name, *_cells(plural[name]), n] for name, n in numbers.items()))
    pairs = sorted(metrics.get("pairwise", {}).items())
    shares = (format_interval(entry["accuracy"], entry["interval"]) for _, entry in pairs)
    table(
        ["caption above its first negative", "%", "pairs"],
        (
            [name, share if entry["pairs"] >= LEAST_PAIRS else "–", f"{entry['pairs']:,}"]
            for (name, entry), share in zip(pairs, shares, strict=True)
        ),
    )
    table(  # UniVSE's Table 3
        ["text to image by", "mAP", "% of images that match", "queries"],
        (
            [kind, f"{entry['mAP']:.1f}", f"{entry['images']:.1f}", f"{entry['queries']:,}"]
            for kind, entry in metrics.get("unified", {}).items()
        ),
    )
    if found := metrics.get("alpha"):  # UniVSE's Figure 5
        names = list(next(iter(found.values())))
        table(["α", *names], ([alpha, *(f"{entry[name]:.1f}" for name in names)] for alpha, entry in found.items()))
    table(  # UniVSE's Table 4; its score of relations is that of `either`
        ["chosen by the image", "%", "by chance", "questions"],
        (
            [f"{name} of the {word}", *(f"{entry[key]:.1f}" for key in (name, chance)), f"{entry['questions']:,}"]
            for word, entry in metrics.get("parsing", {}).items()
            for name in entry
            if (chance := f"{name}, random") in entry
        ),
    )
    return "\n\n".join(parts)


def _retrieval(metrics: Mapping[str, Any], title: str) -> str:
    rows = []
    for name, suffix in (("retrieval", ""), ("folds of 1000", ", folds of 1,000")):
        values = metrics.get(name, {})
        bounds = {} if suffix else metrics["intervals"]  # the means over folds have none
        for direction, way in WAYS.items() if values else ():
            its, of = ({k[4:]: v for k, v in part.items() if k.startswith(direction)} for part in (values, bounds))
            rows.append([f"{way}{suffix}", *_cells({**its, "intervals": of}), ""])
        if values:
            rows[-1][-1] = f"{values['rsum']:.1f}" if suffix else format_interval(values["rsum"], bounds["rsum"])
    return markdown_table([title, *COLUMNS, "rsum"], rows)


def _cells(entry: Mapping[str, Any]) -> list[str]:
    """The cells of COLUMNS for one retrieval."""
    bounds = entry["intervals"]
    return [
        format_interval(entry[column], bounds[column]) if column in bounds else f"{entry[column]:.1f}"
        for column in COLUMNS
    ]


def draw_curves(history: Sequence[Mapping[str, Any]], path: Path, title: str) -> None:
    """Draw loss per pair, recalls on validation and rsum over the epochs as a PNG; history: lines of metrics.jsonl."""
    figure = new_figure(11, 3.6)
    left, middle, right = figure.subplots(1, 3)
    steps, losses = [], []
    for line in history:
        parts = line["losses"]
        steps += [line["epoch"] - 1 + (n + 1) / len(parts) for n in range(len(parts))]
        losses += parts
    left.plot(steps, losses, color="tab:gray", linewidth=1)
    left.set(title=title, xlabel="epoch", ylabel="loss per pair", yscale="log")
    validation = [{"epoch": line["epoch"], **line["validation"]} for line in history]
    for way, style in (("i2t", "-"), ("t2i", "--")):
        for k, colour in ((1, "tab:blue"), (5, "tab:orange"), (10, "tab:green")):
            plot_metric(middle, validation, f"{way} R@{k}", f"{way} R@{k}", color=colour, linestyle=style)
    middle.set(xlabel="epoch", ylabel="recall on validation, %", ylim=(0, None))
    middle.legend(fontsize=7, ncols=2)
    plot_metric(right, validation, "rsum", "rsum", color="tab:red")
    right.set(xlabel="epoch", ylabel="rsum on validation")
    write_png(figure, path, 120)
