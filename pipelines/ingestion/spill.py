"""Rows on disk, in files of blocks that are each sorted by a key, so that any range of keys is read from every file.

This is what an external shuffle needs: many calls write a file each, and then each of some other calls reads its range
of keys out of all files. The files are uncompressed Arrow, mapped into memory: a range costs the pages that it lies on.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK_ROWS = 32_768
KEYS = 1 << 64


class BlockWriter:
    """Writes record batches, which the caller has sorted by their first column, an unsigned 64-bit key, to a file.

    The file is there, and whole, when the `with` block has succeeded.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path, self._schema = path, schema
        self._temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
        self._open = ExitStack()

    def __enter__(self) -> BlockWriter:
        import pyarrow as pa

        file = self._open.enter_context(pa.OSFile(str(self._temporary), "wb"))
        self._writer = self._open.enter_context(pa.ipc.new_file(file, self._schema))
        return self

    def write(self, block: pa.RecordBatch) -> None:
        """Write a block; an empty one leaves no trace."""
        if block.num_rows:
            self._writer.write_batch(block)

    def __exit__(self, type: object, error: object, trace: object) -> None:
        try:
            self._open.close()
            if error is None:
                os.replace(self._temporary, self._path)
        finally:
            self._temporary.unlink(missing_ok=True)


def write_blocks(path: Path, schema: pa.Schema, blocks: Iterable[pa.RecordBatch]) -> None:
    """Write record batches, each sorted by its first column (an unsigned 64-bit key), to a file, which is there when
    all are written.
    """
    with BlockWriter(path, schema) as writer:
        for block in blocks:
            writer.write(block)


def read_range(paths: Iterable[Path], schema: pa.Schema, low: int, high: int) -> pa.Table:
    """The rows with low <= key < high of some files, file by file and block by block.

    schema: of the files, or some of its columns, the key first. Raises FileNotFoundError for a file that is missing.
    """
    import pyarrow as pa

    found = [block for path in paths for block in _range(path, schema.names, low, high)]
    return pa.Table.from_batches(found, schema).combine_chunks()


def _range(path: Path, columns: Sequence[str], low: int, high: int) -> Iterator[pa.RecordBatch]:
    import numpy as np
    import pyarrow as pa

    for block in read_blocks(path):
        keys = block.column(0).to_numpy()
        last = len(keys) if high >= KEYS else int(np.searchsorted(keys, np.uint64(high)))
        first = int(np.searchsorted(keys, np.uint64(low)))
        if last > first:  # copied: while a file is mapped, more of it counts as memory than is read
            yield block.select(list(columns)).take(pa.array(np.arange(first, last)))


def read_blocks(path: Path) -> Iterator[pa.RecordBatch]:
    """The blocks of a file, mapped into memory. Raises FileNotFoundError if it is missing."""
    import pyarrow as pa

    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, "no such file; all workers must see this folder", str(path))
    with pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as reader:
        for index in range(reader.num_record_batches):
            yield reader.get_batch(index)


def sort_block(table: pa.Table) -> pa.RecordBatch:
    """The rows of a table as one record batch, sorted by its first column; rows with the same key stay in order."""
    import numpy as np
    import pyarrow as pa

    order = np.argsort(table.column(0).to_numpy(), kind="stable")
    table = table.take(pa.array(order)).combine_chunks()
    return table.to_batches()[0] if len(table) else pa.RecordBatch.from_pylist([], table.schema)


def hash_keys(values: Sequence[str]) -> Any:
    """A 64-bit hash of each string, as numpy uint64; the same on every machine."""
    import numpy as np
    import pandas as pd

    return pd.util.hash_array(np.array(values, dtype=object), categorize=False)


def once(path: Path, key: str, files: Sequence[Path], make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What `make` returns (plain JSON); if a call with the same key was finished before, what that one returned.

    make: writes `files`. The receipt of the call is the file `path`; it holds for as long as the files have the bytes
    that they had.
    """
    try:
        receipt = json.loads(path.read_bytes())
        if receipt["key"] == key and receipt["files"] == [_sha256(file) for file in files]:
            return receipt["made"]
    except (OSError, ValueError, KeyError, TypeError):
        pass
    made = make()
    receipt = {"key": key, "made": made, "files": [_sha256(file) for file in files]}
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    temporary.write_text(json.dumps(receipt))
    os.replace(temporary, path)
    return made


def _sha256(path: Path) -> str:
    if not path.exists():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
