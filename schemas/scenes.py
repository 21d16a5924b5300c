"""scenes: the objects in each synthetic image and the relations between them, which are known to be true.

counterparts: pictures in which a negative is true and its caption false.
"""

from .fields import boolean, column, int16, listed, schema, struct, text

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
_COUNT = struct(
    object=text("a kind"),
    count=int16("how many there are"),
)


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
