"""Schemas of negatives, refined negatives (not guessable without the image), positive controls, and rejected
candidates.
"""

import pyarrow as pa

from .fields import field, schema

POSITIVE = "positive"
FAMILIES = ("noun", "numeral", "relation", "object", "attribute", "negation", "other", POSITIVE)

EDIT = pa.struct(
    [
        field("start", pa.int32(), "character offset in caption where the edited span starts, from 0"),
        field("end", pa.int32(), "character offset where it ends (exclusive)"),
        field("old", pa.string(), "text of the span in caption"),
        field("new", pa.string(), "text that replaces it"),
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
    field(
        "replaced",
        pa.string(),
        "lemma, quantity or preposition that was replaced, both of a swap; empty if a word is added",
    ),
    field("replacement", pa.string(), "what replaces it, in the same form"),
    field(
        "replaced_synset",
        pa.string(),
        "WordNet synset of what was replaced; for a preposition, its sets in Table 8 of VSE-C",
        nullable=True,
    ),
    field("replacement_synset", pa.string(), "the same of the replacement", nullable=True),
)

_P_TRUE = field(
    "p_true",
    pa.float32(),
    "estimated probability that one more caption of the image would make it true; null if it is not estimated: see How "
    "a negative is judged",
    nullable=True,
)
_PLAUSIBILITY = field(
    "plausibility",
    pa.float32(),
    "log-odds of the negative to its caption in nats, by the cloze model or, if one was given, the language model "
    "`--scorer`; null if not computed",
    nullable=True,
)
_CONTEXT_LOSS = field(
    "context_loss",
    pa.float32(),
    "what the words that caption and negative share lose in log probability under the cloze model, added up, in nats: "
    "of all columns the one that tells best what readers call odd; null if the negative was not read as a whole",
    nullable=True,
)
_CONCRETENESS = field(
    "concreteness",
    pa.float32(),
    "concreteness of the noun that is put in, of two swapped nouns the lower one, by the shipped score, where VSE-C's "
    "threshold is 0.6; null if no noun is put in or it has no score",
    nullable=True,
)

NEGATIVES = schema(
    "negatives",
    4,
    field(
        "negative_id",
        pa.string(),
        "`<caption_id>#<operator>:<k>`; k numbers the negatives of a caption and operator from 0, in sampling order",
    ),
    *_KEYS,
    field("text", pa.string(), "the negative caption"),
    *_CHANGE,
    _P_TRUE,
    _PLAUSIBILITY,
    _CONTEXT_LOSS,
    _CONCRETENESS,
)

REFINED = pa.schema(NEGATIVES).with_metadata({"table": "refined", "schema_version": "4"})

POSITIVES = schema(
    "positives",
    1,
    field("positive_id", pa.string(), "`<caption_id>#<operator>:<k>`, as in negatives"),
    *_KEYS,
    field(
        "text",
        pa.string(),
        "a paraphrase of the caption, true wherever the caption is, or a denial of what the image does not show",
    ),
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
    "implausible",
    "repeated",
    "too_long",
    "operator_error",
)

REJECTIONS = schema(
    "rejections",
    5,
    *_KEYS,
    field("reason", pa.string(), "one of: " + ", ".join(REASONS)),
    *_CHANGE,
    _P_TRUE,
    _PLAUSIBILITY,
    _CONTEXT_LOSS,
    field(
        "detail",
        pa.string(),
        "of a caption that is rejected whole: the rule that it breaks, or the operator and its error; else null",
        nullable=True,
    ),
)
