"""Read the image files of a test set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image


def open_images(files: Sequence[Path]) -> list[Image]:
    """The images in RGB. Raises ValueError naming a file that is no image, ImportError without Pillow."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise ImportError("image files need Pillow: pip install negcap[score]") from error
    found = []
    for file in files:
        try:
            with Image.open(file) as image:
                found.append(image.convert("RGB"))
        except (UnidentifiedImageError, Image.DecompressionBombError, OSError) as error:
            raise ValueError(f"{file}: must be an image file, cannot be read: {error}") from error
    return found
