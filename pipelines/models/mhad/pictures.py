"""Figures of a trained MHA-D: what each head attends to in photos and captions, and the joint space in the plane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isqrt
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..figures import new_figure, write_png
from ..univse.parsing import to_plane
from ..vectors import Texts
from ..vocabulary import WordVocabulary
from .model import MultiHeadAttention

if TYPE_CHECKING:
    from PIL.Image import Image

SIDE = 224  # pixels of a photo in the figure
LINKED = 25  # images in the plane whose captions are linked to them by lines


class Attention(NamedTuple):
    """What the K heads of a model attend to in an image and in one of its captions in each language.

    regions: (K, n, n) weights of the cells of the image's grid. words: by language, the words of the caption (N,) and
    their weights (K, N).
    """

    regions: Tensor
    words: Mapping[str, tuple[list[str], Tensor]]


def find_attention(
    model: MultiHeadAttention,
    features: Tensor,
    texts: Texts,
    captions: Mapping[str, int],
    words: Sequence[WordVocabulary],
) -> Attention:
    """The weights of a model's heads for an image and its captions.

    features: (R, D) of the image. captions: by language, an index into `texts`. words: the vocabulary of each of the
    model's languages. Raises ValueError if the regions are no square grid.
    """
    side = isqrt(len(features)) if features.dim() == 2 else 0
    if side < 2 or side * side != len(features):
        raise ValueError(f"features must be a square grid of regions, have the shape {tuple(features.shape)} per image")
    known = dict(zip(model.languages, words, strict=True))
    with torch.inference_mode():
        regions = model.image.attend(features[None]).weights[0].view(-1, side, side)
        found = {}
        for language, row in captions.items():
            weights = model.encoder(language).attend(texts.tokens, texts.offsets, torch.tensor([row])).weights[0]
            ids = texts.tokens[texts.offsets[row] : texts.offsets[row + 1]].tolist()[: weights.shape[1]]
            found[language] = ([known[language].words[id] for id in ids], weights)
    return Attention(regions, found)


def draw_attention(rows: Sequence[tuple[Attention, Image | None]], path: Path) -> None:
    """Draw one row per image as a PNG: for each head the weights of the regions, for each caption those of its words.

    rows: what the heads attend to, and the part of the photo that the grid covers, or None. Each map and each line of
    words is scaled by its own maximum.
    """
    heads = len(rows[0][0].regions)
    languages = list(rows[0][0].words)
    figure = new_figure(1.9 * heads + 4.6 * len(languages), 2.1 * len(rows))
    axes = figure.subplots(
        len(rows), heads + len(languages), squeeze=False, width_ratios=[1.9] * heads + [4.6] * len(languages)
    )
    colours = {"cmap": "inferno", "vmin": 0, "vmax": 1}
    for line, (attention, photo) in zip(axes, rows, strict=True):
        extent = (0, SIDE, SIDE, 0)
        for head, (axis, map) in enumerate(zip(line, attention.regions, strict=False), 1):
            axis.set_axis_off()
            if photo is not None:
                axis.imshow(photo.convert("L").resize((SIDE, SIDE)), cmap="gray", extent=extent)
            shown = (map / map.max()).numpy()
            axis.imshow(
                shown, extent=extent, interpolation="bicubic", alpha=0.55 if photo is not None else 1, **colours
            )
            axis.set_title(f"head {head}", fontsize=8, loc="left")
        for axis, (language, (words, weights)) in zip(line[heads:], attention.words.items(), strict=True):
            axis.imshow((weights / weights.amax(1, keepdim=True)).numpy(), aspect="auto", **colours)
            axis.set_xticks(range(len(words)), words, rotation=40, ha="right", fontsize=7)
            axis.set_yticks(range(heads), [f"head {head + 1}" for head in range(heads)], fontsize=7)
            axis.set_title(language, fontsize=8, loc="left")
    write_png(figure, path, 110)


def draw_views(views: Mapping[str, Tensor], path: Path, seed: int = 0) -> None:
    """Draw vectors of the same n images and captions in the plane, by t-SNE of their cosine distances, as a PNG.

    views: by name ("images", or a language), unit vectors (n, d), row i of each of the same image. Lines link the first
    few images with their captions. seed: of t-SNE.
    """
    points = np.split(to_plane(torch.cat(list(views.values())), seed), len(views))
    figure = new_figure(9, 9)
    axis = figure.subplots()
    axis.set_axis_off()
    for image in range(min(LINKED, len(points[0]))):
        for its in points[1:]:
            axis.plot(*np.stack([points[0][image], its[image]]).T, color="lightgray", linewidth=0.8, zorder=0)
    for number, (name, its) in enumerate(zip(views, points, strict=True)):
        axis.scatter(its[:, 0], its[:, 1], s=14, marker="sov^D*"[number % 6], color=f"C{number}", label=name)
    axis.legend(loc="upper right")
    write_png(figure, path, 100)
