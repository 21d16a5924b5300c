"""lexicon: what a corpus' own counts allow as replacements."""

import pyarrow as pa

from negcap.schemas.fields import field, schema

KINDS = ("noun", "preposition", "numeral", "attribute", "verb", "surface")

LEXICON = schema(
    "lexicon",
    1,
    field("kind", pa.string(), "one of: " + ", ".join(KINDS)),
    field(
        "entry",
        pa.string(),
        "lemma of a head noun with its compounds or of a verb, a (multi-word) preposition, a quantity, or an adjective",
    ),
    field(
        "place",
        pa.string(),
        "where it stood (`pobj:sit in`, `dobj:throw`), the like of that (`pobj:in`, `dobj kind:verb.contact`), or how "
        "it was written (`nns:dogs`); empty for the plain count",
    ),
    field("count", pa.int64(), "occurrences in the captions counted"),
)
