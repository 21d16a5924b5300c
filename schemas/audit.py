"""audit: every figure of an audit as a row, what is shown on its page."""

import pyarrow as pa

from negcap.schemas.fields import field, schema

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
    field("operator", pa.string(), "the operator; all for all together, empty where it is of the run"),
    field("measure", pa.string(), "one of: " + ", ".join(MEASURES)),
    field(
        "item", pa.string(), "of what: a reason, baseline, word, n-gram, exchange or bin; empty where it is one value"
    ),
    field("value", pa.float64(), "a count; for blind a percentage, for ngram_weight a weight, for p_true a mean"),
    field("low", pa.float64(), "lower bound of its 95 % interval, where it has one", nullable=True),
    field("high", pa.float64(), "upper bound", nullable=True),
    field("n", pa.int64(), "pairs or rows it is measured on, where it is a share or a mean", nullable=True),
)
