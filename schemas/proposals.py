"""proposals: texts offered as negatives by people, language models or other programs; judged: what became of each."""

import pyarrow as pa

from .fields import field, schema

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
