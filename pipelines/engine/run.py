"""Run a stage on the shards of its input: keep output that is up to date, make the rest, record what was made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .cluster import Executor
from .code import Code, code_of
from .errors import DamagedShardError, StageError, TaskError
from .fence import lock_of
from .identity import Identity, hash_schema
from .lock import locked
from .manifest import describe, finish, manifest_of, prepare
from .progress import in_progress
from .reports import ShardProgress
from .shards import RECEIPTS, Origin, Receipt, current_receipts, list_shards, remove_temporary, shard_path
from .stage import Progress, ReduceStage, Stage
from .statistics import Measured, measured, with_counts, write_statistics
from .tables import WholeTable, hash_finished, no_table, shards_of
from .work import (
    Job,
    collector_paused,
    combine_partials,
    make_partial,
    make_shard,
    pack,
    run_call,
    unpack,
    write_tables,
)

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Execution:
    """How stages are run.

    overwrite: whether to replace output that was made from other input or settings. statistics: whether to keep what
    each shard took (see engine.statistics).
    """

    executor: Executor
    progress: Progress
    overwrite: bool = False
    statistics: bool = False


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
        code = code_of(*stage.functions)
        identity = identify(stage, run, config, metadata, code)
        tables = tuple(stage.outputs)
        whole = {name: WholeTable((run / name).absolute(), identity.inputs[name]) for name in stage.whole}
        for read_whole in whole.values():
            read_whole.check()
        prepare(run / tables[-1], identity, overwrite=execution.overwrite)
        for table in tables:
            remove_temporary(run / table)
        job = Job(stage, config, run.absolute(), whole, code, identity.provenance(), lock_of(run))
        make = _reduce if isinstance(stage, ReduceStage) else _map
        finished = make(job, execution, identity)
        return dict(finish(run, tables, identity, finished).counts)


def identify(stage: Stage | ReduceStage, run: Path, config: Any, metadata: Mapping[str, str], code: Code) -> Identity:
    """The identity of a stage's output: what determines its bytes. Raises FileNotFoundError when an input is missing or
    unfinished.
    """
    inputs = hash_inputs(stage.name, run, (stage.input, *stage.whole))
    return Identity(
        stage=stage.name,
        config=describe(config),
        metadata=dict(metadata),
        schemas={table: hash_schema(schema) for table, schema in stage.outputs.items()},
        code=code.sha256,
        inputs=inputs,
        sharded=stage.input if isinstance(stage, Stage) else "",
    )


def hash_inputs(name: str, run: Path, tables: Sequence[str]) -> dict[str, str]:
    """The hash of each table that stage `name` reads. Raises FileNotFoundError if one is missing or unfinished."""
    hashes = {}
    for table in tables:
        manifest = manifest_of(run, table)
        if manifest is None or not manifest.complete:
            if not list_shards(run / table):
                raise no_table(run, table)
            state = "is unfinished" if manifest is not None else f"has no manifest in {RECEIPTS}/{table}"
            raise FileNotFoundError(f"{name} needs {run / table}, which {state}: run its stage first")
        hashes[table] = hash_finished(run, table, manifest)
    return hashes


def _map(job: Job, execution: Execution, identity: Identity) -> Sequence[Mapping[str, Receipt]]:
    """Make every shard of a Stage that is not up to date; returns the receipts of all."""
    stage = job.stage
    inputs = shards_of(job.run, stage.input)
    keys = [identity.key(shard.sha256) for shard in inputs]
    finished = reusable(job.run, tuple(stage.outputs), keys)
    pending = [index for index in range(len(keys)) if index not in finished]
    shards = ShardProgress(execution.progress, [inputs[index].rows for index in pending])
    lines: list[Measured] = []
    with in_progress(execution.progress, stage.name, len(keys), len(finished)):
        try:
            if pending:
                calls = [(make_shard, index, job, index, inputs[index].sha256, keys[index]) for index in pending]
                with _naming(stage, pending):
                    for position, (made, line) in execution.executor.map(measured, calls, shards.reported):
                        finished[pending[position]] = made
                        counts = made[tuple(stage.outputs)[-1]].counts
                        shards.finished(position, counts.get("captions", 0))
                        lines.append(with_counts(line, counts, shards.retries(position)))
        finally:
            shards.close()
            if execution.statistics:
                write_statistics(job.run, stage.name, lines)
    return [finished[index] for index in range(len(keys))]


def _reduce(job: Job, execution: Execution, identity: Identity) -> Sequence[Mapping[str, Receipt]]:
    """Make the only shard of a ReduceStage, unless it is up to date; returns its receipts."""
    executor, progress = execution.executor, execution.progress
    stage = job.stage
    assert isinstance(stage, ReduceStage)
    key = identity.key()
    finished = reusable(job.run, tuple(stage.outputs), [key])
    if finished:
        with in_progress(progress, stage.name, 1, 1):
            return [finished[0]]
    inputs = shards_of(job.run, stage.input)
    calls = [(job, index, shard.sha256) for index, shard in enumerate(inputs)]
    with in_progress(progress, stage.name, len(calls) + 1):  # the last step is `finish`
        with _naming(stage, range(len(calls))):
            combine = partial(combine_partials, stage, job.config)
            total = executor.map_reduce(
                make_partial, calls, combine, lambda position: progress.advance(inputs[position].rows)
            )

        def spread(function: Callable[..., pa.Table], calls: Sequence[Sequence[pa.Table]]) -> list[pa.Table]:
            made = dict(executor.map(run_call, [(job, function, *map(pack, tables)) for tables in calls]))
            return [unpack(made[position]) for position in range(len(calls))]

        try:
            with collector_paused():
                given = {**job.whole, "spread": spread} if stage.spreads else job.whole
                result = stage.finish(unpack(total), job.config, **given)
        except TaskError as failed:
            raise StageError(f"{stage.name} stopped: {_why(failed)}") from failed.__cause__
        except Exception as error:
            raise StageError(f"{stage.name} stopped: {cause(error)}") from error
        made = write_tables(job.run, 0, stage.outputs, result, Origin(key, job.provenance))
        progress.advance(0)
        return [made]


def reusable(run: Path, tables: Sequence[str], keys: Sequence[str]) -> dict[int, dict[str, Receipt]]:
    """The receipts, by table, of each shard (by index) that is up to date in all `tables`. `keys`: one per shard."""
    with ThreadPoolExecutor(4) as threads:
        found = threads.map(partial(current_receipts, run, tables), range(len(keys)), keys)
        return {index: shard for index, shard in enumerate(found) if shard is not None}


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
