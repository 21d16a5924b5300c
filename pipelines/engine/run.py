"""Run a stage over the shards of its input: skip what is current, do the rest, record what was made."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pipelines.engine.cluster import Executor
from pipelines.engine.errors import DamagedShardError, StageError, TaskError
from pipelines.engine.manifest import (
    Identity,
    describe,
    finish,
    hash_code,
    hash_schema,
    hash_table,
    manifest_of,
    prepare,
    receipts,
)
from pipelines.engine.shards import (
    Receipt,
    WholeTable,
    current_receipts,
    list_shards,
    read_shard,
    remove_temporary,
    shard_path,
    write_shard,
)

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class StageResult:
    """What a stage makes of one shard: a table for each of its outputs, and flat counters to be summed."""

    tables: Mapping[str, pa.Table]
    counts: Mapping[str, int]


@dataclass(frozen=True)
class Stage:
    """One verb: a pure function over one shard of `input`.

    name: the subcommand and the module in pipelines.stages.
    outputs: table folder -> schema; the last is the primary one, written last, with the manifest.
    apply: an importable function (table, config, **whole) -> StageResult, called in a worker. Its counts hold
        `captions`, the number of captions seen.
    code: modules, packages and files (`augment/data/x.toml`) whose content is part of the output's
    identity. columns: the input columns that apply reads; None for all. whole: tables read whole beside the
    shard (the lexicon): apply gets each as a keyword argument `WholeTable`,
        a hashable reference to cache by.
    """

    name: str
    input: str
    outputs: Mapping[str, pa.Schema]
    apply: Callable[..., StageResult]
    code: tuple[str, ...]
    columns: tuple[str, ...] | None = None
    whole: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReduceStage:
    """One verb that makes one shard of a whole table: partial results of every shard, combined in a tree.

    partial: (table, config) -> a small pyarrow table, in a worker; combine: (list of such tables, config) -> one
    such table, associative, in a worker; finish: (that table, config, **whole) -> StageResult. With `spreads`, finish
    gets one more keyword argument, `spread`, to have the workers do what takes long. The other fields are those of
    Stage.
    """

    name: str
    input: str
    outputs: Mapping[str, pa.Schema]
    partial: Callable[[pa.Table, Any], pa.Table]
    combine: Callable[[list[pa.Table], Any], pa.Table]
    finish: Callable[..., StageResult]
    code: tuple[str, ...]
    columns: tuple[str, ...] | None = None
    whole: tuple[str, ...] = ()
    spreads: bool = False


class Spread(Protocol):
    """What spreads the work of a `finish` over the workers."""

    def __call__(self, function: Callable[..., pa.Table], calls: Sequence[Sequence[pa.Table]]) -> list[pa.Table]:
        """function(*tables, config, **whole) -> a table, of every call, in their order; an importable function."""


class Progress(Protocol):
    """Who is told of what is done."""

    def begin(self, stage: str, total: int | None, reused: int = 0, unit: str = "captions") -> None:
        """A stage starts: shards to do in all, of which `reused` were current; `unit` is what it counts."""

    def advance(self, captions: int, shards: int = 1) -> None:
        """Shards are done, with so many captions (or other units) in them."""

    def end(self) -> None:
        """The stage has ended, well or not."""


def run_stage(
    stage: Stage | ReduceStage,
    run: Path,
    config: Any,
    executor: Executor,
    *,
    metadata: Mapping[str, str],
    progress: Progress,
    overwrite: bool = False,
) -> dict[str, int]:
    """Bring a stage's output in `run` up to date with its input and config; returns its summed counters.

    Shards that are current are kept, so an interrupted run goes on and a finished one costs only the
    hashing. The result's bytes depend on the input and the config alone, never on the executor. `metadata`
    is provenance for the Parquet files. Raises FileNotFoundError when the input is not there,
    OtherConfigError when the output was made from something else and `overwrite` is not given, EngineError
    when a shard fails or the workers are lost.
    """
    identity = identify(stage, run, config, metadata)
    tables = tuple(stage.outputs)
    prepare(run / tables[-1], identity, overwrite=overwrite)
    for table in tables:
        remove_temporary(run / table)
    if isinstance(stage, ReduceStage):
        finished = _reduce(stage, run, config, executor, identity, progress)
    else:
        finished = _map(stage, run, config, executor, identity, progress)
    return dict(finish(run, tables, identity, finished).counts)


def identify(stage: Stage | ReduceStage, run: Path, config: Any, metadata: Mapping[str, str]) -> Identity:
    """All that decides the stage's output; FileNotFoundError when an input is missing or unfinished."""
    inputs = hash_inputs(stage.name, run, (stage.input, *stage.whole))
    return Identity(
        stage=stage.name,
        config=describe(config),
        metadata=dict(metadata),
        schemas={table: hash_schema(schema) for table, schema in stage.outputs.items()},
        code=hash_code(stage.code),
        inputs=inputs,
        sharded=stage.input if isinstance(stage, Stage) else "",
    )


def hash_inputs(name: str, run: Path, tables: Sequence[str]) -> dict[str, str]:
    """The hash of every table that `name` reads; FileNotFoundError when one is missing or unfinished."""
    for table in tables:
        manifest = manifest_of(run, table)
        if manifest is None or not manifest.complete:
            state = "which is unfinished" if list_shards(run / table) else "which is not there"
            raise FileNotFoundError(f"{name} needs {run / table}, {state}: run its stage first")
    return {table: hash_table(run, table) for table in tables}


def _map(
    stage: Stage, run: Path, config: Any, executor: Executor, identity: Identity, progress: Progress
) -> Sequence[Mapping[str, Receipt]]:
    """Make every shard of a Stage that is not current; the receipts of all."""
    inputs = receipts(run, stage.input)
    keys = [identity.key(receipt.sha256) for receipt in inputs]
    finished = _current(run, tuple(stage.outputs), keys)
    pending = [index for index in range(len(keys)) if index not in finished]
    progress.begin(stage.name, len(keys), len(finished))
    try:
        if pending:
            shared = (stage, config, run.absolute(), _whole(stage, run, identity), identity.provenance(), identity.code)
            calls = [(*shared, index, inputs[index].sha256, keys[index]) for index in pending]
            with _naming(stage, pending):
                for position, made in executor.map(make_shard, calls):
                    finished[pending[position]] = made
                    progress.advance(made[tuple(stage.outputs)[-1]].counts.get("captions", 0))
    finally:
        progress.end()
    return [finished[index] for index in range(len(keys))]


def _whole(stage: Stage | ReduceStage, run: Path, identity: Identity) -> dict[str, WholeTable]:
    """References to the tables that a stage reads whole."""
    return {name: WholeTable((run / name).absolute(), identity.inputs[name]) for name in stage.whole}


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
    with _collector_paused():
        result = stage.apply(table, config, **whole)
    return _write(stage.outputs, result, run, index, key, provenance)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """No garbage collection within a shard: it is small, its rows hold no cycles, and tracing them costs a fourth."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _reduce(
    stage: ReduceStage, run: Path, config: Any, executor: Executor, identity: Identity, progress: Progress
) -> Sequence[Mapping[str, Receipt]]:
    """Make the one shard of a ReduceStage, unless it is current; its receipts."""
    key = identity.key()
    finished = _current(run, tuple(stage.outputs), [key])
    if finished:
        progress.begin(stage.name, 1, 1)
        progress.end()
        return [finished[0]]
    inputs = receipts(run, stage.input)
    shared = (stage, config, run.absolute(), identity.code)
    calls = [(*shared, index, receipt.sha256) for index, receipt in enumerate(inputs)]
    progress.begin(stage.name, len(calls))
    try:
        with _naming(stage, range(len(calls))):
            combine = partial(combine_partials, stage, config)
            total = executor.map_reduce(
                make_partial, calls, combine, lambda position: progress.advance(inputs[position].rows)
            )
        whole = _whole(stage, run, identity)

        def spread(function: Callable[..., pa.Table], calls: Sequence[Sequence[pa.Table]]) -> list[pa.Table]:
            packed = [(stage.code, identity.code, config, whole, function, *map(_pack, tables)) for tables in calls]
            made = dict(executor.map(run_call, packed))
            return [_unpack(made[position]) for position in range(len(packed))]

        try:
            with _collector_paused():
                given = {**whole, "spread": spread} if stage.spreads else whole
                result = stage.finish(_unpack(total), config, **given)
        except TaskError as failed:
            raise StageError(f"{stage.name} stopped: {_why(failed)}") from failed.__cause__
        except Exception as error:
            raise StageError(f"{stage.name} stopped: {cause(error)}") from error
        return [_write(stage.outputs, result, run, 0, key, identity.provenance())]
    finally:
        progress.end()


def make_partial(stage: ReduceStage, config: Any, run: Path, code: str, index: int, sha256: str) -> bytes:
    """One shard's part of a ReduceStage's result, in a worker: a table as it travels."""
    _check_code(stage.code, code)
    table = read_shard(shard_path(run / stage.input, index), stage.columns, sha256=sha256)
    with _collector_paused():
        return _pack(stage.partial(table, config))


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
    with _collector_paused():
        return _pack(function(*map(_unpack, tables), config, **whole))


@lru_cache
def _check_code(names: tuple[str, ...], expected: str) -> None:
    """Raise RuntimeError on a worker (of a running scheduler) whose negcap is not the one that gives the orders."""
    if hash_code(names) != expected:
        raise RuntimeError("this worker has another version of negcap's code: install the same and restart it")


def combine_partials(stage: ReduceStage, config: Any, partials: list[bytes]) -> bytes:
    """One of several parts, in a worker."""
    return _pack(stage.combine([_unpack(part) for part in partials], config))


def _pack(table: pa.Table) -> bytes:
    """A table as Arrow IPC, compressed; Dask's own way leaves buffers where Arrow's kernels complain of alignment."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


def _unpack(data: bytes) -> pa.Table:
    import pyarrow as pa

    aligned = pa.allocate_buffer(len(data))
    pa.FixedSizeBufferWriter(aligned).write(data)
    return pa.ipc.open_stream(aligned).read_all()


def _write(
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


def _current(run: Path, tables: Sequence[str], keys: Sequence[str]) -> dict[int, dict[str, Receipt]]:
    """The receipts of the shards that need not be made again, by number. Hashing is spread over threads."""
    with ThreadPoolExecutor(4) as threads:
        found = threads.map(partial(current_receipts, run, tables), range(len(keys)), keys)
        return {index: shard for index, shard in enumerate(found) if shard is not None}


@contextmanager
def _naming(stage: Stage | ReduceStage, shards: Sequence[int]) -> Iterator[None]:
    """Turn the failure of call number i into a StageError that names shard `shards[i]`."""
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
    """What a stage raised, in one line."""
    if isinstance(error, DamagedShardError):
        return f"{error}; run the stage that makes it again"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
