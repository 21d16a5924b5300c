"""What a manifest states of the shards of its tables: the rows and the sha256 of each.

The manifest itself holds this for up to INLINE shards. For more, a Parquet file beside it does, with a row per shard,
which the manifest names by its hash. It is read only when the shards are asked for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .storage import names, remove, write_atomically

if TYPE_CHECKING:
    import pyarrow as pa

INLINE = 1000
PREFIX = "shards-"
ROWS = 10_000  # turned into Python objects at once
Entries = Mapping[str, Mapping[str, Any]]  # of a shard, by table: `rows` and `sha256`


class Listing(Sequence[Entries]):
    """What a manifest states of each shard (its `rows` and `sha256`, by table), kept in a Parquet file beside the
    manifest.

    The file is read when an element is first asked for; ValueError if it is missing or is not the one that the manifest
    names by its hash.
    """

    def __init__(self, file: Path, shards: int, sha256: str) -> None:
        """shards: their number; sha256: of the file."""
        if not file.name.startswith(PREFIX) or type(shards) is not int or type(sha256) is not str:
            raise ValueError(f"must name the file, number and sha256 of its shards, has: {file.name!r:.60}")
        self.file, self.shards, self.sha256 = file, shards, sha256

    @cached_property
    def _table(self) -> pa.Table:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            data = self.file.read_bytes()
        except OSError as error:
            raise ValueError(f"{self.file} cannot be read: {error.strerror}; run its stage again") from error
        if hashlib.sha256(data).hexdigest() != self.sha256:
            raise ValueError(f"{self.file} is damaged: its bytes are not those that were written; run its stage again")
        return pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)

    def __len__(self) -> int:
        return self.shards

    def __iter__(self) -> Iterator[Entries]:
        for part in self._table.to_batches(ROWS):
            for row in part.to_pylist():
                yield {table: entry for table, entry in row.items() if entry is not None}

    def __getitem__(self, index: Any) -> Any:
        return list(self)[index]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Listing):
            return self.sha256 == other.sha256
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.sha256)


def write_listing(folder: Path, shards: Sequence[Entries]) -> Listing:
    """Write what a manifest states of each shard to a Parquet file in a table's folder; returns it as it is read from
    there.

    shards: for each shard, its `rows` and `sha256` by table. The file is named by its hash, so that the one of an older
    manifest stays until `remove_listings`.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    entry = pa.struct([("rows", pa.int64()), ("sha256", pa.string())])
    tables = sorted({table for shard in shards for table in shard})
    columns = {table: pa.array((shard.get(table) for shard in shards), entry, size=len(shards)) for table in tables}
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink, compression="zstd", use_dictionary=False, write_statistics=False)
    data = memoryview(sink.getvalue())
    digest = hashlib.sha256(data).hexdigest()
    file = folder / f"{PREFIX}{digest[:8]}.parquet"
    write_atomically(file, data)
    return Listing(file, len(shards), digest)


def remove_listings(folder: Path, keep: Listing | None) -> None:
    """Remove the listings (see `write_listing`) from a table's folder, except `keep`."""
    for name in names(folder):
        if name.startswith(PREFIX) and (keep is None or name != keep.file.name):
            remove(folder / name)
