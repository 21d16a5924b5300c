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
    "log-odds of the negative to its caption in nats, by the cloze model or, if one was given, the language model of "
    "the setting `scorer`; null if not computed",
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


_PROPOSED = (
    field("caption_id", pa.string(), "key into captions"),
    field("image_id", pa.string(), "key of the image; all its proposals are in one shard"),
    field("number", pa.int32(), "number of the proposal among those of its caption, from 0"),
    field(
        "asked", pa.string(), "what was asked for, or how the set that it is from labels it; empty if nothing is said"
    ),
    field(
        "text", pa.string(), "the proposed negative; where there is a problem, the first 200 characters of the answer"
    ),
    field("source", pa.string(), "the language model, as its server names it, or the file that the text is from"),
    field("prompt", pa.string(), "sha256 of the prompt file; empty without a prompt"),
    field("temperature", pa.float32(), "sampling temperature; null if it was left to the server", nullable=True),
    field("fingerprint", pa.string(), "the server's fingerprint of the model and its settings; empty if it gives none"),
)

PROPOSALS = schema(
    "proposals",
    1,
    *_PROPOSED,
    field("problem", pa.string(), "why there is no text to judge: malformed or refused; empty if there is one"),
)

JUDGED = schema(
    "judged",
    1,
    *_PROPOSED,
    field("operator", pa.string(), "what the text does to its caption, as in negatives; empty if there is no text"),
    field("negative_id", pa.string(), "key into negatives; null if it was refused", nullable=True),
    field("p_true", pa.float32(), "as in negatives", nullable=True),
    field("plausibility", pa.float32(), "as in negatives, also of refused texts", nullable=True),
    field("reason", pa.string(), "why it was refused, as in rejections, or its problem; null if kept", nullable=True),
)


READINGS = ("blind", "image")
ODD = ("none", "caption", "negative", "both")

VERDICTS = schema(
    "verdicts",
    1,
    field("negative_id", pa.string(), "key into negatives"),
    field("caption_id", pa.string(), "key into captions"),
    field("image_id", pa.string(), "key of the image"),
    field("operator", pa.string(), "as in negatives"),
    field("reading", pa.string(), "blind: the pair is read without the photo; image: the negative with the photo"),
    field("first", pa.string(), "blind: which text stood first, caption or negative; empty for image"),
    field("told", pa.bool_(), "blind: the reader took the caption for the one a person wrote", nullable=True),
    field("odd", pa.string(), "which texts are odd, one of: " + ", ".join(ODD), nullable=True),
    field("both_true", pa.bool_(), "blind: one photo could be described by both texts", nullable=True),
    field("false", pa.bool_(), "image: the negative is false of the photo", nullable=True),
    field("confidence", pa.float32(), "of the reader in its answers, 0 to 1; null if it gives none", nullable=True),
    field("reader", pa.string(), "the language model, as its server names it"),
    field("prompt", pa.string(), "sha256 of the prompt file"),
    field("temperature", pa.float32(), "sampling temperature; null if it was left to the server", nullable=True),
    field("fingerprint", pa.string(), "the server's fingerprint of the model and its settings; empty if it gives none"),
    field("problem", pa.string(), "why there is no verdict: malformed, refused or no_image; empty if there is one"),
)


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
