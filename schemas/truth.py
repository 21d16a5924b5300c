"""truth: how often captions of one image say this and that, and the calibration of what is estimated from it."""

import pyarrow as pa

from negcap.schemas.fields import field, schema

KINDS = ("noun", "verb", "numeral", "preposition", "attribute")

TRUTH = schema(
    "truth",
    1,
    field("kind", pa.string(), "what is estimated, one of: " + ", ".join(KINDS)),
    field("said", pa.string(), "what one caption says: a word; or a quantity, preposition or attribute; empty for any"),
    field("of", pa.string(), "the noun that it says it of; empty for nouns and verbs"),
    field("entry", pa.string(), "what another caption of the image makes true; empty for any"),
    field("count", pa.int64(), "pairs of captions of one image"),
    field(
        "coefficients",
        pa.list_(pa.field("item", pa.float64(), nullable=False)),
        "of the calibration, in the one row of a kind that counts nothing",
        nullable=True,
    ),
)
