"""ranks: the rank that a model gives to the best true candidate of each query of an evaluation."""

import pyarrow as pa

from .fields import field, schema

RANKS = schema(
    "ranks",
    1,
    field(
        "candidates",
        pa.string(),
        "what was ranked: plain, captions of a further language (plain:de), or an attack such as vse-c:noun",
    ),
    field("direction", pa.string(), "i2t: captions for an image; t2i: images for a caption"),
    field("query", pa.string(), "image_id (i2t) or caption_id (t2i)"),
    field("rank", pa.int32(), "1 + the number of false candidates that score at least as high as the best true one"),
)
