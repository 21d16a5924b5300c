"""negatives: false captions; refined: those that leave blind models at chance; positives: true; rejections: refused."""

import pyarrow as pa

from negcap.schemas.fields import field, schema

POSITIVE = "positive"
FAMILIES = ("noun", "numeral", "relation", "object", "attribute", POSITIVE)

EDIT = pa.struct(
    [
        field("start", pa.int32(), "offset of the edited span's first character in caption"),
        field("end", pa.int32(), "offset behind its last character"),
        field("old", pa.string(), "the span's text"),
        field("new", pa.string(), "what stands there in the negative"),
    ]
)
EDITS = pa.list_(pa.field("item", EDIT, nullable=False))

_KEYS = (
    field("caption_id", pa.string(), "key into captions"),
    field("image_id", pa.string(), "key of the image"),
    field("split", pa.string(), "as in captions"),
    field("origin", pa.string(), "origin of the true caption"),
    field("family", pa.string(), "one of: " + ", ".join(FAMILIES)),
    field("operator", pa.string(), "the operator that made it"),
    field("caption", pa.string(), "the true caption"),
)
_CHANGE = (
    field("edits", EDITS, "disjoint edits of caption, in order"),
    field("replaced", pa.string(), "what was replaced: lemma, quantity or preposition; both heads of a swap"),
    field("replacement", pa.string(), "what replaced it"),
    field("replaced_synset", pa.string(), "its WordNet synset or preposition sets", nullable=True),
    field("replacement_synset", pa.string(), "the same of the replacement", nullable=True),
)

_P_TRUE = field(
    "p_true",
    pa.float32(),
    "how likely one more caption of the image would make it true, as the corpus goes; null where it cannot tell",
    nullable=True,
)

NEGATIVES = schema(
    "negatives",
    2,
    field(
        "negative_id",
        pa.string(),
        "`<caption_id>#<operator>:<k>`; k counts the draws kept, likeliest first drawn",
    ),
    *_KEYS,
    field("text", pa.string(), "the negative caption"),
    *_CHANGE,
    _P_TRUE,
)

REFINED = pa.schema(NEGATIVES).with_metadata({"table": "refined", "schema_version": "2"})

POSITIVES = schema(
    "positives",
    1,
    field("positive_id", pa.string(), "`<caption_id>#<operator>:<k>`, as in negatives"),
    *_KEYS,
    field("text", pa.string(), "the caption said otherwise: as true as the caption, a control for audits"),
    *_CHANGE,
)

REASONS = (
    "related_in_caption",
    "related_in_sibling",
    "overlap_in_caption",
    "overlap_in_sibling",
    "same_quantity",
    "sibling_quantity",
    "preposition_overlap",
    "interchangeable",
    "dangling_pronoun",
    "ungrammatical",
    "unchanged",
    "caption_says_so",
    "sibling_says_so",
    "likely_true",
)

REJECTIONS = schema(
    "rejections",
    2,
    *_KEYS,
    field("reason", pa.string(), "one of: " + ", ".join(REASONS)),
    *_CHANGE,
    _P_TRUE,
)
