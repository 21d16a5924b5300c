"""parses: the tokens and base noun phrases of each caption, stored once and read by all later stages."""

import pyarrow as pa

from .fields import field, schema

TOKEN = pa.struct(
    [
        field("start", pa.int32(), "character offset in text of the first character, from 0"),
        field("end", pa.int32(), "character offset where the token ends (exclusive)"),
        field("lemma", pa.string(), "dictionary form, lower case"),
        field("tag", pa.string(), "Penn Treebank tag"),
        field("pos", pa.string(), "universal part of speech"),
        field("dep", pa.string(), "CLEAR dependency label, as in en_core_web"),
        field("head", pa.int32(), "index of the governing token; a root has its own index"),
    ]
)

CHUNK = pa.struct(
    [
        field("start", pa.int32(), "index of the first token"),
        field("end", pa.int32(), "index after the last token (exclusive)"),
        field("root", pa.int32(), "index of the head noun"),
    ]
)

PARSES = schema(
    "parses",
    1,
    field("caption_id", pa.string(), "key into captions"),
    field("image_id", pa.string(), "key of the image; all its captions are in one shard"),
    field("split", pa.string(), "as in captions"),
    field("origin", pa.string(), "as in captions"),
    field("text", pa.string(), "as in captions"),
    field("tokens", pa.list_(pa.field("item", TOKEN, nullable=False)), "tokens in order"),
    field("chunks", pa.list_(pa.field("item", CHUNK, nullable=False)), "base noun phrases in order"),
)
