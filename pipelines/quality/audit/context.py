"""What a reader needs to judge whether a negative is false: the image, and what its other captions say."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ....schemas.captions import LANGUAGE
from ...engine.tables import Shard, shards_of
from ...tables.columns import read_columns
from ...tables.images import Images
from ..strata import Row

SIDE, QUALITY = 320, 72  # pixels of the longer side, JPEG quality: about 15 kB per photo


class Photo(NamedTuple):
    """A scaled-down image as a `data:` URI, which embeds it in the page, and its size in pixels."""

    uri: str
    width: int
    height: int


@dataclass(frozen=True)
class Context:
    """The captions and photos of some images.

    captions: by image_id, the English captions as (caption_id, text); photos: by image_id, for readable image files;
    images: whether photos were requested; missing: number of images without a photo.
    """

    captions: Mapping[str, list[tuple[str, str]]] = field(default_factory=dict)
    photos: Mapping[str, Photo] = field(default_factory=dict)
    images: bool = False
    missing: int = 0

    def siblings(self, row: Row) -> list[str]:
        """The texts of the other captions of a row's image."""
        return [text for caption_id, text in self.captions.get(row["image_id"], ()) if caption_id != row["caption_id"]]

    def photo(self, row: Row) -> Photo | None:
        """The photo of a row's image; None if it has none."""
        return self.photos.get(row["image_id"])


def read_context(run: Path, rows: Iterable[Row], folder: Path | None = None) -> Context:
    """Read the captions of the rows' images, and their photos from an image folder (None: no photos).

    Only files inside the folder are read (see `Images.find`). Raises FileNotFoundError if the folder does not exist,
    ImportError without Pillow, ValueError for a missing column, DamagedShardError for a shard that is not as recorded.
    """
    wanted = {row["image_id"] for row in rows}
    captions: dict[str, list[tuple[str, str]]] = {}
    paths: dict[str, str] = {}
    for shard in shards_of(run, "captions"):
        for row in _of_images(shard, wanted):
            paths[row["image_id"]] = row["image"]
            if row["language"] == LANGUAGE:
                captions.setdefault(row["image_id"], []).append((row["caption_id"], row["text"]))
    if folder is None:
        return Context(captions)
    images = Images(folder)
    found = {image_id: _photo(images, path) for image_id, path in paths.items()}
    photos = {image_id: photo for image_id, photo in found.items() if photo is not None}
    return Context(captions, photos, True, len(wanted) - len(photos))


def _of_images(shard: Shard, wanted: set[str]) -> list[Row]:
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = read_columns(shard, ["caption_id", "image_id", "image", "language", "text"])
    return rows.filter(pc.is_in(rows["image_id"], pa.array(sorted(wanted), pa.string()))).to_pylist()


def _photo(images: Images, path: str) -> Photo | None:
    """The image scaled down; None if it is not inside the folder or cannot be read."""
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise ImportError('photos on the page need Pillow: pip install "negcap[publish]"') from error
    try:
        name = images.find(path)
        if name is None:
            return None
        with Image.open(io.BytesIO(images.read(name))) as file:
            image = ImageOps.exif_transpose(file).convert("RGB")
    except (OSError, ValueError, Image.DecompressionBombError):
        return None
    image.thumbnail((SIDE, SIDE))
    data = io.BytesIO()
    image.save(data, "JPEG", quality=QUALITY)
    return Photo(f"data:image/jpeg;base64,{base64.b64encode(data.getvalue()).decode()}", *image.size)
