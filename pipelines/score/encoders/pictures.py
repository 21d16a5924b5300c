"""Read the image files of a test set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from negcap.pipelines.features.preprocess import UnreadableError, decode

if TYPE_CHECKING:
    from PIL.Image import Image


def open_images(files: Sequence[Path]) -> list[Image]:
    """The images in RGB, upright. Raises ValueError naming a file that is no image."""
    found = []
    for file in files:
        try:
            found.append(decode(file.read_bytes()))
        except UnreadableError as error:
            raise ValueError(f"{file}: {error.detail}") from error
    return found
