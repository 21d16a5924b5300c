"""Print negatives, positives and rejections with the edit marked in its caption, and scene graphs of sentences."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TextIO

from ...augment.rows import BOTH
from ...augment.scene_graph import SceneGraph

Row = dict[str, Any]
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def pieces(caption: str, edits: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """A caption cut at its edits (sorted, disjoint): ("", text kept), ("old", text removed), ("new", text inserted)."""
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
    """The change: `dog (dog.n.01) → horse (horse.n.01)`, `dog → horse`, of a swap `red ↔ white`, `adds not car`, ""."""
    sides = [row[name].split(BOTH) if row[name] else [] for name in ("replaced", "replacement")]
    synsets = [row["replaced_synset"], row["replacement_synset"]]
    swapped = len(sides[0]) > 1 and sides[0] == sides[1][::-1]
    for words, synset in zip(sides, synsets, strict=True):
        words[:1] = [f"{word} ({synset})" if synset else word for word in words[:1]]
    old, new = (", ".join(words[:1] if swapped else words) for words in sides)
    return f"{old} {'↔' if swapped else '→'} {new}" if old else new and f"adds {new}"


def summary(row: Row) -> list[Any]:
    """A row for a page's script: operator, change, edits as [start, end, new], p_true, p_unnatural, p_compatible,
    plausibility, a rejection's detail; null where there is nothing.
    """
    numbers = [row.get(name) for name in ("p_true", "p_unnatural", "p_compatible", "plausibility")]
    rounded = [None if number is None or number != number else round(number, 4) for number in numbers]
    edits = [[edit["start"], edit["end"], edit["new"]] for edit in row["edits"]]
    return [row["operator"], change(row) or None, edits, *rounded, row.get("detail")]


def headline(row: Row) -> str:
    """The caption's id, the operator, the change and, for a rejection, the reason and what decided, if it is known."""
    rejected = f"  rejected: {row['reason']}" if "reason" in row else ""
    decided = [row[name] for name in ("detail", "sibling_id") if row.get(name)]
    rejected += f" ({' in '.join(decided)})" if decided else ""
    made = ": ".join(filter(None, (row["operator"], change(row))))
    return visible(f"{row['caption_id']}  {made}{rejected}")


def visible(text: str) -> str:
    """Text that is safe to print on a terminal: control and text direction characters become U+FFFD."""
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def has_colours(stream: TextIO) -> bool:
    """Whether to print in colours: on a terminal or with FORCE_COLOR set, but not with NO_COLOR set."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (stream.isatty() and os.environ.get("TERM") != "dumb")


def print_rows(rows: Sequence[Row], stream: TextIO) -> None:
    """Print per row its headline, and its caption with the edit marked: in colours red, struck, and green."""
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


def print_steps(stream: TextIO) -> None:
    """Print all that a candidate goes through, in order, one a line; imports the whole core."""
    from ...augment.checks import steps

    stream.write("\nWhat each candidate goes through, in order:\n")
    for number, (name, does) in enumerate(steps(), start=1):
        stream.write(f"{number:3}. {name}: {does}\n")


class Graph(NamedTuple):
    """A scene graph in words: objects (`man`, `man (2)`), (attribute, object) and (subject, relation, object)."""

    objects: tuple[str, ...]
    attributes: tuple[tuple[str, str], ...]
    relations: tuple[tuple[str, str, str], ...]


def in_words(graph: SceneGraph) -> Graph:
    """The words of a scene graph."""
    seen = Counter[str]()
    names = {}
    for thing in graph.objects:
        seen[thing.name] += 1
        names[thing.token] = f"{thing.name} ({seen[thing.name]})" if seen[thing.name] > 1 else thing.name
    return Graph(
        tuple(names.values()),
        tuple((a.value, names[a.object]) for a in graph.attributes),
        tuple((names[r.subject], r.name, names[r.object]) for r in graph.relations),
    )


def print_graph(graph: Graph, stream: TextIO) -> None:
    """Print a scene graph to a stream: a line for each object, attribute and relation."""
    attributes = [(thing, value) for value, thing in graph.attributes]
    for label, shown in {
        **graph._asdict(),
        "objects": [(name,) for name in graph.objects],
        "attributes": attributes,
    }.items():
        for number, line in enumerate(map(" | ".join, shown or [("–",)])):
            stream.write(f"{'' if number else label:<12}{visible(line)}\n")
