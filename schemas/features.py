"""features: what an image encoder starts from; rejected_images: the images without."""

import json
from math import prod

import pyarrow as pa

from negcap.schemas.fields import field, schema

TABLE = "features"
DTYPES = ("float16", "float32")
_TYPES = {"float16": pa.float16(), "float32": pa.float32()}


def features(shape: tuple[int, ...], dtype: str = "float32") -> pa.Schema:
    """The schema of features of one shape: (D,) pooled, (R, D) a grid of R regions.

    A shard's metadata says also `backbone`, what made them, and `shape` as JSON. Raises ValueError for a dtype that is
    not one of DTYPES, or a shape without numbers.
    """
    if dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, was: {dtype}")
    if not shape or min(shape) < 1:
        raise ValueError(f"shape must be of whole numbers >= 1, was: {json.dumps(shape)}")
    return schema(
        TABLE,
        1,
        field("image_id", pa.string(), "key of the image, as in captions"),
        field(
            "feature",
            pa.fixed_shape_tensor(_TYPES[dtype], shape),
            "float16 or float32, (D,) pooled or (R, D) a grid of R regions; one shape a table",
        ),
    )


def tensors(array: pa.Array, shape: tuple[int, ...]) -> pa.ExtensionArray:
    """A flat array of n * prod(shape) numbers as a column of n tensors."""
    type = pa.fixed_shape_tensor(array.type, shape)
    return pa.ExtensionArray.from_storage(type, pa.FixedSizeListArray.from_arrays(array, prod(shape)))


FEATURES = features((2048,))

IMAGE_REASONS = (
    "no_image",
    "not_utf8",
    "too_long",
    "control_characters",
    "unsafe_path",
    "duplicate_image_id",
    "missing",
    "unreadable",
    "too_large",
    "not_finite",
)

REJECTED_IMAGES = schema(
    "rejected_images",
    1,
    field("image_id", pa.string(), "key of the image, where its name gives one"),
    field("image", pa.string(), "path or file name of the image, as the source gives it"),
    field("reason", pa.string(), "one of: " + ", ".join(IMAGE_REASONS)),
    field("detail", pa.string(), "the rule and the value, for a reader"),
)
