"""Read the tables of a run. This is the only way: a finished table must have exactly the shards that its manifest
states, with the bytes that are stated there, or an error is raised.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa

from ...schemas.messages import did_you_mean
from .errors import DamagedShardError
from .manifest import MANIFESTS, Config, Manifest, hash_value, manifest_names, manifest_of, read_manifest
from .shards import COMMANDS, NAMES, OF_BUILD, Shard, command, damaged, list_shards, sealed, shard_path
from .storage import names

SOURCES = ("ingest", "features", "scenes", "import")  # stages whose inputs are files outside the run
INGESTING = ".ingest"  # the folder in a run where captions lie until all are read
STOPPED = "the {0} stopped {1}: run the same {0} again"


@dataclass(frozen=True)
class WholeTable:
    """A reference to a table that a stage reads whole: its folder and the hash of its shards. Usable as a cache key."""

    folder: Path
    sha256: str

    def read(self, columns: Sequence[str] | None = None, encoded: Sequence[str] = ()) -> pa.Table:
        """All rows (see `Shard.read`). Raises DamagedShardError when the table was made anew, or a shard is damaged."""
        return pa.concat_tables(shard.read(columns, encoded) for shard in self.shards())

    def shards(self) -> list[Shard]:
        """The shards of the table, in order, not read yet. Raises DamagedShardError when the table was made anew."""
        shards = shards_of(self.folder.parent, self.folder.name)
        if hash_shards(shards) != self.sha256:
            raise DamagedShardError(f"{self.folder} was made anew while it was being used: run the same command again")
        return shards

    def check(self) -> None:
        """Hash the bytes of all shards. Raises DamagedShardError when one is damaged, or the table was made anew."""
        for shard in self.shards():
            shard.content()


def has_table(run: Path, name: str) -> bool:
    """Whether a run has a table, with shards or a manifest that states some. Raises ValueError if that is broken."""
    if list_shards(run / name):
        return True
    # A folder whose shards are gone is a damaged table, not a missing one: reading it raises an error.
    return (run / name).is_dir() and bool(_stated_shards(run, name, manifest_of(run, name)))


def no_table(run: Path, name: str) -> FileNotFoundError:
    """The error for a table that a run lacks: which command makes it, or that the folder is no run at all."""
    if not run.is_dir() or not any(has_table(run, other) for other in names(run)):
        return no_run(run)
    missing = f"{run} has no {NAMES.get(name, name)}"
    if name in COMMANDS:
        return FileNotFoundError(f"{missing} yet: {_how_to_make(name, run)}")
    there = [other for other in names(run) if list_shards(run / other)]
    return FileNotFoundError(f"{missing}; it has {', '.join(there)}{did_you_mean(name, there)}")


def no_run(folder: Path) -> FileNotFoundError:
    """The error for a folder that is no run: its build has stopped early, it is one table of a run, or it has none."""
    # A build that was interrupted in its first stage leaves its work folder or a manifest, but no table.
    if (folder / INGESTING).exists() or any(manifest_names(folder)):
        return FileNotFoundError(f"{folder} has no tables: {STOPPED.format('build', 'while it read the captions')}")
    if folder.is_dir() and list_shards(folder):
        return FileNotFoundError(f"{folder} is a table of a run, must be the run: did you mean {folder.parent}?")
    there = "has no tables" if folder.is_dir() else "does not exist"
    return FileNotFoundError(f"{folder} must be the folder of a run, {there}: negcap build --output {folder} makes one")


def _how_to_make(name: str, run: Path) -> str:
    """How a run gets a table that it lacks: by the same build again if one has stopped, else by a command."""
    stage = COMMANDS[name]
    if stage in OF_BUILD:
        manifests = [_finished_manifest(run, table) for table in names(run)]
        finished = {manifest.identity.stage for manifest in manifests if manifest is not None}
        done = [stage for stage in OF_BUILD if stage in finished]  # in the order of the build
        # No stage of a build has run: the captions are of another command, such as negcap scenes.
        if not done:
            return f"run negcap build --output {run}"
        # A later stage is missing. Run alone, it would lack those before it, and the settings of the build.
        if OF_BUILD.index(stage) > OF_BUILD.index(done[-1]):
            return STOPPED.format("import" if "import" in finished else "build", f"after {done[-1]}")
    return f"run {command(name, run)}"


def _finished_manifest(run: Path, name: str) -> Manifest | None:
    """The manifest of a finished table; None if it is not finished, or has no manifest that can be read."""
    try:
        manifest = manifest_of(run, name)
    except ValueError:
        return None
    return manifest if manifest is not None and manifest.complete else None


def shards_of(run: Path, name: str, *, unfinished: bool = False) -> list[Shard]:
    """The shards of a table in order: exactly those that its manifest states.

    Args:
        run: the folder of the run.
        name: of the table.
        unfinished: whether to return the intact shards of a table that is still being made.

    Raises:
        FileNotFoundError: there is no such table.
        ValueError: it is unfinished, or its manifest is missing or unreadable.
        DamagedShardError: a shard is missing or surplus.
    """
    manifest = manifest_of(run, name)
    present = list_shards(run / name)
    if not present and (manifest is None or not (run / name).is_dir()):
        raise no_table(run, name)
    if manifest is None or not manifest.complete:
        if unfinished:
            return [shard for shard in map(sealed, present) if shard is not None]
        if manifest is None:
            makes = f": run {command(name, run)} first" if name in COMMANDS else ""
            raise ValueError(f"{run / name} cannot be checked: it has no manifest in {MANIFESTS}{makes}")
        stage = manifest.identity.stage
        again = STOPPED.format("build", f"within {stage}") if stage in OF_BUILD else f"run {command(stage, run)} again"
        raise ValueError(f"{run / name} is not complete: {again}")
    # Names alone are compared here, which costs one listing; the bytes are checked as each shard is read.
    stated = _stated_shards(run, name, manifest)
    paths = {shard.path for shard in stated}
    for path in sorted(paths.symmetric_difference(present)):
        if path in paths:
            raise damaged(path, "is missing")
        raise DamagedShardError(f"{path} is not in the manifest of its table, which lists {len(stated)} shards")
    return stated


def hash_shards(shards: Sequence[Shard]) -> str:
    """The hash of a table: a hash of the sha256 of its shards."""
    return hash_value([shard.sha256 for shard in shards])


def hash_table(run: Path, name: str) -> str:
    """The `hash_shards` of a finished table, from its manifest; no shard is read. Raises FileNotFoundError without the
    table, ValueError for an unfinished one, DamagedShardError for a missing shard.
    """
    return hash_shards(shards_of(run, name))


def hash_inputs(run: Path, tables: Sequence[str]) -> dict[str, str]:
    """The hash of each table that a stage reads, by name; raises the errors of `hash_table`."""
    return {name: hash_table(run, name) for name in tables}


def package() -> dict[str, str]:
    """The version of negcap, as `negcap_version`, for the metadata of tables."""
    return {"negcap_version": version("negcap")}


def provenance(run: Path, inputs: Sequence[str], config: Config) -> dict[str, str]:
    """The metadata that a table takes over from its inputs, with the version of negcap, the hash of a lexicon among the
    inputs, and the config's parser, seed and operators.
    """
    metadata = package()
    for table in inputs:
        if (manifest := read_manifest(run / table)) is not None:
            metadata = {**manifest.identity.metadata, **metadata}
            if table == "lexicon":
                metadata["lexicon_sha256"] = hash_table(run, table)
    for name in ("parser", "seed", "operators"):
        if hasattr(config, name):
            value = getattr(config, name)
            metadata[name] = value if isinstance(value, str) else json.dumps(value)
    return metadata


def read_table(run: Path, name: str, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
    """Read a table's shards one at a time; columns: only these. Raises FileNotFoundError without the table, ValueError
    for an unfinished one or a column that it lacks, DamagedShardError for a damaged shard.
    """
    return (shard.read(columns) for shard in shards_of(run, name))


def _stated_shards(run: Path, name: str, manifest: Manifest | None) -> list[Shard]:
    """The shards of a table that a manifest states, whether they are there or not."""
    shards = manifest.shards if manifest is not None else ()
    # A table need not have a shard of each number: without rejected records there is no shard of them.
    return [
        Shard(shard_path(run / name, index), **tables[name]) for index, tables in enumerate(shards) if name in tables
    ]


@dataclass(frozen=True)
class RunCheck:
    """What `verify` checked (numbers of tables, shards and rows), and the problems found, one line each."""

    tables: int
    shards: int
    rows: int
    problems: tuple[str, ...]


def verify(run: Path) -> RunCheck:
    """Check all shards' bytes, and that each stage is complete and current. FileNotFoundError without any table."""
    problems: list[str] = []
    shards: list[Shard] = []
    named: set[str] = set()  # tables that a manifest names
    for name in manifest_names(run):
        named.add(name)
        try:
            manifest = read_manifest(run / name)
        except ValueError as error:
            problems.append(str(error))
            continue
        if manifest is not None:
            named |= {*manifest.identity.tables}
            shards += [shard for table in manifest.identity.tables for shard in _stated_shards(run, table, manifest)]
            problems += _problems_of_stage(run, name, manifest)
    unnamed = sorted({*names(run)} - named)
    problems += [f"{name}: no manifest names its shards" for name in unnamed if list_shards(run / name)]
    if not named and not problems:
        raise no_run(run)
    with ThreadPoolExecutor(4) as threads:
        problems += [problem for problem in threads.map(_describe_damage, shards) if problem]
    tables = {shard.path.parent for shard in shards}
    rows = sum(shard.rows for shard in shards)
    return RunCheck(tables=len(tables), shards=len(shards), rows=rows, problems=tuple(problems))


def _problems_of_stage(run: Path, name: str, manifest: Manifest) -> Iterator[str]:
    """The problems of a stage: it is unfinished, has surplus shards, or was made from other inputs than the run has."""
    identity = manifest.identity
    if not manifest.complete:
        yield f"{name}: unfinished, run {identity.stage} again"
    if manifest.complete:
        for table in identity.tables:
            stated = {shard.path for shard in _stated_shards(run, table, manifest)}
            for path in list_shards(run / table):
                if path not in stated:
                    yield f"{table}/{path.name}: not in the manifest of {identity.stage}"
    if identity.stage in SOURCES and not identity.sharded:
        # The inputs are files outside the run, which may be gone.
        return
    for table, digest in identity.inputs.items():
        try:
            if hash_shards(_stated_shards(run, table, manifest_of(run, table))) != digest:
                yield f"{name}: was made from other {table}, run {identity.stage} again with --overwrite"
        except ValueError as error:
            yield f"{name}: cannot tell whether it was made from these {table}: {error}"


def _describe_damage(shard: Shard) -> str:
    """What is wrong with the bytes of a shard; "" if nothing is."""
    try:
        shard.content()
    except DamagedShardError as error:
        why = str(error).removeprefix(f"{shard.path} ").partition(";")[0]
        return f"{shard.name}: {why.removeprefix('is ').replace(': ', ', ')}"
    return ""
