"""Finished tables with rows that a test makes up, and what breaks a shard of one."""

import io
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from negcap.pipelines.engine.manifest import Identity, manifest_names, manifest_of, read_manifest, write_manifest
from negcap.pipelines.engine.output import Output
from negcap.pipelines.engine.shards import list_shards, sealed, shard_index, shard_path, write_shard
from negcap.pipelines.engine.storage import files_below
from negcap.pipelines.engine.tables import read_table


def write_table(
    run: Path, name: str, table: pa.Table, index: int = 0, provenance: Mapping[str, str] | None = None
) -> None:
    """Write a shard of a table, beside those that it has, and the manifest of the whole; the stage is called `made`."""
    schema = table.schema
    identity = Identity("made", {}, {}, (name,), "", {})
    write_shard(table, shard_path(run / name, index), schema, identity.key(), provenance)
    shards = map(sealed, list_shards(run / name))
    Output(run, identity, {name: schema}, overwrite=True).finish([{name: shard} for shard in shards if shard])


def rows_of(run: Path, table: str) -> list[dict[str, Any]]:
    """All rows of a table of a run."""
    return [row for part in read_table(run, table) for row in part.to_pylist()]


def content(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, on a disk or a store, by its path in it."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files_below(folder)}


def replace_shard(shard: Path, table: pa.Table) -> None:
    """Replace the rows of a shard, whatever their columns, and what its manifest states of it."""
    run, name = shard.parent.parent, shard.parent.name
    manifest, old = manifest_of(run, name), sealed(shard)
    assert manifest is not None and old is not None
    made = write_shard(table, shard, table.schema, old.key, counts=old.counts)
    shards = [dict(entry) for entry in manifest.shards]
    shards[shard_index(shard)][name] = {"rows": made.rows, "sha256": made.sha256}
    primary = next(table for table in manifest_names(run) if read_manifest(run / table) == manifest)
    write_manifest(run / primary, replace(manifest, shards=tuple(shards)))


def cut(shard: Path, random: Random) -> None:
    """The first bytes of the file."""
    os.truncate(shard, random.randrange(shard.stat().st_size))


def flip(shard: Path, random: Random) -> None:
    """One bit is another."""
    data = bytearray(shard.read_bytes())
    data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    shard.write_bytes(data)


def halve(shard: Path, random: Random | None = None) -> None:
    """A valid Parquet file with the first half of the rows."""
    table = pq.ParquetFile(io.BytesIO(shard.read_bytes())).read()
    pq.write_table(table.slice(0, len(table) // 2), shard)


def rewrite(shard: Path, random: Random) -> None:
    """The rows in another order, with all metadata: a Parquet file that another program wrote."""
    table = pq.ParquetFile(io.BytesIO(shard.read_bytes())).read()
    pq.write_table(table.take(np.arange(len(table))[::-1]), shard)


DAMAGES: dict[str, Callable[[Path, Random], None]] = {
    "shorter": halve,
    "truncated": cut,
    "flipped bit": flip,
    "emptied": lambda shard, random: os.truncate(shard, 0),
    "file removed": lambda shard, random: shard.unlink(),
    "rewritten": rewrite,
}


class TableInMemory:
    """A WholeTable that holds its rows in memory."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def read(self) -> pa.Table:
        return self.table
