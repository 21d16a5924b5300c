"""lexicon: the words that may replace others, with counts of where a corpus uses them."""

import pyarrow as pa

from .fields import field, schema

KINDS = ("noun", "preposition", "numeral", "attribute", "verb", "surface")

LEXICON = schema(
    "lexicon",
    2,
    field("kind", pa.string(), "one of: " + ", ".join(KINDS)),
    field(
        "entry",
        pa.string(),
        "lemma of a head noun with compounds, or of a verb; a (multi-word) preposition; a quantity; or an adjective",
    ),
    field(
        "place",
        pa.string(),
        "syntactic context (`pobj:sit in`, `dobj:throw`) or what it backs off to (`pobj:in`, "
        "`dobj kind:verb.contact`), or the written form (`nns:dogs`); empty: the total count of the entry",
    ),
    field(
        "count",
        pa.float64(),
        "number of occurrences in the counted captions; if a reference lexicon is blended in, plus its scaled count",
    ),
)
