"""The columns of all tables as Markdown, for the documentation."""

from __future__ import annotations

import pyarrow as pa

from .captions import (
    BALANCE,
    CAPTIONS,
    COMPONENT_EXCLUSIONS,
    COMPONENT_VOCABULARY,
    COMPONENTS,
    GENERATED,
    LEXICON,
    PARSES,
    REFUSED_CAPTIONS,
    REJECTED_RECORDS,
    TRUTH,
)
from .counterparts import COUNTERPARTS
from .features import EMBEDDINGS, FEATURES, RANKS, REJECTED_IMAGES
from .fields import description
from .negatives import AUDIT, JUDGED, NEGATIVES, POSITIVES, PROPOSALS, REFINED, REJECTIONS, VERDICTS
from .scenes import SCENES

TABLES = (
    CAPTIONS,
    REJECTED_RECORDS,
    PARSES,
    LEXICON,
    COMPONENTS,
    COMPONENT_VOCABULARY,
    COMPONENT_EXCLUSIONS,
    TRUTH,
    BALANCE,
    NEGATIVES,
    REFINED,
    POSITIVES,
    REJECTIONS,
    PROPOSALS,
    JUDGED,
    VERDICTS,
    AUDIT,
    FEATURES,
    REJECTED_IMAGES,
    SCENES,
    COUNTERPARTS,
    RANKS,
    EMBEDDINGS,
    GENERATED,
    REFUSED_CAPTIONS,
)


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
    """`text` with everything between the markers `begin` and `end` replaced by `section`.

    Raises ValueError if `begin` is missing, or `end` does not follow it.
    """
    before, first, rest = text.partition(begin)
    _, last, after = rest.partition(end)
    if not first or not last:
        raise ValueError(f"text must hold {begin} and {end}, in this order")
    return f"{before}{begin}\n\n{section}\n\n{end}{after}"
