"""What a run contains: its tables, columns, state, captions, operators, provenance; and a page on its stages' speed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.compute as pc

from ...schemas.fields import description
from ...schemas.markdown import TABLES, short
from ...schemas.messages import number_of, word
from ..engine import storage
from ..engine.manifest import Manifest, manifest_of
from ..engine.progress import STATISTICS, ShardStatistics, measured_stages, read_statistics
from ..engine.shards import list_shards
from ..engine.tables import SOURCES, hash_table, no_run, shards_of
from ..tables.columns import UNSPLIT
from .summary import NO_CANDIDATE, console_of, plain_table, print_table

ORDER = (  # of the tables: as a run makes them; all others come after them, sorted by name
    "captions", "rejected_records", "scenes", "parses", "lexicon", "components", "component_vocabulary",
    "component_exclusions", "truth", "balance", "negatives", "positives", "rejections", "excluded", "refined",
    "features", "rejected_images", "generated", "refused_captions",
)  # fmt: skip
PAGE = "README.md"
SLOWEST = 5
REASONS = 6
OPERATOR_TABLES = ("negatives", "positives", "refined")
PROVENANCE = {"seed": "seed", "parser": "parser", "negcap_version": "negcap"}  # and how it is shown


def table_names(run: Path) -> list[str]:
    """The names of the tables of a run, in the order of ORDER. Raises FileNotFoundError when `run` has none."""
    names = [name for name in storage.names(run) if list_shards(run / name)]
    if not names:
        raise no_run(run)
    return sorted(names, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))


def read_info(run: Path) -> dict[str, Any]:
    """Describe a run by its manifests and a few columns, whose shards alone are checked, as JSON: `run`; `tables`:
    name, stage, rows, shards, bytes, state (`finished`, `unfinished`, `stale: …` with the input that has changed or is
    missing); `images`, `captions`; `splits`; `operators`: rows by table, then operator; `provenance`; `bytes` of all.
    Raises FileNotFoundError without tables, ValueError for an unreadable manifest, DamagedShardError.
    """
    names = table_names(run)
    manifests = {name: manifest_of(run, name) for name in names}
    shards = {name: shards_of(run, name, unfinished=True) for name in names}
    tables = []
    for name, manifest in manifests.items():
        sizes = storage.sizes(run / name)
        its = shards[name]
        table: dict[str, Any] = {"name": name, "stage": manifest.identity.stage if manifest is not None else ""}
        table |= {"rows": sum(shard.rows for shard in its), "shards": len(its)}
        table["bytes"] = sum(sizes.get(shard.path.name, 0) for shard in its)
        tables.append(table | {"state": _state(run, manifest)})
    images = set[str]()
    splits = Counter[str]()
    for shard in shards.get("captions", ()):
        columns = shard.read(["image_id", "split"])
        images.update(pc.unique(columns["image_id"]).to_pylist())
        splits.update(_counts(columns["split"]))
    operators = {name: Counter[str]() for name in OPERATOR_TABLES if name in shards}
    for name, counts in operators.items():
        for shard in shards[name]:
            counts.update(_counts(shard.read(["operator"])["operator"]))
    metadata = [manifest.identity.metadata for manifest in manifests.values() if manifest is not None]
    found = {"run": str(run), "tables": tables, "images": len(images), "captions": sum(splits.values())}
    provenance = {key: given[key] for given in metadata for key in PROVENANCE if key in given}
    found |= {"splits": splits, "operators": operators, "provenance": provenance}
    return {**found, "bytes": sum(table["bytes"] for table in tables)}


def _counts(column: pa.ChunkedArray) -> dict[str, int]:
    return {entry["values"] or UNSPLIT: entry["counts"] for entry in column.value_counts().to_pylist()}


def _state(run: Path, manifest: Manifest | None) -> str:
    """Whether a table is finished, unfinished, or stale since its input has changed, and why."""
    if manifest is None:
        return "unfinished: no manifest"
    if not manifest.complete:
        return "unfinished"
    for table, digest in manifest.identity.inputs.items() if manifest.identity.stage not in SOURCES else ():
        try:
            changed = hash_table(run, table) != digest
        except (FileNotFoundError, ValueError):
            return f"stale: {table} is missing or unfinished"
        if changed:
            return f"stale: made from other {table}"
    return "finished"


def print_info(info: Mapping[str, Any], stream: TextIO) -> None:
    """Print what a run contains, as `read_info` returns it, as text for people; its tables last."""
    lines = {"run": f"{info['run']}, {size(info['bytes'])}"}
    lines["captions"] = f"{info['captions']:,} of {number_of(info['images'], 'image')}"
    for label, counts in {**({"splits": info["splits"]} if info["splits"] else {}), **info["operators"]}.items():
        lines[label] = ", ".join(f"{name} {count:,}" for name, count in counts.items()) or "none"
    lines |= {PROVENANCE[key]: value for key, value in info["provenance"].items()}
    console = console_of(stream)
    for label, text in lines.items():
        console.print(f"{label:<10} {text}", soft_wrap=True, markup=False)
    table = plain_table("table", "rows", "files", "size")
    table.add_column("made by")
    table.add_column("state")
    for entry in info["tables"]:
        numbers = f"{entry['rows']:,}", f"{entry['shards']:,}", size(entry["bytes"])
        style = "" if entry["state"] == "finished" else "yellow"
        table.add_row(entry["name"], *numbers, entry["stage"], entry["state"], style=style)
    print_table(console, table)


def size(count: int) -> str:
    """A number of bytes with a suitable unit: "812 B", "25.0 kB", "3.1 MB"."""
    if count < 1000:
        return f"{count} B"
    power = next((power for power in (1, 2) if count < 1000 ** (power + 1)), 3)
    return f"{count / 1000**power:,.1f} {('kB', 'MB', 'GB')[power - 1]}"


def columns_of(table: str, run: Path | None) -> list[dict[str, str | bool]]:
    """The columns of a table, of a run or as this version writes it, as dicts of `column`, `type`, `nullable` and
    `meaning`. Raises ValueError, with those that there are, for another table; FileNotFoundError for no run.
    """
    schema: pa.Schema
    if run is not None:
        word("table", table, table_names(run))
        schema = shards_of(run, table, unfinished=True)[0].read().schema
    else:
        known = {(one.metadata or {})[b"table"].decode(): one for one in TABLES}
        schema = known[word("table", table, known)]
    return [
        {"column": one.name, "type": short(one.type), "nullable": one.nullable, "meaning": description(one)}
        for one in schema
    ]


def print_columns(columns: Sequence[Mapping[str, str | bool]], stream: TextIO) -> None:
    """Print a line with the name and type of each column, and one with its description."""
    for one in columns:
        nullable = ", or null" if one["nullable"] else ""
        print(f"{one['column']}  {one['type']}{nullable}\n    {one['meaning']}", file=stream)


def write_page(run: Path) -> Path | None:
    """Write `RUN/_statistics/README.md`, on the speed of a run's stages; returns its path, None without statistics."""
    stages = {name: lines for name in measured_stages(run) if (lines := read_statistics(run, name))}
    if not stages:
        return None
    path = run / STATISTICS / PAGE
    storage.refuse_link(path.parent)
    storage.write_atomically(path, page(run.name, stages).encode())
    return path


def page(name: str, stages: Mapping[str, Sequence[ShardStatistics]]) -> str:
    """The page on the speed of a run's stages, in Markdown. name: of the run; stages: what each shard took."""

    def table(head: str, rows: Sequence[Sequence[str]]) -> str:
        columns = head.split("|")
        lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *rows]
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)

    totals = []
    parts = []
    for stage, lines in stages.items():
        seconds = sum(line.cpu for line in lines)
        captions = sum(line.captions for line in lines)
        memory = [line.memory for line in lines]
        speed = f"{captions / seconds:,.0f}" if seconds else "–"
        workers = len({line.worker for line in lines})
        retries = sum(line.retries for line in lines)
        taken = f"{captions:,}", f"{seconds / 3600:,.2f}", speed, f"{workers:,}"
        totals.append((stage, f"{len(lines):,}", *taken, size(int(median(memory))), size(max(memory)), f"{retries:,}"))
        parts.append(f"## {stage}\n")
        if refused := sum((Counter(line.refused) for line in lines), Counter()):
            bare = refused.pop(NO_CANDIDATE, 0)
            shown = ", ".join(f"{reason} {count:,}" for reason, count in refused.most_common(REASONS))
            parts.append(f"Rejected: {refused.total():,} candidates: {shown}; no candidate {bare:,}\n")
        slowest = []
        for line in sorted(lines, key=lambda line: -line.seconds)[:SLOWEST]:
            times = f"{line.captions:,}", f"{line.seconds:.1f}", f"{line.cpu:.1f}"
            slowest.append((f"part-{line.shard:05d}", *times, size(line.memory), str(line.retries), line.worker))
        parts.append(table("slowest|captions|seconds|of CPU|memory|retries|worker", slowest))
    head = "stage|shards|captions|CPU hours|captions per CPU second|workers|memory, median|largest|retries"
    return "\n".join([f"# Work on {name}\n", table(head, totals), *parts])
