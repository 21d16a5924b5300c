"""Schemas of scene graph components, their vocabulary, and the components that may be true of an image.

The three tables suffice to sample negative components (UniVSE, supplementary A.1). Ids count from 0 within a kind.

- A noun that is not in an image: any `noun` of the vocabulary except the image's exclusions of kind `noun`.
- A false attribute of a pair (attribute, object): one of the attribute's `rivals`, except the image's exclusions of
  kind `attribute` with `of` = object. A false object of the pair: a noun that is not in the image.
- A false relation of a triple (subject, relation, object): one of the relation's `rivals`, except the image's
  exclusions of kind `relation` with `of` = object. A false subject or object: a noun that is not in the image.

The paper samples uniformly 16 nouns per caption; 8 attributes and 16 objects per pair; 4 relations, 2 subjects and 2
objects per triple. A component that is not in the vocabulary, or whose rivals are all excluded, has no such negatives.
Each image has one row of kind `noun`, and one row of kind `attribute` or `relation` for each object that its captions
describe or relate; the list of ids may be empty. `negcap.augment.components.sampling` implements this with arrays.
"""

import pyarrow as pa

from .fields import field, schema

_TOKEN = "index of its head word in the tokens column of parses"


def _list(type: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("item", type, nullable=False))


OBJECT = pa.struct(
    [
        field("object", pa.string(), "lemma of the head noun, after its compound modifiers: `tennis racket`"),
        field("token", pa.int32(), _TOKEN),
    ]
)
ATTRIBUTE = pa.struct(
    [
        field("attribute", pa.string(), "adjective, participle, numeral or noun modifier, lower case"),
        field("object", pa.string(), "the object that it describes, as in objects"),
        field("token", pa.int32(), _TOKEN),
        field("object_token", pa.int32(), "token index of the object"),
    ]
)
RELATION = pa.struct(
    [
        field("subject", pa.string(), "as in objects"),
        field(
            "relation", pa.string(), "lemma of the verb, preposition, or both: `wear`, `in front of`, `sit on`, `have`"
        ),
        field("object", pa.string(), "as in objects"),
        field("tokens", _list(pa.int32()), "token indices of the relation's words; empty for a possessive"),
        field("subject_token", pa.int32(), "token index of the subject"),
        field("object_token", pa.int32(), "token index of the object"),
    ]
)

COMPONENTS = schema(
    "components",
    1,
    field("caption_id", pa.string(), "key into captions"),
    field("image_id", pa.string(), "key of the image"),
    field("split", pa.string(), "as in captions"),
    field("objects", _list(OBJECT), "things that the caption names, in text order"),
    field("attributes", _list(ATTRIBUTE), "attributes with their objects; by object, in text order"),
    field("relations", _list(RELATION), "relations between two objects, in text order of the relation's words"),
)

COMPONENT_KINDS = ("noun", "attribute", "relation", "attribute_noun", "triple")

COMPONENT_VOCABULARY = schema(
    "component_vocabulary",
    1,
    field("kind", pa.string(), "one of: " + ", ".join(COMPONENT_KINDS)),
    field("id", pa.int32(), "number of the component within its kind, from 0, in order of falling frequency"),
    field("words", _list(pa.string()), "one word; attribute and noun; or subject, relation, object"),
    field("parts", _list(pa.int32()), "id of each of the words within its own kind"),
    field("count", pa.int64(), "number of occurrences in the counted captions"),
    field(
        "rivals",
        _list(pa.int32()),
        "ids of the same kind: attributes or relations that cannot be true where this one is",
    ),
)

COMPONENT_EXCLUSIONS = schema(
    "component_exclusions",
    1,
    field("image_id", pa.string(), "key of the image"),
    field("kind", pa.string(), "one of: " + ", ".join(COMPONENT_KINDS[:3])),
    field(
        "of", pa.string(), "the object that the attributes describe or the relations have as object; empty for nouns"
    ),
    field(
        "ids", _list(pa.int32()), "ids, ascending, of the components that may be true according to the image's captions"
    ),
)
