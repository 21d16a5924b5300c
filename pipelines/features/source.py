"""What a source of features is: images in order, each with a feature or the reason why it has none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from negcap.pipelines.readers.record import Record, Rejected, clean, excerpt, image_id
from negcap.schemas.features import features as schema_of
from negcap.schemas.features import tensors

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


class Listed(NamedTuple):
    """An image as a source lists it, and why it has no feature, if that is known already."""

    image_id: str
    image: str
    reason: str = ""
    detail: str = ""


class Part(NamedTuple):
    """Some consecutive images of a source: ids, their features (n, *shape), and the images without."""

    image_ids: list[str]
    features: np.ndarray
    rejected: list[Listed]


class Source(Protocol):
    """Images in a fixed order and how to read their features."""

    images: list[Listed]
    backbone: str
    shape: tuple[int, ...]
    dtype: str
    inputs: dict[str, str]

    def read(self, start: int, stop: int) -> Part:
        """The features of images[start:stop]. Raises ValueError naming the file that cannot be read."""


def listed(images: Iterable[tuple[str, str]]) -> list[Listed]:
    """The images of (image_id, image) pairs, an empty id taken from the image's name, unsafe and repeated ones marked.

    Ids and rules are those of captions, so that the two tables meet.
    """
    found: list[Listed] = []
    seen: dict[str, str] = {}
    for given, image in images:
        record = clean(Record("", 0, image, "-"))
        if isinstance(record, Rejected):
            found.append(Listed(given, excerpt(image), record.reason, record.detail))
            continue
        name = given or image_id(record.image)
        if name in seen:
            detail = f"image_id must be distinct, {name} is also that of {seen[name]}"
            found.append(Listed(name, record.image, "duplicate_image_id", detail))
            continue
        seen[name] = record.image
        found.append(Listed(name, record.image))
    return found


def finite(images: Sequence[Listed], features: np.ndarray, rejected: Sequence[Listed] = ()) -> Part:
    """A part of the images whose features are finite numbers; the others join `rejected`."""
    import numpy as np

    good = np.isfinite(features).all(axis=tuple(range(1, features.ndim)))
    bad = [
        image._replace(reason="not_finite", detail=f"a feature must be finite in {features.dtype}, has nan or infinity")
        for image, fine in zip(images, good, strict=True)
        if not fine
    ]
    ids = [image.image_id for image, fine in zip(images, good, strict=True) if fine]
    return Part(ids, features if good.all() else features[good], [*rejected, *bad])


def table_of(image_ids: list[str], numbers: np.ndarray) -> pa.Table:
    """A table of features from ids and numbers (n, *shape)."""
    import pyarrow as pa

    schema = schema_of(numbers.shape[1:], numbers.dtype.name)
    column = tensors(pa.array(numbers.reshape(-1)), numbers.shape[1:])
    return pa.table([pa.array(image_ids, pa.string()), column], schema=schema)
