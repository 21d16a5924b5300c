"""Run stages that make their shards from files, from a whole table or from random numbers, not shard by shard."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .code import code_of
from .identity import Identity, hash_schema
from .lock import locked
from .manifest import finish, finished, prepare, refuse_other, summed_counts
from .progress import in_progress
from .run import reusable
from .shards import Origin, Receipt, remove_temporary
from .stage import Progress, StageResult
from .work import write_tables

if TYPE_CHECKING:
    import pyarrow as pa

Parts = Generator[Callable[[], StageResult], None, None]


@dataclass(frozen=True)
class SourceStage:
    """A stage that makes its shards, in order, from a source other than the shards of one table.

    name: the subcommand. module: whose functions make the rows (see engine.code). outputs: the schemas of the tables
    made, by name; the last is the primary table, and a result may lack all others. config: plain JSON of what
    determines the rows. inputs: a name and a hash for each file or table read. metadata: provenance (see Identity).

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

    def identity(self) -> Identity:
        """What determines the stage's output."""
        schemas = {table: hash_schema(schema) for table, schema in self.outputs.items()}
        code = code_of(self.module).sha256
        return Identity(self.name, self.config, dict(self.metadata), schemas, code, dict(self.inputs))


def run_source(stage: SourceStage, run: Path, *, progress: Progress, overwrite: bool = False) -> dict[str, int]:
    """Bring a stage's output in the folder `run` up to date with its source; returns its summed counters.

    Shards that are up to date are kept. Raises ValueError if `run` is a file, whatever `parts` and `check` raise,
    OtherConfigError if the output was made from something else and `overwrite` is not set, LockedError if another
    process writes into `run`, OSError if it cannot be written.
    """
    with locked(run):
        return _run_source(stage, run, progress, overwrite)


def _run_source(stage: SourceStage, run: Path, progress: Progress, overwrite: bool) -> dict[str, int]:
    identity = stage.identity()
    tables = tuple(stage.outputs)
    if not overwrite:
        refuse_other(run / tables[-1], identity)
    if stage.shards is None and (found := finished(run / tables[-1], identity)) is not None:
        with in_progress(progress, stage.name, None, unit=stage.unit):
            stage.check(found.counts)
        return dict(found.counts)
    origin = Origin(identity.key(), identity.provenance())
    made = reusable(run, tables, [origin.key] * (stage.shards or 0))
    made = {index: receipts for index, receipts in made.items() if stage.intact(index)}
    total = None if stage.shards is None else stage.shards + stage.steps
    receipts: list[Mapping[str, Receipt]] = []
    with in_progress(progress, stage.name, total, len(made), stage.unit), closing(stage.parts()) as parts:
        for index, make in enumerate(parts):
            if index == 0:
                prepare(run / tables[-1], identity, overwrite=overwrite)
                for table in tables:
                    remove_temporary(run / table)
            if index not in made:
                made[index] = write_tables(run, index, stage.outputs, make(), origin)
                progress.advance(0)
            receipts.append(made[index])
        stage.check(summed_counts(shard[tables[-1]] for shard in receipts))
    return dict(finish(run, tables, identity, receipts).counts)
