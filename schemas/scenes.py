"""scenes: the objects in each synthetic image and the relations between them, which are known to be true."""

import pyarrow as pa

from .fields import field, schema

_THING = pa.struct(
    [
        field("object", pa.string(), "its kind: cup, table, girl …"),
        field("colour", pa.string(), "empty for people"),
        field("size", pa.string(), "small or large; empty where it is neither"),
        field("pattern", pa.string(), "striped, spotted or empty"),
        field("pose", pa.string(), "of persons and animals: sit, stand, lie, sleep, fly; else empty"),
        field("slot", pa.string(), "its position relative to the first object; empty for that one"),
        field("group", pa.int16(), "number shared by equal objects that stand together"),
        field("left", pa.int16(), "left edge of its bounding box, in pixels"),
        field("top", pa.int16(), "top edge, in pixels"),
        field("right", pa.int16(), "right edge, in pixels"),
        field("bottom", pa.int16(), "bottom edge, in pixels"),
        field("open", pa.bool_(), "a box or basket: whether something is in it"),
        field("holds", pa.int16(), "index of the object that it holds, or -1"),
        field("held", pa.int16(), "index of the person who holds it, or -1"),
    ]
)
_RELATION = pa.struct(
    [
        field("subject", pa.int16(), "index of an object in objects, from 0"),
        field("relation", pa.string(), "a preposition, or hold"),
        field("object", pa.int16(), "index of the other object"),
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
    field("objects", _list(_THING), "the objects in the image; the one in the middle comes first"),
    field("relations", _list(_RELATION), "relations that are true"),
    field("opinions", _list(_RELATION), "relations that some people would call true; all others are false"),
    field("counts", _list(_COUNT), "number of objects of each kind, sorted by kind"),
    field("sha256", pa.string(), "SHA-256 of the image file, images/<image_id>.png"),
)
