"""Finished tables with rows that a test makes up."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from negcap.pipelines.engine.manifest import Identity, finish, manifest_of, prepare, read_manifest, write_manifest
from negcap.pipelines.engine.shards import (
    MANIFESTS,
    Origin,
    list_shards,
    read_receipt,
    shard_index,
    shard_path,
    write_shard,
)


def write_table(
    run: Path, name: str, table: pa.Table, index: int = 0, provenance: Mapping[str, str] | None = None
) -> None:
    """Write a shard of a table, beside those that it has, and the manifest of the whole; the stage is called `made`."""
    schema = table.schema
    identity = Identity("made", {}, {}, (name,), "", {})
    write_shard(table, shard_path(run / name, index), schema, Origin(identity.key(), provenance or {}))
    prepare(run / name, identity, overwrite=True)
    receipts = [read_receipt(shard) for shard in list_shards(run / name)]
    finish(run, (name,), identity, [{name: receipt} for receipt in receipts if receipt is not None])


def replace_shard(shard: Path, table: pa.Table) -> None:
    """Replace the rows of a shard, whatever their columns, and what its manifest states of it."""
    run, name = shard.parent.parent, shard.parent.name
    manifest, receipt = manifest_of(run, name), read_receipt(shard)
    assert manifest is not None and receipt is not None
    made = write_shard(table, shard, table.schema, Origin(receipt.key, counts=receipt.counts))
    shards = [dict(entry) for entry in manifest.shards]
    shards[shard_index(shard)][name] = {"rows": made.rows, "sha256": made.sha256}
    primary = next(path.stem for path in (run / MANIFESTS).iterdir() if read_manifest(run / path.stem) == manifest)
    write_manifest(run / primary, replace(manifest, shards=tuple(shards)))


def halve(shard: Path) -> None:
    """Cut a shard to the first half of its rows; it is still valid Parquet, but not what its receipt states."""
    table = pq.read_table(shard)
    pq.write_table(table.slice(0, len(table) // 2), shard)
