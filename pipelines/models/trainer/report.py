"""An evaluation as Markdown tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..figures import format_interval, markdown_table, new_figure, write_png

RECALLS = ("R@1", "R@5", "R@10")
LEAST_PAIRS = 10  # whose share is printed
COLUMNS = (*RECALLS, "median rank", "mean rank")


def to_markdown(metrics: Mapping[str, Any]) -> str:
    """The tables of an evaluation, with 95 % bootstrap intervals in brackets; metrics: as in evaluation.json."""
    families = metrics["negative_families"]
    name = metrics["model"] + (f" (+{', +'.join(families)})" if families else "")
    if "caption" in metrics:
        name += f" (α {metrics['caption']['alpha']:g}, {'+'.join(metrics['caption']['components']) or 'sentence only'})"
    if metrics.get("language", "en") != "en":
        name += f" ({metrics['language']})"
    without = metrics["images_without_features"]
    parts = [
        f"**{name}** on {metrics['split']}: {metrics['images']:,} images, {metrics['captions']:,} captions"
        + (f"; {without:,} more captions are of images without features" if without else ""),
        _retrieval(metrics),
        *(
            _retrieval(entry, f"retrieval, {language}: {entry['images']:,} images, {entry['captions']:,} captions")
            for language, entry in metrics.get("languages", {}).items()
        ),
    ]
    if "heads" in metrics:
        rows = [[name, f"{cosine:.2f}"] for name, cosine in metrics["heads"].items()]
        parts.append(markdown_table(["two different attention heads of", "mean cosine"], rows))
    for protocol, title in (
        ("vse-c", "image to text, each image with the negatives of its own captions"),
        ("univse", "image to text, all images with the negatives of all captions"),
    ):
        if metrics.get(protocol):
            rows = [
                [name, *_cells(entry), f"{entry['negatives']:,}", f"{entry['negatives_a_caption']:.1f}"]
                for name, entry in metrics[protocol].items()
            ]
            parts.append(markdown_table([f"{protocol}: {title}", *COLUMNS, "negatives", "per caption"], rows))
    if metrics.get("univse"):
        total = sum(entry[column] for entry in metrics["univse"].values() for column in RECALLS)
        parts.append(f"The sum of R@1, R@5 and R@10 over univse's attacks is {total:.1f}.")
    if "plural" in metrics:
        plural = metrics["plural"]
        title = f"plural split: {plural['images']:,} images, {plural['captions']:,} captions"
        rows = [["plain", *_cells(plural["plain"]), ""]]
        rows.append(["numeral", *_cells(plural["numeral"]), f"{plural['negatives']:,}"])
        parts.append(markdown_table([title, *COLUMNS, "negatives"], rows))
    if metrics.get("pairwise"):
        rows = [[name, _share(entry), f"{entry['pairs']:,}"] for name, entry in sorted(metrics["pairwise"].items())]
        parts.append(markdown_table(["caption above its first negative", "%", "pairs"], rows))
    parts += [part for part in (_unified_retrieval(metrics), _alpha(metrics), _parsing(metrics)) if part]
    return "\n\n".join(parts)


def _share(entry: Mapping[str, Any]) -> str:
    """The share of pairs that are ranked rightly, with its interval; a dash for fewer than LEAST_PAIRS."""
    return format_interval(entry["accuracy"], entry["interval"]) if entry["pairs"] >= LEAST_PAIRS else "–"


def _unified_retrieval(metrics: Mapping[str, Any]) -> str:
    """UniVSE's Table 3."""
    if not metrics.get("unified"):
        return ""
    rows = [
        [kind, f"{entry['mAP']:.1f}", f"{entry['images']:.1f}", f"{entry['queries']:,}"]
        for kind, entry in metrics["unified"].items()
    ]
    return markdown_table(["text to image by", "mAP", "% of images that match", "queries"], rows)


def _alpha(metrics: Mapping[str, Any]) -> str:
    """UniVSE's Figure 5."""
    if not metrics.get("alpha"):
        return ""
    names = list(next(iter(metrics["alpha"].values())))
    rows = [[alpha, *(f"{entry[name]:.1f}" for name in names)] for alpha, entry in metrics["alpha"].items()]
    return markdown_table(["α", *names], rows)


def _parsing(metrics: Mapping[str, Any]) -> str:
    """UniVSE's Table 4, whose score of relations is that of `either`, half a point for each of subject and object."""
    rows = []
    for word, entry in metrics.get("parsing", {}).items():
        for name in [name for name in entry if f"{name}, random" in entry]:
            figures = (f"{entry[name]:.1f}", f"{entry[f'{name}, random']:.1f}", f"{entry['questions']:,}")
            rows.append([f"{name} of the {word}", *figures])
    return markdown_table(["chosen by the image", "%", "by chance", "questions"], rows) if rows else ""


def _retrieval(metrics: Mapping[str, Any], title: str = "retrieval") -> str:
    rows = []
    for direction, way in (("i2t", "image to text"), ("t2i", "text to image")):
        values = {key[4:]: value for key, value in metrics["retrieval"].items() if key.startswith(direction)}
        bounds = {key[4:]: value for key, value in metrics["intervals"].items() if key.startswith(direction)}
        rows.append([way, *_cells({**values, "intervals": bounds}), ""])
    rows[1][-1] = format_interval(metrics["retrieval"]["rsum"], metrics["intervals"]["rsum"])
    if "folds of 1000" in metrics:
        means = metrics["folds of 1000"]
        for direction, way in (("i2t", "image to text, folds of 1,000"), ("t2i", "text to image, folds of 1,000")):
            rows.append([way, *(f"{means[f'{direction} {column}']:.1f}" for column in COLUMNS), ""])
        rows[3][-1] = f"{means['rsum']:.1f}"
    return markdown_table([title, *COLUMNS, "rsum"], rows)


def _cells(entry: Mapping[str, Any]) -> list[str]:
    """The cells of COLUMNS for one retrieval."""
    return [
        format_interval(entry[column], entry["intervals"][column]) if column in RECALLS else f"{entry[column]:.1f}"
        for column in COLUMNS
    ]


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
