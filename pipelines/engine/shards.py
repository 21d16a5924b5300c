"""Tables on disk: a table is a folder of Parquet shards, and nothing else, so that any Parquet reader can open it.

    RUN/captions/part-00000.parquet            a shard
    RUN/_receipts/captions/part-00000.json     its receipt: a key of what it was made from, its rows and sha256
    RUN/_receipts/captions/manifest.json       what the whole table was made from (see engine.manifest)

A shard is written atomically: under a temporary name in the folder of its receipt, flushed to the disk, then renamed;
its receipt is written after it in the same way. A shard without a readable receipt, or whose bytes do not have the
sha256 in its receipt, is made again.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

SHARD = re.compile(r"part-(\d{5,})\.parquet")
TEMPORARY = ".tmp"
RECEIPTS = "_receipts"
OLD_LAYOUT = "an older version of negcap wrote it, with receipts beside the shards"
# 150,000 rows of negatives (58 MB in memory) at zstd 3: 3.7 MB in 0.07 s. Level 6 saves 8 % of the bytes for twice the
# time, level 1 saves no time; leaving statistics or the dictionaries of unique columns out saves 0.01 s.
PARQUET: dict[str, Any] = {"compression": "zstd", "compression_level": 3}


@dataclass(frozen=True)
class Receipt:
    """The record of a finished shard: its key (see Identity.key), number of rows, sha256 and the stage's counters."""

    key: str
    rows: int
    sha256: str
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Origin:
    """How a shard was made: `key` and `counts` are stored in its receipt, `provenance` in its Parquet metadata."""

    key: str
    provenance: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)


def shard_path(folder: Path, index: int) -> Path:
    """The file of shard `index`: shard_path(Path("run/captions"), 7) -> run/captions/part-00007.parquet."""
    return folder / f"part-{index:05d}.parquet"


def shard_index(shard: Path) -> int:
    """The index in a shard's file name. Raises ValueError when the file is not named as a shard."""
    match = SHARD.fullmatch(shard.name)
    if not match:
        raise ValueError(f"a shard must be named part-<number>.parquet, was: {shard.name}")
    return int(match[1])


def list_shards(folder: Path) -> list[Path]:
    """The shards of a table's folder in order, with or without receipts; empty if there is no folder."""
    if not folder.is_dir():
        return []
    return sorted((path for path in folder.iterdir() if SHARD.fullmatch(path.name)), key=shard_index)


def sha256_file(path: Path) -> str:
    """The sha256 of a file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_atomically(path: Path, data: bytes | memoryview, folder: Path | None = None) -> None:
    """Write a file completely or not at all; an older file of this name is replaced when the new one is on the disk.

    folder: for the temporary file, on the same file system; None: the folder of the file. Raises OSError (disk full,
    no permission) naming the file; the temporary file is then removed.
    """
    temporary = (folder or path.parent) / f"{path.name}.{secrets.token_hex(4)}{TEMPORARY}"
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        what = "disk full, free some space and run again" if error.errno == errno.ENOSPC else error.strerror
        raise OSError(error.errno, f"cannot write: {what}", str(path)) from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON with sorted keys, atomically."""
    write_atomically(path, (json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False) + "\n").encode())


def write_shard(table: pa.Table, shard: Path, schema: pa.Schema, origin: Origin) -> Receipt:
    """Check a table against its schema and write it as the file `shard`, then write and return its receipt.

    Raises ValueError when the table does not match its schema, OSError when a file cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from negcap.schemas.fields import check

    check(table, schema)
    described = schema.with_metadata({**(schema.metadata or {}), **origin.provenance})
    table = table.cast(described)  # the types are the same: only the columns' descriptions are new
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, described, **PARQUET) as writer:
        if len(table):  # the library `datasets` cannot read a row group without rows
            writer.write_table(table)
    data = memoryview(sink.getvalue())
    receipt = Receipt(origin.key, table.num_rows, hashlib.sha256(data).hexdigest(), dict(origin.counts))
    for path in (shard, receipt_path(shard)):
        path.parent.mkdir(parents=True, exist_ok=True)
    receipt_path(shard).unlink(missing_ok=True)
    write_atomically(shard, data, receipts_folder(shard.parent))
    write_json(receipt_path(shard), asdict(receipt))
    return receipt


def receipts_folder(folder: Path) -> Path:
    """The folder of a table's receipts and manifest: run/captions -> run/_receipts/captions."""
    return folder.parent / RECEIPTS / folder.name


def receipt_path(shard: Path) -> Path:
    """The receipt of a shard: run/captions/part-00007.parquet -> run/_receipts/captions/part-00007.json."""
    return receipts_folder(shard.parent) / f"{shard.stem}.json"


def old_receipts(folder: Path) -> list[Path]:
    """The receipts and the manifest that earlier versions wrote into a table's own folder."""
    return sorted(folder.glob("_*.json"))


def read_receipt(shard: Path) -> Receipt | None:
    """A shard's receipt; None when it is missing or unreadable."""
    try:
        value = json.loads(receipt_path(shard).read_bytes())
        receipt = Receipt(**value)
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    whole = isinstance(receipt.counts, dict) and all(type(n) is int for n in (receipt.rows, *receipt.counts.values()))
    return receipt if whole and isinstance(receipt.key, str) and isinstance(receipt.sha256, str) else None


def is_current(shard: Path, key: str) -> bool:
    """Whether a shard has this key and its bytes still have the sha256 in its receipt."""
    receipt = read_receipt(shard)
    if receipt is None or receipt.key != key or not shard.is_file():
        return False
    return sha256_file(shard) == receipt.sha256


def current_receipts(run: Path, tables: Iterable[str], index: int, key: str) -> dict[str, Receipt] | None:
    """The receipts, by table, of shard `index` of each table if all are up to date with `key`; otherwise None."""
    found = {}
    for table in tables:
        shard = shard_path(run / table, index)
        receipt = read_receipt(shard)
        if receipt is None or not is_current(shard, key):
            return None
        found[table] = receipt
    return found


def remove_shards(folder: Path, start: int = 0) -> None:
    """Remove the shards with index `start` or higher, and their receipts."""
    for shard in list_shards(folder):
        if shard_index(shard) >= start:
            receipt_path(shard).unlink(missing_ok=True)
            shard.unlink(missing_ok=True)


def remove_temporary(folder: Path) -> None:
    """Remove temporary files of interrupted writes from a folder and, if it is a table's, from that of its receipts."""
    for place in (folder, receipts_folder(folder)):
        for path in place.glob(f"*{TEMPORARY}"):
            path.unlink(missing_ok=True)
