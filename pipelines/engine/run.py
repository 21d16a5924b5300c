"""Bring the tables of a stage up to date: keep the shards that are (see engine.output), make the rest. A Stage makes a
shard of each shard of its input, a ReduceStage one of all, by the workers of an executor; `run_source` makes shards in
this process from anything else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing import parent_process
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from .cluster import Executor, report_done
from .errors import ClusterError, StageError, TaskError, cause
from .lock import locked
from .manifest import Config, Identity, check_code, code_of, describe
from .output import Output, ShardsOfTables
from .progress import Progress, Reports, ShardStatistics, Stopwatch, write_statistics
from .shards import Shard, shard_path
from .stage import ReduceStage, Stage, StageResult, collector_paused
from .tables import WholeTable, hash_inputs, package, provenance, shards_of

_last_stage: Stage | ReduceStage | None = None  # the stage that this process ran last
# How many partial results of a ReduceStage are combined at once.
FAN_IN = 8
Parts = Iterable[Callable[[], StageResult]]
Combine = Callable[[list[pa.Table]], pa.Table]


@dataclass(frozen=True)
class Execution:
    """How stages are run. overwrite: replace output of other input or settings. statistics: keep what shards took."""

    executor: Executor = field(default_factory=Executor)
    progress: Progress = field(default_factory=Progress)
    overwrite: bool = False
    statistics: bool = False


@dataclass(frozen=True)
class Job:
    """What all calls of one stage share. It is sent to the workers with each call.

    whole: the tables that the stage reads as a whole, by name, in addition to a shard of its input.
    """

    stage: Stage | ReduceStage
    config: Config
    output: Output
    whole: Mapping[str, WholeTable]

    def begin(self) -> None:
        """Prepare a call: a worker frees what the stage that it ran before has loaded, unless it is the same stage.

        Raises RuntimeError if the code in this process is not that of the main process.
        """
        check_code(self.output.identity.code, *self.stage.functions)
        # The main process frees nothing: it may run an earlier stage again, and need its model.
        if parent_process() is None:
            return
        global _last_stage
        earlier = _last_stage
        _last_stage = self.stage
        # A ReduceStage loads nothing that could be freed.
        if isinstance(earlier, Stage) and earlier.name != self.stage.name and earlier.free is not None:
            earlier.free()

    def read(self, shard: Shard) -> pa.Table:
        """Begin the call, and return the rows of a shard of the input. Raises DamagedShardError for a damaged shard."""
        self.begin()
        return shard.read(self.stage.columns)


def run_stage(
    stage: Stage | ReduceStage,
    run: Path,
    config: Config,
    execution: Execution,
    *,
    metadata: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, int]:
    """Bring a stage's output in `run` up to date with its input, config and code, on which alone its bytes depend.
    Shards that are up to date are kept.

    Args:
        stage: what makes the output.
        run: the folder of the run.
        config: settings of the stage.
        execution: where it runs, what is shown, whether it overwrites.
        metadata: provenance, besides that of inputs and config.

    Returns:
        The counters of the stage, summed over all shards.

    Raises:
        FileNotFoundError: the input is missing.
        ValueError: the input is unfinished.
        OtherConfigError: the output was made from something else, and `execution` does not overwrite.
        EngineError: a shard fails, workers are lost, the run is locked, or a whole table is damaged (then nothing is
            written).
    """
    with locked(run):
        input_tables = (stage.input, *stage.whole)
        hashes = hash_inputs(run, input_tables)
        identity = Identity(
            stage=stage.name,
            config=describe(config),
            metadata={**provenance(run, input_tables, config), **metadata},
            tables=tuple(stage.outputs),
            code=code_of(*stage.functions),
            inputs=hashes,
            sharded=stage.input if isinstance(stage, Stage) else "",
        )
        whole = {name: WholeTable((run / name).absolute(), hashes[name]) for name in stage.whole}
        # Shards of the input are checked as they are read. Whole tables are checked here, once for all workers.
        for table in whole.values():
            table.check()
        output = Output(run.absolute(), identity, stage.outputs, execution.overwrite)
        output.begin()
        make_shards = _run_map_stage if isinstance(stage, Stage) else _run_reduce_stage
        return output.finish(make_shards(Job(stage, config, output, whole), execution))


def _run_map_stage(job: Job, execution: Execution) -> list[ShardsOfTables]:
    """Make every shard of a Stage that is not up to date, in workers; returns all of them, by their numbers."""
    stage = job.stage
    output = job.output
    progress = execution.progress
    inputs = shards_of(output.run, stage.input)
    keys = [output.identity.key(shard.sha256) for shard in inputs]
    finished = output.all_current(keys)
    pending = [index for index in range(len(keys)) if index not in finished]  # position of a call -> index of a shard
    statistics: list[ShardStatistics] = []
    executor = execution.executor.for_shards(len(inputs) if pending else 0)

    def advance(position: int, captions: int) -> None:
        """Show that the call at `position` has done more captions: a part of the step that its shard is."""
        progress.advance(captions, captions / inputs[pending[position]].rows)

    with progress.stage(stage.name, len(keys), len(finished)):
        reports = Reports(advance)
        try:
            calls = [(job, index, inputs[index], keys[index]) for index in pending]
            for position, result in executor.map(make_shard, calls, reports):
                index = pending[position]
                finished[index] = result.shards
                if inputs[index].rows:
                    # Reports of a worker may come later than its result, or be lost: the rest counts now.
                    reports(position, inputs[index].rows)
                else:
                    progress.advance(0)  # a step, but no captions
                # a call reports once that it begins; each further time, its worker had died
                statistics.append(replace(result.statistics, retries=max(0, reports.begun[position] - 1)))
        except TaskError as failed:
            raise _stage_error(stage, pending[failed.position], failed) from failed.__cause__
        finally:
            if execution.statistics and statistics:
                write_statistics(output.run, stage.name, statistics)
    return [finished[index] for index in range(len(keys))]


def _run_reduce_stage(job: Job, execution: Execution) -> list[ShardsOfTables]:
    """Make the only shard of a ReduceStage, unless it is up to date; returns it."""
    progress = execution.progress
    stage = job.stage
    assert isinstance(stage, ReduceStage)
    current = job.output.current(0, job.output.key)
    if current is not None:
        with progress.stage(stage.name, 1, 1):
            return [current]
    inputs = shards_of(job.output.run, stage.input)
    executor = execution.executor.for_shards(len(inputs))

    def spread(function: Callable[..., pa.Table], calls: Sequence[Sequence[pa.Table]]) -> list[pa.Table]:
        """Call a function on several tuples of tables in workers, for the stage's `finish`; results in their order."""
        packed_calls = [(job, function, *map(pack, tables)) for tables in calls]
        results = dict(executor.map(run_call, packed_calls))
        return [unpack(results[position]) for position in range(len(calls))]

    total = None
    with progress.stage(stage.name, len(inputs) + 1):  # the last step is `finish`
        try:
            results = executor.map(make_partial, [(job, shard) for shard in inputs])
            partial_results = _unpack_in_order(results, lambda position: progress.advance(inputs[position].rows))
            total = _combine_in_tree(partial_results, lambda tables: stage.combine(tables, job.config))
            with collector_paused():
                spreading = {"spread": spread} if stage.spreads else {}
                result = stage.finish(total, job.config, **job.whole, **spreading)
        except ClusterError:
            raise
        except Exception as error:
            # Without a total a call of `partial` has failed, and its position is that of a shard. Later, in `finish`,
            # it is that of a call of `spread`.
            if isinstance(error, TaskError) and total is None:
                raise _stage_error(stage, error.position, error) from error.__cause__
            raise StageError(f"{stage.name} stopped: {cause(error)}") from error
        shards = job.output.write(0, result)
        progress.advance(0)  # the step is done, with no further captions
        return [shards]


def _stage_error(stage: Stage | ReduceStage, index: int, failed: TaskError) -> StageError:
    """The error that names the stage, and the shard of its input (by number) at which it failed."""
    return StageError(f"{stage.name} stopped at {shard_path(Path(stage.input), index)}: {failed}")


def _unpack_in_order(results: Iterator[tuple[int, bytes]], report_arrival: Callable[[int], None]) -> Iterator[pa.Table]:
    """Unpack tables that come in any order, and yield them in the order of their positions.

    What is made of them then has the same bytes however many workers there are.

    Args:
        results: position and packed table, as the workers finish.
        report_arrival: called with each position, as it comes.
    """
    # The tables that came before their turn, by position.
    early: dict[int, bytes] = {}
    next_position = 0
    for position, packed in results:
        early[position] = packed
        report_arrival(position)
        while next_position in early:
            yield unpack(early.pop(next_position))
            next_position += 1


def _combine_in_tree(tables: Iterator[pa.Table], combine: Combine) -> pa.Table:
    """Combine all tables into one, in a tree of FAN_IN branches; `combine` makes one table of several.

    In a tree each row is combined few times, and few tables are in memory at once.
    """
    levels: list[list[pa.Table]] = []  # levels[k] holds up to FAN_IN - 1 tables, each of FAN_IN ** k of the input
    for table in tables:
        for level in levels:
            level.append(table)
            if len(level) < FAN_IN:
                break
            table = combine(level)  # goes up to the next level
            level.clear()
        else:
            levels.append([table])
    rest: list[pa.Table] = []
    # From low to high: tables of higher levels come earlier in the input.
    for level in levels:
        rest = [*level, *rest]
        rest = [combine(rest)] if len(rest) > 1 else rest
    return rest[0]


# what runs in workers


class ShardResult(NamedTuple):
    """What a worker sends back for one shard: what it wrote for each table, and what that took."""

    shards: ShardsOfTables
    statistics: ShardStatistics


def make_shard(job: Job, index: int, shard: Shard, key: str) -> ShardResult:
    """Make one shard of each output table of a Stage, from a shard of its input.

    Args:
        job: the stage, its settings and its tables.
        index: the number of the shard.
        shard: of the input.
        key: of the new shards: a hash of all that they are made from.
    """
    assert isinstance(job.stage, Stage)
    stopwatch = Stopwatch()
    table = job.read(shard)
    results: list[StageResult] = []
    done = 0
    # A report of 0 rows says that the shard is begun; a second such report, that a worker died and it began again.
    report_done(done)
    for batch in batches(table, job.stage.batch or len(table)):
        with collector_paused():
            # `whole`: the tables that the stage reads whole, each as an argument of its name
            results.append(job.stage.apply(batch, job.config, **job.whole))
        done += len(batch)
        report_done(done)
    shards = job.output.write(index, _join_results(results), key)
    primary_table = job.output.folder.name
    return ShardResult(shards, stopwatch.statistics(index, shards[primary_table].counts))


def batches(table: pa.Table, rows: int) -> Iterator[pa.Table]:
    """Cut a table into parts of at least `rows` rows (the last may be smaller), images unsplit; at least one part."""
    first = 0  # row where the current part begins
    if len(table) > rows:
        images = table["image_id"].to_numpy()
        starts_of_images = np.flatnonzero(images[1:] != images[:-1]) + 1
        for start in starts_of_images.tolist():
            if start - first >= rows:
                yield table.slice(first, start - first)
                first = start
    yield table.slice(first)


def _join_results(results: Sequence[StageResult]) -> StageResult:
    """The results for the batches of a shard in one: rows are concatenated, counters summed."""
    if len(results) == 1:
        return results[0]
    counts: Counter[str] = Counter()
    for result in results:
        counts.update(result.counts)
    tables = {name: pa.concat_tables([result.tables[name] for result in results]) for name in results[0].tables}
    return StageResult({name: table.combine_chunks() for name, table in tables.items()}, counts)


def make_partial(job: Job, shard: Shard) -> bytes:
    """What a ReduceStage counts in one shard of its input, such as words: a small table, packed into bytes.

    Those of all shards are combined into one table, from which the stage makes its result.
    """
    assert isinstance(job.stage, ReduceStage)
    table = job.read(shard)
    with collector_paused():
        return pack(job.stage.partial(table, job.config))


def run_call(job: Job, function: Callable[..., pa.Table], *tables: bytes) -> bytes:
    """Call a function in a worker, for a ReduceStage that spreads its work (see Spread).

    Args:
        job: of the stage, whose configuration and whole tables the function gets as well.
        function: makes a table from tables.
        tables: its arguments, as `pack` made them into bytes.

    Returns:
        Its result, packed.
    """
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
    # Copied once: Arrow's buffers are aligned, those that arrive from other processes need not be.
    aligned = pa.allocate_buffer(len(data))
    pa.FixedSizeBufferWriter(aligned).write(data)
    return pa.ipc.open_stream(aligned).read_all()


def run_source(
    run: Path,
    name: str,
    outputs: Mapping[str, pa.Schema],
    parts: Parts,
    config: Config,
    execution: Execution,
    *,
    inputs: Mapping[str, str] | Sequence[str] = (),
    metadata: Mapping[str, str] = MappingProxyType({}),
    unit: str = "captions",
    steps: int = 0,
    intact: Callable[[int], bool] = lambda index: True,
    check: Callable[[Mapping[str, int]], None] = lambda counts: None,
) -> dict[str, int]:
    """Bring a stage up to date that reads something else than the shards of one table; it is run in this process.

    Args:
        run: the folder of the run.
        name: of the stage.
        outputs: the schemas of the tables made, by name; the last is the primary table; a result may omit others.
        parts: for each shard a function that makes it, called unless the shard is up to date. If it is no sequence, old
            shards are kept only if all are complete, and nothing is written before the first is yielded.
        config: what determines the rows (see engine.manifest.describe).
        inputs: the tables of the run that are read; or the hash of each file or table, by its name.
        metadata: provenance, besides the version of negcap.
        unit: what the progress display counts; the functions of `parts` report these.
        steps: how many further steps they report, beyond one per shard.
        intact: whether the files that belong to a shard (pictures) are unchanged, given its index.
        check: called with the summed counters of the finished stage; raises ValueError if they must not be accepted.
        execution: where progress is shown, and whether other output is overwritten.

    Returns:
        The summed counters.

    Raises:
        ValueError: `run` is a file; and whatever `parts` and `check` raise.
        OtherConfigError: the output was made from something else, and `execution` does not overwrite.
        LockedError: another command writes into `run`.
        OSError: a file cannot be written.
    """
    progress = execution.progress
    # The number of shards, if it is known before all are made.
    number = len(parts) if isinstance(parts, Sequence) else None
    with locked(run):
        hashes = inputs if isinstance(inputs, Mapping) else hash_inputs(run, inputs)
        identity = Identity(
            stage=name,
            config=describe(config),
            metadata={**package(), **metadata},
            tables=tuple(outputs),
            code=code_of(),
            inputs=dict(hashes),
        )
        output = Output(run, identity, outputs, execution.overwrite)
        # Without a number it is not known which shards the source would give now: all are kept, or none.
        complete = output.complete_manifest() if number is None else None
        if complete is not None:
            with progress.stage(name, None, unit=unit):
                check(complete.counts)
            return dict(complete.counts)
        # All shards have the same key: each depends on all inputs.
        current = output.all_current([output.key] * (number or 0))
        kept = {index: shards for index, shards in current.items() if intact(index)}
        finished: list[ShardsOfTables] = []
        with progress.stage(name, None if number is None else number + steps, len(kept), unit):
            for index, make in enumerate(parts):
                # Not earlier: `parts` may fail to read its source, and then nothing must be written.
                if index == 0:
                    output.begin()
                if index in kept:
                    finished.append(kept[index])
                else:
                    finished.append(output.write(index, make()))
                    progress.advance(0)  # one more shard; `make` has reported its captions itself
            check(output.summed_counts(finished))
        return output.finish(finished)
