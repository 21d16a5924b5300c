"""What a stage is (pure functions from input tables to output tables), and how to run one on tables in memory."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from .manifest import Config

BATCH = 500  # captions; a parser or the operators take a second or less for them


@dataclass(frozen=True)
class StageResult:
    """The output of a stage for one shard: tables by name, and counters, which are summed over all shards."""

    tables: Mapping[str, pa.Table]
    counts: Mapping[str, int]


@dataclass(frozen=True)
class Stage:
    """A stage that makes each output shard from one shard of the table `input`.

    Attributes:
        name: the subcommand.
        input: the table whose shards are read.
        outputs: schemas by table; the last is the primary one, written last, with the manifest.
        apply: an importable pure function (table, config, **whole) -> StageResult, with a counter `captions`, called in
            a worker.
        columns: those of the input that are read; None: all.
        whole: tables read besides, keyword arguments of type WholeTable.
        batch: least rows per call, None: a shard. No image is split; rows must not depend on other images.
        free: frees what `apply` has loaded and other stages do not need; called in a worker process that ran it, when
            that begins another one.
    """

    name: str
    input: str
    outputs: Mapping[str, pa.Schema]
    apply: Callable[..., StageResult]
    columns: tuple[str, ...] | None = None
    whole: tuple[str, ...] = ()
    batch: int | None = BATCH
    free: Callable[[], None] | None = None

    @property
    def functions(self) -> tuple[Callable[..., object], ...]:
        """The functions that make the rows."""
        return (self.apply,)


@dataclass(frozen=True)
class ReduceStage:
    """A stage that makes tables of a single shard from all of `input`, such as counts over a corpus. Its three
    functions are importable.

    Attributes:
        partial: (table, config) -> a small table, of each shard, in a worker.
        combine: (list of such tables, config) -> one; associative, since it runs in a tree.
        finish: (the combined table, config, **whole) -> StageResult.
        spreads: `finish` gets `spread` (a Spread), too, to run slow parts in workers.
        name, input, outputs, columns, whole: as of Stage.
    """

    name: str
    input: str
    outputs: Mapping[str, pa.Schema]
    partial: Callable[..., pa.Table]
    combine: Callable[..., pa.Table]
    finish: Callable[..., StageResult]
    columns: tuple[str, ...] | None = None
    whole: tuple[str, ...] = ()
    spreads: bool = False

    @property
    def functions(self) -> tuple[Callable[..., object], ...]:
        """The functions that make the rows."""
        return (self.partial, self.combine, self.finish)


# Runs, in worker processes, the calls that the `finish` of a ReduceStage makes through it: (function, the tables of
# each call) -> function(*tables, config, **whole) of each, in their order. The function is importable; config and whole
# are those of the stage.
Spread = Callable[[Callable[..., pa.Table], Sequence[Sequence[pa.Table]]], list[pa.Table]]


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause garbage collection while a shard is made: rows have no cycles, and the search takes a fourth of it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@dataclass(frozen=True, eq=False)
class TableInMemory:
    """A table in memory that a stage reads whole, as a WholeTable; equal to another with the same rows, for caches."""

    table: pa.Table

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableInMemory) and (self.table is other.table or self.table.equals(other.table))

    def __hash__(self) -> int:
        return hash((self.table.num_rows, *self.table.column_names))

    def read(self, columns: Sequence[str] | None = None, encoded: Sequence[str] = ()) -> pa.Table:
        """All rows of the table; columns: only these, if any are given. encoded: has no effect."""
        return self.table if columns is None else self.table.select(list(columns))


def run_in_memory(stage: Stage | ReduceStage, tables: Mapping[str, pa.Table], config: Config) -> StageResult:
    """Run a stage on its input and whole tables in memory, by name; the rows are as those of shards on disk."""
    table = tables[stage.input]
    if stage.columns is not None:
        table = table.select(list(stage.columns))
    whole = {name: TableInMemory(tables[name]) for name in stage.whole}

    def spread(function: Callable[..., pa.Table], calls: Sequence[Sequence[pa.Table]]) -> list[pa.Table]:
        return [function(*call, config, **whole) for call in calls]

    with collector_paused():
        if isinstance(stage, Stage):
            return stage.apply(table, config, **whole)
        spreading = {"spread": spread} if stage.spreads else {}
        return stage.finish(stage.partial(table, config), config, **whole, **spreading)
