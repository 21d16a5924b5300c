"""Bring the tables of a stage up to date: keep shards that are, make the rest, record what was made.

A Stage makes a shard of each shard of its input, a ReduceStage one of all, both by the workers of an executor; a
SourceStage makes its shards in this process, from files, from a whole table or from random numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .cluster import Executor, report_done
from .errors import ClusterError, DamagedShardError, StageError, TaskError
from .lock import holding, lock_of, locked
from .manifest import (
    Code,
    Identity,
    code_of,
    describe,
    finish,
    finished,
    manifest_of,
    prepare,
    refuse_other,
    summed_counts,
)
from .progress import Measured, Progress, Reports, in_progress, measured, with_counts, write_statistics
from .shards import MANIFESTS, Origin, Receipt, current_receipts, list_shards, shard_path, write_shard
from .stage import ReduceStage, Stage, StageResult, collector_paused
from .storage import remove_leftovers
from .tables import WholeTable, hash_table, no_table, read_shard, shards_of

if TYPE_CHECKING:
    import pyarrow as pa

FAN_IN = 8  # partial results of a ReduceStage that are combined at once
Parts = Generator[Callable[[], StageResult], None, None]
Made = Mapping[str, Receipt]  # the receipts of a shard, by table


@dataclass(frozen=True)
class Execution:
    """How stages are run.

    overwrite: whether to replace output that was made from other input or settings. statistics: whether to keep what
    each shard took (see engine.progress).
    """

    executor: Executor
    progress: Progress
    overwrite: bool = False
    statistics: bool = False


@dataclass(frozen=True)
class Job:
    """What all calls of one stage share; sent to the workers with each call. run: the run's folder, absolute.

    lock: what its lock must contain (see engine.lock).
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


def run_stage(
    stage: Stage | ReduceStage, run: Path, config: Any, execution: Execution, *, metadata: Mapping[str, str]
) -> dict[str, int]:
    """Bring a stage's output in the folder `run` up to date with its input and config; returns its summed counters.

    Shards that are up to date are kept, so an interrupted run continues and a finished one only costs the hashing. The
    bytes of the output depend only on the input, the config and the code, not on the executor. metadata: provenance for
    the Parquet files. Raises FileNotFoundError when the input is missing, OtherConfigError when the output was made
    from something else and `execution` does not overwrite, EngineError when a shard fails, the workers are lost or the
    run is locked, or a table that is read whole is damaged (nothing is written then).
    """
    with locked(run):
        code, tables = code_of(*stage.functions), tuple(stage.outputs)
        inputs = hash_inputs(stage.name, run, (stage.input, *stage.whole))
        sharded = stage.input if isinstance(stage, Stage) else ""
        identity = Identity(stage.name, describe(config), dict(metadata), tables, code.sha256, inputs, sharded)
        whole = {name: WholeTable((run / name).absolute(), inputs[name]) for name in stage.whole}
        for table in whole.values():
            table.check()
        prepare(run / tables[-1], identity, overwrite=execution.overwrite)
        remove_leftovers(run / MANIFESTS)
        job = Job(stage, config, run.absolute(), whole, code, identity.provenance(), lock_of(run))
        make = _map if isinstance(stage, Stage) else _reduce
        return dict(finish(run, tables, identity, make(job, execution, identity)).counts)


def hash_inputs(name: str, run: Path, tables: Sequence[str]) -> dict[str, str]:
    """The hash of each table that stage `name` reads. Raises FileNotFoundError if one is missing or unfinished."""
    hashes = {}
    for table in tables:
        manifest = manifest_of(run, table)
        if manifest is None or not manifest.complete:
            if not list_shards(run / table):
                raise no_table(run, table)
            state = "is unfinished" if manifest is not None else f"has no manifest in {MANIFESTS}"
            raise FileNotFoundError(f"{name} needs {run / table}, which {state}: run its stage first")
        hashes[table] = hash_table(run, table)
    return hashes


def _map(job: Job, execution: Execution, identity: Identity) -> Sequence[Made]:
    """Make every shard of a Stage that is not up to date; returns the receipts of all."""
    stage = job.stage
    inputs = shards_of(job.run, stage.input)
    keys = [identity.key(shard.sha256) for shard in inputs]
    made = _reusable(job.run, tuple(stage.outputs), keys)
    pending = [index for index in range(len(keys)) if index not in made]
    lines: list[Measured] = []

    def advance(position: int, captions: int) -> None:
        execution.progress.advance(captions, captions / inputs[pending[position]].rows)

    with in_progress(execution.progress, stage.name, len(keys), len(made)):
        calls = [(make_shard, index, job, index, inputs[index].sha256, keys[index]) for index in pending]
        reports = Reports(advance)
        try:
            with _naming(stage, pending):
                for position, (receipts, line) in execution.executor.map(measured, calls, reports):
                    made[pending[position]] = receipts
                    if rows := inputs[pending[position]].rows:
                        reports(position, rows)
                    else:
                        execution.progress.advance(0)
                    counts = receipts[tuple(stage.outputs)[-1]].counts
                    lines.append(with_counts(line, counts, max(0, reports.begun[position] - 1)))
        finally:
            if execution.statistics and lines:
                write_statistics(job.run, stage.name, lines)
    return [made[index] for index in range(len(keys))]


def _reduce(job: Job, execution: Execution, identity: Identity) -> Sequence[Made]:
    """Make the only shard of a ReduceStage, unless it is up to date; returns its receipts."""
    executor, progress, stage = execution.executor, execution.progress, job.stage
    assert isinstance(stage, ReduceStage)
    if made := _reusable(job.run, tuple(stage.outputs), [identity.key()]):
        with in_progress(progress, stage.name, 1, 1):
            return [made[0]]
    inputs = shards_of(job.run, stage.input)
    calls = [(job, index, shard.sha256) for index, shard in enumerate(inputs)]

    def spread(function: Callable[..., pa.Table], calls: Sequence[Sequence[pa.Table]]) -> list[pa.Table]:
        results = dict(executor.map(run_call, [(job, function, *map(pack, tables)) for tables in calls]))
        return [unpack(results[position]) for position in range(len(calls))]

    with in_progress(progress, stage.name, len(inputs) + 1):  # the last step is `finish`
        try:
            with _naming(stage, range(len(inputs))):
                results = executor.map(make_partial, calls)
                parts = _in_order(results, lambda position: progress.advance(inputs[position].rows))
                total = _combined(parts, lambda tables: stage.combine(tables, job.config))
            with collector_paused():
                given = {**job.whole, "spread": spread} if stage.spreads else job.whole
                result = stage.finish(total, job.config, **given)
        except (StageError, ClusterError):
            raise
        except Exception as error:
            why = _why(error) if isinstance(error, TaskError) else cause(error)
            raise StageError(f"{stage.name} stopped: {why}") from error
        origin = Origin(identity.key(), job.provenance)
        receipts = write_tables(job.run, 0, stage.outputs, result, origin)
        progress.advance(0)
        return [receipts]


def _reusable(run: Path, tables: Sequence[str], keys: Sequence[str]) -> dict[int, Made]:
    """The receipts, by table, of each shard (by index) that is up to date in all `tables`. `keys`: one per shard."""
    with ThreadPoolExecutor(4) as threads:
        found = threads.map(partial(current_receipts, run, tables), range(len(keys)), keys)
        return {index: made for index, made in enumerate(found) if made is not None}


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
        for level in range(len(levels) + 1):
            if level == len(levels):
                levels.append([])
            levels[level].append(table)
            if len(levels[level]) < FAN_IN:
                break
            table, levels[level] = combine(levels[level]), []
    rest: list[pa.Table] = []
    for nodes in levels:
        rest = [combine(nodes + rest)] if len(nodes + rest) > 1 else nodes + rest
    return rest[0]


@contextmanager
def _naming(stage: Stage | ReduceStage, shards: Sequence[int]) -> Iterator[None]:
    """Turn the TaskError of call i into a StageError that names the shard with index `shards[i]`."""
    try:
        yield
    except TaskError as failed:
        shard = shard_path(Path(stage.input), shards[failed.position])
        raise StageError(f"{stage.name} stopped at {shard}: {_why(failed)}") from failed.__cause__


def _why(failed: TaskError) -> str:
    if failed.killed:
        return "its worker was killed each time it was tried (out of memory?)"
    return cause(failed.__cause__)


def cause(error: BaseException | None) -> str:
    """A one-line description of the error that a stage raised."""
    if isinstance(error, DamagedShardError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"


# what runs in workers


def make_shard(job: Job, index: int, sha256: str, key: str) -> Made:
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
        return write_tables(job.run, index, job.stage.outputs, _joined(made), Origin(key, job.provenance))


def batches(table: pa.Table, rows: int) -> Iterator[pa.Table]:
    """Cut a table into parts of at least `rows` rows (the last may be smaller), images unsplit; at least one part."""
    import numpy as np

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
    import pyarrow as pa

    if len(results) == 1:
        return results[0]
    counts: Counter[str] = Counter()
    for result in results:
        counts.update(result.counts)
    tables = {name: pa.concat_tables([result.tables[name] for result in results]) for name in results[0].tables}
    return StageResult({name: table.combine_chunks() for name, table in tables.items()}, counts)


def make_partial(job: Job, index: int, sha256: str) -> bytes:
    """The packed result of a ReduceStage's `partial` for shard `index` of its input, which has this sha256."""
    assert isinstance(job.stage, ReduceStage)
    table = job.read(index, sha256)
    with collector_paused():
        return pack(job.stage.partial(table, job.config))


def run_call(job: Job, function: Callable[..., pa.Table], *tables: bytes) -> bytes:
    """One call that a ReduceStage makes in a worker by `spread` (see Spread): tables and result packed."""
    job.code.check()
    with collector_paused():
        return pack(function(*map(unpack, tables), job.config, **job.whole))


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


@dataclass(frozen=True)
class SourceStage:
    """A stage that makes its shards, in order, from a source other than the shards of one table.

    name: the subcommand. module: whose functions make the rows (see engine.manifest.code_of). outputs: the schemas of
    the tables made, by name; the last is the primary table, and a result may lack all others. config: plain JSON of
    what determines the rows. inputs: a name and a hash for each file or table read. metadata: provenance (see
    Identity).

    parts: yields, for each shard in order, a function that makes it, which is not called if the shard is up to date.
    Nothing is written before the first is yielded, so errors of the source should be raised before. shards: the number
    of shards; None if it is known only after reading: then old shards are kept only if all are complete. unit: what
    progress counts; `parts` reports it. steps: steps of progress beyond one per shard, which `parts` reports, too.
    intact: whether the files that belong to a shard (pictures) are unchanged, given its index. check: called with the
    summed counters of the finished stage; raises ValueError if they must not be accepted.
    """

    name: str
    module: str
    outputs: Mapping[str, pa.Schema]
    config: Mapping[str, Any]
    inputs: Mapping[str, str]
    metadata: Mapping[str, str]
    parts: Callable[[], Parts]
    shards: int | None = None
    unit: str = "captions"
    steps: int = 0
    intact: Callable[[int], bool] = lambda index: True
    check: Callable[[Mapping[str, int]], None] = lambda counts: None


def run_source(stage: SourceStage, run: Path, *, progress: Progress, overwrite: bool = False) -> dict[str, int]:
    """Bring a stage's output in the folder `run` up to date with its source; returns its summed counters.

    Shards that are up to date are kept. Raises ValueError if `run` is a file, whatever `parts` and `check` raise,
    OtherConfigError if the output was made from something else and `overwrite` is not set, LockedError if another
    process writes into `run`, OSError if it cannot be written.
    """
    with locked(run):
        tables, code = tuple(stage.outputs), code_of(stage.module).sha256
        identity = Identity(stage.name, stage.config, dict(stage.metadata), tables, code, dict(stage.inputs))
        if not overwrite:
            refuse_other(run / tables[-1], identity)
        if stage.shards is None and (found := finished(run / tables[-1], identity)) is not None:
            with in_progress(progress, stage.name, None, unit=stage.unit):
                stage.check(found.counts)
            return dict(found.counts)
        origin = Origin(identity.key(), identity.provenance())
        made = _reusable(run, tables, [origin.key] * (stage.shards or 0))
        made = {index: receipts for index, receipts in made.items() if stage.intact(index)}
        total = None if stage.shards is None else stage.shards + stage.steps
        receipts: list[Made] = []
        with in_progress(progress, stage.name, total, len(made), stage.unit), closing(stage.parts()) as parts:
            for index, make in enumerate(parts):
                if index == 0:
                    prepare(run / tables[-1], identity, overwrite=overwrite)
                    remove_leftovers(run / MANIFESTS)
                if index not in made:
                    made[index] = write_tables(run, index, stage.outputs, make(), origin)
                    progress.advance(0)
                receipts.append(made[index])
            stage.check(summed_counts(each[tables[-1]] for each in receipts))
        return dict(finish(run, tables, identity, receipts).counts)
