"""Read the tables of a run. This is the only way: what is read are the rows that were written, or an error is raised.

A finished table must have exactly the shards that its manifest states, and each shard the bytes (sha256) that are
stated there. Hashing the bytes of a shard, which are read anyway, takes under a tenth of the time of decoding them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import DamagedShardError
from .manifest import Manifest, hash_value, manifest_of, read_manifest
from .shards import MADE, MANIFESTS, SEAL, list_shards, read_receipt, shard_path
from .storage import names

if TYPE_CHECKING:
    import pyarrow as pa

COMMANDS = {  # stage or table: the command that makes it
    **dict.fromkeys(("captions", "rejected_records", "source_columns"), "ingest"),
    **dict.fromkeys(("components", "component_vocabulary", "component_exclusions"), "components"),
    **dict.fromkeys(("negatives", "positives", "rejections"), "negatives"),
    **dict.fromkeys(("features", "features_map", "rejected_images"), "features"),
    **dict.fromkeys(("generated", "refused_captions"), "caption"),
    **{name: name for name in ("lexicon", "truth", "balance", "scenes", "counterparts")},
    **{"parses": "parse", "refined": "refine", "verdicts": "vet", "proposals": "propose", "judged": "import"},
}
OF_BUILD = ("ingest", "parse", "lexicon", "components", "truth", "balance", "negatives")  # stages of one command
OF_SOURCES = ("ingest", "features", "caption", "import", "scenes")  # commands that take more than the run
SOURCES = ("ingest", "features", "scenes", "enlarge", "import")  # stages whose inputs are files outside the run


@dataclass(frozen=True)
class Shard:
    """A shard of a table, with the number of rows and the sha256 that it must have."""

    path: Path
    rows: int
    sha256: str

    @property
    def name(self) -> str:
        """The table and the file of the shard: `negatives/part-00000.parquet`."""
        return f"{self.path.parent.name}/{self.path.name}"

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of the shard; columns: only those of them that it has. Raises DamagedShardError unless its bytes are
        as stated.
        """
        return read_shard(self.path, columns, sha256=self.sha256)


@dataclass(frozen=True)
class WholeTable:
    """A reference to a table that a stage reads whole: its folder and the hash of its shards. Usable as a cache key."""

    folder: Path
    sha256: str

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows of the table; columns: only these.

        Raises FileNotFoundError when the table is gone, ValueError when it is unfinished, DamagedShardError when a
        shard is missing, surplus, not as stated, or not of the hash `sha256` any more.
        """
        import pyarrow as pa

        return pa.concat_tables(shard.read(columns) for shard in self.shards())

    def shards(self) -> list[Shard]:
        """The shards of the table, in order. Raises as `read`, but does not look into the shards."""
        shards = shards_of(self.folder.parent, self.folder.name)
        if hash_value([shard.sha256 for shard in shards]) != self.sha256:
            raise DamagedShardError(f"{self.folder} was made anew while it was being used: run the same command again")
        return shards

    def check(self) -> None:
        """Hash the bytes of all shards; raises as `read`."""
        for shard in self.shards():
            read_bytes(shard.path, shard.sha256)


def has_table(run: Path, name: str) -> bool:
    """Whether a run has a table: its folder, with shards or with a manifest that states some.

    Raises ValueError when its manifest is unreadable.
    """
    return bool(list_shards(run / name) or ((run / name).is_dir() and _stated(run, name, manifest_of(run, name))))


def no_table(run: Path, name: str) -> FileNotFoundError:
    """The error for a table that a run lacks: which command makes it, or that the folder is no run at all."""
    if not run.is_dir() or not any(has_table(run, other) for other in names(run)):
        return FileNotFoundError(f"{run} must be the folder of a run, has no tables")
    made = f": run {_command(name, run)} first" if name in COMMANDS else ""
    return FileNotFoundError(f"{run} has no {name}{made}")


def shards_of(run: Path, name: str, *, unfinished: bool = False) -> list[Shard]:
    """The shards of a table in order: exactly those that its manifest states.

    unfinished: whether to accept a table that is still being made; then its shards are those that are intact. Raises
    FileNotFoundError when the run has no such table, ValueError when it is unfinished or its manifest is missing or
    unreadable, DamagedShardError when a shard is missing or surplus.
    """
    manifest = manifest_of(run, name)
    found = list_shards(run / name)
    if not found and (manifest is None or not (run / name).is_dir()):
        raise no_table(run, name)
    if manifest is None or not manifest.complete:
        if not unfinished:
            state = f"cannot be checked: it has no manifest in {MANIFESTS}"
            if manifest is not None:
                state = f"is not complete: run {_command(manifest.identity.stage, run)} again"
            raise ValueError(f"{run / name} {state}")
        known = ((path, read_receipt(path)) for path in found)
        return [Shard(path, receipt.rows, receipt.sha256) for path, receipt in known if receipt is not None]
    stated = _stated(run, name, manifest)
    for path in sorted({shard.path for shard in stated} - {*found}):
        raise damaged(path, "is missing")
    if surplus := sorted({*found} - {shard.path for shard in stated}):
        raise DamagedShardError(f"{surplus[0]} is not in the manifest of its table, which lists {len(stated)} shards")
    return stated


def hash_table(run: Path, name: str) -> str:
    """The hash of a finished table, of the stated sha256 of its shards; no shard is read. Raises as `shards_of`."""
    return hash_value([shard.sha256 for shard in shards_of(run, name)])


def _stated(run: Path, name: str, manifest: Manifest | None) -> list[Shard]:
    entries = enumerate(manifest.shards if manifest is not None else ())
    return [Shard(shard_path(run / name, index), **shard[name]) for index, shard in entries if name in shard]


def _command(name: str, run: Path | None = None) -> str:
    """The command that makes a table or runs a stage: `negcap build --output RUN --only parse`, `negcap refine RUN`."""
    command = COMMANDS.get(name, name)
    if command in OF_BUILD:
        return f"negcap build{'' if run is None else f' --output {run}'} --only {command}"
    return f"negcap {command}{'' if run is None or command in OF_SOURCES else f' {run}'}"


def read_table(run: Path, name: str, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
    """Read a table's shards in order, one at a time; columns: only those that it has. Raises as `WholeTable.read`."""
    for shard in shards_of(run, name):
        yield shard.read(columns)


def read_shard(path: Path, columns: Sequence[str] | None = None, *, sha256: str) -> pa.Table:
    """Read the shard file `path`: all columns, or those given that it has.

    Raises DamagedShardError when it is missing, unreadable, or has another sha256 than this.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = read_bytes(path, sha256)
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        table = file.read(columns=None if columns is None else list(columns), use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, f"is damaged: {str(error).splitlines()[0]}") from error
    own = {name: text for name, text in (table.schema.metadata or {}).items() if name.decode() not in (MADE, SEAL)}
    return table.replace_schema_metadata(own)


def read_bytes(path: Path, sha256: str) -> bytes:
    """The bytes of a shard. Raises DamagedShardError when it is missing, unreadable, or has another sha256."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise damaged(path, "is missing") from None
    except OSError as error:
        raise damaged(path, f"cannot be read: {error.strerror}") from error
    if hashlib.sha256(data).hexdigest() != sha256:
        raise damaged(path, "is damaged: its bytes are not those that were written")
    return data


def damaged(path: Path, why: str) -> DamagedShardError:
    """The error for a shard that cannot be used; it names the file, what is wrong, and what makes it again."""
    try:
        manifest = manifest_of(path.parent.parent, path.parent.name)
    except ValueError:
        manifest = None
    command = "the command that made it" if manifest is None else _command(manifest.identity.stage)
    return DamagedShardError(f"{path} {why}; {command} makes it again")


@dataclass(frozen=True)
class Verdict:
    """What `verify` checked (numbers of tables, shards and rows), and the problems found, one line each."""

    tables: int
    shards: int
    rows: int
    problems: tuple[str, ...]


def verify(run: Path) -> Verdict:
    """Check every table of the run in this folder: each shard must have the bytes that its manifest states, each stage
    must be complete and made from the current input. Raises FileNotFoundError when `run` has no table.
    """
    problems: list[str] = []
    named: set[str] = set()
    shards: list[Shard] = []
    for name in sorted(file.removesuffix(".json") for file in names(run / MANIFESTS) if file.endswith(".json")):
        named.add(name)
        try:
            manifest = read_manifest(run / name)
        except ValueError as error:
            problems.append(str(error))
            continue
        if manifest is not None:
            named |= {*manifest.identity.tables}
            problems += _problems(run, name, manifest)
            for table in manifest.identity.tables:
                shards += _stated(run, table, manifest)
    problems += [f"{name}: no manifest names its shards" for name in sorted({*names(run)} - named)
                 if list_shards(run / name)]  # fmt: skip
    if not named and not problems:
        raise FileNotFoundError(f"{run} must be the folder of a run, has no tables")
    with ThreadPoolExecutor(4) as threads:
        problems += filter(None, threads.map(_damage, shards))
    tables = {shard.path.parent for shard in shards}
    return Verdict(len(tables), len(shards), sum(shard.rows for shard in shards), tuple(problems))


def _problems(run: Path, name: str, manifest: Manifest) -> Iterator[str]:
    """Problems of a whole stage: unfinished, surplus shards, or made from other inputs than the current ones."""
    identity = manifest.identity
    if not manifest.complete:
        yield f"{name}: unfinished, run {identity.stage} again"
    for table in identity.tables if manifest.complete else ():
        stated = {shard.path for shard in _stated(run, table, manifest)}
        for path in list_shards(run / table):
            if path not in stated:
                yield f"{table}/{path.name}: not in the manifest of {identity.stage}"
    for table, digest in identity.inputs.items() if identity.sharded or identity.stage not in SOURCES else ():
        try:
            now = _stated(run, table, manifest_of(run, table))
        except ValueError as error:
            yield f"{name}: cannot tell whether it was made from these {table}: {error}"
            continue
        if hash_value([shard.sha256 for shard in now]) != digest:
            yield f"{name}: was made from other {table}, run {identity.stage} again with --overwrite"


def _damage(shard: Shard) -> str:
    """What is wrong with the bytes of a shard; "" if nothing is."""
    try:
        read_bytes(shard.path, shard.sha256)
    except DamagedShardError as error:
        why = str(error).removeprefix(f"{shard.path} ").partition(";")[0]
        return f"{shard.name}: {why.removeprefix('is ').replace(': ', ', ')}"
    return ""
