"""audit: every number that an audit reports, one per row."""

import pyarrow as pa

from .fields import field, schema

MEASURES = (
    "captions",
    "images",
    "covered",
    "rows",
    "refused",
    "blind",
    "word_true",
    "word_negative",
    "ngram_weight",
    "words_caption",
    "words_negative",
    "characters_added",
    "edit_position",
    "corpus_count",
    "taken_out",
    "put_in",
    "exchange",
    "p_true",
)

AUDIT = schema(
    "audit",
    1,
    field("table", pa.string(), "the table measured: captions, negatives, refined, positives or rejections"),
    field("operator", pa.string(), "the operator; all: over all operators; empty: of the run as a whole"),
    field("measure", pa.string(), "one of: " + ", ".join(MEASURES)),
    field(
        "item", pa.string(), "what is measured: a reason, baseline, word, n-gram, exchange or bin; empty if one value"
    ),
    field("value", pa.float64(), "a count; blind: accuracy in %; ngram_weight: a weight; p_true: a mean"),
    field("low", pa.float64(), "lower bound of the 95 % interval of value; null if it has none", nullable=True),
    field("high", pa.float64(), "upper bound of that interval", nullable=True),
    field("n", pa.int64(), "number of pairs or rows that a share or mean is computed over; else null", nullable=True),
)
