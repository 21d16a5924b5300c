"""Columns inside columns: `regions.phrase` names the member `phrase` of the object, or of each object in the list, that
the column `regions` has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

DEPTH = 3


def names_in(row: Mapping[str, Any], depth: int = DEPTH) -> Iterator[str]:
    """The names of a row's columns, and below each those of the object, or the first object of the list, in it."""
    yield from row
    for name, value in row.items():
        inner = value[0] if isinstance(value, list) and value else value
        if isinstance(inner, Mapping) and depth > 1:
            yield from (f"{name}.{below}" for below in names_in(inner, depth - 1))


def value_at(row: Mapping[str, Any], path: str) -> Any:
    """The value of a column: of one in a list of objects, a list of their values. None where there is none."""
    if path in row:
        return row[path]
    at = path.find(".")
    while at >= 0:
        inner = row.get(path[:at])
        below = path[at + 1 :]
        if isinstance(inner, Mapping):
            return value_at(inner, below)
        if isinstance(inner, list):
            return [value_at(item, below) if isinstance(item, Mapping) else None for item in inner]
        at = path.find(".", at + 1)
    return None
