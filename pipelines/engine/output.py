"""The output of a stage in a run. Only this module decides which of it is kept, refused, made again or removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa

from .errors import OtherConfigError
from .manifest import MANIFESTS, Identity, Manifest, StatedShard, processor, read_manifest, write_manifest
from .progress import STATISTICS
from .shards import Shard, list_shards, sealed, shard_index, shard_path, write_shard
from .stage import StageResult
from .storage import refuse_link, remove_leftovers

ShardsOfTables = Mapping[str, Shard]  # the shards of one number, by table


class Output:
    """A stage's tables in a run, the primary one last. Made by the process with the lock, and sent to the workers."""

    def __init__(self, run: Path, identity: Identity, schemas: Mapping[str, pa.Schema], overwrite: bool) -> None:
        """Look at what the folder of the run has of these tables already.

        Args:
            run: the folder.
            identity: of the stage: its settings and what it reads.
            schemas: the columns of each of its tables.
            overwrite: whether tables that were made with another identity may be replaced.

        Raises:
            OtherConfigError: there are such tables, and they may not be replaced. Names the first difference.
            ValueError: a folder that will be written is a link.
        """
        # Before anything is written: a folder from elsewhere may hold links, which writing would follow.
        for name in (*schemas, MANIFESTS, STATISTICS):
            refuse_link(run / name)
        self.run = run
        self.identity = identity
        self.schemas = schemas
        self.key = identity.key()
        self.folder = run / identity.tables[-1]
        self.manifest: Manifest | None = None  # of these tables with this identity
        reason = ""  # why the present tables cannot be continued; empty if they can
        try:
            manifest = read_manifest(self.folder)
            if manifest is not None:
                reason = manifest.identity.difference(identity)
            elif list_shards(self.folder):
                reason = "it has shards but no manifest"
        except ValueError as error:
            reason = str(error)
        if not reason:
            self.manifest = manifest
        elif not overwrite:
            raise OtherConfigError(
                f"{self.folder} was made with other settings or input: {reason} (--overwrite replaces it; another "
                "output folder keeps it)"
            )

    def __getstate__(self) -> dict[str, object]:
        """What is sent to workers: all but the manifest, which may be large, and which only the main process needs."""
        return {**vars(self), "manifest": None}

    def begin(self) -> None:
        """Write an incomplete manifest before the first shard, so that an interrupted run can be continued."""
        if self.manifest is None:
            write_manifest(self.folder, Manifest(self.identity))
        # Shards are written there first, under temporary names; an interrupted run leaves some.
        remove_leftovers(self.run / MANIFESTS)

    def current(self, index: int, key: str, tables: Iterable[str] | None = None) -> ShardsOfTables | None:
        """The shard of this number in each table, if all of them are intact and up to date; else None.

        Args:
            index: the number.
            key: a hash of what the shard would be made from; a shard states the key that it was made with.
            tables: their names; None: all of the stage.
        """
        shards: dict[str, Shard] = {}
        for table in self.schemas if tables is None else tables:
            shard = sealed(shard_path(self.run / table, index))
            if shard is None or shard.key != key:
                return None
            shards[table] = shard
        return shards

    def all_current(self, keys: Sequence[str]) -> dict[int, ShardsOfTables]:
        """By number, the shards that need not be made again: those that have the key for their number."""
        with ThreadPoolExecutor(4) as threads:
            shards_of_each_number = threads.map(self.current, range(len(keys)), keys)
            return {index: shards for index, shards in enumerate(shards_of_each_number) if shards is not None}

    def complete_manifest(self) -> Manifest | None:
        """The manifest if it is complete, and all shards are intact and made from what the stage would read now."""
        manifest = self.manifest
        if manifest is None or not manifest.complete:
            return None
        intact = all(self.current(index, self.key, tables) for index, tables in enumerate(manifest.shards))
        return manifest if intact else None

    def write(self, index: int, result: StageResult, key: str = "") -> ShardsOfTables:
        """Write the tables of a result as the shards of number `index`, the primary one last.

        key: a hash of what they are made from; empty: of all inputs.
        """
        shards = {}
        provenance = self.identity.provenance()
        for name, schema in self.schemas.items():
            if name in result.tables:
                path = shard_path(self.run / name, index)
                counts = result.counts if name == self.folder.name else None  # only the primary table has them
                shards[name] = write_shard(result.tables[name], path, schema, key or self.key, provenance, counts)
        return shards

    def finish(self, finished: Sequence[ShardsOfTables]) -> dict[str, int]:
        """Remove shards beyond those that are finished, and complete the manifest.

        finished: the shards of each number. Returns their summed counters.
        """
        # An earlier run may have had more shards, of more input. They go before the manifest says that all is complete.
        for table in self.schemas:
            for path in list_shards(self.run / table):
                if shard_index(path) >= len(finished):
                    path.unlink(missing_ok=True)
        stated = tuple(
            {table: StatedShard(rows=shard.rows, sha256=shard.sha256) for table, shard in shards.items()}
            for shards in finished
        )
        counts = self.summed_counts(finished)
        old = self.manifest
        is_unchanged = old is not None and old.complete and (old.shards, old.counts) == (stated, counts)
        # The file of an unchanged manifest keeps its time: a run that is up to date is not touched.
        if not is_unchanged:
            complete = Manifest(self.identity, complete=True, shards=stated, counts=counts, processor=processor())
            write_manifest(self.folder, complete)
        return counts

    def summed_counts(self, finished: Iterable[ShardsOfTables]) -> dict[str, int]:
        """The sum of each counter over the shards of the primary table, sorted by name."""
        counts: Counter[str] = Counter()
        for shards in finished:
            counts.update(shards[self.folder.name].counts)
        return dict(sorted(counts.items()))
