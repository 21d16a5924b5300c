"""What a stage is: a pure function over shards, or over all of them; what it makes, and who is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

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

    name: the subcommand and the module in negcap.pipelines.stages.
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
