"""What a run contains: its tables and whether they are up to date, its captions, operators and provenance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from ..engine import storage
from ..engine.manifest import Manifest, manifest_of
from ..engine.shards import list_shards
from ..engine.tables import SOURCES, Shard, hash_table, shards_of
from ..tables.columns import UNSPLIT, read_columns
from .summary import console_of, number_of, plain_table, print_table

ORDER = (  # of the tables: as a run makes them; all others come after them, sorted by name
    *("captions", "rejected_records", "scenes", "parses", "lexicon"),
    *("components", "component_vocabulary", "component_exclusions", "truth", "balance"),
    *(
        "negatives",
        "positives",
        "rejections",
        "refined",
        "features",
        "rejected_images",
        "generated",
        "refused_captions",
    ),
)
OPERATOR_TABLES = ("negatives", "positives", "refined")
PROVENANCE = ("seed", "parser", "negcap_version")


@dataclass(frozen=True)
class TableInfo:
    """A table of a run.

    stage: the stage that made it. shards: number of Parquet files. state: `finished`; `unfinished`; or `stale: …` with
    the input table that has changed since or is missing.
    """

    name: str
    stage: str
    rows: int
    shards: int
    bytes: int
    state: str


@dataclass(frozen=True)
class RunInfo:
    """The content of a run.

    images, captions: their numbers. splits: captions by split. operators: rows by table, then operator. provenance:
    seed, parser and negcap_version, as far as the run has them.
    """

    run: Path
    tables: tuple[TableInfo, ...]
    images: int
    captions: int
    splits: Mapping[str, int]
    operators: Mapping[str, Mapping[str, int]]
    provenance: Mapping[str, str]

    def as_dict(self) -> dict[str, Any]:
        """All fields, and the total `bytes` of the tables, as values that JSON can represent."""
        return {**asdict(self), "run": str(self.run), "bytes": sum(table.bytes for table in self.tables)}


def table_names(run: Path) -> list[str]:
    """The names of the tables of a run, in the order of ORDER. Raises FileNotFoundError when `run` has none."""
    names = [name for name in storage.names(run) if list_shards(run / name)]
    if not names:
        raise FileNotFoundError(f"{run} must be the folder of a run, has no tables")
    return sorted(names, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))


def read_info(run: Path) -> RunInfo:
    """Describe a run from its manifests and a few columns; only the shards of these columns are checked.

    Raises FileNotFoundError when `run` has no tables, ValueError for an unreadable manifest, DamagedShardError for a
    shard that is missing or not as recorded.
    """
    import pyarrow.compute as pc

    names = table_names(run)
    manifests = {name: manifest_of(run, name) for name in names}
    shards = {name: shards_of(run, name, unfinished=True) for name in names}
    tables = tuple(_table(run, name, manifests[name], shards[name]) for name in names)
    images: set[str] = set()
    splits: dict[str, int] = {}
    for shard in shards.get("captions", ()):
        columns = read_columns(shard, ["image_id", "split"])
        images.update(pc.unique(columns["image_id"]).to_pylist())
        _add_counts(splits, columns["split"])
    operators: dict[str, dict[str, int]] = {}
    for name in OPERATOR_TABLES:
        for shard in shards.get(name, ()):
            _add_counts(operators.setdefault(name, {}), read_columns(shard, ["operator"])["operator"])
    found: dict[str, str] = {}
    for manifest in manifests.values():
        for key in PROVENANCE:
            if manifest is not None and key in manifest.identity.metadata:
                found[key] = manifest.identity.metadata[key]
    return RunInfo(run, tables, len(images), sum(splits.values()), splits, operators, found)


def _add_counts(counts: dict[str, int], column: Any) -> None:
    """Add the number of occurrences of each value of a column to `counts`."""
    for entry in column.value_counts().to_pylist():
        name = entry["values"] or UNSPLIT
        counts[name] = counts.get(name, 0) + entry["counts"]


def _table(run: Path, name: str, manifest: Manifest | None, shards: list[Shard]) -> TableInfo:
    rows = sum(shard.rows for shard in shards)
    stage = manifest.identity.stage if manifest is not None else ""
    sizes = storage.sizes(run / name)
    size = sum(sizes.get(shard.path.name, 0) for shard in shards)
    return TableInfo(name, stage, rows, len(shards), size, _state(run, manifest))


def _state(run: Path, manifest: Manifest | None) -> str:
    if manifest is None:
        return "unfinished: no manifest"
    if not manifest.complete:
        return "unfinished"
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
    """Print what a run contains, its tables first, as text for people."""
    console = console_of(stream)

    def line(label: str, text: str) -> None:
        console.print(f"{label:<10} {text}", soft_wrap=True, markup=False)

    line("run", f"{info.run}, {size(sum(table.bytes for table in info.tables))}")
    line("captions", f"{info.captions:,} of {number_of(info.images, 'image')}")
    if info.splits:
        line("splits", listed(info.splits))
    for name, operators in info.operators.items():
        line(name, listed(operators) if operators else "none")
    labels = {"seed": "seed", "parser": "parser", "negcap_version": "negcap"}
    for key, value in info.provenance.items():
        line(labels[key], value)
    table = plain_table("table", "rows", "files", "size")
    table.add_column("made by")
    table.add_column("state")
    for entry in info.tables:
        table.add_row(
            entry.name, f"{entry.rows:,}", f"{entry.shards:,}", size(entry.bytes), entry.stage, entry.state,
            style="" if entry.state == "finished" else "yellow",
        )  # fmt: skip
    print_table(console, table)


def listed(counts: Mapping[str, int]) -> str:
    """Names with their counts: "train 400, val 100"."""
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())


def size(count: int) -> str:
    """A number of bytes with a suitable unit: "812 B", "25.0 kB", "3.1 MB"."""
    amount, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            break
        amount /= 1000
    return f"{count} B" if unit == "B" else f"{amount:,.1f} {unit}"
