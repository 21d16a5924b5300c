"""Describe the columns of tables, and check tables against their schema before they are written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import pyarrow as pa


def column(type: pa.DataType, description: str, *, nullable: bool = False) -> pa.Field:
    """A column, still without a name, with a description, which is stored in the schema of the Parquet file."""
    return pa.field("", type, nullable=nullable, metadata={"description": description})


def text(description: str = "", words: Sequence[str] = (), *, nullable: bool = False) -> pa.Field:
    """A column of text; words: all that may stand there, if they are few, which the description then lists."""
    return column(pa.string(), description + ("one of: " + ", ".join(words) if words else ""), nullable=nullable)


boolean = partial(column, pa.bool_())
int16 = partial(column, pa.int16())
int32 = partial(column, pa.int32())
int64 = partial(column, pa.int64())
float32 = partial(column, pa.float32())
float64 = partial(column, pa.float64())


def listed(type: pa.DataType) -> pa.DataType:
    """Lists without nulls in them."""
    return pa.list_(pa.field("item", type, nullable=False))


def struct(**columns: pa.Field) -> pa.DataType:
    """Structs of columns, by name."""
    return pa.struct([column.with_name(name) for name, column in columns.items()])


def schema(table: str, version: int, /, **columns: pa.Field) -> pa.Schema:
    """The schema of `table`, of columns by name; its name and version are stored as schema metadata."""
    named = [column.with_name(name) for name, column in columns.items()]
    return pa.schema(named, metadata={"table": table, "schema_version": str(version)})


def description(column: pa.Field) -> str:
    """The description that `column` stored with a column; "" if it has none."""
    return (column.metadata or {}).get(b"description", b"").decode()


def table_of(rows: Iterable[Sequence[object]], schema: pa.Schema) -> pa.Table:
    """A table of rows, each with a value for each column of the schema, in order; a struct is a tuple, too."""
    # From rows to columns: R tuples of C values become C tuples of R values; without rows, C empty ones.
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def check(table: pa.Table, schema: pa.Schema) -> None:
    """Raise ValueError, which names column and rule, unless a table has exactly the columns and types of a schema.

    Columns that are not nullable must have no nulls, nor must columns inside them, which pyarrow does not check.
    """
    name = (schema.metadata or {}).get(b"table", b"table").decode()
    if table.schema.names != schema.names:
        raise ValueError(f"{name}: columns must be {schema.names}, were: {table.schema.names}")
    for column in schema:
        type = table.schema.field(column.name).type
        if type != column.type:
            raise ValueError(f"{name}.{column.name}: type must be {column.type}, was: {type}")
        for chunk in table.column(column.name).chunks:
            for path in _null_paths(chunk, column, column.name):
                raise ValueError(f"{name}.{path}: must not be null, has nulls")


def _null_paths(array: pa.Array, column: pa.Field, path: str) -> Iterator[str]:
    """Paths of the non-nullable columns and subcolumns that contain nulls: `edits[].start`."""
    if not column.nullable and array.null_count:
        yield path
    # flatten() leaves out what null lists hold, of which nothing is required.
    if pa.types.is_list(column.type):
        yield from _null_paths(array.flatten(), column.type.value_field, f"{path}[]")
    elif pa.types.is_struct(column.type):
        for child, values in zip(column.type, array.flatten(), strict=True):
            yield from _null_paths(values, child, f"{path}.{child.name}")
