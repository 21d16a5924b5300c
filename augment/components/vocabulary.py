"""The vocabulary of components: frequent nouns, attributes and relations of a corpus, and which are incompatible."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from ...schemas.captions import COMPONENT_KINDS, COMPONENT_VOCABULARY, COMPONENTS
from ..language import semantic_classes
from ..language.concreteness import Concreteness
from ..language.determiners import NUMBERS
from ..language.semantic_classes import head, is_person, overlaps
from ..scene_graph import SceneGraph
from . import relations

if TYPE_CHECKING:
    import pyarrow as pa


PAPER_RARE = 100  # "frequency > 100"
PAPER_CAPTIONS = 566_435  # COCO train + restval, the corpus of the paper's threshold
FLOOR = 5
WORDS = ("first", "second", "third")
_PARTS: Mapping[str, tuple[str, ...]] = {
    "noun": ("noun",),
    "attribute": ("attribute",),
    "relation": ("relation",),
    "attribute_noun": ("attribute", "noun"),
    "triple": ("noun", "relation", "noun"),
}


def default_min_count(captions: int) -> int:
    """The least count of a frequent word: more than UniVSE's 100, scaled to the number of captions, within 5 to 101."""
    return max(FLOOR, PAPER_RARE * min(captions, PAPER_CAPTIONS) // PAPER_CAPTIONS + 1)


def count(components: pa.Table) -> pa.Table:
    """The count of each word, pair and triple in a `components` table: columns kind, first, second, third, count."""
    import pyarrow as pa

    objects, attributes, relations = (
        components[name].combine_chunks().flatten() for name in ("objects", "attributes", "relations")
    )
    taken = {
        "noun": (objects.field("object"),),
        "attribute": (attributes.field("attribute"),),
        "relation": (relations.field("relation"),),
        "attribute_noun": (attributes.field("attribute"), attributes.field("object")),
        "triple": tuple(relations.field(name) for name in ("subject", "relation", "object")),
    }
    parts = []
    for kind, columns in taken.items():
        rows = len(columns[0])
        filled = [*columns, *[pa.repeat("", rows)] * (len(WORDS) - len(columns))]
        counted = pa.table([pa.repeat(kind, rows), *filled, pa.repeat(1, rows)], ["kind", *WORDS, "count"])
        parts.append(counted)
    return add(parts)


def add(tables: Sequence[pa.Table], *keys: str) -> pa.Table:
    """The sum of several tables of counts; `keys` are columns to group by in addition to the component."""
    import pyarrow as pa

    names = [*keys, "kind", *WORDS]
    every = pa.concat_tables(tables, promote_options="default")  # sums may be null, unlike the counts of a shard
    summed = every.group_by(names, use_threads=False).aggregate([("count", "sum")])
    return summed.rename_columns({"count_sum": "count"}).select([*names, "count"]).combine_chunks()


def select(counts: pa.Table, min_count: int, concreteness: Concreteness, theta: float) -> pa.Table:
    """The table `component_vocabulary` for a table of counts.

    Nouns need a count of at least `min_count` and a concreteness of at least `theta`, and must not be vague; words for
    persons count as concrete. Attributes and relations need `min_count`. Pairs and triples consist of selected words
    and occur at least twice. Raises ValueError if min_count is below 1.
    """
    import pyarrow as pa

    if min_count < 1:
        raise ValueError(f"min_count must be >= 1, was: {min_count}")
    order = [("kind", "ascending"), ("count", "descending"), *((word, "ascending") for word in WORDS)]
    rows: dict[str, list[tuple[tuple[str, ...], int]]] = {kind: [] for kind in COMPONENT_KINDS}
    counts = counts.sort_by(order)
    for kind, n, *words in zip(*(counts[name].to_pylist() for name in ("kind", "count", *WORDS)), strict=True):
        if n >= (min_count if len(_PARTS[kind]) == 1 else 2):
            rows[kind].append((tuple(words[: len(_PARTS[kind])]), n))
    rows["noun"] = [row for row in rows["noun"] if is_usable(row[0][0], concreteness, theta)]
    number = {kind: {words[0]: i for i, (words, _) in enumerate(rows[kind])} for kind in COMPONENT_KINDS[:3]}
    parts = []
    for kind in COMPONENT_KINDS:
        rows[kind] = [row for row in rows[kind] if None not in _ids(number, kind, row[0])]
        parts += [_ids(number, kind, words) for words, _ in rows[kind]]
    ids = [i for kind in COMPONENT_KINDS for i in range(len(rows[kind]))]
    rivals = [
        *([] for _ in rows["noun"]),
        *_rivals(list(number["attribute"]), are_incompatible),
        *_rivals(list(number["relation"]), relations.are_incompatible),
        *([] for _ in chain(rows["attribute_noun"], rows["triple"])),
    ]
    kept = [(kind, *row) for kind in COMPONENT_KINDS for row in rows[kind]]
    columns = [[row[0] for row in kept], ids, [row[1] for row in kept], parts, [row[2] for row in kept], rivals]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, COMPONENT_VOCABULARY, strict=True)]
    return pa.Table.from_arrays(arrays, schema=COMPONENT_VOCABULARY)


def _ids(number: Mapping[str, Mapping[str, int]], kind: str, words: Sequence[str]) -> list[Any]:
    """The ids of the words of a component within their own kinds; None for a word that is not in the vocabulary."""
    return [number[of].get(word) for of, word in zip(_PARTS[kind], words, strict=True)]


def is_usable(noun: str, concreteness: Concreteness, theta: float) -> bool:
    """Whether a noun names something that a photo shows: it is concrete (score >= theta) or a person, and not vague."""
    vague = overlaps().vague
    score = theta if is_person(noun) else concreteness.score(noun)
    return noun not in vague and head(noun) not in vague and score is not None and score >= theta


def are_incompatible(one: str, other: str) -> bool:
    """Whether two attributes cannot both be true of a thing; different numbers above one are incompatible."""
    value, value2 = NUMBERS.get(one), NUMBERS.get(other)
    if value is not None or value2 is not None:
        return value != value2 and min(value or 1, value2 or 1) > 1
    return semantic_classes.are_incompatible(one, other)


def _rivals(words: Sequence[str], incompatible: Callable[[str, str], bool]) -> list[list[int]]:
    return [[number for number, other in enumerate(words) if incompatible(other, word)] for word in words]


class ComponentVocabulary:
    """The words of a `component_vocabulary` table by kind (noun, attribute, relation), indexed by id.

    `negatives`: by kind, the ids usable as negatives: all nouns; attributes and relations incompatible with another.
    """

    def __init__(self, table: pa.Table) -> None:
        """Read the rows of the kinds noun, attribute and relation."""
        self.words: dict[str, list[str]] = {kind: [] for kind in COMPONENT_KINDS[:3]}
        self.negatives: dict[str, set[int]] = {kind: set() for kind in COMPONENT_KINDS[:3]}
        for kind, words, rivals in zip(*(table[name].to_pylist() for name in ("kind", "words", "rivals")), strict=True):
            if kind in self.words:
                self.words[kind] += words
                self.negatives[kind].update(rivals)
        self.negatives["noun"] = set(range(len(self.words["noun"])))


def tabulate(parses: pa.Table, graphs: Sequence[SceneGraph]) -> pa.Table:
    """The table `components` for the captions of a `parses` table; `graphs` are their scene graphs, in table order."""
    import pyarrow as pa

    objects: list[tuple[str, int]] = []
    attributes: list[tuple[str, str, int, int]] = []
    relations: list[tuple[str, str, str, int, int]] = []
    words: list[int] = []
    word_ends, object_ends, attribute_ends, relation_ends = [0], [0], [0], [0]
    for graph in graphs:
        names = {thing.token: thing.name for thing in graph.objects}
        objects += [(name, token) for token, name in names.items()]
        attributes += [(value, names[object], token, object) for object, token, _, _, value in graph.attributes]
        for subject, object, tokens, name in graph.relations:
            relations.append((names[subject], name, names[object], subject, object))
            words += tokens
            word_ends.append(len(words))
        object_ends.append(len(objects))
        attribute_ends.append(len(attributes))
        relation_ends.append(len(relations))

    def column(name: str, rows: list[tuple], ends: list[int], **more: pa.Array) -> pa.Array:
        type = COMPONENTS.field(name).type
        struct = type.value_type
        plain = [field for field in struct if field.name not in more]
        values = list(zip(*rows, strict=True)) or [()] * len(plain)
        arrays: dict[str, Any] = dict(more)
        arrays.update((f.name, pa.array(v, f.type)) for f, v in zip(plain, values, strict=True))
        items = pa.StructArray.from_arrays([arrays[field.name] for field in struct], fields=list(struct))
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), items, type=type)

    type = COMPONENTS.field("relations").type.value_type.field("tokens").type
    tokens = pa.ListArray.from_arrays(pa.array(word_ends, pa.int32()), pa.array(words, pa.int32()), type=type)
    return pa.Table.from_arrays(
        [
            *(parses[name] for name in ("caption_id", "image_id", "split")),
            column("objects", objects, object_ends),
            column("attributes", attributes, attribute_ends),
            column("relations", relations, relation_ends, tokens=tokens),
        ],
        schema=COMPONENTS,
    )
