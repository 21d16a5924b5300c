"""Plain-text tables with aligned columns, and wrapped lists."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

WIDTH = 100


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Format rows of cells, the header first, as lines: the first column left-aligned, the others right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "   ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]).rstrip()
        for row in rows
    ]


def wrapped(label: str, items: Sequence[str]) -> list[str]:
    """A label and a list with commas as lines of at most 100 characters, broken between items, indented by 2 spaces."""
    fixed = ", ".join(item.replace(" ", "\xa0") for item in items)  # no line ends at a no-break space
    lines = wrap(f"{label} {fixed}", WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return [line.replace("\xa0", " ") for line in lines]
