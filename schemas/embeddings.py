"""embeddings: the vectors that a model gives to images or to texts, to score it with."""

import pyarrow as pa

from .fields import field, schema

EMBEDDINGS = schema(
    "embeddings",
    1,
    field("item", pa.string(), "the image_id, or the text itself"),
    field(
        "vector",
        pa.list_(pa.field("item", pa.float32(), nullable=False)),
        "the vector as the model gives it, not scaled to length 1; equally long in all rows",
    ),
)
