"""The reference that negcap ships, made from a run: tables of words and counts, which other runs add to theirs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ..engine.tables import read_table
from ..report.summary import counts_of

TABLES = ("lexicon", "truth", "balance")
PROVENANCE = (b"table", b"schema_version", b"negcap_version", b"parser")


def write_reference(run: Path, output: Path, source: str) -> None:
    """Write `output`/{lexicon,truth,balance}.parquet from a run's tables.

    Args:
        run: the folder of the run.
        output: the folder to write to; it is made if it is missing.
        source: what the captions are, for the files' metadata, which also have the number of captions counted.

    Raises:
        FileNotFoundError: the run lacks a table.
        ValueError: a table has not been counted on the run's own captions alone.
    """
    output.mkdir(parents=True, exist_ok=True)
    for name in TABLES:
        counts = counts_of(run, name)
        if "given" in counts or "blended" in counts:
            raise ValueError(f"{run} must be built with --set lexicon=own, its table {name} was not")
        table = pa.concat_tables(read_table(run, name)).combine_chunks()
        kept = {key: value for key, value in (table.schema.metadata or {}).items() if key in PROVENANCE}
        kept |= {b"source": source.encode(), b"captions": str(counts["captions"]).encode()}
        table = table.replace_schema_metadata(kept)
        pq.write_table(table, output / f"{name}.parquet", compression="zstd", compression_level=19)
