"""Columns inside columns: `regions.phrase` names the member `phrase` of the object, or of each object in the list, that
the column `regions` has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .record import Cell

DEPTH = 3  # of names that are compared with the usual ones: a deeper one can still be given as a path


def names_in(row: Mapping[str, Cell], depth: int = DEPTH) -> Iterator[str]:
    """The names of a row's columns, and below each those of the object, or the first object of the list, in it."""
    yield from row
    for name, value in row.items():
        inner = value[0] if isinstance(value, list) and value else value
        if isinstance(inner, Mapping) and depth > 1:
            yield from (f"{name}.{below}" for below in names_in(inner, depth - 1))


def value_at(row: Mapping[str, Cell], path: str) -> Cell:
    """The value of a column; for a column in a list of objects, the list of their values. None where there is none."""
    if path in row:
        return row[path]
    # A name may have dots itself (`a.b` in `a.b.c`), so the path is cut at each dot until the part before is a column.
    dot = path.find(".")
    while dot >= 0:
        inner = row.get(path[:dot])
        below = path[dot + 1 :]
        if isinstance(inner, Mapping):
            return value_at(inner, below)
        if isinstance(inner, list):
            return [value_at(item, below) if isinstance(item, Mapping) else None for item in inner]
        dot = path.find(".", dot + 1)
    return None
