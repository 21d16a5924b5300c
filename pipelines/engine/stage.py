"""What a stage is: pure functions from an input table to output tables; and how its progress is reported."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

BATCH = 200  # captions: of a parser's or the operators' work, about a second


@dataclass(frozen=True)
class StageResult:
    """What a stage makes of one shard: a table for each of its outputs, and flat counters to be summed."""

    tables: Mapping[str, pa.Table]
    counts: Mapping[str, int]


@dataclass(frozen=True)
class Stage:
    """A pure function over one shard of the table `input`.

    name: the subcommand and its module in negcap.pipelines.stages. outputs: the tables made, by name, each with its
    schema; the last one is the primary one: its shard is written last, and its manifest is the stage's.
    apply: an importable function (table, config, **whole) -> StageResult, called in a worker; its counts hold
    `captions`, the number of captions seen. columns: the input columns that `apply` reads; None for all. whole: tables
    that it reads whole beside the shard (the lexicon): each is given as a keyword argument, a WholeTable.
    batch: `apply` gets a shard in batches of at least so many rows, all captions of an image in one, and what it makes
    of them is joined: an image's rows must not depend on those beside it. None: the whole shard at once.
    """

    name: str
    input: str
    outputs: Mapping[str, pa.Schema]
    apply: Callable[..., StageResult]
    columns: tuple[str, ...] | None = None
    whole: tuple[str, ...] = ()
    batch: int | None = BATCH

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """What makes its rows: their modules and all that these import are the stage's code (see engine.code)."""
        return (self.apply,)


@dataclass(frozen=True)
class ReduceStage:
    """A table of one shard made from all shards of the table `input`: partial results, combined in a tree.

    partial: (table, config) -> a small pyarrow table, of each shard, in a worker. combine: (list of such tables,
    config) -> one such table, associative, in a worker. finish: (that table, config, **whole) -> StageResult. spreads:
    `finish` gets one more keyword argument, `spread`, a Spread, to do in the workers what takes long. The other fields
    are those of Stage; all three functions are importable.
    """

    name: str
    input: str
    outputs: Mapping[str, pa.Schema]
    partial: Callable[[pa.Table, Any], pa.Table]
    combine: Callable[[list[pa.Table], Any], pa.Table]
    finish: Callable[..., StageResult]
    columns: tuple[str, ...] | None = None
    whole: tuple[str, ...] = ()
    spreads: bool = False

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """What makes its rows, as of a Stage."""
        return (self.partial, self.combine, self.finish)


class Spread(Protocol):
    """Runs calls that the `finish` of a ReduceStage has to make in the workers."""

    def __call__(self, function: Callable[..., pa.Table], calls: Sequence[Sequence[pa.Table]]) -> list[pa.Table]:
        """Return the tables function(*tables, config, **whole) of all calls, in their order; function is importable."""


class Progress(Protocol):
    """What is called as a stage gets on."""

    def begin(self, stage: str, total: int | None, reused: int = 0, unit: str = "captions") -> None:
        """A stage starts: its steps (most often shards) in all, of which `reused` were current.

        total: None where it is not known. unit: what `advance` counts.
        """

    def advance(self, captions: int, steps: float = 1) -> None:
        """So many captions (or other units) more are done, and so many steps, or what part of one."""

    def end(self) -> None:
        """The stage has finished successfully."""

    def fail(self) -> None:
        """The stage has stopped with an error, which is reported elsewhere."""
