"""Tables on disk: a table is a folder of Parquet shards, and nothing else, so that any Parquet reader can open it.

    RUN/captions/part-00000.parquet     a shard
    RUN/_manifests/captions.json        what the whole table was made from (see engine.manifest)

A shard is written atomically, and proves itself: its Parquet metadata have the key of what it was made from, the
counters of its stage, and a seal, the sha256 of the file with zeros in the place of the seal. A shard without a seal
that fits is made again.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .storage import names, remove, write_atomically

if TYPE_CHECKING:
    import pyarrow as pa

SHARD = re.compile(r"part-(\d{5,})\.parquet")
MANIFESTS = "_manifests"
MADE, SEAL = "negcap.made", "negcap.seal"
UNSEALED = b"0" * 64
SEALED = re.compile(SEAL.encode() + rb"\x18\x40([0-9a-f]{64})")  # as Thrift writes a text of 64 characters
# 150,000 rows of negatives (58 MB in memory) at zstd 3: 3.7 MB in 0.07 s. Level 6 saves 8 % of the bytes for twice the
# time, level 1 saves no time; leaving statistics or the dictionaries of unique columns out saves 0.01 s.
PARQUET: dict[str, Any] = {"compression": "zstd", "compression_level": 3}


@dataclass(frozen=True)
class Receipt:
    """What a shard states of itself: its key (see Identity.key), its rows and counters; and the sha256 of its file."""

    key: str
    rows: int
    sha256: str
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Origin:
    """How a shard was made. provenance: for its Parquet metadata, where other programs find it."""

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
    """The shards of a table's folder in order; empty if there is no folder."""
    found = filter(SHARD.fullmatch, names(folder))
    return [folder / name for name in sorted(found, key=lambda name: (len(name), name))]


def write_shard(table: pa.Table, shard: Path, schema: pa.Schema, origin: Origin) -> Receipt:
    """Check a table against its schema, write it as the file `shard`, and return its receipt.

    Raises ValueError when the table does not match its schema, OSError when a file cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from ...schemas.fields import check

    check(table, schema)
    described = schema.with_metadata({**(schema.metadata or {}), **origin.provenance})
    table = table.cast(described)  # the types are the same: only the columns' descriptions are new
    made: dict[str, Any] = {"key": origin.key, "rows": len(table), "counts": dict(origin.counts)}
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, described, **PARQUET) as writer:
        if len(table):  # the library `datasets` cannot read a row group without rows
            writer.write_table(table)
        writer.add_key_value_metadata({MADE: json.dumps(made, sort_keys=True), SEAL: UNSEALED.decode()})
    data = bytearray(sink.getvalue())
    *_, seal = SEALED.finditer(data)
    data[slice(*seal.span(1))] = hashlib.sha256(data).hexdigest().encode()
    for folder in (shard.parent, shard.parent.parent / MANIFESTS):
        folder.mkdir(parents=True, exist_ok=True)
    write_atomically(shard, memoryview(data), shard.parent.parent / MANIFESTS)
    return Receipt(sha256=hashlib.sha256(data).hexdigest(), **made)


def read_receipt(shard: Path) -> Receipt | None:
    """What a shard states of itself; None if it is missing or is not as it was written."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        data = shard.read_bytes()
    except (FileNotFoundError, IsADirectoryError):
        return None
    *_, seal = (None, *SEALED.finditer(data))
    if seal is None:
        return None
    unsealed = hashlib.sha256(memoryview(data)[: seal.start(1)])
    unsealed.update(UNSEALED + data[seal.end(1) :])
    if unsealed.hexdigest().encode() != seal[1]:
        return None
    made = json.loads(pq.read_metadata(pa.BufferReader(data)).metadata[MADE.encode()])
    return Receipt(sha256=hashlib.sha256(data).hexdigest(), **made)


def current_receipts(run: Path, tables: Iterable[str], index: int, key: str) -> dict[str, Receipt] | None:
    """The receipts, by table, of shard `index` of each table if all are intact and have this key; otherwise None."""
    found = {}
    for table in tables:
        receipt = read_receipt(shard_path(run / table, index))
        if receipt is None or receipt.key != key:
            return None
        found[table] = receipt
    return found


def remove_shards(folder: Path, start: int = 0) -> None:
    """Remove the shards with index `start` or higher."""
    for shard in list_shards(folder):
        if shard_index(shard) >= start:
            remove(shard)
