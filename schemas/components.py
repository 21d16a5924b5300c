"""components: the scene graph of every caption; and what may be sampled as negative components.

Sampling (UniVSE, supplementary A.1), from these three tables alone. Ids count from 0 within a kind.

- A noun that is not in an image: any `noun` of the vocabulary but the image's exclusions of kind `noun`.
- A false attribute of a pair (attribute, object): a rival of the attribute, but the exclusions of kind `attribute` with
  `of` = object. A false object of the pair: a noun that is not in the image.
- A false relation of a triple: a rival of the relation, but the exclusions of kind `relation` with `of` = object. A
  false subject or object: a noun that is not in the image.

The paper draws, uniformly, 16 nouns a caption; 8 attributes and 16 objects a pair; 4 relations, 2 subjects and 2
objects a triple. What is not in the vocabulary, or has no rivals there, has no such negatives. Every image has a row of
kind `noun`, every pair one of kind `attribute`, every triple one of kind `relation`; their lists may be empty.
`negcap.augment.components.sampling` does all this with arrays.
"""

import pyarrow as pa

from negcap.schemas.fields import field, schema

_TOKEN = "index of its head in the tokens of parses"


def _list(type: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("item", type, nullable=False))


OBJECT = pa.struct(
    [
        field("object", pa.string(), "head noun as lemma, compounds before it: `tennis racket`"),
        field("token", pa.int32(), _TOKEN),
    ]
)
ATTRIBUTE = pa.struct(
    [
        field("attribute", pa.string(), "adjective, participle, numeral or noun modifier, lower case"),
        field("object", pa.string(), "what it is said of, as in objects"),
        field("token", pa.int32(), _TOKEN),
        field("object_token", pa.int32(), "token of the object"),
    ]
)
RELATION = pa.struct(
    [
        field("subject", pa.string(), "as in objects"),
        field("relation", pa.string(), "verb as lemma, preposition, or both: `wear`, `in front of`, `sit on`, `have`"),
        field("object", pa.string(), "as in objects"),
        field("tokens", _list(pa.int32()), "tokens of the relation's words; none for a possessive"),
        field("subject_token", pa.int32(), "token of the subject"),
        field("object_token", pa.int32(), "token of the object"),
    ]
)

COMPONENTS = schema(
    "components",
    1,
    field("caption_id", pa.string(), "key into captions"),
    field("image_id", pa.string(), "key of the image"),
    field("split", pa.string(), "as in captions"),
    field("objects", _list(OBJECT), "the things it names, in text order"),
    field("attributes", _list(ATTRIBUTE), "what it says of one thing, by thing, in text order"),
    field("relations", _list(RELATION), "what it says of two things, in text order of the words"),
)

COMPONENT_KINDS = ("noun", "attribute", "relation", "attribute_noun", "triple")

COMPONENT_VOCABULARY = schema(
    "component_vocabulary",
    1,
    field("kind", pa.string(), "one of: " + ", ".join(COMPONENT_KINDS)),
    field("id", pa.int32(), "its number within the kind, from 0, the most frequent first"),
    field("words", _list(pa.string()), "one word; attribute and noun; or subject, relation, object"),
    field("parts", _list(pa.int32()), "ids of the words in their own kinds"),
    field("count", pa.int64(), "occurrences in the captions counted"),
    field("rivals", _list(pa.int32()), "attributes or relations that cannot be true where it is, ids of its own kind"),
)

COMPONENT_EXCLUSIONS = schema(
    "component_exclusions",
    1,
    field("image_id", pa.string(), "key of the image"),
    field("kind", pa.string(), "one of: " + ", ".join(COMPONENT_KINDS[:3])),
    field("of", pa.string(), "the object that attributes or relations are said of; empty for nouns"),
    field("ids", _list(pa.int32()), "what may be true by the image's captions, ids of the vocabulary in order"),
)
