"""What a table was made from: the manifest, in which the identity of its stage and its shards are recorded.

A file in a config is represented by its name and the hash of its content.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from functools import cache
from operator import eq
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from .errors import OtherConfigError
from .identity import Identity, difference, hash_value
from .listing import INLINE, Entries, Listing, remove_listings, write_listing
from .remote_path import RemotePath
from .shards import (
    RECEIPTS,
    Receipt,
    current_receipt,
    list_shards,
    read_receipts,
    receipts_folder,
    remove_shards,
    shard_path,
)
from .storage import files_below, names, sha256_file, write_json

if TYPE_CHECKING:
    pass

MANIFEST = "manifest.json"
OVERWRITE = "--overwrite replaces it"


@dataclass(frozen=True)
class Manifest:
    """The record of one stage's output: its identity and, once it is complete, what was made.

    shards: for each shard, by output table, its `rows` and `sha256`. counts: the stage's counters, summed over shards.
    processor: of the process that completed it, see `processor`; a record that no comparison regards.
    """

    identity: Identity
    complete: bool = False
    shards: Sequence[Entries] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    processor: Mapping[str, str] = field(default_factory=dict, compare=False)


def manifest_path(folder: Path) -> Path:
    """The manifest file of a table's folder: run/captions -> run/_receipts/captions/manifest.json."""
    return receipts_folder(folder) / MANIFEST


def write_manifest(folder: Path, manifest: Manifest, old: Manifest | None = None) -> None:
    """Write the manifest of a table's folder atomically, as JSON with sorted keys; old: the one that it replaces."""
    path = manifest_path(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    listing = write_listing(path.parent, manifest.shards) if len(manifest.shards) > INLINE else None
    value = {
        "identity": asdict(manifest.identity),
        "complete": manifest.complete,
        "counts": manifest.counts,
        "processor": manifest.processor,
        "shards": manifest.shards
        if listing is None
        else {"file": listing.file.name, "count": listing.shards, "sha256": listing.sha256},
    }
    write_json(path, value)
    if old is not None and isinstance(old.shards, Listing):
        remove_listings(path.parent, listing)


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a table's folder, or None if there is none. Raises ValueError when it is unreadable."""
    path = manifest_path(folder)
    try:
        value = json.loads(path.read_bytes())
        shards = value.pop("shards")
        if isinstance(shards, list):
            shards = tuple(shards)
        else:
            shards = Listing(path.with_name(shards["file"]), shards["count"], shards["sha256"])
        manifest = Manifest(Identity(**value.pop("identity")), shards=shards, **value)
        _check_types(manifest)
        return manifest
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        name = path.relative_to(folder.parent)
        raise ValueError(f"{name} must be a negcap manifest, is unreadable: {error}") from error


def _check_types(manifest: Manifest) -> None:
    """Raise ValueError for a manifest, read from JSON, with values of other types than it was written with."""
    identity = manifest.identity
    shards = () if isinstance(manifest.shards, Listing) else manifest.shards
    texts = [identity.metadata, identity.schemas, identity.inputs, manifest.processor]
    entries = [entry for shard in shards for entry in shard.values()]
    typed = {
        bool: [manifest.complete],
        str: [identity.stage, identity.code, identity.sharded, *(entry["sha256"] for entry in entries)],
        dict: [identity.config, *texts, *shards, *entries],
        int: [*(entry["rows"] for entry in entries), *manifest.counts.values()],
    }
    typed[str] += [text for table in texts for text in table.values()]
    for kind, values in typed.items():
        for value in values:
            if type(value) is not kind:
                raise ValueError(f"must have a value of the type {kind.__name__}, has: {value!r:.60}")


def manifest_of(run: Path, table: str) -> Manifest | None:
    """The manifest that lists a table: its own, or that of the stage's primary table; None if there is none.

    Raises ValueError when it is unreadable.
    """
    if (own := read_manifest(run / table)) is not None and table in own.identity.schemas:
        return own
    found = (read_manifest(run / name) for name in sorted(names(run / RECEIPTS)) if name != table)
    return next((manifest for manifest in found if manifest and table in manifest.identity.schemas), None)


def refuse_other(folder: Path, identity: Identity) -> Manifest | None:
    """The manifest of a table's folder, or None if there is none.

    Raises OtherConfigError, naming the first difference, if the table was made with another identity (config, input,
    code) than this one.
    """
    try:
        old = read_manifest(folder)
        reason = "" if old is None or old.identity == identity else difference(old.identity, identity)
        if old is None and list_shards(folder):
            reason = f"it has shards but no {MANIFEST}"
    except ValueError as error:
        reason = str(error)
    if reason:
        raise OtherConfigError(f"{folder} was made from something else: {reason} ({OVERWRITE})")
    return old


def prepare(folder: Path, identity: Identity, *, overwrite: bool = False) -> None:
    """Write an incomplete manifest before the first shard, so that an interrupted run can be continued.

    folder: of the stage's primary table. Raises OtherConfigError, naming the first difference, if the folder has a
    table of another identity (config, input, code), unless `overwrite`.
    """
    try:
        old = read_manifest(folder) if overwrite else refuse_other(folder, identity)
    except OtherConfigError:
        raise
    except ValueError:
        old = None
    if old is None or old.identity != identity:
        write_manifest(folder, Manifest(identity), old)


def finished(folder: Path, identity: Identity) -> Manifest | None:
    """A table's manifest if it is complete, has this identity, and all its shards are intact; otherwise None."""
    try:
        found = read_manifest(folder)
        if found is None or not found.complete or found.identity != identity:
            return None
        listed = [(table, index) for index, shard in enumerate(found.shards) for table in shard]
    except ValueError:
        return None
    key = identity.key()
    shards = (shard_path(folder.parent / table, index) for table, index in listed)
    return found if all(current_receipt(shard, key) for shard in shards) else None


def finish(run: Path, tables: Sequence[str], identity: Identity, receipts: Sequence[Mapping[str, Receipt]]) -> Manifest:
    """Record a finished stage: remove surplus shards, sum the counters, write the complete manifest, return it.

    tables: the stage's outputs, the primary table last; it has the counters and the manifest. receipts: for each shard,
    in order, its receipts by table.
    """
    for table in tables:
        remove_shards(run / table, len(receipts))
    shards = tuple(
        {table: {"rows": receipt.rows, "sha256": receipt.sha256} for table, receipt in shard.items()}
        for shard in receipts
    )
    manifest = Manifest(identity, True, shards, summed_counts(shard[tables[-1]] for shard in receipts), processor())
    old = None
    try:
        old = read_manifest(run / tables[-1])
        same = (
            old is not None
            and replace(old, shards=()) == replace(manifest, shards=())
            and len(old.shards) == len(shards)
            and all(map(eq, old.shards, shards))
        )
    except ValueError:
        same = False
    if not same:
        write_manifest(run / tables[-1], manifest, old)
    return manifest


@cache
def processor() -> dict[str, str]:
    """What may decide how this process rounds: the `machine` (`x86_64`), and the kernel of NumPy's `blas` (`SkylakeX`),
    if it can be found out.
    """
    import numpy  # noqa: F401 (loads its BLAS)
    from threadpoolctl import threadpool_info

    kernels = [library["architecture"] for library in threadpool_info() if "architecture" in library]
    return {"machine": platform.machine()} | ({"blas": kernels[0]} if kernels else {})


def summed_counts(receipts: Iterable[Receipt]) -> dict[str, int]:
    """The sum of each counter over the receipts of a table's shards, sorted by name."""
    counts: dict[str, int] = {}
    for receipt in receipts:
        for name, count in receipt.counts.items():
            counts[name] = counts.get(name, 0) + count
    return dict(sorted(counts.items()))


def describe(config: Any) -> Any:
    """A frozen dataclass (or any value in one) as values that JSON can represent.

    A Path becomes its name and the hash of its content. Raises FileNotFoundError for a Path that does not exist.
    """
    if is_dataclass(config) and not isinstance(config, type):
        return {item.name: describe(getattr(config, item.name)) for item in fields(config)}
    if isinstance(config, Mapping):
        return {str(name): describe(value) for name, value in config.items()}
    if isinstance(config, (tuple, list)):
        return [describe(value) for value in config]
    if isinstance(config, (Path, RemotePath)):
        return f"{config.name} sha256:{hash_path(cast(Path, config))}"
    return config


def hash_path(path: Path) -> str:
    """The sha256 of a file, or of the names and hashes of a folder's files."""
    if path.is_dir():
        inside = [p for p in files_below(path) if "__pycache__" not in p.parts]
        return hash_value({p.relative_to(path).as_posix(): sha256_file(p) for p in inside})
    return sha256_file(path)


def hash_table(run: Path, name: str) -> str:
    """The hash of a table: of the sha256 of its shards, as in their receipts; no shard is read.

    Raises FileNotFoundError when the run lacks the table, ValueError when a receipt is missing or unreadable.
    """
    return hash_value([receipt.sha256 for receipt in receipts(run, name)])


def receipts(run: Path, name: str, shards: Sequence[Path] | None = None) -> list[Receipt]:
    """The receipts (records of key, rows and sha256) of a table's shards, in order.

    shards: the files of the shards, if they are known; None: those in the folder of the table. Raises FileNotFoundError
    when the run lacks the table, ValueError when a receipt is missing or unreadable.
    """
    shards = list_shards(run / name) if shards is None else shards
    if not shards:
        raise FileNotFoundError(f"{run} has no {name} yet: run the stage that makes it first")
    found = read_receipts(shards)
    for index, (shard, receipt) in enumerate(zip(shards, found, strict=True)):
        if receipt is None or shard.name != f"part-{index:05d}.parquet":
            shard_name = f"{name}/part-{index:05d}.parquet"
            raise ValueError(f"{shard_name} has no readable receipt in {RECEIPTS}/{name}: run its stage again")
    return [receipt for receipt in found if receipt is not None]
