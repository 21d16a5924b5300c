"""scenes: what is drawn in each picture of the drawn world, and so is true of it."""

import pyarrow as pa

from negcap.schemas.fields import field, schema

_THING = pa.struct(
    [
        field("object", pa.string(), "its kind: cup, table, girl …"),
        field("colour", pa.string(), "empty for people"),
        field("size", pa.string(), "small or large; empty where it is neither"),
        field("pattern", pa.string(), "striped, spotted or empty"),
        field("pose", pa.string(), "of the living: sit, stand, lie, sleep, fly; else empty"),
        field("slot", pa.string(), "where it is placed about the first thing; empty for that one"),
        field("group", pa.int16(), "equal things placed together have one number"),
        field("left", pa.int16(), "pixels, of its box"),
        field("top", pa.int16(), "pixels"),
        field("right", pa.int16(), "pixels"),
        field("bottom", pa.int16(), "pixels"),
        field("open", pa.bool_(), "of a box or basket: something is in it"),
        field("holds", pa.int16(), "number of the thing it holds, or -1"),
        field("held", pa.int16(), "number of the person who holds it, or -1"),
    ]
)
_RELATION = pa.struct(
    [
        field("subject", pa.int16(), "number of a thing, from 0"),
        field("relation", pa.string(), "a preposition, or hold"),
        field("object", pa.int16(), "number of the other thing"),
    ]
)
_COUNT = pa.struct([field("object", pa.string(), "a kind"), field("count", pa.int16(), "how many there are")])


def _list(type: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("item", type, nullable=False))


SCENES = schema(
    "scenes",
    1,
    field("image_id", pa.string(), "key of the image, as in captions"),
    field("split", pa.string(), "train, val or test"),
    field("setting", pa.string(), "indoors or outdoors"),
    field("objects", _list(_THING), "the things drawn, the one in the middle first"),
    field("relations", _list(_RELATION), "what is true of two things"),
    field("opinions", _list(_RELATION), "what some would call true; all other relations are false"),
    field("counts", _list(_COUNT), "how many of each kind, by kind"),
    field("sha256", pa.string(), "of the picture's file, images/<image_id>.png"),
)
