"""Image files: find them in a folder by the names that captions give, and measure them."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from ...schemas.images import image_fault
from ..engine.errors import require_libraries

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")
SHOWN = 5  # names in a message; more would hide what it says


class Box(NamedTuple):
    """A rectangle of an image in pixels: its upper left corner and its size."""

    x: int
    y: int
    width: int
    height: int


def safe_path(image: str) -> str:
    """`image` if it is the path of an image inside a folder. Raises ValueError, see `image_fault`, if it is none."""
    if (fault := image_fault(image)) is not None:
        raise ValueError(fault.detail)
    return image


@dataclass(frozen=True)
class Images:
    """A folder of image files or of symbolic links to them, which are followed, since the user has placed them."""

    folder: Path

    def __post_init__(self) -> None:
        if not self.folder.is_dir():
            was = "is a file" if self.folder.exists() else "does not exist"
            raise FileNotFoundError(f"images must be a folder, was: {self.folder}, which {was}")

    def find(self, image: str) -> str | None:
        """The path of an image in the folder: as given, or its file name, with or without suffix; None without it.

        Raises ValueError for a path that is empty, absolute, or leaves the folder.
        """
        path = PurePosixPath(safe_path(image))
        # Sets name the same files with or without their folders (val2014/a.jpg), and with or without a suffix.
        for name in dict.fromkeys((str(path), path.name)):
            for suffix in ("", *SUFFIXES):
                if (self.folder / (name + suffix)).is_file():
                    return name + suffix
        return None

    def read(self, name: str) -> bytes:
        """The bytes of the file `name`, a path that `find` returned."""
        return (self.folder / name).read_bytes()

    def box(self, name: str) -> Box:
        """The rectangle of the whole image `name`, a path that `find` returned. Raises ValueError if it is no image."""
        return _full_box(self.folder / name)


@lru_cache(maxsize=65536)  # every caption of an image asks again, and opening a file is slow
def _full_box(file: Path) -> Box:
    """The rectangle of a whole image file."""
    require_libraries('image sizes need Pillow: pip install "negcap[publish]"', "PIL")
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(file) as image:
            return Box(0, 0, *image.size)
    except (UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise ValueError(f"{file}: must be an image file, {error}") from error


def read_boxes(file: Path) -> dict[str, Box]:
    """Read a CSV of image_id, x, y, width, height (pixels), by image_id. ValueError names a bad column or line."""
    boxes = {}
    with file.open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines)
        missing = [name for name in ("image_id", *Box._fields) if name not in (rows.fieldnames or ())]
        if missing:
            raise ValueError(f"{file}: lacks the column {missing[0]}")
        for row in rows:
            try:
                box = Box(*(int(row[name]) for name in Box._fields))
            except (ValueError, TypeError):  # no number, or a line that is too short
                box = Box(0, 0, 0, 0)  # which is refused below, as any other bad one
            if min(box.x, box.y) < 0 or min(box.width, box.height) < 1:
                raise ValueError(f"{file}:{rows.line_num}: a box must be whole pixels, at least one each way")
            boxes[row["image_id"]] = box
    return boxes


def abbreviate(names: Iterable[str]) -> str:
    """The names, abbreviated after the first five: `a.jpg, b.jpg, c.jpg, d.jpg, e.jpg, … (12 in all)`."""
    named = list(names)
    return ", ".join(named[:SHOWN]) + (f", … ({len(named):,} in all)" if len(named) > SHOWN else "")
