"""Finished tables with rows that a test makes up."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from negcap.pipelines.engine.identity import Identity, hash_schema
from negcap.pipelines.engine.manifest import MANIFEST, finish, manifest_of, prepare, read_manifest, write_manifest
from negcap.pipelines.engine.shards import (
    RECEIPTS,
    Origin,
    list_shards,
    read_receipt,
    receipt_path,
    shard_index,
    shard_path,
    write_shard,
)
from negcap.pipelines.engine.storage import sha256_file, write_json


def write_table(
    run: Path, name: str, table: pa.Table, index: int = 0, provenance: Mapping[str, str] | None = None
) -> None:
    """Write a shard of a table, beside those that it has, and the manifest of the whole; the stage is called `made`."""
    schema = table.schema
    identity = Identity("made", {}, {}, {name: hash_schema(schema)}, "", {})
    write_shard(table, shard_path(run / name, index), schema, Origin(identity.key(), provenance or {}))
    prepare(run / name, identity, overwrite=True)
    receipts = [read_receipt(shard) for shard in list_shards(run / name)]
    finish(run, (name,), identity, [{name: receipt} for receipt in receipts if receipt is not None])


def replace_shard(shard: Path, table: pa.Table) -> None:
    """Replace the rows of a shard, whatever their columns, and what its receipt and its manifest state of it."""
    run, name = shard.parent.parent, shard.parent.name
    pq.write_table(table, shard)
    manifest, receipt = manifest_of(run, name), read_receipt(shard)
    assert manifest is not None and receipt is not None
    stated = {"rows": len(table), "sha256": sha256_file(shard)}
    write_json(receipt_path(shard), vars(receipt) | stated)
    shards = [dict(entry) for entry in manifest.shards]
    shards[shard_index(shard)][name] = stated
    folders = (run / path.parent.name for path in run.glob(f"{RECEIPTS}/*/{MANIFEST}"))
    primary = next(folder for folder in folders if read_manifest(folder) == manifest)
    write_manifest(primary, replace(manifest, shards=tuple(shards)))


def halve(shard: Path) -> None:
    """Cut a shard to the first half of its rows; it is still valid Parquet, but not what its receipt states."""
    table = pq.read_table(shard)
    pq.write_table(table.slice(0, len(table) // 2), shard)
