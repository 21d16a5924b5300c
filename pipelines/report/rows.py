"""Print negatives, positives and rejections with the edit marked in its caption, and scene graphs of sentences."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TextIO

from ...augment.rows import BOTH
from ...augment.scene_graph import SceneGraph

Row = dict[str, Any]
# Control characters could steer the terminal; those that turn the direction of text could show it in another order.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class Piece(NamedTuple):
    """A part of an edited caption. kind: "" for text that is kept, "old" for removed, "new" for inserted text."""

    kind: str
    text: str


def pieces(caption: str, edits: Sequence[Row]) -> Iterator[Piece]:
    """Cut a caption at its edits, which are sorted and do not overlap."""
    position = 0
    for edit in edits:
        yield Piece("", caption[position : edit["start"]])
        if edit["old"]:
            yield Piece("old", edit["old"])
        if edit["new"]:
            yield Piece("new", edit["new"])
        position = edit["end"]
    yield Piece("", caption[position:])


MARKS = {"": "{}", "old": "[-{}-]", "new": "{{+{}+}}"}  # by kind of piece


def marked(row: Row) -> str:
    """A row's caption with the edit marked in plain text: `A [-dog-]{+horse+} runs.`"""
    edited = pieces(row["caption"], row["edits"])
    return visible("".join(MARKS[piece.kind].format(piece.text) for piece in edited))


def change(row: Row) -> str:
    """What a row changes in its caption, "" if nothing is named.

    `dog (dog.n.01) → horse (horse.n.01)` or `dog → horse`; `red ↔ white` for a swap; `adds not car` if nothing is
    replaced.
    """
    replaced = row["replaced"].split(BOTH) if row["replaced"] else []
    replacement = row["replacement"].split(BOTH) if row["replacement"] else []
    swapped = len(replaced) > 1 and replaced == replacement[::-1]
    # In a swap the second word of each side is the first word of the other, so that one word of each is enough.
    if swapped:
        replaced = replaced[:1]
        replacement = replacement[:1]
    old = _join_words(replaced, row["replaced_synset"])
    new = _join_words(replacement, row["replacement_synset"])
    if old:
        return f"{old} {'↔' if swapped else '→'} {new}"
    return f"adds {new}" if new else ""


def _join_words(words: Sequence[str], synset: str | None) -> str:
    """Words with commas between them, and the synset, if any, after the first word: `dog (dog.n.01), not cat`."""
    if not words or not synset:
        return ", ".join(words)
    return ", ".join([f"{words[0]} ({synset})", *words[1:]])


def summary(row: Row) -> list[object]:
    """A row as a list for a page's script, null where there is nothing.

    It has the operator, the change, the edits as [start, end, new], p_true, p_unnatural, p_compatible, plausibility,
    and the detail of a rejection.
    """
    numbers = [_round_or_none(row.get(name)) for name in ("p_true", "p_unnatural", "p_compatible", "plausibility")]
    edits = [[edit["start"], edit["end"], edit["new"]] for edit in row["edits"]]
    return [row["operator"], change(row) or None, edits, *numbers, row.get("detail")]


def _round_or_none(number: float | None) -> float | None:
    """A number with four decimals; None for NaN and infinities, which JSON does not have."""
    return None if number is None or not math.isfinite(number) else round(number, 4)


# The scores of a row, and how many decimals they are shown with; the page's script has the same.
DECIMALS = {"p_true": 4, "p_unnatural": 2, "p_compatible": 2, "plausibility": 1}


def score_texts(row: Row) -> dict[str, str]:
    """The scores of a row that are known, as a page shows them."""
    known = {name: _round_or_none(row.get(name)) for name in DECIMALS}
    return {name: f"{value:.{DECIMALS[name]}f}".replace("-", "−") for name, value in known.items() if value is not None}


def risk_colour(row: Row) -> str:
    """The CSS class of the estimated probability that something is wrong with a negative: good, some, high.

    It may be true, unnatural, or compatible with its caption; `few` if nothing of this is estimated.
    """
    estimates = [value for name in ("p_true", "p_unnatural", "p_compatible") if (value := row.get(name)) is not None]
    if not estimates:
        return "few"
    risk = 1 - math.prod(1 - value for value in estimates)
    return "good" if risk <= 0.1 else "some" if risk <= 0.25 else "high"


def headline(row: Row) -> str:
    """The caption's id, the operator, the change and, for a rejection, the reason and what decided, if it is known."""
    changed = change(row)
    line = f"{row['caption_id']}  {row['operator']}{f': {changed}' if changed else ''}"
    if "reason" in row:
        line += f"  rejected: {row['reason']}"
    # the word that decided and the caption that has it: "(cat in coco:7:2)"
    decisive = [row[name] for name in ("detail", "sibling_id") if row.get(name)]
    if decisive:
        line += f" ({' in '.join(decisive)})"
    return visible(line)


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
        edited = [(visible(piece.text), styles[piece.kind]) for piece in pieces(row["caption"], row["edits"])]
        console.print(Text.assemble("  ", *edited), soft_wrap=True)


def print_steps(stream: TextIO) -> None:
    """Print all steps that a candidate goes through, in order, one per line; this imports the whole core."""
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
    """The words of a scene graph. The second object of a name is told from the first by a number: `man (2)`."""
    uses = Counter[str]()
    names = {}  # by the token of the object, by which attributes and relations refer to it
    for thing in graph.objects:
        uses[thing.name] += 1
        names[thing.token] = f"{thing.name} ({uses[thing.name]})" if uses[thing.name] > 1 else thing.name
    return Graph(
        tuple(names.values()),
        tuple((attribute.value, names[attribute.object]) for attribute in graph.attributes),
        tuple((names[relation.subject], relation.name, names[relation.object]) for relation in graph.relations),
    )


def print_graph(graph: Graph, stream: TextIO) -> None:
    """Print a scene graph to a stream: a line for each object, attribute and relation."""
    _print_group("objects", [(name,) for name in graph.objects], stream)
    _print_group("attributes", [(thing, value) for value, thing in graph.attributes], stream)
    _print_group("relations", graph.relations, stream)


def _print_group(label: str, lines: Sequence[tuple[str, ...]], stream: TextIO) -> None:
    """Print lines of words with the label before the first; a dash if there are none."""
    for number, words in enumerate(lines or [("–",)]):
        stream.write(f"{'' if number else label:<12}{visible(' | '.join(words))}\n")
