"""Toy runs: the one builder for tests that need a finished run whose rows they make up.

    first = caption_row("A red kite.", "7", split="test")
    run = write_run(
        tmp_path / "run",
        captions=[first, caption_row("A kite.", "7", number=1)],
        negatives=[negative_row(first, "noun", "A red boat.", replaced="kite", replacement="boat")],
    )

A test that needs real rows takes the fixture `sample_run` (to read) or `sample_copy` (to change) of tests/conftest.py.
The stages that the tests of the engine run are in tests/pipelines/engine/toy_stages.py; tests/tables.py writes single
shards, and damages them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from negcap.schemas import captions as of_captions
from negcap.schemas import negatives as of_negatives
from tests.tables import write_table

Row = dict[str, Any]
SCHEMAS = {
    schema.metadata[b"table"].decode(): schema
    for module in (of_captions, of_negatives)
    for schema in vars(module).values()
    if isinstance(schema, pa.Schema) and b"table" in (schema.metadata or {})
}


def caption_row(text: str, image_id: str, number: int = 0, split: str = "", **columns: object) -> Row:
    """A row of `captions`: caption `number` of an image, `toy:<image_id>:<number>`."""
    row = {"caption_id": f"toy:{image_id}:{number}", "image_id": image_id, "image": f"{image_id}.jpg", "split": split}
    return {**row, "language": "en", "origin": "human", "text": text, **columns}


def negative_row(caption: Row, operator: str, text: str, draw: int = 0, **columns: object) -> Row:
    """A row of `negatives`: the negative `text` of a caption, without edits. columns: what differs from that."""
    row = {name: caption[name] for name in ("caption_id", "image_id", "split", "origin")}
    row |= {"negative_id": f"{row['caption_id']}#{operator}:{draw}", "operator": operator, "family": operator}
    row |= {"draw": draw, "caption": caption["text"], "text": text, "edits": [], "replaced": "", "replacement": ""}
    return {**row, **columns}


def write_run(
    run: Path, *, shards: int = 1, provenance: Mapping[str, str] | None = None, **tables: Sequence[Row]
) -> Path:
    """Write finished tables, by name, and return the run. Columns that rows lack are null, others than those of the
    schema are left out. Images are cut into so many shards of equally many, the same in each table.
    """
    images = list(dict.fromkeys(row["image_id"] for rows in tables.values() for row in rows))
    size = max(1, -(-len(images) // shards))
    for index in range(shards):
        of_shard = set(images[index * size : (index + 1) * size])
        for name, rows in tables.items():
            schema = SCHEMAS[name]
            chosen = [
                {column: row.get(column) for column in schema.names} for row in rows if row["image_id"] in of_shard
            ]
            write_table(run, name, pa.Table.from_pylist(chosen, schema), index, provenance)
    return run
