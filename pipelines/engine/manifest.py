"""What a table was made from: its manifest, with the identity of its stage and the rows and sha256 of its shards.
Nothing in an identity depends on when, where or by how many workers: no times, no absolute paths.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import TypedDict, cast

from ...augment.settings import Settings
from .places import RemotePath
from .storage import Json, files_below, names, sha256_file, write_json

Config = Settings | Mapping[str, object]  # what determines the rows of a stage, besides its inputs and its code
MANIFESTS = "_manifests"
PACKAGE = Path(__file__).parents[2]
NO_ROWS = ("api", "cli", "engine", "publish", "report")  # folders of pipelines whose code makes no row of a stage


def code_of(*functions: Callable[..., object] | str) -> str:
    """A hash of all code that decides rows of tables: if any of it changes, tables are made again.

    functions: those that make the rows, or names of their modules.
    """
    # Code inside of the package is hashed as a whole, since it is not known which of its functions call each other.
    # Stages that users write are in other modules: of these, the file of the function is hashed, too.
    modules = sorted({item if isinstance(item, str) else item.__module__ for item in functions})
    files = [Path(sys.modules[name].__file__ or "") for name in modules if name in sys.modules]
    others = [sha256_file(file) for file in files if not file.is_relative_to(PACKAGE / "pipelines")]
    return hash_value([_package_code_hash(), *others])


def check_code(sha256: str, *functions: Callable[..., object] | str) -> None:
    """Raise RuntimeError if the code of functions in this process (a worker) is not that of the main process."""
    if code_of(*functions) != sha256:
        raise RuntimeError("this worker has another version of negcap's code: install the same and restart it")


@cache
def _package_code_hash() -> str:
    """The hash of all sources and shipped data that may decide rows: not of the folders in NO_ROWS."""
    sources = [path for name in ("schemas", "augment", "pipelines") for path in (PACKAGE / name).rglob("*.py")]
    left_out = tuple(PACKAGE / "pipelines" / name for name in NO_ROWS)
    counted = [path for path in sources if not any(path.is_relative_to(folder) for folder in left_out)]
    hashes = {path.relative_to(PACKAGE).as_posix(): sha256_file(path) for path in counted}
    return hash_value([hashes, hash_path(PACKAGE / "augment" / "data")])


@dataclass(frozen=True)
class Identity:
    """Everything that determines the bytes of a stage's output.

    Attributes:
        stage: its name.
        config: its settings, as plain JSON.
        metadata: provenance, for the Parquet files.
        tables: those made, the primary one last.
        code: the hash of the code that makes them, see `code_of`.
        inputs: the hash of each input table (or file), by name.
        sharded: the input that is read shard by shard, if any.
    """

    stage: str
    config: Mapping[str, Json]
    metadata: Mapping[str, str]
    tables: Sequence[str]
    code: str
    inputs: Mapping[str, str]
    sharded: str = ""

    def key(self, shard: str = "") -> str:
        """The key of an output shard, a sha256 in hex: shards with equal keys have equal bytes.

        shard: the sha256 of the shard of the table `sharded` that it is made of; each other input counts by the hash of
        its whole table. If `shard` is empty, all inputs do.
        """
        # If one shard of the input changes, only the shard that is made of it has another key, and is made again.
        whole = {table: digest for table, digest in self.inputs.items() if not shard or table != self.sharded}
        return hash_value([self.stage, self.config, self.metadata, list(self.tables), self.code, whole, shard])

    def provenance(self) -> dict[str, str]:
        """How a shard was made, for its Parquet metadata: `metadata`, stage, config (JSON) and the hash of the code."""
        return {**self.metadata, "stage": self.stage, "config": _canonical(self.config).decode(), "code": self.code}

    def difference(self, new: Identity) -> str:
        """The first difference of another identity: `seed was 1, is now 2`; empty if there is none."""
        if self.stage != new.stage:
            return f"stage was {self.stage}, is now {new.stage}"
        for was, now in ((self.config, new.config), (self.metadata, new.metadata)):
            for name in sorted({*was, *now}):
                if _canonical(was.get(name)) != _canonical(now.get(name)):
                    return f"{name} was {_show_value(was.get(name))}, is now {_show_value(now.get(name))}"
        changed_input = self._difference_of_inputs(new)
        if changed_input:
            return changed_input
        if list(self.tables) != list(new.tables):
            return f"its tables were {', '.join(self.tables)}, are now {', '.join(new.tables)}"
        return "another version of negcap's code wrote it" if self.code != new.code else ""

    def _difference_of_inputs(self, new: Identity) -> str:
        """The first difference of the inputs of another identity: `its input truth has changed`; empty if none.

        A new input with the bytes of one that is no longer read counts as renamed.
        """
        new_names = {digest: name for name, digest in new.inputs.items()}
        for table in sorted({*self.inputs, *new.inputs}):
            before = self.inputs.get(table)
            after = new.inputs.get(table)
            if before is not None and after is None and before in new_names:
                return f"its input {table} is now called {new_names[before]}"
            is_new_name = before is None and after in self.inputs.values()  # reported when its old name comes
            if before != after and not is_new_name:
                return f"its input {table} has changed"
        return ""


class StatedShard(TypedDict):
    """What a manifest states of a shard of a table."""

    rows: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """The record of a stage's output: its identity and, once complete, by shard and table `rows` and `sha256`, and the
    summed counters. processor: of the process that completed it; no comparison regards it.
    """

    identity: Identity
    complete: bool = False
    shards: Sequence[Mapping[str, StatedShard]] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    processor: Mapping[str, str] = field(default_factory=dict, compare=False)


def manifest_path(folder: Path) -> Path:
    """The manifest of a table's folder: run/captions -> run/_manifests/captions.json."""
    return folder.parent / MANIFESTS / f"{folder.name}.json"


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest of a table's folder atomically, as JSON with sorted keys."""
    path = manifest_path(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, asdict(manifest))


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a table's folder, or None if there is none. Raises ValueError when it is unreadable."""
    path = manifest_path(folder)
    try:
        value = json.loads(path.read_bytes())
        identity = value.pop("identity")
        shards = tuple(dict(shard) for shard in value.pop("shards"))
        for shard in shards:
            for stated in shard.values():
                if not isinstance(stated["sha256"], str) or stated["rows"] < 0:
                    raise ValueError("rows and sha256 of its shards")
        identity["tables"] = tuple(identity["tables"])
        return Manifest(Identity(**identity), shards=shards, **value)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        name = path.relative_to(folder.parent)
        again = f"delete it, and the command that made {folder.name} writes it again"
        raise ValueError(f"{name} must be a negcap manifest, is unreadable: {error}; {again}") from error


def manifest_names(run: Path) -> Iterator[str]:
    """The primary tables of a run, which have manifests, sorted."""
    return (name.removesuffix(".json") for name in sorted(names(run / MANIFESTS)) if name.endswith(".json"))


def manifest_of(run: Path, table: str) -> Manifest | None:
    """The manifest that lists a table, or None: its own, or that of the primary table of its stage.

    Raises ValueError if a manifest cannot be read.
    """
    # Its own manifest first: most tables are primary ones.
    for name in dict.fromkeys([table, *manifest_names(run)]):
        manifest = read_manifest(run / name)
        if manifest is not None and table in manifest.identity.tables:
            return manifest
    return None


def _show_value(value: Json) -> str:
    """A value of a config as messages show it: texts without quotes, unless they are empty."""
    if value is None:
        return "unset"
    return value if isinstance(value, str) and value else json.dumps(value)


@cache
def processor() -> dict[str, str]:
    """What may decide how this process rounds: `machine` (x86_64) and, if known, the kernel of `blas` (SkylakeX)."""
    import numpy  # noqa: F401 (loads its BLAS)
    from threadpoolctl import threadpool_info

    kernels = [library["architecture"] for library in threadpool_info() if "architecture" in library]
    return {"machine": platform.machine()} | ({"blas": kernels[0]} if kernels else {})


def describe(config: object) -> Json:
    """A config, or a value in one, as plain JSON; a Path, which must exist, is its name and a hash of its content."""
    if isinstance(config, Settings):
        return {name: describe(getattr(config, name)) for name in type(config).model_fields}
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
        files = [file for file in files_below(path) if "__pycache__" not in file.parts]
        return hash_value({file.relative_to(path).as_posix(): sha256_file(file) for file in files})
    return sha256_file(path)


def hash_value(value: Json) -> str:
    """The sha256 of a plain JSON value, in hex; the order of keys does not matter."""
    return hashlib.sha256(_canonical(value)).hexdigest()


def _canonical(value: Json) -> bytes:
    """The value as JSON in the one form of it that is hashed and compared."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
