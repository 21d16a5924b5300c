"""Schemas of what is known of images: features, or why there are none; vectors and ranks of models; scenes."""

import json
from math import prod

import pyarrow as pa

from .fields import boolean, column, int16, int32, listed, schema, struct, text

TABLE = "features"
DTYPES = ("float16", "float32")
_TYPES = {"float16": pa.float16(), "float32": pa.float32()}


def features(shape: tuple[int, ...], dtype: str = "float32") -> pa.Schema:
    """The schema of image features of one shape: (D,) if pooled, (R, D) for R regions.

    Shards also state `backbone` and `shape` in their metadata. Raises ValueError for a dtype that is not in DTYPES, or
    a shape that is empty or has a number below 1.
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


# Of a ResNet's pooled output, as the documentation shows it; the schema of a table has the shape of its own.
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


_THING = struct(
    object=text("its kind: cup, table, girl …"),
    colour=text("empty for people"),
    size=text("small or large; empty where it is neither"),
    pattern=text("striped, spotted or empty"),
    pose=text("of persons and animals: sit, stand, lie, sleep, fly; else empty"),
    slot=text("its position relative to the first object; empty for that one"),
    group=int16("number shared by equal objects that stand together"),
    left=int16("left edge of its bounding box, in pixels"),
    top=int16("top edge, in pixels"),
    right=int16("right edge, in pixels"),
    bottom=int16("bottom edge, in pixels"),
    open=boolean("a box or basket: whether something is in it"),
    holds=int16("index of the object that it holds, or -1"),
    held=int16("index of the person who holds it, or -1"),
)
_RELATION = struct(
    subject=int16("index of an object in objects, from 0"),
    relation=text("a preposition, or hold"),
    object=int16("index of the other object"),
)
_COUNT = struct(object=text("a kind"), count=int16("how many there are"))


SCENES = schema(
    "scenes",
    1,
    image_id=text("key of the image, as in captions"),
    split=text("train, val or test"),
    setting=text("indoors or outdoors"),
    objects=column(listed(_THING), "the objects in the image; the one in the middle comes first"),
    relations=column(listed(_RELATION), "relations that are true"),
    opinions=column(listed(_RELATION), "relations that some people would call true; all others are false"),
    counts=column(listed(_COUNT), "number of objects of each kind, sorted by kind"),
    sha256=text("SHA-256 of the image file, images/<image_id>.png"),
)

COUNTERPARTS = schema(
    "counterparts",
    1,
    negative_id=text("key into negatives"),
    caption_id=text("key into captions"),
    image_id=text("key of the image of the caption"),
    image=text("the picture of the negative, a file in the run's folder images"),
    split=text("as in captions"),
    family=text("as in negatives"),
    operator=text("as in negatives"),
    caption=text("true of the image of the caption, false of the picture"),
    text=text("the negative: false of the image of the caption, true of the picture"),
    sha256=text("SHA-256 of the picture's file"),
)
