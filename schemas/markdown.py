"""The columns of all tables as Markdown, for the documentation."""

from __future__ import annotations

import pyarrow as pa

from . import captions, features, negatives
from .fields import description

ORDER = (
    "captions rejected_records parses lexicon components component_vocabulary component_exclusions truth balance "
    "negatives refined positives rejections excluded proposals judged verdicts audit features rejected_images scenes "
    "counterparts ranks embeddings generated refused_captions".split()
)
_SCHEMAS = [value for module in (captions, features, negatives) for value in vars(module).values()]
_BY_NAME = {value.metadata[b"table"].decode(): value for value in _SCHEMAS if isinstance(value, pa.Schema)}
TABLES = tuple(_BY_NAME[name] for name in ORDER)


def short(type: pa.DataType) -> str:
    """The name of a type, structs with the names of their fields alone: `list<struct<start, end, old, new>>`."""
    if pa.types.is_list(type):
        return f"list<{short(type.value_type)}>"
    if pa.types.is_struct(type):
        return f"struct<{', '.join(child.name for child in type)}>"
    return type.extension_name.removeprefix("arrow.") if isinstance(type, pa.BaseExtensionType) else str(type)


def markdown() -> str:
    """Markdown with one section per table: its name as a heading, then its columns with types and descriptions."""
    parts = []
    for table in TABLES:
        name = (table.metadata or {})[b"table"].decode()
        rows = [f"## `{name}`", "", "| column | type | meaning |", "|---|---|---|"]
        for column in table:
            nullable = ", or null" if column.nullable else ""
            rows.append(f"| `{column.name}` | `{short(column.type)}` | {description(column)}{nullable} |")
        parts.append("\n".join(rows))
    return "\n\n".join(parts)


def replaced(text: str, begin: str, end: str, section: str) -> str:
    """`text` with `section` between the markers `begin` and `end`. ValueError unless both are there, in this order."""
    before, first, rest = text.partition(begin)
    _, last, after = rest.partition(end)
    if not first or not last:
        raise ValueError(f"text must hold {begin} and {end}, in this order")
    return f"{before}{begin}\n\n{section}\n\n{end}{after}"
