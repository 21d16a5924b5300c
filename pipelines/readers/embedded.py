"""Images embedded in Arrow tables, as `datasets` writes them: structs of bytes and path. Only the paths are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .columns import Nested

if TYPE_CHECKING:
    import pyarrow as pa

PATH, BYTES = "path", "bytes"


def nested_columns(schema: pa.Schema) -> Nested:
    """The columns of a table that are no plain values."""
    images, unread = {}, {}
    for column in schema:
        if _is_bytes(column.type) or BYTES in _fields(column.type) or _has_path(column.type):
            images[column.name] = PATH if _has_path(column.type) else ""
        elif _fields(column.type):
            unread[column.name] = "a struct without a field path or bytes"
    return Nested(images, unread)


def without_bytes(column: pa.Field) -> list[str]:
    """What to read of a column: itself; of embedded images only the paths, `image.path`, or nothing if they have none.

    It is a list of one name or none.
    """
    if _has_path(column.type):
        return [f"{column.name}.{PATH}"]
    return [] if _is_bytes(column.type) or BYTES in _fields(column.type) else [column.name]


def is_text(kind: pa.DataType) -> bool:
    """Whether the values of a column are text."""
    import pyarrow as pa

    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _fields(kind: pa.DataType) -> dict[str, pa.DataType]:
    import pyarrow as pa

    return {field.name: field.type for field in kind} if pa.types.is_struct(kind) else {}


def _has_path(kind: pa.DataType) -> bool:
    import pyarrow as pa

    path = _fields(kind).get(PATH)
    return path is not None and (is_text(path) or pa.types.is_null(path))


def _is_bytes(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
