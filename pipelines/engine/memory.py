"""Run stages on tables in memory, in this process: the rows are those that the stages make of shards on disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .stage import ReduceStage, Stage, StageResult
from .work import collector_paused

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class TableInMemory:
    """A table that a stage reads whole, in memory, in place of engine.tables.WholeTable.

    Equal to another with the same rows, so that what is loaded from a table is loaded once for equal tables.
    """

    table: pa.Table

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableInMemory) and (self.table is other.table or self.table.equals(other.table))

    def __hash__(self) -> int:
        return hash((self.table.num_rows, *self.table.column_names))

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows of the table; columns: only these, if any are given."""
        return self.table if columns is None else self.table.select(list(columns))


def run_in_memory(stage: Stage | ReduceStage, tables: Mapping[str, pa.Table], config: Any) -> StageResult:
    """Run a stage on its whole input at once.

    tables: by name, the stage's input and the tables that it reads whole. Raises KeyError when one is missing, and
    whatever the stage's functions raise.
    """
    with collector_paused():
        return _run(stage, tables, config)


def _run(stage: Stage | ReduceStage, tables: Mapping[str, pa.Table], config: Any) -> StageResult:
    table = tables[stage.input]
    if stage.columns is not None:
        table = table.select(list(stage.columns))
    whole: dict[str, Any] = {name: TableInMemory(tables[name]) for name in stage.whole}
    if isinstance(stage, Stage):
        return stage.apply(table, config, **whole)

    def spread(function: Callable[..., pa.Table], calls: Sequence[Sequence[pa.Table]]) -> list[pa.Table]:
        return [function(*call, config, **whole) for call in calls]

    given = {**whole, "spread": spread} if stage.spreads else whole
    return stage.finish(stage.partial(table, config), config, **given)
