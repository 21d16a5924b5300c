"""Finished tables with rows that a test makes up."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from negcap.pipelines.engine.manifest import Identity, manifest_names, manifest_of, read_manifest, write_manifest
from negcap.pipelines.engine.output import Output
from negcap.pipelines.engine.shards import list_shards, sealed, shard_index, shard_path, write_shard


def write_table(
    run: Path, name: str, table: pa.Table, index: int = 0, provenance: Mapping[str, str] | None = None
) -> None:
    """Write a shard of a table, beside those that it has, and the manifest of the whole; the stage is called `made`."""
    schema = table.schema
    identity = Identity("made", {}, {}, (name,), "", {})
    write_shard(table, shard_path(run / name, index), schema, identity.key(), provenance)
    shards = map(sealed, list_shards(run / name))
    Output(run, identity, {name: schema}, overwrite=True).finish([{name: shard} for shard in shards if shard])


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


def halve(shard: Path) -> None:
    """Cut a shard to the first half of its rows; it is still valid Parquet, but not what its receipt states."""
    table = pq.read_table(shard)
    pq.write_table(table.slice(0, len(table) // 2), shard)
