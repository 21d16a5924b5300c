"""Write scene graphs as the table `components`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...schemas.components import COMPONENTS
from ..scene_graph import SceneGraph

if TYPE_CHECKING:
    import pyarrow as pa


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
