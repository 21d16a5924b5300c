"""Print the scene graph of a sentence as plain text or as Graphviz source."""

from __future__ import annotations

from collections import Counter
from typing import TextIO

from ...augment.scene_graph import SceneGraph, scene_graph
from .rows import visible


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
    lines = {
        "objects": [*names.values()],
        "attributes": [f"{names[a.object]} | {a.value}" for a in graph.attributes],
        "relations": [f"{names[r.subject]} | {r.name} | {names[r.object]}" for r in graph.relations],
    }
    for label, shown in lines.items():
        for number, line in enumerate(shown or ["–"]):
            stream.write(f"{'' if number else label:<12}{line}\n")


def named(graph: SceneGraph) -> dict[int, str]:
    """A distinct name for each object, by its token: the second man of a caption is `man (2)`."""
    seen: Counter[str] = Counter()
    names = {}
    for thing in graph.objects:
        seen[thing.name] += 1
        names[thing.token] = thing.name if seen[thing.name] == 1 else f"{thing.name} ({seen[thing.name]})"
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
    for character, written in (("&", "&amp;"), ("\\", "\\\\"), ('"', '\\"')):
        text = text.replace(character, written)
    return f'"{text}"'
