"""Read the tables of a run. This is the only way: what is read are the rows that were written, or an error is raised.

A finished table must have exactly the shards that its manifest lists, and each shard the bytes (sha256) and the number
of rows that are recorded there. Hashing the bytes of a shard, which are read anyway, takes under a tenth of the time of
decoding them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import DamagedShardError
from .identity import hash_value
from .manifest import Manifest, manifest_of, receipts
from .shards import RECEIPTS, list_shards, read_receipts, shard_path
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
OF_SOURCES = ("ingest", "features", "caption", "import", "scenes")  # commands that take more than the run


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
        """The rows of the shard; columns: only those of them that it has. Raises DamagedShardError unless its bytes and
        rows are as recorded.
        """
        return read_shard(self.path, columns, sha256=self.sha256, rows=self.rows)


@dataclass(frozen=True)
class WholeTable:
    """A reference to a table that a stage reads whole: its folder and the hash of its shards. Usable as a cache key."""

    folder: Path
    sha256: str

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows of the table; columns: only these.

        Raises FileNotFoundError when the table is gone, ValueError when it is unfinished, DamagedShardError when a
        shard is missing, surplus, not as recorded, or not of the hash `sha256` any more.
        """
        import pyarrow as pa

        return pa.concat_tables(shard.read(columns) for shard in self.shards())

    def shards(self) -> list[Shard]:
        """The shards of the table, in order.

        Raises FileNotFoundError when the table is gone, ValueError when it is unfinished, DamagedShardError when a
        shard is missing or surplus, or when they are not those of the hash `sha256` any more.
        """
        shards = shards_of(self.folder.parent, self.folder.name)
        if hash_value([shard.sha256 for shard in shards]) != self.sha256:
            raise DamagedShardError(f"{self.folder} was made anew while it was being used: run the same command again")
        return shards

    def check(self) -> None:
        """Read the bytes of all shards, and raise DamagedShardError for one that is missing, surplus or has other bytes
        than recorded.

        Raises FileNotFoundError when the table is gone, ValueError when it is unfinished.
        """
        for shard in self.shards():
            read_bytes(shard.path, shard.sha256)


def has_table(run: Path, name: str) -> bool:
    """Whether a run has a table: its folder, with shards or with a manifest that lists some.

    Raises ValueError when its manifest is unreadable.
    """
    return bool(list_shards(run / name) or ((run / name).is_dir() and _listed(run, name, manifest_of(run, name))))


def no_table(run: Path, name: str) -> FileNotFoundError:
    """The error for a table that a run lacks: which command makes it, or that the folder is no run at all."""
    if not run.is_dir() or not any(has_table(run, other) for other in names(run)):
        return FileNotFoundError(f"{run} must be the folder of a run, has no tables")
    command = COMMANDS.get(name)
    given = "" if command in OF_SOURCES else f" {run}"
    return FileNotFoundError(f"{run} has no {name}" + (f": run negcap {command}{given} first" if command else ""))


def shards_of(run: Path, name: str, *, unfinished: bool = False, manifest: Manifest | None = None) -> list[Shard]:
    """The shards of a table in order: exactly those that its manifest lists.

    unfinished: whether to accept a table that is still being made; then its shards are those that have a receipt.
    manifest: the one that lists the table, if it is known.
    Raises FileNotFoundError when the run has no such table, ValueError when it is unfinished or its manifest is missing
    or unreadable, DamagedShardError when a shard is missing or surplus.
    """
    manifest = manifest or manifest_of(run, name)
    found = list_shards(run / name)
    if not found and (manifest is None or not (run / name).is_dir()):
        raise no_table(run, name)
    if manifest is None or not manifest.complete:
        if not unfinished:
            raise ValueError(f"{run / name} {_unfinished(run / name, manifest)}")
        known = zip(found, read_receipts(found), strict=True)
        return [Shard(path, receipt.rows, receipt.sha256) for path, receipt in known if receipt is not None]
    listed = _listed(run, name, manifest)
    if found != [shard.path for shard in listed]:
        for shard in listed:
            if shard.path not in found:
                raise damaged(shard.path, "is missing")
        surplus = next(path for path in found if all(path != shard.path for shard in listed))
        raise DamagedShardError(f"{surplus} is not in the manifest of its table, which lists {len(listed)} shards")
    return listed


def hash_finished(run: Path, name: str, manifest: Manifest | None = None) -> str:
    """The hash of a finished table, made of the recorded sha256 of its shards; no shard is read.

    manifest: the one that lists the table, if it is known. Raises FileNotFoundError when the run has no such table,
    ValueError when it is unfinished or its manifest or a receipt is missing or unreadable, DamagedShardError when a
    shard is missing or surplus or a receipt is not the one in the manifest.
    """
    shards = shards_of(run, name, manifest=manifest)
    found = receipts(run, name, [shard.path for shard in shards])
    for shard, receipt in zip(shards, found, strict=True):
        if receipt.sha256 != shard.sha256:
            raise damaged(shard.path, "is of another run: its receipt is not the one in the manifest of its table")
    return hash_value([shard.sha256 for shard in shards])


def _listed(run: Path, name: str, manifest: Manifest | None) -> list[Shard]:
    entries = enumerate(manifest.shards if manifest is not None else ())
    return [
        Shard(shard_path(run / name, index), shard[name]["rows"], shard[name]["sha256"])
        for index, shard in entries
        if name in shard
    ]


def _unfinished(folder: Path, manifest: Manifest | None) -> str:
    if manifest is not None:
        return f"is not complete: run negcap {_command(manifest)} {folder.parent} again"
    return f"cannot be checked: it has no manifest in {RECEIPTS}"


def _command(manifest: Manifest) -> str:
    return COMMANDS.get(manifest.identity.stage, manifest.identity.stage)


def read_table(run: Path, name: str, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
    """Read a table's shards in order, one at a time; columns: only those of them that it has.

    Raises FileNotFoundError when the run has no such table, ValueError when it is unfinished or its manifest is missing
    or unreadable, DamagedShardError when a shard is missing, surplus or not as recorded.
    """
    for shard in shards_of(run, name):
        yield shard.read(columns)


def read_shard(path: Path, columns: Sequence[str] | None = None, *, sha256: str, rows: int | None = None) -> pa.Table:
    """Read the shard file `path`: all columns, or those given that it has.

    Raises DamagedShardError when it is missing, unreadable, or has another sha256 or number of rows (if given) than
    these.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = read_bytes(path, sha256)
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        if rows is not None and file.metadata.num_rows != rows:
            raise damaged(path, f"is damaged: must have {rows} rows, has {file.metadata.num_rows}")
        return file.read(columns=None if columns is None else list(columns), use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, f"is damaged: {str(error).splitlines()[0]}") from error


def read_bytes(path: Path, sha256: str) -> bytes:
    """The bytes of a shard. Raises DamagedShardError when it is missing, unreadable, or has another sha256."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise damaged(path, "is missing") from None
    except OSError as error:
        raise damaged(path, f"cannot be read: {error.strerror}") from error
    if hashlib.sha256(data).hexdigest() != sha256:
        raise damaged(path, "is damaged: its bytes are not those of its receipt")
    return data


def damaged(path: Path, why: str) -> DamagedShardError:
    """The error for a shard that cannot be used; it names the file, what is wrong, and what makes it again."""
    try:
        manifest = manifest_of(path.parent.parent, path.parent.name)
    except ValueError:
        manifest = None
    command = "the command that made it" if manifest is None else f"negcap {_command(manifest)}"
    return DamagedShardError(f"{path} {why}; {command} makes it again")
