"""Tables on disk: a table is a folder of Parquet shards, and nothing else, so that any Parquet reader can open it.

    RUN/captions/part-00000.parquet            a shard
    RUN/_receipts/captions/part-00000.json     its receipt: a key of what it was made from, its rows and sha256
    RUN/_receipts/captions/manifest.json       what the whole table was made from (see engine.manifest)

A shard is written atomically (see engine.storage; a temporary file lies in the folder of its receipt), and its receipt
after it in the same way. A shard without a readable receipt, or whose bytes do not have the
sha256 in its receipt, is made again.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .storage import names, read_files, remove, remove_leftovers, sha256_file, write_atomically, write_json

if TYPE_CHECKING:
    import pyarrow as pa

SHARD = re.compile(r"part-(\d{5,})\.parquet")
RECEIPTS = "_receipts"
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
    found = filter(SHARD.fullmatch, names(folder))
    return [folder / name for name in sorted(found, key=lambda name: (len(name), name))]


def write_shard(table: pa.Table, shard: Path, schema: pa.Schema, origin: Origin) -> Receipt:
    """Check a table against its schema and write it as the file `shard`, then write and return its receipt.

    Raises ValueError when the table does not match its schema, OSError when a file cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from ...schemas.fields import check

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
    remove(receipt_path(shard))
    write_atomically(shard, data, receipts_folder(shard.parent))
    write_json(receipt_path(shard), asdict(receipt))
    return receipt


def receipts_folder(folder: Path) -> Path:
    """The folder of a table's receipts and manifest: run/captions -> run/_receipts/captions."""
    return folder.parent / RECEIPTS / folder.name


def receipt_path(shard: Path) -> Path:
    """The receipt of a shard: run/captions/part-00007.parquet -> run/_receipts/captions/part-00007.json."""
    return receipts_folder(shard.parent) / f"{shard.stem}.json"


def read_receipt(shard: Path) -> Receipt | None:
    """A shard's receipt; None when it is missing or unreadable."""
    return read_receipts([shard])[0]


def read_receipts(shards: Sequence[Path]) -> list[Receipt | None]:
    """The receipts of several shards; None where one is missing or unreadable."""
    return [_receipt(data) for data in read_files([receipt_path(shard) for shard in shards])]


def _receipt(data: bytes | None) -> Receipt | None:
    try:
        receipt = Receipt(**json.loads(data or b""))
    except (ValueError, TypeError, RecursionError):
        return None
    whole = isinstance(receipt.counts, dict) and all(type(n) is int for n in (receipt.rows, *receipt.counts.values()))
    return receipt if whole and isinstance(receipt.key, str) and isinstance(receipt.sha256, str) else None


def current_receipt(shard: Path, key: str) -> Receipt | None:
    """A shard's receipt if it has this key and the shard's bytes still have the sha256 in it; otherwise None."""
    receipt = read_receipt(shard)
    try:
        return receipt if receipt and receipt.key == key and sha256_file(shard) == receipt.sha256 else None
    except (FileNotFoundError, IsADirectoryError):
        return None


def current_receipts(run: Path, tables: Iterable[str], index: int, key: str) -> dict[str, Receipt] | None:
    """The receipts, by table, of shard `index` of each table if all are up to date with `key`; otherwise None."""
    found = {}
    for table in tables:
        receipt = current_receipt(shard_path(run / table, index), key)
        if receipt is None:
            return None
        found[table] = receipt
    return found


def remove_shards(folder: Path, start: int = 0) -> None:
    """Remove the shards with index `start` or higher, and their receipts."""
    for shard in list_shards(folder):
        if shard_index(shard) >= start:
            remove(receipt_path(shard))
            remove(shard)


def remove_temporary(folder: Path) -> None:
    """Remove temporary files of interrupted writes from a table's folder and that of its receipts."""
    remove_leftovers(folder)
    remove_leftovers(receipts_folder(folder))
