"""taxonomy: WordNet's synsets with lemmas and relations, as stored in augment/data/wordnet.parquet."""

import pyarrow as pa

from .fields import field, schema

ROWS = pa.list_(pa.field("item", pa.int32(), nullable=False))

SENSE = pa.struct(
    [
        field("lemma", pa.string(), "in lower case; words separated by a space"),
        field("rank", pa.int32(), "number of the sense among those of the lemma; 1 is the most frequent"),
        field("count", pa.int32(), "how often the sense was tagged in WordNet's corpora"),
        field("antonyms", ROWS, "opposite senses, as positions in the flat list of all senses"),
        field("derived", ROWS, "derivationally related senses (rider, ride), as positions in that list"),
    ]
)
IRREGULAR = pa.struct(
    [
        field("lemma", pa.string(), "a lemma whose first sense this row is"),
        field("form", pa.string(), "an irregular form of it (geese)"),
    ]
)

TAXONOMY = schema(
    "taxonomy",
    1,
    field("pos", pa.string(), "n noun, v verb, a adjective, s satellite adjective, r adverb"),
    field("lexname", pa.string(), "lexicographer file (noun.artifact)"),
    field("senses", pa.list_(pa.field("item", SENSE, nullable=False)), "the synset's lemmas"),
    field("hypernyms", ROWS, "rows of the direct hypernyms"),
    field("instance_of", ROWS, "rows of the synsets that it is an instance of"),
    field("entails", ROWS, "rows of the verb synsets it entails"),
    field("causes", ROWS, "rows of the verb synsets it causes"),
    field("part_of", ROWS, "rows of the wholes it is part of"),
    field("member_of", ROWS, "rows of the groups it is a member of"),
    field("substance_of", ROWS, "rows of the things that are made of it"),
    field("similar", ROWS, "rows of adjectives similar in meaning"),
    field("irregular", pa.list_(pa.field("item", IRREGULAR, nullable=False)), "irregular forms of its lemmas"),
)
