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
# Tables whose columns many others have.
REFERRED = ("captions", "negatives", "proposals")
# Tables that stages write for one another or that few users open. The page names them and leaves their columns to
# `negcap info --columns`.
ON_REQUEST = (
    "parses lexicon components component_vocabulary component_exclusions truth balance excluded audit features "
    "rejected_images scenes counterparts verdicts ranks embeddings generated refused_captions".split()
)


def short(type: pa.DataType) -> str:
    """The name of a type, structs with the names of their fields alone: `list<struct<start, end, old, new>>`."""
    if pa.types.is_list(type):
        return f"list<{short(type.value_type)}>"
    if pa.types.is_struct(type):
        return f"struct<{', '.join(child.name for child in type)}>"
    return type.extension_name.removeprefix("arrow.") if isinstance(type, pa.BaseExtensionType) else str(type)


def markdown() -> str:
    """Markdown with one section per table for users: its name as a heading, then its columns with their descriptions.

    A column that a table has as one of `REFERRED` has it is named there and not described again. A type is shown
    unless it is `string`.
    """
    sections = []
    for table in TABLES:
        name = (table.metadata or {})[b"table"].decode()
        if name in ON_REQUEST:
            continue
        described = list(table)
        notes = []
        for other in REFERRED:
            repeated = [column for column in described if name != other and _is_column_of(column, _BY_NAME[other])]
            if repeated:
                described = [column for column in described if column not in repeated]
                notes.append(f"As in `{other}`: {_listed(repeated, _BY_NAME[other])}.")
        rows = [_row(column) for column in described]
        parts = [f"## `{name}`"]
        if rows:
            parts.append("\n".join(["| column | meaning |", "|---|---|", *rows]))
        sections.append("\n\n".join([*parts, *notes]))
    return "\n\n".join(sections)


def _listed(repeated: list[pa.Field], table: pa.Schema) -> str:
    """Columns that are repeated from a table: their names, or those of the others where that is shorter."""
    names = [column.name for column in repeated]
    left_out = [name for name in table.names if name not in names]
    if len(left_out) >= len(names):
        return ", ".join(f"`{name}`" for name in names)
    return "all columns" + (f" but {', '.join(f'`{name}`' for name in left_out)}" if left_out else "")


def _row(column: pa.Field) -> str:
    """A row of a table of columns."""
    meaning = description(column)
    nullable = ", or null" if column.nullable and "null" not in meaning else ""
    type = "" if pa.types.is_string(column.type) else f" `{short(column.type)}`"
    return f"| `{column.name}`{type} | {meaning}{nullable} |"


def _is_column_of(column: pa.Field, table: pa.Schema) -> bool:
    """Whether a table has the same column: name, type and description."""
    if column.name not in table.names:
        return False
    other = table.field(column.name)
    return bool(column.equals(other)) and description(column) == description(other)


def replaced(text: str, begin: str, end: str, section: str) -> str:
    """`text` with `section` between the markers `begin` and `end`. ValueError unless both are there, in this order."""
    before, first, rest = text.partition(begin)
    _, last, after = rest.partition(end)
    if not first or not last:
        raise ValueError(f"text must hold {begin} and {end}, in this order")
    return f"{before}{begin}\n\n{section}\n\n{end}{after}"
