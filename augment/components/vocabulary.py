"""The vocabulary of components: frequent nouns, attributes and relations of a corpus, and which are incompatible."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...schemas.captions import COMPONENT_KINDS, COMPONENT_VOCABULARY, COMPONENTS
from ..language import semantic_classes
from ..language.concreteness import Concreteness
from ..language.determiners import NUMBERS
from ..lexicon.lexicon import is_concrete, scaled_min_count
from ..scene_graph import SceneGraph
from . import relations

if TYPE_CHECKING:
    import pyarrow as pa


PAPER_RARE = 100  # UniVSE: "frequency > 100"
WORDS = ("first", "second", "third")
_PARTS: Mapping[str, tuple[str, ...]] = {
    "noun": ("noun",),
    "attribute": ("attribute",),
    "relation": ("relation",),
    "attribute_noun": ("attribute", "noun"),
    "triple": ("noun", "relation", "noun"),
}


def default_min_count(captions: int) -> int:
    """The least count of a frequent word: more than UniVSE's 100, scaled to the number of captions, at least 5."""
    return scaled_min_count(PAPER_RARE, captions)


def count(components: pa.Table) -> pa.Table:
    """The count of each word, pair and triple in a `components` table: columns kind, first, second, third, count."""
    import pyarrow as pa

    objects, attributes, relations = (
        components[name].combine_chunks().flatten() for name in ("objects", "attributes", "relations")
    )
    taken = {
        "noun": (objects, ("object",)),
        "attribute": (attributes, ("attribute",)),
        "relation": (relations, ("relation",)),
        "attribute_noun": (attributes, ("attribute", "object")),
        "triple": (relations, ("subject", "relation", "object")),
    }
    parts = []
    for kind, (items, words) in taken.items():
        blank = [pa.repeat("", len(items))] * (len(WORDS) - len(words))
        columns = [pa.repeat(kind, len(items)), *map(items.field, words), *blank, pa.repeat(1, len(items))]
        parts.append(pa.table(columns, ["kind", *WORDS, "count"]))
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
    for kind, n, *parts in zip(*(counts[name].to_pylist() for name in ("kind", "count", *WORDS)), strict=True):
        if n >= (min_count if len(_PARTS[kind]) == 1 else 2):
            rows[kind].append((tuple(parts[: len(_PARTS[kind])]), n))
    rows["noun"] = [row for row in rows["noun"] if is_concrete(row[0][0], concreteness, theta)]
    number = {kind: {words[0]: i for i, (words, _) in enumerate(rows[kind])} for kind in COMPONENT_KINDS[:3]}
    incompatible: dict[str, Callable[[str, str], bool]] = {
        "attribute": are_incompatible,
        "relation": relations.are_incompatible,
    }
    kept: list[tuple[Any, ...]] = []
    for kind in COMPONENT_KINDS:
        first = len(kept)
        for words, n in rows[kind]:
            # The ids of the words of the component within their own kinds.
            ids = [number[of].get(word) for of, word in zip(_PARTS[kind], words, strict=True)]
            if None not in ids:
                others = enumerate(number[kind]) if kind in incompatible else ()
                rivals = [other for other, word in others if incompatible[kind](word, words[0])]
                kept.append((kind, len(kept) - first, words, ids, n, rivals))
    columns = zip(*kept, strict=True) if kept else [()] * len(COMPONENT_VOCABULARY)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, COMPONENT_VOCABULARY, strict=True)]
    return pa.Table.from_arrays(arrays, schema=COMPONENT_VOCABULARY)


def are_incompatible(one: str, other: str) -> bool:
    """Whether two attributes cannot both be true of a thing; different numbers above one are incompatible."""
    value, value2 = NUMBERS.get(one), NUMBERS.get(other)
    if value is not None or value2 is not None:
        return value != value2 and min(value or 1, value2 or 1) > 1
    return semantic_classes.are_incompatible(one, other)


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

    rows: dict[str, list[tuple[Any, ...]]] = {"objects": [], "attributes": [], "relations": []}
    ends: dict[str, list[int]] = {name: [0] for name in rows}
    for graph in graphs:
        names = {thing.token: thing.name for thing in graph.objects}
        rows["objects"] += [(name, token) for token, name in names.items()]
        rows["attributes"] += [(value, names[object], token, object) for object, token, _, _, value in graph.attributes]
        rows["relations"] += [
            (names[subject], name, names[object], tokens, subject, object)
            for subject, object, tokens, name in graph.relations
        ]
        for name, its in ends.items():
            its.append(len(rows[name]))
    columns = [parses[name] for name in ("caption_id", "image_id", "split")]
    for name in rows:
        type = COMPONENTS.field(name).type
        struct = list(type.value_type)
        values = list(zip(*rows[name], strict=True)) or [()] * len(struct)
        arrays = [pa.array(column, field.type) for column, field in zip(values, struct, strict=True)]
        items = pa.StructArray.from_arrays(arrays, fields=struct)
        columns.append(pa.ListArray.from_arrays(pa.array(ends[name], pa.int32()), items, type=type))
    return pa.Table.from_arrays(columns, schema=COMPONENTS)
