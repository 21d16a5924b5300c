"""Describe the columns of tables, and check tables against their schema before they are written."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa


def field(name: str, type: pa.DataType, description: str, *, nullable: bool = False) -> pa.Field:
    """A column with a description, which is stored in the schema of the Parquet file."""
    return pa.field(name, type, nullable=nullable, metadata={"description": description})


def schema(table: str, version: int, *fields: pa.Field) -> pa.Schema:
    """The schema of `table`; its name and version are stored as schema metadata."""
    return pa.schema(fields, metadata={"table": table, "schema_version": str(version)})


def description(column: pa.Field) -> str:
    """The description that `field` stored with a column; "" if it has none."""
    return (column.metadata or {}).get(b"description", b"").decode()


def check(table: pa.Table, schema: pa.Schema) -> None:
    """Raise ValueError unless `table` has exactly the columns, types and nullability of `schema`.

    pyarrow itself accepts missing columns, extra keys, and nulls in non-nullable columns, also in nested ones. The
    message names the table, the column and the rule.
    """
    name = (schema.metadata or {}).get(b"table", b"table").decode()
    if table.schema.names != schema.names:
        raise ValueError(f"{name}: columns must be {schema.names}, were: {table.schema.names}")
    for column in schema:
        found = table.schema.field(column.name).type
        if found != column.type:
            raise ValueError(f"{name}.{column.name}: type must be {column.type}, was: {found}")
        for chunk in table.column(column.name).chunks:
            for path in _null_paths(chunk, column, column.name):
                raise ValueError(f"{name}.{path}: must not be null, has nulls")


def _null_paths(array: pa.Array, column: pa.Field, path: str) -> Iterator[str]:
    """Paths of the non-nullable columns and subcolumns that contain nulls: `edits[].start`."""
    if not column.nullable and array.null_count:
        yield path
    if pa.types.is_list(column.type):
        yield from _null_paths(array.flatten(), column.type.value_field, f"{path}[]")
    elif pa.types.is_struct(column.type):
        for child, values in zip(column.type, array.flatten(), strict=True):
            yield from _null_paths(values, child, f"{path}.{child.name}")
