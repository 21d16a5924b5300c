"""balance: one factor per lexicon entry, so that entries enter captions as often as they leave them."""

import pyarrow as pa

from .fields import field, schema

BALANCE = schema(
    "balance",
    2,
    field("kind", pa.string(), "kind of the entry, as in lexicon"),
    field("entry", pa.string(), "the entry, as in lexicon"),
    field("plural", pa.bool_(), "true: the factor of the noun's plural form"),
    field(
        "weight",
        pa.float64(),
        "factor; multiplies the entry's weight as a replacement, divides its weight to be replaced",
    ),
)
