"""What a run contains: its tables, columns, state, captions, operators, provenance; and a page on its stages' speed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple, TextIO, TypedDict

import pyarrow as pa
import pyarrow.compute as pc

from ...schemas.fields import description
from ...schemas.markdown import TABLES, short
from ...schemas.messages import number_of, word
from ..engine import storage
from ..engine.manifest import Manifest, manifest_of
from ..engine.progress import STATISTICS, ShardStatistics, measured_stages, read_statistics
from ..engine.shards import list_shards
from ..engine.tables import SOURCES, Shard, hash_table, no_run, shards_of
from ..tables.columns import UNSPLIT
from .summary import NO_CANDIDATE
from .tables import console_of, markdown_table, print_table, terminal_table

# The order in which a run makes its tables. All other tables come after these, sorted by name.
ORDER = (
    "captions", "rejected_records", "scenes", "parses", "lexicon", "components", "component_vocabulary",
    "component_exclusions", "truth", "balance", "negatives", "positives", "rejections", "excluded", "refined",
    "features", "rejected_images", "generated", "refused_captions",
)  # fmt: skip
PAGE = "README.md"
# The page shows so many shards of each stage, the slowest ones.
SLOWEST = 5
# The page shows so many reasons of rejection of each stage, the most frequent ones.
REASONS = 6
OPERATOR_TABLES = ("negatives", "positives", "refined")
# Keys of the metadata that are shown, and what they are called.
PROVENANCE = {"seed": "seed", "parser": "parser", "negcap_version": "negcap"}


class TableInfo(TypedDict):
    """A table of a run. stage: that made it, "" if unknown; bytes: of its shards; state: see `_state_of_table`."""

    name: str
    stage: str
    rows: int
    shards: int
    bytes: int
    state: str


class RunInfo(TypedDict):
    """What a run contains. operators: by table, then by operator, the number of rows; bytes: of all tables."""

    run: str
    tables: list[TableInfo]
    images: int
    captions: int
    splits: Mapping[str, int]
    operators: Mapping[str, Mapping[str, int]]
    provenance: dict[str, str]
    bytes: int


class ColumnInfo(TypedDict):
    """A column of a table, with its Arrow type in short and what it means."""

    column: str
    type: str
    nullable: bool
    meaning: str


class CaptionCounts(NamedTuple):
    """The number of images with captions, and of captions by split."""

    images: int
    splits: Counter[str]


def table_names(run: Path) -> list[str]:
    """The names of the tables of a run, in the order of ORDER. Raises FileNotFoundError when `run` has none."""
    names = [name for name in storage.names(run) if list_shards(run / name)]
    if not names:
        raise no_run(run)
    return sorted(names, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))


def read_info(run: Path) -> RunInfo:
    """Describe a run by its manifests and a few columns. Only the shards of these columns are checked for damage.

    Raises FileNotFoundError without tables, ValueError for an unreadable manifest, DamagedShardError.
    """
    names = table_names(run)
    manifests = {name: manifest_of(run, name) for name in names}
    shards = {name: shards_of(run, name, unfinished=True) for name in names}
    tables = [_table_info(run, name, manifests[name], shards[name]) for name in names]
    captions = _count_captions(shards.get("captions", ()))
    operators = {name: _count_operators(shards[name]) for name in OPERATOR_TABLES if name in shards}
    provenance: dict[str, str] = {}
    for manifest in manifests.values():
        if manifest is not None:
            metadata = manifest.identity.metadata
            provenance |= {key: metadata[key] for key in PROVENANCE if key in metadata}
    return {
        "run": str(run),
        "tables": tables,
        "images": captions.images,
        "captions": captions.splits.total(),
        "splits": captions.splits,
        "operators": operators,
        "provenance": provenance,
        "bytes": sum(table["bytes"] for table in tables),
    }


def _table_info(run: Path, name: str, manifest: Manifest | None, shards: Sequence[Shard]) -> TableInfo:
    """The line of a table in what `negcap info` shows.

    Args:
        run: the run.
        name: of the table.
        manifest: of the table; None: it is unfinished.
        shards: that are there.
    """
    size_of_file = storage.sizes(run / name)
    return {
        "name": name,
        "stage": manifest.identity.stage if manifest is not None else "",
        "rows": sum(shard.rows for shard in shards),
        "shards": len(shards),
        "bytes": sum(size_of_file.get(shard.path.name, 0) for shard in shards),
        "state": _state_of_table(run, manifest),
    }


def _count_captions(shards: Iterable[Shard]) -> CaptionCounts:
    """How many distinct images the table captions has, and how many captions each split."""
    images = set[str]()
    splits = Counter[str]()
    for shard in shards:
        columns = shard.read(["image_id", "split"])
        images.update(pc.unique(columns["image_id"]).to_pylist())
        splits.update(_count_values(columns["split"]))
    return CaptionCounts(len(images), splits)


def _count_operators(shards: Iterable[Shard]) -> Counter[str]:
    """How many rows of a table each operator has."""
    operators = Counter[str]()
    for shard in shards:
        operators.update(_count_values(shard.read(["operator"])["operator"]))
    return operators


def _count_values(column: pa.ChunkedArray) -> dict[str, int]:
    """How often each value of a column occurs; "" is a caption without a split."""
    return {entry["values"] or UNSPLIT: entry["counts"] for entry in column.value_counts().to_pylist()}


def _state_of_table(run: Path, manifest: Manifest | None) -> str:
    """Whether a table is finished, unfinished, or stale because its input has changed, and which input that is."""
    if manifest is None:
        return "unfinished: no manifest"
    if not manifest.complete:
        return "unfinished"
    # Its inputs are files outside the run, which may be gone.
    if manifest.identity.stage in SOURCES:
        return "finished"
    for table, digest in manifest.identity.inputs.items():
        try:
            changed = hash_table(run, table) != digest
        except (FileNotFoundError, ValueError):
            return f"stale: {table} is missing or unfinished"
        if changed:
            return f"stale: made from other {table}"
    return "finished"


def print_info(info: RunInfo, stream: TextIO) -> None:
    """Print what a run contains as text for people, its tables last."""
    lines = {"run": f"{info['run']}, {size(info['bytes'])}"}
    lines["captions"] = f"{info['captions']:,} of {number_of(info['images'], 'image')}"
    if info["splits"]:
        lines["splits"] = _named_counts(info["splits"])
    lines |= {table: _named_counts(counts) for table, counts in info["operators"].items()}
    lines |= {PROVENANCE[key]: value for key, value in info["provenance"].items()}
    console = console_of(stream)
    for label, text in lines.items():
        console.print(f"{label:<10} {text}", soft_wrap=True, markup=False)
    table = terminal_table("table", "rows", "files", "size")
    table.add_column("made by")
    table.add_column("state")
    for entry in info["tables"]:
        numbers = (f"{entry['rows']:,}", f"{entry['shards']:,}", size(entry["bytes"]))
        style = "" if entry["state"] == "finished" else "yellow"
        table.add_row(entry["name"], *numbers, entry["stage"], entry["state"], style=style)
    print_table(console, table)


def _named_counts(counts: Mapping[str, int]) -> str:
    """ "train 5,000, test 1,000" """
    return ", ".join(f"{name} {count:,}" for name, count in counts.items()) or "none"


def size(count: int) -> str:
    """A number of bytes with a suitable unit: "812 B", "25.0 kB", "3.1 MB"."""
    if count < 1000:
        return f"{count} B"
    power = next((power for power in (1, 2) if count < 1000 ** (power + 1)), 3)
    return f"{count / 1000**power:,.1f} {('kB', 'MB', 'GB')[power - 1]}"


def columns_of(table: str, run: Path | None) -> list[ColumnInfo]:
    """The columns of a table, as a run has it or, without a run, as this version of negcap writes it.

    Raises ValueError, with the tables that there are, for another table; FileNotFoundError if `run` is no run.
    """
    schema: pa.Schema
    if run is not None:
        word("table", table, table_names(run))
        schema = shards_of(run, table, unfinished=True)[0].read().schema
    else:
        schemas = {(schema.metadata or {})[b"table"].decode(): schema for schema in TABLES}
        schema = schemas[word("table", table, schemas)]
    return [
        {"column": field.name, "type": short(field.type), "nullable": field.nullable, "meaning": description(field)}
        for field in schema
    ]


def print_columns(columns: Sequence[ColumnInfo], stream: TextIO) -> None:
    """Print a line with the name and type of each column, and one with its description."""
    for column in columns:
        nullable = ", or null" if column["nullable"] else ""
        print(f"{column['column']}  {column['type']}{nullable}\n    {column['meaning']}", file=stream)


def write_page(run: Path) -> Path | None:
    """Write `RUN/_statistics/README.md`, on the speed of a run's stages; returns its path, None without statistics."""
    stages = {name: lines for name in measured_stages(run) if (lines := read_statistics(run, name))}
    if not stages:
        return None
    path = run / STATISTICS / PAGE
    storage.refuse_link(path.parent)
    storage.write_atomically(path, page(run.name, stages).encode())
    return path


STAGES_HEAD = (
    "stage", "shards", "captions", "CPU hours", "captions per CPU second", "workers", "memory, median", "largest",
    "retries",
)  # fmt: skip
SLOWEST_HEAD = ("slowest", "captions", "seconds", "of CPU", "memory", "retries", "worker")


def page(name: str, stages: Mapping[str, Sequence[ShardStatistics]]) -> str:
    """The page on the speed of a run's stages, in Markdown.

    Args:
        name: of the run.
        stages: what each shard took, by the name of the stage.
    """
    totals = [_stage_total(stage, shards) for stage, shards in stages.items()]
    parts = [f"# Work on {name}\n", markdown_table(STAGES_HEAD, totals) + "\n"]
    for stage, shards in stages.items():
        parts.append(f"## {stage}\n")
        refused = sum((Counter(shard.refused) for shard in shards), Counter[str]())
        if refused:
            without_candidate = refused.pop(NO_CANDIDATE, 0)
            reasons = ", ".join(f"{reason} {count:,}" for reason, count in refused.most_common(REASONS))
            candidates = f"{refused.total():,} candidates: {reasons}"
            parts.append(f"Rejected: {candidates}; no candidate {without_candidate:,}\n")
        slowest = sorted(shards, key=lambda shard: -shard.seconds)[:SLOWEST]
        parts.append(markdown_table(SLOWEST_HEAD, [_shard_row(shard) for shard in slowest]) + "\n")
    return "\n".join(parts)


def _stage_total(stage: str, shards: Sequence[ShardStatistics]) -> list[str]:
    """The row of a stage below STAGES_HEAD."""
    cpu_seconds = sum(shard.cpu for shard in shards)
    captions = sum(shard.captions for shard in shards)
    memory = [shard.memory for shard in shards]
    return [
        stage,
        f"{len(shards):,}",
        f"{captions:,}",
        f"{cpu_seconds / 3600:,.2f}",
        f"{captions / cpu_seconds:,.0f}" if cpu_seconds else "–",
        f"{len({shard.worker for shard in shards}):,}",
        size(int(median(memory))),
        size(max(memory)),
        f"{sum(shard.retries for shard in shards):,}",
    ]


def _shard_row(shard: ShardStatistics) -> list[str]:
    """The row of a shard below SLOWEST_HEAD."""
    times = [f"{shard.seconds:.1f}", f"{shard.cpu:.1f}"]
    where = [size(shard.memory), str(shard.retries), shard.worker]
    return [f"part-{shard.shard:05d}", f"{shard.captions:,}", *times, *where]
