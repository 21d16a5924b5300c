"""A figure of images with generated captions beside them."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...engine.tables import read_table
from ..figures import new_figure, write_png

WIDTH = 68  # characters per line


def draw_samples(
    run: Path, folder: Path, image_ids: Sequence[str], written: Mapping[str, Sequence[str]], path: Path
) -> None:
    """Draw images with their captions beside them as a PNG.

    folder: of the image files. written: by way of writing, one caption per image of image_ids. Raises FileNotFoundError
    for an image file that is missing, ValueError for one outside the folder.
    """
    from PIL import Image

    files = _files(run, set(image_ids))
    figure = new_figure(9, 2.1 * len(image_ids))
    for row, image_id in enumerate(image_ids):
        file = (folder / files[image_id]).resolve()
        if not file.is_relative_to(folder.resolve()):
            raise ValueError(f"image must be inside {folder}, was: {files[image_id]}")
        if not file.is_file():
            raise FileNotFoundError(f"{file} is missing: --images must name the folder of the images")
        picture, text = (
            figure.add_subplot(len(image_ids), 4, cells) for cells in (4 * row + 1, (4 * row + 2, 4 * row + 4))
        )
        with Image.open(file) as image:
            picture.imshow(image.convert("RGB"))
        lines = (
            textwrap.fill(f"{how}: {texts[row]}", WIDTH, subsequent_indent="    ") for how, texts in written.items()
        )
        text.text(0, 0.5, "\n".join(lines), va="center", fontsize=8.5, family="DejaVu Sans", parse_math=False)
        for axes in (picture, text):
            axes.axis("off")
    write_png(figure, path, 110)


def _files(run: Path, image_ids: set[str]) -> dict[str, str]:
    """The file name of each image, as the run's captions state it."""
    found: dict[str, str] = {}
    for rows in read_table(run, "captions", ["image_id", "image"]):
        for image_id, image in zip(rows["image_id"].to_pylist(), rows["image"].to_pylist(), strict=True):
            if image_id in image_ids:
                found[image_id] = image
    return found
