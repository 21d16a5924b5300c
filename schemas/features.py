"""Schemas of image features (the input of an image encoder) and of images from which none could be extracted."""

import json
from math import prod

import pyarrow as pa

from .fields import column, int32, listed, schema, text

TABLE = "features"
DTYPES = ("float16", "float32")
_TYPES = {"float16": pa.float16(), "float32": pa.float32()}


def features(shape: tuple[int, ...], dtype: str = "float32") -> pa.Schema:
    """The schema of image features of one shape: (D,) if pooled, (R, D) for a grid of R regions.

    Shard metadata also has `backbone`, the model that made the features, and `shape` as JSON. Raises ValueError for a
    dtype that is not in DTYPES, or a shape that is empty or has a number below 1.
    """
    if dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, was: {dtype}")
    if not shape or min(shape) < 1:
        raise ValueError(f"shape must be of whole numbers >= 1, was: {json.dumps(shape)}")
    return schema(
        TABLE,
        1,
        image_id=text("key of the image, as in captions"),
        feature=column(
            pa.fixed_shape_tensor(_TYPES[dtype], shape),
            "float16 or float32 tensor: (D,) if pooled, (R, D) for a grid of R regions; the same in all rows",
        ),
    )


def tensors(array: pa.Array, shape: tuple[int, ...]) -> pa.ExtensionArray:
    """Reshape a flat array of n * prod(shape) numbers into a column of n tensors."""
    type = pa.fixed_shape_tensor(array.type, shape)
    return pa.ExtensionArray.from_storage(type, pa.FixedSizeListArray.from_arrays(array, prod(shape)))


FEATURES = features((2048,))

IMAGE_REASONS = tuple(
    "no_image not_utf8 too_long control_characters unsafe_path duplicate_image_id missing unreadable too_large "
    "not_finite".split()
)

REJECTED_IMAGES = schema(
    "rejected_images",
    1,
    image_id=text("key of the image; empty if its name gives none"),
    image=text("path or file name of the image, as in the source"),
    reason=text(words=IMAGE_REASONS),
    detail=text("the rule that is broken and the value, as a message"),
)


EMBEDDINGS = schema(
    "embeddings",
    1,
    item=text("the image_id, or the text itself"),
    vector=column(
        listed(pa.float32()), "the vector as the model gives it, not scaled to length 1; equally long in all rows"
    ),
)


RANKS = schema(
    "ranks",
    1,
    candidates=text(
        "what was ranked: plain, captions of a further language (plain:de), or an attack such as vse-c:noun"
    ),
    direction=text("i2t: captions for an image; t2i: images for a caption"),
    query=text("image_id (i2t) or caption_id (t2i)"),
    rank=int32("1 + the number of false candidates that score at least as high as the best true one"),
)
