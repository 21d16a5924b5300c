"""Sources of features: images in a fixed order, each with a feature or the reason why it has none.

A source, of arrays or of photos, has `images`; `backbone`, the name of the model that makes the features; `shape` and
`dtype` of one feature; `inputs`, a name and a hash for each file that is read; and `read(start, stop)`, which gives
images[start:stop], now with all reasons, and the features (n, *shape) of the n of them that have no reason. It raises
ValueError, naming the file, when one cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from ...augment.settings import AtLeastOne, NotNegative, Settings, matching
from ...schemas.features import REJECTED_IMAGES, TABLE, tensors
from ...schemas.features import features as schema_of
from ..readers.record import Record, Rejected, clean, excerpt, image_id

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


class FeaturesConfig(Settings):
    """What to read of a source, and how."""

    array: str = Field("ims", description="arrays to read of a VSE++ folder: SPLIT_NAME.npy")
    backbone: str = Field("", description="name of the model that made the arrays, for the metadata")
    onnx: Path | None = Field(None, description="extract features of photos with this ONNX model")
    layer: str = Field("", description="output of the model to read; by default its first")
    images: Path | None = Field(None, description="folder of the photos that a run's captions name")
    grid: bool = Field(False, description="keep the regions of the output instead of their mean")
    resize: int = Field(256, description="shorter side of a photo, in pixels")
    crop: int = Field(224, description="sides of its centre that is used, in pixels")
    batch: AtLeastOne = Field(32, description="photos computed at once")
    device: Literal["cpu", "cuda"] = Field("cpu", description="where the model runs")
    threads: NotNegative = Field(0, description="threads that read photos and run the model; 0: one per core")
    dtype: Literal["", "float16", "float32"] = Field(
        "", description="type to store; by default float16 for arrays of float16 or uint8, else float32"
    )
    table: Annotated[str, matching(rf"{TABLE}(_[a-z0-9]+)?", f"{TABLE}, or {TABLE}_ and a name of a-z and 0-9")] = (
        Field(TABLE, description="table to write: features or features_NAME")
    )
    limit: AtLeastOne | None = Field(None, description="read only the first N images; none: all")
    shard_size: AtLeastOne | None = Field(
        None, description="images per Parquet file, at most; none: what fits in 64 MiB, 1000 at most"
    )
    strict: bool = Field(False, description="stop at the first bad image instead of rejecting it")

    @model_validator(mode="after")
    def _check_photos(self) -> Self:
        if self.onnx is None:
            for name in ("layer", "images", "grid"):
                if getattr(self, name):
                    raise ValueError(f"{name} is for photos: onnx must be given with it")
        return self

    @property
    def rejections(self) -> str:
        """Name of the table of images without a feature: `rejected_images`, or `rejected_images_<name>`."""
        return REJECTED_IMAGES.metadata[b"table"].decode() + self.table.removeprefix(TABLE)


class SourceImage(NamedTuple):
    """An image of a source; `reason` and `detail` say why it has no feature, if that is known before it is read."""

    image_id: str
    image: str
    reason: str = ""
    detail: str = ""


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
