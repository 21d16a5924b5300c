"""Look at rows: a random sample of negatives, positives or rejections, the edit marked in its caption."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, TextIO

from negcap.pipelines.engine.shards import list_shards, read_shard
from negcap.schemas.negatives import POSITIVE

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.text import Text

Row = dict[str, Any]
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def sample(
    run: Path, table: str = "negatives", n: int = 10, seed: int = 0, *, operator: str = "", reason: str = ""
) -> list[Row]:
    """`n` random rows of a table (all, where it has fewer) in their order; the same seed shows the same rows.

    operator, reason: of these only. Raises ValueError for n < 1 or when the table has no such rows,
    FileNotFoundError when the run has no such table.
    """
    if n < 1:
        raise ValueError(f"n must be >= 1, was: {n}")
    wanted = {name: value for name, value in (("operator", operator), ("reason", reason)) if value}
    shards = list_shards(run / table)
    if not shards:
        raise FileNotFoundError(f"{run} has no {table}: run negcap negatives {run} first")
    counts = [_matching(shard, wanted) for shard in shards]
    total = sum(len(rows) for rows in counts)
    if not total:
        said = " and ".join(f"{name} {value}" for name, value in wanted.items())
        raise ValueError(f"{run / table} has no rows{' with ' + said if said else ''}")
    chosen = sorted(Random(seed).sample(range(total), min(n, total)))
    rows: list[Row] = []
    first = 0
    for shard, matching in zip(shards, counts, strict=True):
        here = [matching[i - first] for i in chosen if first <= i < first + len(matching)]
        if here:
            rows += read_shard(shard).take(here).to_pylist()
        first += len(matching)
    return rows


def table_of(operator: str) -> str:
    """The table that holds what an operator makes: positives for a paraphrase, else negatives."""
    from negcap.augment.operators import OPERATORS

    return "positives" if operator in OPERATORS and OPERATORS[operator].family == POSITIVE else "negatives"


def _matching(shard: Path, wanted: dict[str, str]) -> Sequence[int]:
    """The numbers of a shard's rows that have the wanted values."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    if not wanted:
        return range(pq.read_metadata(shard).num_rows)
    rows: pa.Table = read_shard(shard, tuple(wanted))
    mask = None
    for name, value in wanted.items():
        equal = pc.equal(rows[name], value)
        mask = equal if mask is None else pc.and_(mask, equal)
    return pc.indices_nonzero(mask).to_pylist()


def pieces(caption: str, edits: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """A caption cut at its edits: ("", text kept), ("old", text removed), ("new", text put there)."""
    position = 0
    for edit in edits:
        yield "", caption[position : edit["start"]]
        if edit["old"]:
            yield "old", edit["old"]
        if edit["new"]:
            yield "new", edit["new"]
        position = edit["end"]
    yield "", caption[position:]


def marked(row: Row) -> str:
    """The edit in plain text: `A [-dog-]{+horse+} runs.`"""
    signs = {"": "{}", "old": "[-{}-]", "new": "{{+{}+}}"}
    return visible("".join(signs[kind].format(text) for kind, text in pieces(row["caption"], row["edits"])))


def coloured(row: Row) -> Text:
    """The edit in colour: what went struck through in red, what came in green. Markup stays text."""
    from rich.text import Text

    styles = {"": "", "old": "red strike", "new": "bold green"}
    text = Text()
    for kind, piece in pieces(row["caption"], row["edits"]):
        text.append(visible(piece), styles[kind])
    return text


def change(row: Row) -> str:
    """What was replaced by what: `dog (dog.n.01) → horse (horse.n.01)`, the words alone where there is no synset."""
    sides = [(row["replaced"], row["replaced_synset"]), (row["replacement"], row["replacement_synset"])]
    return " → ".join(f"{word} ({synset})" if synset else word or "nothing" for word, synset in sides)


def headline(row: Row) -> str:
    """Which caption, which operator, what for what, and why it was refused where it was."""
    refused = f"  refused: {row['reason']}" if "reason" in row else ""
    return visible(f"{row['caption_id']}  {row['operator']}: {change(row)}{refused}")


def visible(text: str) -> str:
    """Text without what could steer a terminal: control and direction characters become a replacement character."""
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def print_rows(rows: Sequence[Row], stream: TextIO) -> None:
    """Two lines a row, in colour on a terminal, `[-old-]{+new+}` elsewhere."""
    if not stream.isatty():
        for row in rows:
            stream.write(f"{headline(row)}\n  {marked(row)}\n")
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream, highlight=False)
    for row in rows:
        console.print(Text(headline(row), "dim"), soft_wrap=True)
        console.print(Text("  ") + coloured(row), soft_wrap=True)
