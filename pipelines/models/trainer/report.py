"""An evaluation as Markdown tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..figures import format_interval, markdown_table, new_figure, write_png

RECALLS = ("R@1", "R@5", "R@10")
LEAST_PAIRS = 10  # whose share is printed
COLUMNS = (*RECALLS, "median rank", "mean rank")
Table = tuple[Sequence[str], Sequence[Sequence[str]]]  # head and rows


def to_markdown(metrics: Mapping[str, Any]) -> str:
    """The tables of an evaluation, with 95 % bootstrap intervals in brackets; metrics: as in evaluation.json."""
    families = metrics["negative_families"]
    name = metrics["model"] + (f" (+{', +'.join(families)})" if families else "")
    if "caption" in metrics:
        name += f" (α {metrics['caption']['alpha']:g}, {'+'.join(metrics['caption']['components']) or 'sentence only'})"
    if metrics.get("language", "en") != "en":
        name += f" ({metrics['language']})"
    without = metrics["images_without_features"]
    about = f"**{name}** on {metrics['split']}: {metrics['images']:,} images, {metrics['captions']:,} captions"
    about += f"; {without:,} more captions are of images without features" if without else ""
    return "\n\n".join([about, *(part if isinstance(part, str) else markdown_table(*part) for part in _parts(metrics))])


def _parts(metrics: Mapping[str, Any]) -> Iterator[str | Table]:
    """Tables, and a sentence below one of them."""
    yield _retrieval(metrics, "retrieval")
    for language, entry in metrics.get("languages", {}).items():
        title = f"retrieval, {language}: {entry['images']:,} images, {entry['captions']:,} captions"
        yield _retrieval(entry, title)
    if "heads" in metrics:
        rows = [[name, f"{cosine:.2f}"] for name, cosine in metrics["heads"].items()]
        yield ["two different attention heads of", "mean cosine"], rows
    for protocol, title in (
        ("vse-c", "image to text, each image with the negatives of its own captions"),
        ("univse", "image to text, all images with the negatives of all captions"),
    ):
        if found := metrics.get(protocol):
            rows = [
                [name, *_cells(entry), f"{entry['negatives']:,}", f"{entry['negatives_a_caption']:.1f}"]
                for name, entry in found.items()
            ]
            yield [f"{protocol}: {title}", *COLUMNS, "negatives", "per caption"], rows
    if found := metrics.get("univse"):
        total = sum(entry[column] for entry in found.values() for column in RECALLS)
        yield f"The sum of R@1, R@5 and R@10 over univse's attacks is {total:.1f}."
    if plural := metrics.get("plural"):
        title = f"plural split: {plural['images']:,} images, {plural['captions']:,} captions"
        rows = [["plain", *_cells(plural["plain"]), ""]]
        rows.append(["numeral", *_cells(plural["numeral"]), f"{plural['negatives']:,}"])
        yield [title, *COLUMNS, "negatives"], rows
    if found := metrics.get("pairwise"):
        shares = {
            name: format_interval(entry["accuracy"], entry["interval"]) if entry["pairs"] >= LEAST_PAIRS else "–"
            for name, entry in found.items()
        }
        rows = [[name, shares[name], f"{found[name]['pairs']:,}"] for name in sorted(found)]
        yield ["caption above its first negative", "%", "pairs"], rows
    if found := metrics.get("unified"):  # UniVSE's Table 3
        rows = [
            [kind, f"{entry['mAP']:.1f}", f"{entry['images']:.1f}", f"{entry['queries']:,}"]
            for kind, entry in found.items()
        ]
        yield ["text to image by", "mAP", "% of images that match", "queries"], rows
    if found := metrics.get("alpha"):  # UniVSE's Figure 5
        names = list(next(iter(found.values())))
        yield ["α", *names], [[alpha, *(f"{entry[name]:.1f}" for name in names)] for alpha, entry in found.items()]
    if found := metrics.get("parsing"):  # UniVSE's Table 4; its score of relations is that of `either`
        rows = [
            [
                f"{name} of the {word}",
                f"{entry[name]:.1f}",
                f"{entry[f'{name}, random']:.1f}",
                f"{entry['questions']:,}",
            ]
            for word, entry in found.items()
            for name in entry
            if f"{name}, random" in entry
        ]
        yield ["chosen by the image", "%", "by chance", "questions"], rows


def _retrieval(metrics: Mapping[str, Any], title: str) -> Table:
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
    return [title, *COLUMNS, "rsum"], rows


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
