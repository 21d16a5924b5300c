"""The columns of a table, with their types and descriptions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from ..engine.bounds import word
from ..engine.tables import shards_of
from .info import table_names

if TYPE_CHECKING:
    import pyarrow as pa


def schema_of(table: str, run: Path | None) -> pa.Schema:
    """The schema of a table: as a run has it or, without a run, as this version of negcap writes it.

    Raises ValueError for a table that there is not, with those that there are; FileNotFoundError for a run without any.
    """
    if run is not None:
        word("table", table, table_names(run))
        return shards_of(run, table, unfinished=True)[0].read().schema
    from ...schemas.markdown import TABLES

    known = {(schema.metadata or {})[b"table"].decode(): schema for schema in TABLES}
    return known[word("table", table, known)]


def described(schema: pa.Schema) -> list[dict[str, str | bool]]:
    """The columns as values that JSON can represent: `column`, `type`, `nullable` and `meaning`."""
    from ...schemas.fields import description
    from ...schemas.markdown import short

    return [
        {"column": one.name, "type": short(one.type), "nullable": one.nullable, "meaning": description(one)}
        for one in schema
    ]


def print_columns(schema: pa.Schema, stream: TextIO) -> None:
    """Print a line with the name and type of each column, and one with its description."""
    for one in described(schema):
        nullable = ", or null" if one["nullable"] else ""
        print(f"{one['column']}  {one['type']}{nullable}\n    {one['meaning']}", file=stream)
