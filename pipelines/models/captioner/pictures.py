"""What was written, beside the pictures it was written of."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from negcap.pipelines.engine.shards import read_table, write_atomically

WIDTH = 68  # letters a line


def draw_samples(
    run: Path, folder: Path, image_ids: Sequence[str], written: Mapping[str, Sequence[str]], path: Path
) -> None:
    """Draw pictures with a caption in each way beside them, as a PNG: written[way][i] is of image_ids[i].

    Raises FileNotFoundError for a picture that is not in the folder, ValueError for one outside of it.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from PIL import Image

    files = _files(run, set(image_ids))
    figure = Figure(figsize=(9, 2.1 * len(image_ids)), layout="constrained")
    FigureCanvasAgg(figure)
    for row, image_id in enumerate(image_ids):
        file = (folder / files[image_id]).resolve()
        if not file.is_relative_to(folder.resolve()):
            raise ValueError(f"image must be inside {folder}, was: {files[image_id]}")
        if not file.is_file():
            raise FileNotFoundError(f"{file} is missing: --images names the folder of the pictures")
        picture, text = (
            figure.add_subplot(len(image_ids), 4, cells) for cells in (4 * row + 1, (4 * row + 2, 4 * row + 4))
        )
        with Image.open(file) as image:
            picture.imshow(image.convert("RGB"))
        said = (
            textwrap.fill(f"{way}: {texts[row]}", WIDTH, subsequent_indent="    ") for way, texts in written.items()
        )
        text.text(0, 0.5, "\n".join(said), va="center", fontsize=8.5, family="DejaVu Sans", parse_math=False)
        for axes in (picture, text):
            axes.axis("off")
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=110, metadata={"Software": None})
    write_atomically(path, drawn.getvalue())


def _files(run: Path, image_ids: set[str]) -> dict[str, str]:
    """The file of each image, as the run's captions name it."""
    found: dict[str, str] = {}
    for rows in read_table(run, "captions", ["image_id", "image"]):
        for image_id, image in zip(rows["image_id"].to_pylist(), rows["image"].to_pylist(), strict=True):
            if image_id in image_ids:
                found[image_id] = image
    return found
