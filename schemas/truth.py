"""truth: counts of what two captions of one image mention together, and the calibration of estimates from them."""

import pyarrow as pa

from .fields import field, schema

KINDS = ("noun", "verb", "numeral", "preposition", "attribute")

TRUTH = schema(
    "truth",
    1,
    field("kind", pa.string(), "what is estimated, one of: " + ", ".join(KINDS)),
    field(
        "said", pa.string(), "what one caption mentions: a word, or a quantity, preposition or attribute; empty: any"
    ),
    field(
        "of", pa.string(), "the noun that the quantity, preposition or attribute belongs to; empty for nouns and verbs"
    ),
    field("entry", pa.string(), "lexicon entry or value that another caption of the image makes true; empty: any"),
    field("count", pa.int64(), "number of ordered pairs of captions of one image"),
    field(
        "coefficients",
        pa.list_(pa.field("item", pa.float64(), nullable=False)),
        "coefficients of the calibration, in one row per kind, whose count is 0; null in all other rows",
        nullable=True,
    ),
)
