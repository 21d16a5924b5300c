"""What a table folder was made from: a stage's identity, and the manifest that records it.

Nothing here depends on when, where or by how many workers a run was made: no times, no absolute paths. A
file given by its path enters by its name and the hash of its content.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from negcap.pipelines.engine.errors import OtherConfigError
from negcap.pipelines.engine.shards import (
    OLD_LAYOUT,
    RECEIPTS,
    Receipt,
    is_current,
    list_shards,
    old_receipts,
    read_receipt,
    receipts_folder,
    remove_shards,
    sha256_file,
    shard_path,
    write_json,
)

if TYPE_CHECKING:
    import pyarrow as pa

MANIFEST = "manifest.json"
OVERWRITE = "--overwrite replaces it"


@dataclass(frozen=True)
class Identity:
    """All that decides the bytes of a stage's output.

    `config` and `metadata` are plain JSON; `schemas` and `inputs` map a table to the hash of its schema and
    of its shards' bytes; `sharded` is the input read shard by shard; `code` is the hash of the sources that
    make the rows.
    """

    stage: str
    config: Mapping[str, Any]
    metadata: Mapping[str, str]
    schemas: Mapping[str, str]
    code: str
    inputs: Mapping[str, str]
    sharded: str = ""

    def key(self, shard: str = "") -> str:
        """The key of an output shard: equal keys, equal bytes.

        `shard` is the sha256 of the one shard of the input `sharded` it is made from; all other inputs
        (and, where `shard` is empty, this one too) are read whole and count with their hash.
        """
        whole = {table: digest for table, digest in self.inputs.items() if not shard or table != self.sharded}
        parts = [self.stage, self.config, self.metadata, self.schemas, self.code, whole, shard]
        return hashlib.sha256(_canonical(parts)).hexdigest()

    def provenance(self) -> dict[str, str]:
        """What every shard's Parquet metadata says of its making."""
        return {
            **self.metadata,
            "stage": self.stage,
            "config": _canonical(self.config).decode(),
            "code": self.code,
        }


@dataclass(frozen=True)
class Manifest:
    """One stage's output: its identity and, once complete, each shard's rows and sha256 and all counts."""

    identity: Identity
    complete: bool = False
    shards: Sequence[Mapping[str, Mapping[str, Any]]] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


def manifest_path(folder: Path) -> Path:
    """Where the manifest of a table's folder lies: run/captions -> run/_receipts/captions/manifest.json."""
    return receipts_folder(folder) / MANIFEST


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest of a table's folder: sorted JSON, atomically."""
    path = manifest_path(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"format": 1, **asdict(manifest)})


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a table's folder; None where there is none. Raises ValueError when it is unreadable."""
    path = manifest_path(folder)
    try:
        value = json.loads(path.read_bytes())
        if value.pop("format") != 1:
            raise ValueError("format must be 1")
        value["shards"] = tuple(value["shards"])
        return Manifest(Identity(**value.pop("identity")), **value)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        name = path.relative_to(folder.parent)
        raise ValueError(f"{name} must be a negcap manifest, is unreadable: {error}") from error


def manifest_of(run: Path, table: str) -> Manifest | None:
    """The manifest that a table is listed in: its own, or that of the primary table made with it; None without one.

    Raises ValueError when it is unreadable.
    """
    others = sorted(path.parent.name for path in run.glob(f"{RECEIPTS}/*/{MANIFEST}"))
    found = (read_manifest(run / name) for name in (table, *others))
    return next((manifest for manifest in found if manifest and table in manifest.identity.schemas), None)


def refuse_other(folder: Path, identity: Identity) -> None:
    """Raise OtherConfigError, naming the first difference, for a table made from something else than `identity`."""
    try:
        old = read_manifest(folder)
        reason = "" if old is None or old.identity == identity else difference(old.identity, identity)
        if old is None and list_shards(folder):
            reason = OLD_LAYOUT if old_receipts(folder) else f"it has shards but no {MANIFEST}"
    except ValueError as error:
        reason = str(error)
    if reason:
        raise OtherConfigError(f"{folder} was made from something else: {reason} ({OVERWRITE})")


def prepare(folder: Path, identity: Identity, *, overwrite: bool = False) -> None:
    """Record what is being made in a table's folder: an interrupted run knows what it was.

    The manifest, not yet complete, is written before the first shard. Raises OtherConfigError as `refuse_other`, unless
    `overwrite`.
    """
    if not overwrite:
        refuse_other(folder, identity)
    try:
        same = (old := read_manifest(folder)) is not None and old.identity == identity
    except ValueError:
        same = False
    if not same:
        write_manifest(folder, Manifest(identity))
        for path in old_receipts(folder):
            path.unlink()


def finished(folder: Path, identity: Identity) -> Manifest | None:
    """A table's manifest if all that it names is complete, made from `identity`, and whole to the byte; else None."""
    try:
        found = read_manifest(folder)
    except ValueError:
        return None
    if found is None or not found.complete or found.identity != identity:
        return None
    key = identity.key()
    shards = [shard_path(folder.parent / table, index) for index, shard in enumerate(found.shards) for table in shard]
    return found if all(is_current(shard, key) for shard in shards) else None


def finish(run: Path, tables: Sequence[str], identity: Identity, receipts: Sequence[Mapping[str, Receipt]]) -> Manifest:
    """Record a finished stage: remove shards beyond the last, sum the counts, write the manifest.

    `receipts` holds for every shard the receipts of its tables; the last table keeps counts and manifest.
    """
    for table in tables:
        remove_shards(run / table, len(receipts))
    shards = tuple(
        {table: {"rows": receipt.rows, "sha256": receipt.sha256} for table, receipt in shard.items()}
        for shard in receipts
    )
    manifest = Manifest(identity, True, shards, summed_counts(shard[tables[-1]] for shard in receipts))
    if read_manifest(run / tables[-1]) != manifest:
        write_manifest(run / tables[-1], manifest)
    return manifest


def summed_counts(receipts: Iterable[Receipt]) -> dict[str, int]:
    """The sum of each counter over the receipts of a table's shards, sorted by name."""
    counts: dict[str, int] = {}
    for receipt in receipts:
        for name, count in receipt.counts.items():
            counts[name] = counts.get(name, 0) + count
    return dict(sorted(counts.items()))


def difference(old: Identity, new: Identity) -> str:
    """The first difference between two identities, in words: `seed was 1, is now 2`."""
    for name in ("stage", "config", "metadata"):
        was, now = getattr(old, name), getattr(new, name)
        if isinstance(was, str):
            was, now = {name: was}, {name: now}
        for entry in sorted({*was, *now}):
            if was.get(entry) != now.get(entry):
                return f"{entry} was {_shown(was.get(entry))}, is now {_shown(now.get(entry))}"
    for table in sorted({*old.inputs, *new.inputs}):
        if old.inputs.get(table) != new.inputs.get(table):
            return f"its input {table} has changed"
    for table in sorted({*old.schemas, *new.schemas}):
        if old.schemas.get(table) != new.schemas.get(table):
            return f"the columns of {table} have changed"
    return "another version of negcap's code wrote it" if old.code != new.code else ""


def _shown(value: Any) -> str:
    return "unset" if value is None else value if isinstance(value, str) and value else json.dumps(value)


def describe(config: Any) -> Any:
    """A frozen dataclass (or any value in one) as plain JSON.

    A Path becomes its name and the hash of what it holds; FileNotFoundError when it does not exist.
    """
    if is_dataclass(config) and not isinstance(config, type):
        return {item.name: describe(getattr(config, item.name)) for item in fields(config)}
    if isinstance(config, Mapping):
        return {str(name): describe(value) for name, value in config.items()}
    if isinstance(config, (tuple, list)):
        return [describe(value) for value in config]
    if isinstance(config, Path):
        return f"{config.name} sha256:{hash_path(config)}"
    return config


def hash_path(path: Path) -> str:
    """The sha256 of a file, or of the names and hashes of a folder's files."""
    if path.is_dir():
        inside = sorted(p for p in path.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
        return hash_value({p.relative_to(path).as_posix(): sha256_file(p) for p in inside})
    return sha256_file(path)


def hash_schema(schema: pa.Schema) -> str:
    """The hash of a schema: its name and version, the columns' names, types, nullability and descriptions.

    What else stands in the metadata (the provenance of a shard, Parquet's own notes) does not count.
    """
    return hash_value([_metadata(schema), [_column(column) for column in schema]])


def _column(column: pa.Field) -> list[Any]:
    import pyarrow as pa

    nested = [column.type.field(i) for i in range(column.type.num_fields)]
    if pa.types.is_list(column.type):  # Parquet calls the values element, Arrow item
        nested = [nested[0].with_name("item")]
    type = column.type.id if nested else str(column.type)
    return [column.name, type, column.nullable, _metadata(column), [_column(child) for child in nested]]


def _metadata(described: pa.Schema | pa.Field) -> dict[str, str]:
    metadata = described.metadata or {}
    return {name: metadata.get(name.encode(), b"").decode() for name in ("table", "schema_version", "description")}


def hash_table(run: Path, name: str) -> str:
    """The hash of a table's shard hashes, from their receipts.

    Raises FileNotFoundError when the run lacks the table, ValueError when a receipt is missing or unreadable.
    """
    return hash_value([receipt.sha256 for receipt in receipts(run, name)])


def receipts(run: Path, name: str) -> list[Receipt]:
    """The receipts of a table's shards in order. Raises as `hash_table`."""
    shards = list_shards(run / name)
    if not shards:
        raise FileNotFoundError(f"{run} has no {name} yet: run the stage that makes it first")
    found = [read_receipt(shard) for shard in shards]
    for index, (shard, receipt) in enumerate(zip(shards, found, strict=True)):
        if receipt is None or shard.name != f"part-{index:05d}.parquet":
            why = f": {OLD_LAYOUT}" if old_receipts(run / name) else ""
            where = f"{RECEIPTS}/{name}{why}"
            raise ValueError(f"{name}/part-{index:05d}.parquet has no readable receipt in {where}: run its stage again")
    return [receipt for receipt in found if receipt is not None]


def hash_value(value: Any) -> str:
    """The sha256 of a plain JSON value, in hex; mappings count by their sorted keys."""
    return hashlib.sha256(_canonical(value)).hexdigest()


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
