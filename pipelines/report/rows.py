"""Print negatives, positives and rejections with the edit marked in its caption, and scene graphs of sentences."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

from ...augment.scene_graph import SceneGraph, scene_graph

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


def summary(row: Row) -> list[Any]:
    """What a page's script shows of a row beside its caption: operator, change, edits as [start, end, new], p_true,
    p_odd, plausibility, and what a rejection says in detail; null where there is nothing.
    """
    numbers = [row.get(name) for name in ("p_true", "p_odd", "plausibility")]
    rounded = [None if number is None or number != number else round(number, 4) for number in numbers]
    edits = [[edit["start"], edit["end"], edit["new"]] for edit in row["edits"]]
    return [row["operator"], change(row) if edits else None, edits, *rounded, row.get("detail")]


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


def print_graph(
    text: str, stream: TextIO, *, simple: bool = False, spacy_model: str | None = None, dot: bool = False
) -> None:
    """Parse a sentence and print its scene graph to a stream: a line for each object, attribute and relation.

    simple: simplify the graph as UniVSE does. spacy_model: None: the shipped parser. dot: print Graphviz source. Raises
    ValueError when the model cannot be used.
    """
    from ...augment.language.parse import parse

    text = visible(" ".join(text.split()))
    graph = scene_graph(parse([text], spacy_model)[0], simple)
    if dot:
        stream.write(graphviz(text, graph))
        return
    names = named(graph)
    attributes = [f"{names[a.object]} | {a.value}" for a in graph.attributes]
    relations = [f"{names[r.subject]} | {r.name} | {names[r.object]}" for r in graph.relations]
    for label, shown in {"objects": [*names.values()], "attributes": attributes, "relations": relations}.items():
        for number, line in enumerate(shown or ["–"]):
            stream.write(f"{'' if number else label:<12}{line}\n")


def named(graph: SceneGraph) -> dict[int, str]:
    """A distinct name for each object, by its token: the second man of a caption is `man (2)`."""
    seen = Counter[str]()
    names = {}
    for thing in graph.objects:
        seen[thing.name] += 1
        names[thing.token] = f"{thing.name} ({seen[thing.name]})" if seen[thing.name] > 1 else thing.name
    return names


def graphviz(text: str, graph: SceneGraph) -> str:
    """The graph in the DOT language: objects are boxes, attributes ellipses, relations labelled edges."""
    lines = [
        "digraph scene {",
        f"  graph [label={quoted(text)}, labelloc=t, rankdir=LR];",
        '  node [fontname="sans-serif", style=filled, color=white];',
        '  edge [fontname="sans-serif"];',
    ]
    for token, name in named(graph).items():
        lines.append(f'  o{token} [label={quoted(name)}, shape=box, fillcolor="#cfe2f3"];')
    for number, a in enumerate(graph.attributes):
        lines.append(f'  a{number} [label={quoted(a.value)}, shape=ellipse, fillcolor="#d9ead3"];')
        lines.append(f"  o{a.object} -> a{number} [arrowhead=none, style=dashed];")
    lines += [f"  o{r.subject} -> o{r.object} [label={quoted(r.name)}];" for r in graph.relations]
    return "\n".join([*lines, "}", ""])


def quoted(text: str) -> str:
    r"""Text as a quoted string of the DOT language; quotes, backslashes (`\N` is special there) and `&` are escaped."""
    escaped = text.replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
