"""Saliency: which words of a negative, and which regions of the image, its score depends on (VSE-C, eq. 4, Figure 2).

J = ∇ s(i, c') for an image i and a negative c' of one of its captions: of a word, the mean of |J| over the numbers of
its vector, as a share of the sum over the words of the negative; of a region, the sum of |J| over its features.

As the edits of a negative are known, so is the share of the saliency that is on the words they put in, to compare with
the share of the words that these are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import isqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ...tables.pairs import pair_tables
from ..data import pack_sentences, read_captions
from ..device import choose_device, rows_to_device, to_device
from ..encoders import run_packed
from ..features import read_features
from ..figures import format_interval, markdown_table, new_figure, ratios_with_intervals, write_png, write_results
from ..settings import SaliencyConfig
from ..similarities import VectorSimilarity
from ..trainer import load_model
from ..trainer.pictures import covered_part, draw_map, photo_files
from ..vocabulary import word_spans

if TYPE_CHECKING:
    from PIL.Image import Image

COLUMNS = ("negative_id", "caption_id", "operator", "negative", "edits")
AT_ONCE = 512  # negatives whose gradients are computed together


def saliency(model: Path, run: Path, photos: Path | None, output: Path, config: SaliencyConfig) -> str:
    """VSE-C's Figure 2 with a measure: writes saliency.json, .md and .png to `output`; returns the table as Markdown.
    photos: the folder of the run's photos, to draw beside the negatives. Raises as `find_saliency`.
    """
    negatives, features = find_saliency(model, run, config)
    metrics = summarize(negatives, config.seed)
    rows = []
    for name, one in metrics.items():
        share, beyond = (format_interval(one[key], one[f"{key} interval"]) for key in ("share", "beyond chance"))
        rows.append([name, share, f"{one['chance']:.1f}", beyond, f"{one['negatives']:,}"])
    columns = ["saliency on edited words, %", "mean share", "by chance", "difference", "negatives"]
    text = write_results(output, "saliency", metrics, markdown_table(columns, rows))
    files = {} if photos is None else photo_files(run, photos, read_captions(run).image_ids)
    shown = choose_shown(negatives, files)
    drawn = {image: covered_part(files[image], run, features) for image in shown["image"] if files}
    draw_saliency(shown, drawn, output / "saliency.png")
    return text


def find_saliency(model_folder: Path, run: Path, config: SaliencyConfig) -> tuple[pd.DataFrame, str]:
    """The saliency of negatives of a run under a model, a row each, and the name of the table of features it reads.

    Columns: those of `salient`, of which words, shares (which sum to 1) and edited (whether an edit put it in) have an
    entry per word; score is the similarity with the image; regions, (R,), is None without a grid.

    Raises FileNotFoundError or ValueError for a folder without a model, a run without the split, features or negatives,
    a model that does not read its captions with a recurrent net, or a GPU that is not there.
    """
    torch.set_num_threads(config.threads)
    device = choose_device(config.device)
    model, vocabularies, trained = load_model(model_folder, device)
    if not hasattr(model.text, "net"):
        raise ValueError(f"saliency needs a model with a recurrent text encoder, {model_folder} is: {trained.model}")
    captions = read_captions(run)
    features = read_features(run, captions.image_ids, trained.table)
    chosen = captions.to_evaluate(config.split, features.available, config.limit)
    image_of = {captions.ids[n]: int(captions.image[n]) for n in chosen.tolist()}
    every = pair_tables(run, config.operators, columns=COLUMNS, per_operator=1, denials=False)
    rows = [row for table in every for row in table.to_pylist() if row["caption_id"] in image_of]
    if not rows:
        raise ValueError(f"{run} must have negatives of these captions, has none")
    found: list[tuple[Any, ...]] = []
    for start in range(0, len(rows), AT_ONCE):
        part = rows[start : start + AT_ONCE]
        images = torch.tensor([image_of[row["caption_id"]] for row in part])
        encoded = vocabularies[trained.languages[0]].encode([row["negative"] for row in part])
        tokens, offsets = map(torch.from_numpy, encoded)
        seen = rows_to_device(features.values, images, device)
        scores, words, regions = gradients(model, model.similarity, to_device(tokens, device), offsets, seen)
        for n, row in enumerate(part):
            text = row["negative"]
            spans = word_spans(text)
            edited = edited_words(spans, row["edits"])
            if any(edited):
                own = words[n][1 : int(offsets[n + 1] - offsets[n]) - 1]
                shares = (own / own.sum().clamp(min=1e-12)).tolist()
                written = [text[begin:end] for begin, end in spans]
                on_grid = None if regions is None else regions[n]
                found.append((row["operator"], int(images[n]), written, shares, edited, float(scores[n]), on_grid))
    return salient(found), trained.table


def salient(rows: Sequence[tuple[Any, ...]]) -> pd.DataFrame:
    """Rows of negatives, and the share of the saliency that is on edited words, and by chance: of the words."""
    table = pd.DataFrame(rows, columns=["operator", "image", "words", "shares", "edited", "score", "regions"])
    on_edits = [float(np.dot(*both)) for both in zip(table["shares"], table["edited"], strict=True)]
    return table.assign(share=on_edits, chance=table["edited"].map(np.mean))


def gradients(
    model: Any, similarity: VectorSimilarity, tokens: Tensor, offsets: Tensor, features: Tensor
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The similarity of n texts with n images, and how much it depends on each word and on each region.

    tokens, offsets: the texts, as in EncodedTexts, the tokens on the model's device. features: there, too, (n, D), or
    (n, R, D) on a grid. Returns, on the CPU, the similarities (n,); the mean absolute gradient to the vector of each
    word (n, T), 0 behind a text's end; and the sum of the absolute gradients to the features of each region (n, R),
    None without a grid.
    """
    fed: list[Tensor] = []

    def keep(module: Any, inputs: Any, output: Tensor) -> Tensor:
        fed.append(output.detach().requires_grad_())
        return fed[0]

    hook = model.text.embedding.register_forward_hook(keep)
    try:
        # cuDNN's recurrent nets have gradients only while they are trained, with their dropout
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
            seen = features.float().requires_grad_()
            rows = torch.arange(len(features))
            net = model.text.net
            embedding = model.text.embedding
            pooling = model.text.pooling
            texts = model.text.finish(run_packed(net, embedding, pooling, tokens, offsets, rows))
            scores = similarity.pairs(model.image(seen), texts)
            of_words, of_features = (part.cpu() for part in torch.autograd.grad(scores.sum(), [fed[0], seen]))
    finally:
        hook.remove()
    packed = pack_sentences(offsets, rows)
    lengths = offsets.diff()
    words = of_words.new_zeros(len(rows), int(lengths.max()))
    words[torch.arange(words.shape[1]) < lengths[:, None]] = of_words.abs().mean(1)[packed.positions.argsort()]
    regions = of_features.nan_to_num(0.0).abs().sum(-1) if features.dim() == 3 else None
    return scores.detach().cpu(), words, regions


def edited_words(spans: list[tuple[int, int]], edits: list[dict[str, Any]]) -> list[bool]:
    """For each word of a negative, by its span (start, end), whether an edit, in the caption's places, put it in."""
    put = []
    shift = 0
    for edit in edits:
        start = edit["start"] + shift
        put.append((start, start + len(edit["new"])))
        shift += len(edit["new"]) - (edit["end"] - edit["start"])
    return [any(start < stop and begin < end for begin, stop in put) for start, end in spans]


def summarize(negatives: pd.DataFrame, seed: int) -> dict[str, dict[str, Any]]:
    """By operator: the mean share of the saliency on edited words, and the share that chance gives, in %. With the
    number of negatives, and intervals of the share and of its difference from chance.
    """
    metrics = {}
    for name, rows in negatives.assign(beyond=negatives["share"] - negatives["chance"]).groupby("operator"):
        of_image = rows.groupby("image")[["share", "chance", "beyond"]]
        counts = of_image.sum().to_numpy()
        sizes = of_image.size().to_numpy()[:, None]
        share, chance, beyond = ratios_with_intervals(counts, sizes, seed)
        both = {"share": share, "beyond chance": beyond}
        values = {key: figure.value for key, figure in {**both, "chance": chance}.items()}
        bounds = {f"{key} interval": list(figure.interval) for key, figure in both.items()}
        metrics[str(name)] = {"negatives": len(rows), **values, **bounds}
    return metrics


SHOWN = 2  # negatives per operator
CHARACTERS = 96  # per line of a negative


def choose_shown(negatives: pd.DataFrame, photos: Collection[int]) -> pd.DataFrame:
    """The first negatives of each operator, of different images; of those with a photo if there are any photos."""
    seen = negatives[negatives["image"].isin(photos)] if photos else negatives
    first = seen.drop_duplicates(["operator", "image"]).groupby("operator").head(SHOWN)
    return first.sort_values("operator", kind="stable")


def draw_saliency(negatives: pd.DataFrame, photos: Mapping[int, Image], path: Path) -> None:
    """Draw the negatives, one below the other: the darker a word, the more the score depends on it. Below each word
    stands its share in %, in bold below those that an edit put in. photos: by the image's number; with regions on a
    square grid the photo is brighter where the score depends on it more, otherwise as it is.
    """
    rows: list[Any] = list(negatives.itertuples())
    lines = [_lines(one.words) for one in rows]
    heights = [max(0.75 * len(own) + 0.35, 1.7 if photos else 0.0) for own in lines]
    figure = new_figure(9.0 + 1.8 * bool(photos), sum(heights))
    cells = figure.add_gridspec(len(negatives), 2, height_ratios=heights, width_ratios=(1.7 if photos else 0.01, 9.0))
    for row, (one, own) in enumerate(zip(rows, lines, strict=True)):
        image = figure.add_subplot(cells[row, 0])
        text = figure.add_subplot(cells[row, 1])
        for axis in (image, text):
            axis.set_axis_off()
        if one.image in photos:
            side = 0 if one.regions is None else isqrt(len(one.regions))
            on_grid = side and side * side == len(one.regions)
            weights = one.regions.clamp(min=1e-12).sqrt().view(side, side) if on_grid else None
            draw_map(image, photos[one.image], weights)
        title = f"{one.operator}: {one.share:.0%} on {one.chance:.0%} of the words, similarity {one.score:.2f}"
        text.set_title(title, fontsize=8, loc="left", color="0.35")
        text.set_xlim(0, CHARACTERS)
        text.set_ylim(-len(own), 0.1)
        for line, places in enumerate(own):
            for number, at in places:
                word = one.words[number]
                share = one.shares[number]
                edited = one.edited[number]
                shade = share / max(one.shares)
                colour = (1.0, 1.0 - 0.55 * shade, 1.0 - 0.8 * shade)  # white to orange
                box = {"facecolor": colour, "edgecolor": "black" if edited else "none", "pad": 2.0, "linewidth": 1.0}
                x = at + max(len(word), 3) / 2
                y = -line - 0.35
                style: dict[str, Any] = {"family": "monospace", "ha": "center", "va": "center"}
                text.text(x, y, word, fontsize=9, bbox=box, **style)
                weight = "bold" if edited else "normal"
                text.text(x, y - 0.42, f"{100 * share:.0f}", fontsize=7, color="0.3", weight=weight, **style)
    write_png(figure, path, 110)


def _lines(words: Sequence[str]) -> list[list[tuple[int, float]]]:
    """Words broken into lines: for each line, the number of each of its words, and where it begins, in characters."""
    lines: list[list[tuple[int, float]]] = [[]]
    at = 0.0
    for number, word in enumerate(words):
        width = max(len(word), 3) + 1.2
        if at + width > CHARACTERS and lines[-1]:
            lines.append([])
            at = 0.0
        lines[-1].append((number, at))
        at += width
    return lines
