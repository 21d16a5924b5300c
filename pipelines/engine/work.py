"""The functions that run in workers, and how tables are sent there and back."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .code import Code
from .fence import holding
from .reports import report_done
from .shards import Origin, Receipt, shard_path, write_shard
from .stage import ReduceStage, Stage, StageResult
from .tables import WholeTable, read_shard

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Job:
    """What all calls of one stage share; sent to the workers with each call. run: the run's folder, absolute.

    lock: what its lock must contain (see engine.fence).
    """

    stage: Stage | ReduceStage
    config: Any
    run: Path
    whole: Mapping[str, WholeTable]
    code: Code
    provenance: Mapping[str, str]
    lock: bytes | None = None

    def read(self, index: int, sha256: str) -> pa.Table:
        """Read shard `index` of the stage's input. Raises DamagedShardError, or RuntimeError if code differs."""
        self.code.check()
        return read_shard(shard_path(self.run / self.stage.input, index), self.stage.columns, sha256=sha256)


def make_shard(job: Job, index: int, sha256: str, key: str) -> dict[str, Receipt]:
    """Make shard `index` of each output table of a Stage; returns their receipts. sha256: of the input shard."""
    assert isinstance(job.stage, Stage)
    table = job.read(index, sha256)
    made: list[StageResult] = []
    report_done(done := 0)
    for batch in batches(table, job.stage.batch or len(table)):
        with collector_paused():
            made.append(job.stage.apply(batch, job.config, **job.whole))
        done += len(batch)
        report_done(done)
    with holding(job.run, job.lock):
        return write_tables(job.run, index, job.stage.outputs, join(made), Origin(key, job.provenance))


def batches(table: pa.Table, rows: int) -> Iterator[pa.Table]:
    """Cut a table into parts of at least `rows` rows (the last may be smaller), images unsplit; at least one part."""
    import numpy as np

    if len(table) <= rows:
        yield table
        return
    images = table["image_id"].to_numpy()
    starts = np.flatnonzero(images[1:] != images[:-1]) + 1
    first = 0
    for start in starts.tolist():
        if start - first >= rows:
            yield table.slice(first, start - first)
            first = start
    yield table.slice(first)


def join(results: Sequence[StageResult]) -> StageResult:
    """Join the results for the batches of a shard: rows are concatenated, counters summed."""
    import pyarrow as pa

    first, *others = results
    if not others:
        return first
    counts = Counter(first.counts)
    for result in others:
        counts.update(result.counts)
    names = first.tables
    return StageResult(
        {name: pa.concat_tables([result.tables[name] for result in results]).combine_chunks() for name in names}, counts
    )


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause garbage collection while a shard is made: its rows have no cycles, and tracing them costs a fourth."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def make_partial(job: Job, index: int, sha256: str) -> bytes:
    """The result of a ReduceStage's `partial` for shard `index` of its input, packed (see `pack`). sha256: of that
    input shard.
    """
    assert isinstance(job.stage, ReduceStage)
    table = job.read(index, sha256)
    with collector_paused():
        return pack(job.stage.partial(table, job.config))


def run_call(job: Job, function: Callable[..., pa.Table], *tables: bytes) -> bytes:
    """One call that a ReduceStage makes in a worker by `spread` (see Spread): tables and result packed (see `pack`)."""
    job.code.check()
    with collector_paused():
        return pack(function(*map(unpack, tables), job.config, **job.whole))


def combine_partials(stage: ReduceStage, config: Any, partials: list[bytes]) -> bytes:
    """Combine several results of a ReduceStage's `partial`, packed (see `pack`), into one by its `combine`."""
    return pack(stage.combine([unpack(part) for part in partials], config))


def pack(table: pa.Table) -> bytes:
    """A table as compressed Arrow IPC. (Dask would send unaligned buffers, about which Arrow warns.)"""
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
    run: Path, index: int, outputs: Mapping[str, pa.Schema], result: StageResult, origin: Origin
) -> dict[str, Receipt]:
    """Write shard `index` of each output table in a result, the primary one last, with the counters; their receipts."""
    *_, primary = outputs
    receipts = {}
    for name, schema in outputs.items():
        if name in result.tables:
            own = replace(origin, counts=result.counts) if name == primary else origin
            receipts[name] = write_shard(result.tables[name], shard_path(run / name, index), schema, own)
    return receipts
