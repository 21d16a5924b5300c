"""verdicts: what readers, language models that see the texts or the photo, say of negatives."""

import pyarrow as pa

from .fields import field, schema

READINGS = ("blind", "image")
ODD = ("none", "caption", "negative", "both")

VERDICTS = schema(
    "verdicts",
    1,
    field("negative_id", pa.string(), "key into negatives"),
    field("caption_id", pa.string(), "key into captions"),
    field("image_id", pa.string(), "key of the image"),
    field("operator", pa.string(), "as in negatives"),
    field("reading", pa.string(), "blind: the pair is read without the photo; image: the negative with the photo"),
    field("first", pa.string(), "blind: which text stood first, caption or negative; empty for image"),
    field("told", pa.bool_(), "blind: the reader took the caption for the one a person wrote", nullable=True),
    field("odd", pa.string(), "which texts are odd, one of: " + ", ".join(ODD), nullable=True),
    field("both_true", pa.bool_(), "blind: one photo could be described by both texts", nullable=True),
    field("false", pa.bool_(), "image: the negative is false of the photo", nullable=True),
    field("confidence", pa.float32(), "of the reader in its answers, 0 to 1; null if it gives none", nullable=True),
    field("reader", pa.string(), "the language model, as its server names it"),
    field("prompt", pa.string(), "sha256 of the prompt file"),
    field("temperature", pa.float32(), "sampling temperature; null if it was left to the server", nullable=True),
    field("fingerprint", pa.string(), "the server's fingerprint of the model and its settings; empty if it gives none"),
    field("problem", pa.string(), "why there is no verdict: malformed, refused or no_image; empty if there is one"),
)
