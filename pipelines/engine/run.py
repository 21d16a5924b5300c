"""Bring the tables of a stage up to date: keep the shards that are (see engine.output), make the rest. A Stage makes a
shard of each shard of its input, a ReduceStage one of all, by the workers of an executor; `run_source` makes shards in
this process from anything else.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing import parent_process
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from .cluster import Executor, report_done
from .errors import ClusterError, StageError, TaskError, cause
from .lock import locked
from .manifest import Identity, check_code, code_of, describe
from .output import Made, Output
from .progress import Measured, Progress, Reports, measured, write_statistics
from .shards import Shard, shard_path
from .stage import ReduceStage, Stage, StageResult, collector_paused
from .tables import WholeTable, hash_inputs, package, provenance, shards_of

_begun: list[Stage | ReduceStage] = []  # the stage that this process ran last
FAN_IN = 8  # partial results of a ReduceStage that are combined at once
Parts = Iterable[Callable[[], StageResult]]


@dataclass(frozen=True)
class Execution:
    """How stages are run. overwrite: replace output of other input or settings. statistics: keep what shards took."""

    executor: Executor = field(default_factory=Executor)
    progress: Progress = field(default_factory=Progress)
    overwrite: bool = False
    statistics: bool = False


@dataclass(frozen=True)
class Job:
    """What all calls of one stage share; sent to the workers with each call."""

    stage: Stage | ReduceStage
    config: Any
    output: Output
    whole: Mapping[str, WholeTable]

    def begin(self) -> None:
        """Called first in each call: a worker frees what another stage that it ran before has loaded. Raises
        RuntimeError if the code in this process is not that of the main process.
        """
        check_code(self.output.identity.code, *self.stage.functions)
        if parent_process() is None:  # the main process, which may parse again
            return
        before = [*_begun]
        _begun[:] = [self.stage]
        for stage in before:
            if stage.name != self.stage.name and isinstance(stage, Stage) and stage.free is not None:
                stage.free()

    def read(self, shard: Shard) -> pa.Table:
        """The rows of a shard of the input. Raises DamagedShardError, or RuntimeError as `begin`."""
        self.begin()
        return shard.read(self.stage.columns)


def run_stage(
    stage: Stage | ReduceStage,
    run: Path,
    config: Any,
    execution: Execution,
    *,
    metadata: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, int]:
    """Bring a stage's output in `run` up to date with its input, config and code, on which alone its bytes depend;
    returns its summed counters. Shards that are up to date are kept. metadata: provenance beside that of inputs and
    config. Raises FileNotFoundError without the input, ValueError when it is unfinished, OtherConfigError when the
    output was made from something else unless `execution` overwrites, EngineError when a shard fails, workers are lost,
    the run is locked, or a whole table is damaged (then nothing is written).
    """
    with locked(run):
        read = (stage.input, *stage.whole)
        code = code_of(*stage.functions)
        inputs = hash_inputs(run, read)
        sharded = stage.input if isinstance(stage, Stage) else ""
        tables = tuple(stage.outputs)
        metadata = {**provenance(run, read, config), **metadata}
        identity = Identity(stage.name, describe(config), metadata, tables, code, inputs, sharded)
        whole = {name: WholeTable((run / name).absolute(), inputs[name]) for name in stage.whole}
        for table in whole.values():
            table.check()
        output = Output(run.absolute(), identity, stage.outputs, execution.overwrite)
        output.begin()
        make = _map if isinstance(stage, Stage) else _reduce
        return output.finish(make(Job(stage, config, output, whole), execution))


def _map(job: Job, execution: Execution) -> list[Made]:
    """Make every shard of a Stage that is not up to date; returns all of them."""
    stage = job.stage
    output = job.output
    progress = execution.progress
    inputs = shards_of(output.run, stage.input)
    keys = [output.identity.key(shard.sha256) for shard in inputs]
    made = output.all_current(keys)
    pending = [index for index in range(len(keys)) if index not in made]
    lines: list[Measured] = []
    executor = execution.executor.for_shards(len(inputs) if pending else 0)

    def advance(position: int, captions: int) -> None:
        progress.advance(captions, captions / inputs[pending[position]].rows)

    with progress.stage(stage.name, len(keys), len(made)):
        reports = Reports(advance)
        try:
            calls = [(job, index, inputs[index], keys[index]) for index in pending]
            for position, (shards, line) in executor.map(make_shard, calls, reports):
                made[pending[position]] = shards
                if rows := inputs[pending[position]].rows:
                    reports(position, rows)
                else:
                    progress.advance(0)
                lines.append(replace(line, retries=max(0, reports.begun[position] - 1)))
        except TaskError as failed:
            raise _stopped(stage, pending[failed.position], failed) from failed.__cause__
        finally:
            if execution.statistics and lines:
                write_statistics(output.run, stage.name, lines)
    return [made[index] for index in range(len(keys))]


def _reduce(job: Job, execution: Execution) -> list[Made]:
    """Make the only shard of a ReduceStage, unless it is up to date; returns it."""
    progress = execution.progress
    stage = job.stage
    assert isinstance(stage, ReduceStage)
    if made := job.output.current(0, job.output.key):
        with progress.stage(stage.name, 1, 1):
            return [made]
    inputs = shards_of(job.output.run, stage.input)
    executor = execution.executor.for_shards(len(inputs))

    def spread(function: Callable[..., pa.Table], calls: Sequence[Sequence[pa.Table]]) -> list[pa.Table]:
        results = dict(executor.map(run_call, [(job, function, *map(pack, tables)) for tables in calls]))
        return [unpack(results[position]) for position in range(len(calls))]

    total = None
    with progress.stage(stage.name, len(inputs) + 1):  # the last step is `finish`
        try:
            results = executor.map(make_partial, [(job, shard) for shard in inputs])
            parts = _in_order(results, lambda position: progress.advance(inputs[position].rows))
            total = _combined(parts, lambda tables: stage.combine(tables, job.config))
            with collector_paused():
                given = {**job.whole, "spread": spread} if stage.spreads else job.whole
                result = stage.finish(total, job.config, **given)
        except ClusterError:
            raise
        except Exception as error:
            if isinstance(error, TaskError) and total is None:
                raise _stopped(stage, error.position, error) from error.__cause__
            raise StageError(f"{stage.name} stopped: {cause(error)}") from error
        made = job.output.write(0, result)
        progress.advance(0)
        return [made]


def _stopped(stage: Stage | ReduceStage, index: int, failed: TaskError) -> StageError:
    return StageError(f"{stage.name} stopped at {shard_path(Path(stage.input), index)}: {failed}")


def _in_order(results: Iterator[tuple[int, bytes]], done: Callable[[int], None]) -> Iterator[pa.Table]:
    """Packed tables that come in any order, in that of their positions. done: called with each position."""
    early: dict[int, bytes] = {}
    first = 0
    for position, packed in results:
        early[position] = packed
        done(position)
        while first in early:
            yield unpack(early.pop(first))
            first += 1


def _combined(tables: Iterator[pa.Table], combine: Callable[[list[pa.Table]], pa.Table]) -> pa.Table:
    """All tables in one; combined in a tree, so that each is combined few times and few are kept."""
    levels: list[list[pa.Table]] = []
    for table in tables:
        for level in levels:
            level.append(table)
            if len(level) < FAN_IN:
                break
            table = combine(level)
            level.clear()
        else:
            levels.append([table])
    rest: list[pa.Table] = []
    for level in levels:
        rest = [*level, *rest]
        rest = [combine(rest)] if len(rest) > 1 else rest
    return rest[0]


# what runs in workers


def make_shard(job: Job, index: int, shard: Shard, key: str) -> tuple[Made, Measured]:
    """Make shard `index` of each output table of a Stage from a shard of its input; returns them, and what it took."""
    assert isinstance(job.stage, Stage)
    began = time.perf_counter(), time.process_time()
    table = job.read(shard)
    results: list[StageResult] = []
    report_done(done := 0)
    for batch in batches(table, job.stage.batch or len(table)):
        with collector_paused():
            results.append(job.stage.apply(batch, job.config, **job.whole))
        done += len(batch)
        report_done(done)
    made = job.output.write(index, _joined(results), key)
    return made, measured(index, began, made[job.output.folder.name].counts)


def batches(table: pa.Table, rows: int) -> Iterator[pa.Table]:
    """Cut a table into parts of at least `rows` rows (the last may be smaller), images unsplit; at least one part."""
    first = 0
    if len(table) > rows:
        images = table["image_id"].to_numpy()
        for start in (np.flatnonzero(images[1:] != images[:-1]) + 1).tolist():
            if start - first >= rows:
                yield table.slice(first, start - first)
                first = start
    yield table.slice(first)


def _joined(results: Sequence[StageResult]) -> StageResult:
    """The results for the batches of a shard in one: rows are concatenated, counters summed."""
    if len(results) == 1:
        return results[0]
    counts: Counter[str] = Counter()
    for result in results:
        counts.update(result.counts)
    tables = {name: pa.concat_tables([result.tables[name] for result in results]) for name in results[0].tables}
    return StageResult({name: table.combine_chunks() for name, table in tables.items()}, counts)


def make_partial(job: Job, shard: Shard) -> bytes:
    """The packed result of a ReduceStage's `partial` for a shard of its input."""
    assert isinstance(job.stage, ReduceStage)
    table = job.read(shard)
    with collector_paused():
        return pack(job.stage.partial(table, job.config))


def run_call(job: Job, function: Callable[..., pa.Table], *tables: bytes) -> bytes:
    """One call that a ReduceStage makes in a worker by `spread` (see Spread): tables and result packed."""
    job.begin()
    with collector_paused():
        return pack(function(*map(unpack, tables), job.config, **job.whole))


def pack(table: pa.Table) -> bytes:
    """A table as compressed Arrow IPC. (Dask would send unaligned buffers, about which Arrow warns.)"""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


def unpack(data: bytes) -> pa.Table:
    """The table that `pack` packed."""
    aligned = pa.allocate_buffer(len(data))
    pa.FixedSizeBufferWriter(aligned).write(data)
    return pa.ipc.open_stream(aligned).read_all()


def run_source(
    run: Path,
    name: str,
    outputs: Mapping[str, pa.Schema],
    parts: Parts,
    config: Any,
    execution: Execution,
    *,
    inputs: Mapping[str, str] | Sequence[str] = (),
    metadata: Mapping[str, str] = MappingProxyType({}),
    unit: str = "captions",
    steps: int = 0,
    intact: Callable[[int], bool] = lambda index: True,
    check: Callable[[Mapping[str, int]], None] = lambda counts: None,
) -> dict[str, int]:
    """Bring the stage `name`, whose source is other than the shards of one table, up to date in the folder `run`, in
    this process; returns the summed counters. Raises ValueError if `run` is a file, whatever `parts` and `check` raise,
    OtherConfigError if the output was made from something else unless `execution` overwrites, LockedError if another
    command writes into `run`, OSError if a file cannot be written.

    Args:
        outputs: the schemas of the tables made, by name; the last is the primary table; a result may omit others.
        parts: for each shard a function that makes it, called unless the shard is up to date. If it is no sequence, old
            shards are kept only if all are complete, and nothing is written before the first is yielded.
        config: what determines the rows (see engine.manifest.describe).
        inputs: the tables of the run that are read; or the hash of each file or table, by its name.
        metadata: provenance, besides the version of negcap.
        unit: what the progress display counts; `parts` reports these.
        steps: how many steps `parts` reports beyond one per shard.
        intact: whether the files that belong to a shard (pictures) are unchanged, given its index.
        check: called with the summed counters of the finished stage; raises ValueError if they must not be accepted.
    """
    progress = execution.progress
    shards = len(parts) if isinstance(parts, Sequence) else None
    with locked(run):
        hashes = inputs if isinstance(inputs, Mapping) else hash_inputs(run, inputs)
        made_by = {**package(), **metadata}
        identity = Identity(name, describe(config), made_by, tuple(outputs), code_of(), dict(hashes))
        output = Output(run, identity, outputs, execution.overwrite)
        if shards is None and (found := output.finished()) is not None:
            with progress.stage(name, None, unit=unit):
                check(found.counts)
            return dict(found.counts)
        made = output.all_current([output.key] * (shards or 0))
        made = {index: tables for index, tables in made.items() if intact(index)}
        finished: list[Made] = []
        with progress.stage(name, None if shards is None else shards + steps, len(made), unit):
            for index, make in enumerate(parts):
                if index == 0:
                    output.begin()
                if index not in made:
                    made[index] = output.write(index, make())
                    progress.advance(0)
                finished.append(made[index])
            check(output.summed_counts(finished))
        return output.finish(finished)
