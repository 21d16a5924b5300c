"""What is done in a worker: a shard of a stage, a part of a reduction; and how its tables travel."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from negcap.pipelines.engine.manifest import hash_code
from negcap.pipelines.engine.shards import Receipt, WholeTable, read_shard, shard_path, write_shard
from negcap.pipelines.engine.stage import ReduceStage, Stage, StageResult

if TYPE_CHECKING:
    import pyarrow as pa


def make_shard(
    stage: Stage,
    config: Any,
    run: Path,
    whole: Mapping[str, WholeTable],
    provenance: Mapping[str, str],
    code: str,
    index: int,
    sha256: str,
    key: str,
) -> dict[str, Receipt]:
    """Make one output shard of every table from one input shard, in a worker."""
    _check_code(stage.code, code)
    table = read_shard(shard_path(run / stage.input, index), stage.columns, sha256=sha256)
    with collector_paused():
        result = stage.apply(table, config, **whole)
    return write_tables(stage.outputs, result, run, index, key, provenance)


@contextmanager
def collector_paused() -> Iterator[None]:
    """No garbage collection within a shard: it is small, its rows hold no cycles, and tracing them costs a fourth."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def make_partial(stage: ReduceStage, config: Any, run: Path, code: str, index: int, sha256: str) -> bytes:
    """One shard's part of a ReduceStage's result, in a worker: a table as it travels."""
    _check_code(stage.code, code)
    table = read_shard(shard_path(run / stage.input, index), stage.columns, sha256=sha256)
    with collector_paused():
        return pack(stage.partial(table, config))


def run_call(
    names: tuple[str, ...],
    code: str,
    config: Any,
    whole: Mapping[str, WholeTable],
    function: Callable[..., pa.Table],
    *tables: bytes,
) -> bytes:
    """One call of a ReduceStage's `spread`, in a worker."""
    _check_code(names, code)
    with collector_paused():
        return pack(function(*map(unpack, tables), config, **whole))


@lru_cache
def _check_code(names: tuple[str, ...], expected: str) -> None:
    """Raise RuntimeError on a worker (of a running scheduler) whose negcap is not the one that gives the orders."""
    if hash_code(names) != expected:
        raise RuntimeError("this worker has another version of negcap's code: install the same and restart it")


def combine_partials(stage: ReduceStage, config: Any, partials: list[bytes]) -> bytes:
    """One of several parts, in a worker."""
    return pack(stage.combine([unpack(part) for part in partials], config))


def pack(table: pa.Table) -> bytes:
    """A table as Arrow IPC, compressed; Dask's own way leaves buffers where Arrow's kernels complain of alignment."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


def unpack(data: bytes) -> pa.Table:
    """The table that `pack` packed."""
    import pyarrow as pa

    aligned = pa.allocate_buffer(len(data))
    pa.FixedSizeBufferWriter(aligned).write(data)
    return pa.ipc.open_stream(aligned).read_all()


def write_tables(
    outputs: Mapping[str, pa.Schema],
    result: StageResult,
    run: Path,
    index: int,
    key: str,
    provenance: Mapping[str, str],
) -> dict[str, Receipt]:
    """Write a shard of every output table, the primary one last and with the counts."""
    *_, primary = outputs
    receipts = {}
    for name, schema in outputs.items():
        counts = result.counts if name == primary else {}
        receipts[name] = write_shard(result.tables[name], run / name, index, key, schema, provenance, counts)
    return receipts
