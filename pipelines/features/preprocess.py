"""Prepare photos for models trained on ImageNet: decode, resize, crop, normalise."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

# of ImageNet's pixels, red, green, blue: models of torchvision are trained on photos that are normalised by these
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
RESIZE = 256  # pixels of the shorter side, before the crop
CROP = 224  # pixels
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
MAX_PIXELS = 100_000_000  # of a photo
# How many pixels of the photos of a batch are in memory together: 100 MB.
PIXELS_TOGETHER = 1 << 25
# Photos with a longer shorter side, in pixels, are reduced: no model of images and texts reads larger ones.
SHORTER = 2048


class UnreadableError(ValueError):
    """A photo cannot be used. reason: one of negcap.schemas.features.IMAGE_REASONS; detail: what is wrong with it."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


def decode(data: bytes, shorter: int = MAX_PIXELS) -> Image:
    """Decode the bytes of a photo to RGB, with its EXIF orientation applied and transparency on white.

    shorter: a photo whose shorter side has at least twice as many pixels is reduced by a whole number, but not below
    this. Raises UnreadableError.
    """
    from PIL import Image, ImageOps

    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as file:
            _check_size(file.width, file.height, "has")
            if min(file.size) >= 2 * shorter:
                # A JPEG is decoded at 1/2, 1/4 or 1/8.
                file.draft(None, (shorter, shorter))
            ImageOps.exif_transpose(file, in_place=True)
            mode = "RGBA" if file.has_transparency_data else "RGB"
            factor = min(file.size) // shorter
            photo = file if factor > 1 and file.mode == mode else file.convert(mode)  # `reduce` makes a copy anyway
            if factor > 1:
                photo = photo.reduce(factor)
            if mode == "RGBA":
                photo = Image.alpha_composite(Image.new("RGBA", photo.size, "white"), photo).convert("RGB")
            return photo
    except UnreadableError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise UnreadableError("too_large", f"an image must have <= {MAX_PIXELS:,} pixels: {error}") from None
    except Exception as error:  # for broken files, decoders raise errors of many types
        first = str(error).partition("<_io")[0].strip().split("\n")[0]
        raise UnreadableError("unreadable", f"must be an image, {type(error).__name__}: {first}") from None


def open_image(file: Path, shorter: int = MAX_PIXELS) -> Image:
    """The image in a file as `decode` gives it. Raises ValueError naming a file that is no image."""
    try:
        return decode(file.read_bytes(), shorter)
    except UnreadableError as error:
        raise ValueError(f"{file}: {error.detail}") from error


def open_images(files: Sequence[Path], most_pixels: int = PIXELS_TOGETHER) -> Iterator[list[Image]]:
    """Open image files in order, in lists that fit into memory: in RGB, upright, those with a shorter side of at least
    twice SHORTER pixels reduced.

    Args:
        files: the images of a batch.
        most_pixels: that a list may have in all; an image that has more is a list of its own.

    Raises:
        ValueError: a file is no image, or has too many pixels. OSError: it cannot be read.
    """
    # Decoded pixels take most of the memory: of small photos many fit into a list, of large ones few.
    together: list[Image] = []
    pixels = 0
    for file in files:
        image = open_image(file, SHORTER)
        pixels += image.width * image.height  # as if it still joined this list
        if together and pixels > most_pixels:
            yield together
            together = []
            pixels = image.width * image.height
        together.append(image)
    if together:
        yield together


def _check_size(width: int, height: int, has: str) -> None:
    """Raise UnreadableError if an image has too many pixels. has: how the message begins to state the size it has."""
    if width * height > MAX_PIXELS:
        raise UnreadableError("too_large", f"an image must have <= {MAX_PIXELS:,} pixels, {has} {width} x {height}")


def cropped(photo: Image, resize: int = RESIZE, crop: int = CROP) -> Image:
    """Resize a photo so that its shorter side has `resize` pixels, and cut out the centre of `crop` x `crop` pixels.

    The longer side is resized in proportion, rounded down. Raises UnreadableError for a photo so narrow that it would
    then have too many pixels.
    """
    from PIL import Image

    width, height = photo.size
    size = (resize, resize * height // width) if width <= height else (resize * width // height, resize)
    _check_size(*size, f"{width} x {height} resized has")
    photo = photo if size == photo.size else photo.resize(size, Image.Resampling.BILINEAR)
    left = round((size[0] - crop) / 2)
    top = round((size[1] - crop) / 2)
    return photo.crop((left, top, left + crop, top + crop))


def normalised(data: bytes, resize: int = RESIZE, crop: int = CROP) -> np.ndarray:
    """A photo as models trained on ImageNet read it: (3, crop, crop) float32, less the mean, over the deviation.

    data: the bytes of its file, of which the centre is taken (see `cropped`). Raises UnreadableError.
    """
    numbers = np.asarray(cropped(decode(data), resize, crop), np.float32) / np.float32(255)
    pixels = (numbers - np.array(MEAN, np.float32)) / np.array(STD, np.float32)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))
