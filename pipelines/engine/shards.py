"""Tables on disk: a table is a folder of Parquet shards, and nothing else, so that any Parquet reader can open it.

    RUN/captions/part-00000.parquet     a shard
    RUN/_manifests/captions.json        what the whole table was made from (see engine.manifest)

A shard is written atomically, and proves itself: its Parquet metadata have the key of what it was made from, the
counters of its stage, and a seal, the sha256 of the file with zeros in the place of the seal. A shard without a seal
that fits is made again. Whoever reads one states the sha256 that its bytes must have: hashing them takes under a tenth
of the time of decoding them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

import pyarrow as pa
import pyarrow.parquet as pq

from ...schemas.fields import check
from .errors import DamagedShardError
from .manifest import MANIFESTS, manifest_of
from .storage import UNSEALED, is_sealed, names, seal, write_atomically

SHARD = re.compile(r"part-(\d{5,})\.parquet")
MADE = "negcap.made"  # key of the metadata that say of what a shard was made
SEAL = "negcap.seal"  # key of the hash of the file
# The seal in the bytes of a file. Thrift, in which a Parquet footer is written, puts 0x18 (a text follows) and 0x40 (it
# has 64 bytes) between key and value.
SEALED = re.compile(SEAL.encode() + rb"\x18\x40([0-9a-f]{64})")
# 150,000 rows of negatives (58 MB in memory) at zstd 3: 3.7 MB in 0.07 s. Level 6 saves 8 % of the bytes for twice the
# time, level 1 saves no time; leaving statistics or the dictionaries of unique columns out saves 0.01 s.
PARQUET = {"compression": "zstd", "compression_level": 3}
COMMANDS = {  # stage or table: the command that makes it
    **dict.fromkeys(("captions", "rejected_records", "source_columns"), "ingest"),
    **dict.fromkeys(("components", "component_vocabulary", "component_exclusions"), "components"),
    **dict.fromkeys(("negatives", "positives", "rejections", "excluded"), "negatives"),
    **dict.fromkeys(("features", "features_map", "rejected_images"), "features"),
    **dict.fromkeys(("generated", "refused_captions"), "caption"),
    **{name: name for name in ("lexicon", "truth", "balance", "scenes", "counterparts")},
    "parses": "parse",
    "refined": "refine",
    "verdicts": "vet",
    "proposals": "propose",
    "judged": "import",
}
OF_BUILD = ("ingest", "parse", "lexicon", "components", "truth", "balance", "negatives")  # stages of one command
OF_SOURCES = ("ingest", "features", "caption", "import", "scenes")  # commands that take more than the run


class MadeFrom(TypedDict):
    """What the metadata of a shard state of it, as JSON: the key of what it was made from, rows, counters."""

    key: str
    rows: int
    counts: dict[str, int]


@dataclass(frozen=True)
class Shard:
    """A shard with the rows and sha256 that it must have. key, counts: what it was made from and the counters of its
    stage, for a shard that was read (`sealed`) or written; empty for one that a manifest states.
    """

    path: Path
    rows: int
    sha256: str
    key: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The table and the file of the shard: `negatives/part-00000.parquet`."""
        return f"{self.path.parent.name}/{self.path.name}"

    def content(self) -> bytes:
        """The bytes of the file. Raises DamagedShardError when it is missing, unreadable, or has another sha256."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            raise damaged(self.path, "is missing") from None
        except OSError as error:
            raise damaged(self.path, f"cannot be read: {error.strerror}") from error
        if hashlib.sha256(data).hexdigest() != self.sha256:
            raise damaged(self.path, "is damaged: its bytes are not those that were written")
        return data

    def read(self, columns: Sequence[str] | None = None, encoded: Sequence[str] = ()) -> pa.Table:
        """The rows of the shard. Raises ValueError, naming them, for columns that it lacks.

        Args:
            columns: only these, in this order; None: all.
            encoded: columns of text that are read as dictionaries, each different text once.
        """
        file = pq.ParquetFile(pa.BufferReader(self.content()), read_dictionary=list(encoded))
        missing = [name for name in columns or () if name not in file.schema_arrow.names]
        if missing:
            noun = "columns" if len(missing) > 1 else "column"
            raise ValueError(f"{self.name} lacks the {noun} {', '.join(missing)}")
        if columns is None:
            table = file.read(use_threads=False)
        else:  # `read` gives the columns in the file's order, `select` in the order that was asked for
            table = file.read(columns=list(columns), use_threads=False).select(list(columns))
        metadata = dict(table.schema.metadata or {})
        for name in (MADE, SEAL):  # of the file, not of its rows
            metadata.pop(name.encode(), None)
        return table.replace_schema_metadata(metadata)


def shard_path(folder: Path, index: int) -> Path:
    """The file of shard `index`: shard_path(Path("run/captions"), 7) -> run/captions/part-00007.parquet."""
    return folder / f"part-{index:05d}.parquet"


def shard_index(shard: Path) -> int:
    """The index in a shard's file name. Raises ValueError when the file is not named as a shard."""
    match = SHARD.fullmatch(shard.name)
    if not match:
        raise ValueError(f"a shard must be named part-<number>.parquet, was: {shard.name}")
    return int(match[1])


def list_shards(folder: Path) -> list[Path]:
    """The shards of a table's folder in order; empty if there is no folder."""
    shards = filter(SHARD.fullmatch, names(folder))
    # by number: part-100000 is longer than part-99999, and comes after it
    return [folder / name for name in sorted(shards, key=lambda name: (len(name), name))]


def write_shard(
    table: pa.Table,
    path: Path,
    schema: pa.Schema,
    key: str,
    provenance: Mapping[str, str] | None = None,
    counts: Mapping[str, int] | None = None,
) -> Shard:
    """Check a table against its schema, and write it as a shard.

    Args:
        table: the rows.
        path: of the file.
        schema: that the table must have; its descriptions of columns are written, too.
        key: a hash of all that the rows were made from; the same key means the same rows.
        provenance: what else the file's metadata says of its making.
        counts: counters of the stage that made the rows.

    Raises:
        ValueError: the table has other columns or types.
    """
    check(table, schema)
    described = schema.with_metadata({**(schema.metadata or {}), **(provenance or {})})
    # The types are the same: only the columns' descriptions are new.
    table = table.cast(described)
    made_from = MadeFrom(key=key, rows=len(table), counts=dict(counts or {}))
    sink = pa.BufferOutputStream()
    # Written to memory first: the seal is a hash of the whole file, and stands inside it.
    with pq.ParquetWriter(sink, described, **PARQUET) as writer:
        # The library `datasets` cannot read a row group without rows.
        if len(table):
            writer.write_table(table)
        writer.add_key_value_metadata({MADE: json.dumps(made_from, sort_keys=True), SEAL: UNSEALED.decode()})
    data = bytearray(sink.getvalue())
    place = _place_of_seal(data)
    assert place is not None
    seal(data, place)
    manifests = path.parent.parent / MANIFESTS
    for folder in (path.parent, manifests):
        folder.mkdir(parents=True, exist_ok=True)
    # The temporary file is not in the table's own folder, which any Parquet reader may open at any time.
    write_atomically(path, memoryview(data), manifests)
    return Shard(path, sha256=hashlib.sha256(data).hexdigest(), **made_from)


def _place_of_seal(data: bytes | bytearray) -> slice | None:
    """Where the seal is in a file: the last place of that form, as texts of the rows before it may look like one."""
    places = [match.span(1) for match in SEALED.finditer(data)]
    return slice(*places[-1]) if places else None


def sealed(path: Path) -> Shard | None:
    """The shard in a file, with what the file states of itself; None if it is missing or not as it was written."""
    try:
        data = path.read_bytes()
    except (FileNotFoundError, IsADirectoryError):
        return None
    place = _place_of_seal(data)
    if place is None or not is_sealed(data, place):
        return None
    made_from: MadeFrom = json.loads(pq.read_metadata(pa.BufferReader(data)).metadata[MADE.encode()])
    return Shard(path, sha256=hashlib.sha256(data).hexdigest(), **made_from)


NAMES = {"refined": "refined negatives", "generated": "generated captions"}  # of tables, where a table's own says less


def command(name: str, run: Path | None = None) -> str:
    """The command that makes a table or runs a stage: `negcap build --output RUN --only parse`, `negcap refine RUN`."""
    verb = COMMANDS.get(name, name)
    if verb in OF_BUILD:
        output = "" if run is None else f" --output {run}"
        return f"negcap build{output} --only {verb}"
    argument = "" if run is None or verb in OF_SOURCES else f" {run}"
    return f"negcap {verb}{argument}"


def damaged(path: Path, why: str) -> DamagedShardError:
    """The error for a shard that cannot be used; it names the file, what is wrong, and what makes it again."""
    try:
        manifest = manifest_of(path.parent.parent, path.parent.name)
    except ValueError:
        manifest = None
    if manifest is None:
        how = "the command that made it"
    elif manifest.identity.stage in OF_BUILD:  # `build --only STAGE` alone would lack the settings of that build
        how = "the same build"
    else:
        how = command(manifest.identity.stage)
    return DamagedShardError(f"{path} {why}; {how} makes it again")
