"""Tables for people, one function for each form of output: lines of text, Markdown, and the tables of a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# A line of what commands print has at most so many characters.
WIDTH = 100
# What stands between two columns of a text table.
GAP = "   "
NO_BREAK_SPACE = "\xa0"


def text_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells, the header first, as lines of text: the first column aligned left, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append(GAP.join(cells).rstrip())
    return lines


def text_list(label: str, items: Sequence[str]) -> list[str]:
    """A label and items with commas, as lines of at most 100 characters, which are broken only between two items."""
    # `wrap` breaks no line at a no-break space, so it takes each item for one word.
    unbreakable = ", ".join(item.replace(" ", NO_BREAK_SPACE) for item in items)
    text = f"{label} {unbreakable}"
    lines = wrap(text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return [line.replace(NO_BREAK_SPACE, " ") for line in lines]


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first column is left-aligned, the others right-aligned."""
    alignment = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, alignment, *rows))


def terminal_table(first: str, *others: str) -> Table:
    """A table without rows for a terminal; the first column is aligned left, the others (numbers) right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right")
    return table


def console_of(stream: TextIO) -> Console:
    """A console for a stream, as wide as the terminal; if it is none, 100 characters, so that numbers are not cut."""
    from rich.console import Console

    return Console(file=stream, highlight=False, width=None if stream.isatty() else WIDTH)


def print_table(console: Console, table: Table) -> None:
    """Print an empty line and a table, without spaces at the ends of lines."""
    with console.capture() as capture:
        console.print(table)
    lines = [line.rstrip() for line in capture.get().strip("\n").splitlines()]
    console.file.write("\n".join(["", *filter(None, lines), ""]))
