"""Sources of features: images in a fixed order, each with a feature or the reason why it has none.

A source, of arrays or of photos, has `images`; `backbone`, the name of the model that makes the features; `shape` and
`dtype` of one feature; `inputs`, a name and a hash for each file that is read; and `read(start, stop)`, which gives
images[start:stop], now with all reasons, and the features (n, *shape) of the n of them that have no reason. It raises
ValueError, naming the file, when one cannot be read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...schemas.features import DTYPES, REJECTED_IMAGES, TABLE, tensors
from ...schemas.features import features as schema_of
from ..engine.bounds import at_least, word
from ..readers.record import Record, Rejected, clean, excerpt
from .preprocess import CROP, RESIZE

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


_TABLE = re.compile(rf"{TABLE}(_[a-z0-9]+)?")


@dataclass(frozen=True)
class FeaturesConfig:
    """What to read of a source, and how. Raises ValueError for a value that is not valid.

    Arrays of a VSE++ folder: `array` names the files, `{split}_{array}.npy`. backbone: the model that made them.
    Photos: `onnx` is the model. layer: an output of it; empty: the first. images: the folder to which the paths in a
    run's captions are relative. grid: keep regions instead of their mean. resize, crop: in pixels, see
    preprocess.cropped. batch: photos computed at once. device: cpu or cuda. threads: 0: one per core.
    Both: dtype: to store; empty: float16 for arrays of float16 or bytes, else float32. table: to write: `features`, or
    `features_<name>` to keep several. limit: read only the first N images. shard_size: images per shard; None: what
    fits in 64 MiB, at most 1,000. strict: stop at the first image without a feature.
    """

    array: str = "ims"
    backbone: str = ""
    onnx: Path | None = None
    layer: str = ""
    images: Path | None = None
    grid: bool = False
    resize: int = RESIZE
    crop: int = CROP
    batch: int = 32
    device: str = "cpu"
    threads: int = 0
    dtype: str = ""
    table: str = TABLE
    limit: int | None = None
    shard_size: int | None = None
    strict: bool = False

    def __post_init__(self) -> None:
        at_least(self, 1, ("batch", "limit", "shard_size", "crop"))
        at_least(self, 0, ["threads"])
        if self.resize < self.crop:
            raise ValueError(f"resize must be >= crop ({self.crop}), was: {self.resize}")
        if self.dtype:
            word("dtype", self.dtype, DTYPES)
        if not _TABLE.fullmatch(self.table):
            raise ValueError(f"table must be {TABLE}, or {TABLE}_ and a name of a-z and 0-9, was: {self.table}")
        if self.onnx is None:
            for name in ("layer", "images", "grid"):
                if getattr(self, name):
                    raise ValueError(f"{name} is for photos: onnx must be given with it")

    @property
    def rejections(self) -> str:
        """Name of the table of images without a feature: `rejected_images`, or `rejected_images_<name>`."""
        return REJECTED_IMAGES.metadata[b"table"].decode() + self.table.removeprefix(TABLE)


class SourceImage(NamedTuple):
    """An image of a source; `reason` and `detail` say why it has no feature, if that is known before it is read.

    file: of a photo, its path in the folder.
    """

    image_id: str
    image: str
    reason: str = ""
    detail: str = ""
    file: str = ""


def source_images(images: Iterable[tuple[str, str]]) -> list[SourceImage]:
    """The images of (image_id, image) pairs; those with an unsafe path or a repeated id get a reason.

    An empty id is replaced by one from the image's name. Ids and rules are those of captions, so that the tables of
    features and captions can be joined.
    """
    checked: list[SourceImage] = []
    first_with: dict[str, str] = {}
    for given, image in images:
        record = clean(Record("", 0, image, "-"))
        if isinstance(record, Rejected):
            checked.append(SourceImage(given, excerpt(image), record.reason, record.detail))
            continue
        name, reason, detail = given or record.id, "", ""
        if name in first_with:
            reason = "duplicate_image_id"
            detail = f"image_id must be distinct, {name} is also that of {first_with[name]}"
        first_with.setdefault(name, record.image)
        checked.append(SourceImage(name, record.image, reason, detail))
    return checked


def table_of(image_ids: list[str], numbers: np.ndarray) -> pa.Table:
    """A table of features of n images, given their ids and features (n, *shape)."""
    import pyarrow as pa

    schema = schema_of(numbers.shape[1:], numbers.dtype.name)
    column = tensors(pa.array(numbers.reshape(-1)), numbers.shape[1:])
    return pa.table([pa.array(image_ids, pa.string()), column], schema=schema)
