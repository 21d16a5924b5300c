"""counterparts: pictures in which a negative is true and its caption false."""

import pyarrow as pa

from .fields import field, schema

COUNTERPARTS = schema(
    "counterparts",
    1,
    field("negative_id", pa.string(), "key into negatives"),
    field("caption_id", pa.string(), "key into captions"),
    field("image_id", pa.string(), "key of the image of the caption"),
    field("image", pa.string(), "the picture of the negative, a file in the run's folder images"),
    field("split", pa.string(), "as in captions"),
    field("family", pa.string(), "as in negatives"),
    field("operator", pa.string(), "as in negatives"),
    field("caption", pa.string(), "true of the image of the caption, false of the picture"),
    field("text", pa.string(), "the negative: false of the image of the caption, true of the picture"),
    field("sha256", pa.string(), "SHA-256 of the picture's file"),
)
