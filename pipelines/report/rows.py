"""Print negatives, positives and rejections with the edit marked in its caption, in colours or as plain text."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

Row = dict[str, Any]
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def pieces(caption: str, edits: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """A caption cut at its edits: ("", text kept), ("old", text removed), ("new", text inserted).

    edits: sorted and disjoint; each has `start` and `end` (character offsets), `old` and `new`.
    """
    position = 0
    for edit in edits:
        yield "", caption[position : edit["start"]]
        yield from ((kind, edit[kind]) for kind in ("old", "new") if edit[kind])
        position = edit["end"]
    yield "", caption[position:]


def marked(row: Row) -> str:
    """A row's caption with the edit marked in plain text: `A [-dog-]{+horse+} runs.`"""
    signs = {"": "{}", "old": "[-{}-]", "new": "{{+{}+}}"}
    return visible("".join(signs[kind].format(text) for kind, text in pieces(row["caption"], row["edits"])))


def change(row: Row) -> str:
    """The replaced word and its replacement: `dog (dog.n.01) → horse (horse.n.01)`; without synsets, `dog → horse`."""
    sides = [(row["replaced"], row["replaced_synset"]), (row["replacement"], row["replacement_synset"])]
    return " → ".join(f"{word} ({synset})" if synset else word or "nothing" for word, synset in sides)


def headline(row: Row) -> str:
    """The caption's id, the operator, the change and, for a rejection, the reason and the detail, if there is one."""
    rejected = f"  rejected: {row['reason']}" if "reason" in row else ""
    rejected += f" ({row['detail']})" if row.get("detail") else ""
    return visible(f"{row['caption_id']}  {row['operator']}: {change(row)}{rejected}")


def visible(text: str) -> str:
    """Text that is safe to print on a terminal: control and text direction characters become U+FFFD."""
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def has_colours(stream: TextIO) -> bool:
    """Whether to print in colours: on a terminal or with FORCE_COLOR set, but not with NO_COLOR set."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (stream.isatty() and os.environ.get("TERM") != "dumb")


def print_rows(rows: Sequence[Row], stream: TextIO) -> None:
    """Print two lines per row: caption id, operator and change; then the caption with the edit marked.

    In colours (see `has_colours`), removed text is red and struck through, new text green.
    """
    if not has_colours(stream):
        for row in rows:
            stream.write(f"{headline(row)}\n  {marked(row)}\n")
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream, highlight=False, force_terminal=True)
    styles = {"": "", "old": "red strike", "new": "bold green"}
    for row in rows:
        console.print(Text(headline(row), "dim"), soft_wrap=True)
        edited = [(visible(text), styles[kind]) for kind, text in pieces(row["caption"], row["edits"])]
        console.print(Text.assemble("  ", *edited), soft_wrap=True)
