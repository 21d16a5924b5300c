"""Check a run against its own receipts and manifests: all files are hashed and all keys computed again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from .identity import Identity, hash_schema
from .manifest import MANIFEST, Manifest, hash_table, read_manifest, receipts
from .shards import RECEIPTS, list_shards, read_receipt, shard_path
from .storage import names

SOURCES = ("ingest", "features", "scenes", "enlarge", "import")  # stages whose inputs are files outside the run


@dataclass(frozen=True)
class Verdict:
    """What `verify` checked (numbers of tables, shards and rows), and the problems found, one line each."""

    tables: int
    shards: int
    rows: int
    problems: tuple[str, ...]


def verify(run: Path) -> Verdict:
    """Check every table of the run in this folder.

    Each shard must exist and have: a receipt whose key follows from the manifest and the input shard, the sha256 and
    the number of rows in manifest and receipt, and the columns of its table. Each stage must be complete and made from
    the current input. Raises FileNotFoundError when `run` has no table.
    """
    folders = [run / name for name in sorted({*names(run), *names(run / RECEIPTS)} - {RECEIPTS})]
    problems: list[str] = []
    claimed: set[str] = set()
    checks: list[tuple[Path, str, int, str, str]] = []
    for folder in folders:
        try:
            manifest = read_manifest(folder)
            if manifest is None:
                continue
            manifest = replace(manifest, shards=tuple(manifest.shards))
        except ValueError as error:
            problems.append(str(error))
            continue
        claimed |= {folder.name, *manifest.identity.schemas}
        problems += _stage_problems(run, folder, manifest)
        keys = _keys(run, manifest.identity, len(manifest.shards))
        for index, shard in enumerate(manifest.shards):
            for table, entry in shard.items():
                schema = manifest.identity.schemas.get(table, "")
                checks.append((shard_path(run / table, index), entry["sha256"], entry["rows"], keys[index], schema))
    for folder in folders:
        if folder.name not in claimed and list_shards(folder):
            problems.append(f"{folder.name}: no {MANIFEST} names its shards")
    if not claimed and not problems:
        raise FileNotFoundError(f"{run} must be the folder of a run, has no tables")
    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(lambda check: list(_shard_problems(*check)), checks):
            problems += found
    rows = sum(check[2] for check in checks)
    return Verdict(len({check[0].parent for check in checks}), len(checks), rows, tuple(problems))


def _stage_problems(run: Path, folder: Path, manifest: Manifest) -> Iterator[str]:
    """Problems of a whole stage: unfinished, surplus shards, or made from other inputs than the current ones."""
    identity = manifest.identity
    if not manifest.complete:
        yield f"{folder.name}: unfinished, run {identity.stage} again"
    for table in identity.schemas:
        expected = [shard_path(run / table, i).name for i, made in enumerate(manifest.shards) if table in made]
        for shard in list_shards(run / table):
            if manifest.complete and shard.name not in expected:
                yield f"{table}/{shard.name}: not in the manifest of {identity.stage}"
    if identity.stage in SOURCES and not identity.sharded:
        return
    for table, digest in identity.inputs.items():
        try:
            now = hash_table(run, table)
        except (ValueError, FileNotFoundError) as error:
            yield f"{folder.name}: cannot tell whether it was made from these {table}: {error}"
            continue
        if now != digest:
            yield f"{folder.name}: was made from other {table}, run {identity.stage} again with --overwrite"


def _keys(run: Path, identity: Identity, count: int) -> list[str]:
    """The keys that a stage's `count` shards must have; "" where the input shard has no readable receipt."""
    if not identity.sharded:
        return [identity.key()] * count
    try:
        keys = [identity.key(receipt.sha256) for receipt in receipts(run, identity.sharded)]
    except (ValueError, FileNotFoundError):
        keys = []
    return [*keys, *[""] * (count - len(keys))]


def _shard_problems(shard: Path, sha256: str, rows: int, key: str, schema: str) -> Iterator[str]:
    """The problems of one shard, given what its manifest states."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    name = f"{shard.parent.name}/{shard.name}"
    receipt = read_receipt(shard)
    if receipt is None:
        yield f"{name}: no readable receipt"
    elif (receipt.sha256, receipt.rows) != (sha256, rows):
        yield f"{name}: receipt and manifest disagree"
    elif key and receipt.key != key:
        yield f"{name}: not made from what its manifest states"
    try:
        data = shard.read_bytes()
    except OSError as error:
        yield f"{name}: {'missing' if isinstance(error, FileNotFoundError) else error.strerror}"
        return
    if hashlib.sha256(data).hexdigest() != sha256:
        yield f"{name}: damaged, its bytes are not those that were written"
        return
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        found_rows, found_schema = file.metadata.num_rows, hash_schema(file.schema_arrow)
    except (pa.ArrowException, OSError) as error:
        yield f"{name}: not readable as Parquet: {next(iter(str(error).splitlines()), '')}"
        return
    if found_rows != rows:
        yield f"{name}: must have {rows} rows, has {found_rows}"
    if found_schema != schema:
        yield f"{name}: its columns are not those of {shard.parent.name}"
