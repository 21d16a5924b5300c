"""A PNG of negatives with the saliency of their words, and of regions over the photo (VSE-C, Figure 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isqrt
from pathlib import Path
from typing import Any

from ...features.preprocess import decode
from ..figures import new_figure, write_png
from .saliency import SalientNegative

SHOWN = 2  # negatives per operator
CHARACTERS = 96  # per line of a negative
SIDE = 224  # pixels of a photo


def choose_shown(negatives: Sequence[SalientNegative], photos: Mapping[int, Path]) -> list[SalientNegative]:
    """The first negatives of each operator, of images with a photo if there are any photos."""
    shown: dict[str, list[SalientNegative]] = {}
    for one in negatives:
        own = shown.setdefault(one.operator, [])
        if len(own) < SHOWN and (not photos or one.image in photos) and one.image not in {other.image for other in own}:
            own.append(one)
    return [one for name in sorted(shown) for one in shown[name]]


def draw_saliency(negatives: Sequence[SalientNegative], photos: Mapping[int, Path], path: Path) -> None:
    """Draw the negatives, one below the other: the darker a word, the more the score depends on it.

    Below each word stands its share in %, in bold below those that an edit put in. photos: by the image's number; with
    regions on a square grid the photo is brighter where the score depends on it more, otherwise as it is.
    """
    lines = [_lines(one.words) for one in negatives]
    heights = [max(0.75 * len(own) + 0.35, 1.7 if photos else 0.0) for own in lines]
    figure = new_figure(9.0 + 1.8 * bool(photos), sum(heights))
    grid = figure.add_gridspec(len(negatives), 2, height_ratios=heights, width_ratios=(1.7 if photos else 0.01, 9.0))
    for row, (one, own) in enumerate(zip(negatives, lines, strict=True)):
        image, text = figure.add_subplot(grid[row, 0]), figure.add_subplot(grid[row, 1])
        for axis in (image, text):
            axis.set_axis_off()
        if one.image in photos:
            _draw_photo(image, one, photos[one.image])
        title = f"{one.operator}: {one.share:.0%} on {one.chance:.0%} of the words, similarity {one.score:.2f}"
        text.set_title(title, fontsize=8, loc="left", color="0.35")
        text.set_xlim(0, CHARACTERS)
        text.set_ylim(-len(own), 0.1)
        highest = max(one.shares)
        for line, places in enumerate(own):
            for number, at in places:
                _draw_word(text, one, number, (at, -line - 0.35), highest)
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


def _draw_word(axes: Any, one: SalientNegative, number: int, at: tuple[float, float], highest: float) -> None:
    word, share, edited = one.words[number], one.shares[number], one.edited[number]
    shade = share / highest
    colour = (1.0, 1.0 - 0.55 * shade, 1.0 - 0.8 * shade)  # white to orange
    box = {"facecolor": colour, "edgecolor": "black" if edited else "none", "pad": 2.0, "linewidth": 1.0}
    middle = at[0] + max(len(word), 3) / 2
    style = {"family": "monospace", "ha": "center", "va": "center"}
    axes.text(middle, at[1], word, fontsize=9, bbox=box, **style)
    weight = "bold" if edited else "normal"
    axes.text(middle, at[1] - 0.42, f"{100 * share:.0f}", fontsize=7, color="0.3", weight=weight, **style)


def _draw_photo(axes: Any, one: SalientNegative, photo: Path) -> None:
    picture = decode(photo.read_bytes()).resize((SIDE, SIDE))
    extent = (0, SIDE, SIDE, 0)
    if one.regions is None or isqrt(len(one.regions)) ** 2 != len(one.regions):
        axes.imshow(picture, extent=extent)
        return
    side = isqrt(len(one.regions))
    map = (one.regions / one.regions.max().clamp(min=1e-12)).view(side, side).numpy() ** 0.5
    axes.imshow(picture.convert("L"), cmap="gray", extent=extent)
    axes.imshow(map, extent=extent, interpolation="bicubic", cmap="inferno", alpha=0.55, vmin=0, vmax=1)
