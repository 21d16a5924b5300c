"""Sources of features: images in a fixed order, each with a feature or the reason why it has none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ...schemas.features import features as schema_of
from ...schemas.features import tensors
from ..readers.record import Record, Rejected, clean, excerpt, image_id

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


class SourceImage(NamedTuple):
    """An image of a source; `reason` and `detail` say why it has no feature, if that is known before it is read."""

    image_id: str
    image: str
    reason: str = ""
    detail: str = ""


class Source(Protocol):
    """Images in a fixed order, and how to read their features.

    backbone: name of the model that makes the features. shape, dtype: of one feature. inputs: a name and a hash for
    each file that is read.
    """

    images: list[SourceImage]
    backbone: str
    shape: tuple[int, ...]
    dtype: str
    inputs: dict[str, str]

    def read(self, start: int, stop: int) -> tuple[list[SourceImage], np.ndarray]:
        """images[start:stop], now with all reasons, and the features (n, *shape) of the n of them that have no reason.

        Raises ValueError, naming the file, when one cannot be read.
        """


def source_images(images: Iterable[tuple[str, str]]) -> list[SourceImage]:
    """The images of (image_id, image) pairs; those with an unsafe path or a repeated id get a reason.

    An empty id is replaced by one from the image's name. Ids and rules are those of captions, so that the tables of
    features and captions can be joined.
    """
    found: list[SourceImage] = []
    seen: dict[str, str] = {}
    for given, image in images:
        record = clean(Record("", 0, image, "-"))
        if isinstance(record, Rejected):
            found.append(SourceImage(given, excerpt(image), record.reason, record.detail))
            continue
        name = given or image_id(record.image)
        if name in seen:
            detail = f"image_id must be distinct, {name} is also that of {seen[name]}"
            found.append(SourceImage(name, record.image, "duplicate_image_id", detail))
        else:
            seen[name] = record.image
            found.append(SourceImage(name, record.image))
    return found


def table_of(image_ids: list[str], numbers: np.ndarray) -> pa.Table:
    """A table of features of n images, given their ids and features (n, *shape)."""
    import pyarrow as pa

    schema = schema_of(numbers.shape[1:], numbers.dtype.name)
    column = tensors(pa.array(numbers.reshape(-1)), numbers.shape[1:])
    return pa.table([pa.array(image_ids, pa.string()), column], schema=schema)


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its type."""
    return str(error).strip().split("\n")[0].rstrip(".")[:300] or type(error).__name__
