"""Stage ingest: caption files -> the tables captions and rejected_records. Its calls in workers write files once, so
that an interrupted ingest goes on: `read_part` (files of a part -> rows), `group_rows` (rows of all parts -> which
become captions, in which order, and which are refused), `pack_range` (a range of positions -> shards).
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ...schemas.captions import CAPTIONS, REJECTED_RECORDS, source_columns
from .. import readers
from ..engine.cluster import Executor, report_done
from ..engine.errors import StageError, TaskError
from ..engine.lock import locked
from ..engine.manifest import Identity, check_code, code_of, describe
from ..engine.output import Output, ShardsOfTables
from ..engine.places import RemotePath
from ..engine.progress import Progress, Reports
from ..engine.run import Execution
from ..engine.stage import StageResult
from ..engine.storage import scratch_folder, sha256_file, write_json
from ..engine.tables import INGESTING, package, read_table
from ..ingestion import checks, grouping
from ..ingestion.grouping import PART_BITS, IngestConfig
from ..readers.record import Record, Rejected
from ..tables.warnings import reading_warnings

NAME = "ingest"
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # a full disk, a used quota, a file above a limit
MANY_FILES = 8  # from so many files on, or so many bytes of several files, each is a part of its own
MANY_BYTES = 1 << 28
RANGE_ROWS = 1 << 17  # rows that are packed into shards in one call
REPORT_EVERY = 10_000


class Ingested(NamedTuple):
    """The result of `ingest`: summed counters (`captions`, `images`, `rejected.<reason>` …), and warnings for users."""

    counts: Mapping[str, int]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Work:
    """What all calls of an ingest in workers share: what is read and how, the folder of temporary files, the output,
    the schema of rows, the number of parts, captions per shard at most (0: not known yet).
    """

    source: str
    format: str
    config: IngestConfig
    folder: Path
    output: Output
    schema: pa.Schema
    parts: int
    shard_size: int = 0

    def rows(self, part: int) -> Path:
        """The file of the rows of a part."""
        return self.folder / f"rows-{part:05d}.arrow"

    def placed(self, name: str, low: int, high: int, of: str) -> pa.Table:
        """The rows of the table `kept` or `refused` (see ingestion.grouping) with low <= column `of` < high."""
        path = self.folder / f"{name}.parquet"
        return pq.read_table(path, filters=[(of, ">=", low), (of, "<", high)], use_threads=False).combine_chunks()

    def once(self, name: str, files: Sequence[Path], make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The plain JSON that `make`, which writes `files`, returns, or an earlier call `name` if these are intact."""
        check_code(self.output.identity.code, __name__)
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{name}.json"
        key = f"{self.output.key} {self.config.strict} {self.parts}"
        try:
            receipt = json.loads(path.read_bytes())
            if receipt["key"] == key and receipt["files"] == [*map(sha256_file, files)]:
                return receipt["made"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            pass
        made = make()
        write_json(path, {"key": key, "made": made, "files": [*map(sha256_file, files)]})
        return made


def ingest(source: str, run: Path, config: IngestConfig, execution: Execution) -> Ingested:
    """Read `source` (a path, URL or pattern) into the tables captions and rejected_records of a run.

    Images are in order of first appearance, all captions of one in source order in a shard. Many files that can be read
    one by one are read by the workers of `execution` (in this process if they may not see the temporary files), and a
    shard ends where a file does. Memory grows by some 10 bytes a record: rows lie in the folder `.ingest` (see
    engine.storage.scratch_folder), from which an interrupted ingest goes on. Nothing is written before all is read.

    Tables of the same content and config are kept. Raises FileNotFoundError or ValueError, naming the file, when the
    source cannot be read, has no captions or, with `strict`, a bad record; OtherConfigError when `run` was made from
    something else, unless it overwrites; OSError; EngineError when workers are lost or the run is locked.
    """
    format = config.format or readers.detect(source)
    if config.language == "all" and format not in ("multi30k", "vsepp"):
        raise ValueError(f"language all is for folders of Multi30K or VSE++, {source} is of the format {format}")
    if config.languages:
        checks.in_languages(config.languages)  # finds invalid settings before anything is read
    files = readers.files_of(source, format, config)
    # other machines see the temporary files of a run on a store where a user has set $XDG_CACHE_HOME for that
    progress = execution.progress
    executor = execution.executor
    shared = executor.scheduler is None or not isinstance(run, RemotePath) or os.environ.get("XDG_CACHE_HOME")
    if len(files) < MANY_FILES or not shared:
        executor = Executor()
    kept = readers.kept_types(format, files, config)
    contents = each(executor, readers.content, [(file, format) for file in files])
    with locked(run):
        outputs = {"rejected_records": REJECTED_RECORDS, "captions": CAPTIONS}
        if kept:
            outputs = {"source_columns": source_columns(kept), **outputs}
        described = {**describe(config), "format": format}
        del described["strict"]  # it decides whether there is output, but not what is in it
        for library, asked in (("py3langid", config.languages), ("datasketch", config.near_duplicates)):
            described |= {library: version(library)} if asked else {}
        names = [file["file"] for file in contents]
        if len(set(names)) < len(names):
            names = [readers.name_in(source, file) for file in files]
        held = (f"{file['bytes']} bytes, {name} {file[name]}" for file in contents for name in list(file)[2:])
        inputs = dict(zip(names, held, strict=True))
        identity = Identity(NAME, described, package(), tuple(outputs), code_of(__name__), inputs)
        output = Output(run.absolute(), identity, outputs, execution.overwrite)
        if (made := output.finished()) is not None:
            with progress.stage(NAME, None, unit="records"):
                if config.strict and any(name.startswith("rejected.") for name in made.counts):
                    bad = next(row for table in read_table(run, "rejected_records") for row in table.to_pylist())
                    raise ValueError(_described(source, Rejected(**bad)))
            return Ingested(made.counts, reading_warnings(run, made.counts, config))
        reader = readers.reader_of(format)
        given = files if reader.alone else [source]
        many = len(files) >= MANY_FILES or (len(files) > 1 and sum(file["bytes"] for file in contents) >= MANY_BYTES)
        parts = [[file] for file in given] if many else [given]
        folder = scratch_folder(output.run, INGESTING)
        schema = grouping.rows_schema(kept)
        work = Work(source, format, config, folder, output, schema, len(parts))
        with progress.stage(NAME, None, unit="records"), _temporary_files(work):
            calls = _read_and_group(work, parts, executor, progress)
            output.begin()
            packed = each(executor, pack_range, calls, Reports(lambda _, shards: progress.advance(0, shards)), len)
        counts = output.finish([shard for call in packed for shard in call])
    return Ingested(counts, reading_warnings(run, counts, config))


def _read_and_group(
    work: Work, parts: Sequence[Sequence[str]], executor: Executor, progress: Progress
) -> list[tuple[Any, ...]]:
    """Read all parts and group their rows; the calls of `pack_range`. ValueError for no, or strict a bad, caption."""
    reports = Reports(lambda _, rows: progress.advance(rows, 0))
    to_read = [(work, number, files) for number, files in enumerate(parts)]
    read = each(executor, read_part, to_read, reports, lambda part: part["rows"])
    total, characters = (sum(part[what] for part in read) for what in ("rows", "characters"))
    work = replace(work, shard_size=grouping.captions_per_shard(work.config, total, characters))
    ranges = [
        (part << PART_BITS | start, part << PART_BITS | min(start + RANGE_ROWS, call["rows"]))
        for part, call in enumerate(read)
        for start in range(0, call["rows"], RANGE_ROWS)
    ]
    [group] = each(executor, group_rows, [(work, total, [low for low, _ in ranges])])
    shards = group["shards"]
    bad = Rejected(*group["first"]) if group["first"] else None
    if bad is not None and work.config.strict:
        raise ValueError(_described(work.source, bad))
    if not any(shards):
        found = f"the first of its bad records: {_described(work.source, bad)}" if bad else "it has no records"
        raise ValueError(f"{work.source}: must hold captions in the format {work.format}, has none; {found}")
    # ranges without captions make no call: their rejected records go to the next one, those at the end to the last
    calls: list[tuple[Any, ...]] = []
    start = 0
    rejected_from = 0
    total = sum(shards)
    for (low, high), count in zip(ranges, shards, strict=True):
        if count:
            rejected_to = high if start + count < total else work.parts << PART_BITS
            calls.append((work, low, high, start, (rejected_from, rejected_to)))
            start = start + count
            rejected_from = high
    return calls


def read_part(work: Work, number: int, files: Sequence[str]) -> dict[str, Any]:
    """Read part `number` of the source and write its records as rows; the number of `rows` and caption `characters`."""

    def make() -> dict[str, Any]:
        read = (readers.read(work.source, work.format, work.config, [file]) for file in files)
        records = checks.refusing(chain.from_iterable(read), work.config.languages, work.config.boilerplate)
        return grouping.write_blocks(
            work.rows(number), work.schema, grouping.blocks(_reported(records, work), work.schema, work.config)
        )

    return work.once(f"read-{number:05d}", [work.rows(number)], make)


def _reported(records: Iterable[Record | Rejected], work: Work) -> Iterator[Record | Rejected]:
    """The records; how many were read is reported. With `strict`, it stops after the first rejected one."""
    for number, record in enumerate(records, 1):
        yield record
        if number % REPORT_EVERY == 0:
            report_done(number)
        if work.config.strict and type(record) is Rejected:
            return


def group_rows(work: Work, rows: int, starts: Sequence[int]) -> dict[str, Any]:
    """Decide which of all `rows` become captions, in which order, and which are refused. Returns `shards`, how many the
    images fill whose first captions are in each range from `starts`, and `first`, the first rejected record or None.
    """

    def make() -> dict[str, Any]:
        import duckdb

        keys = rows * (1 + checks.BANDS if work.config.near_duplicates else 1)
        try:
            rows_of_parts = grouping.read_blocks(map(work.rows, range(work.parts)), grouping.DECIDING)
            with grouping.grouped(rows_of_parts, work.config.limit, keys, work.folder / "duckdb") as connection:
                for path in files:
                    to = str(path).replace("'", "''")
                    rows_sorted = f"FROM {path.stem} ORDER BY ALL"
                    connection.execute(f"COPY ({rows_sorted}) TO '{to}' (FORMAT parquet, ROW_GROUP_SIZE 20480)")
                [first] = connection.execute("SELECT min(position) FROM refused").fetchone()
        except duckdb.IOException as error:
            raise OSError(errno.EIO, f"cannot write: {str(error).splitlines()[0]}", str(work.folder)) from error
        shards = grouping.shards_of_ranges(files[0], starts, work.shard_size)
        return {"shards": shards, "first": None if first is None else list(_refused(work, first, first + 1)[0])}

    files = [work.folder / f"{name}.parquet" for name in ("kept", "refused")]
    return work.once("group", files, make)


def pack_range(work: Work, low: int, high: int, start: int, bad: tuple[int, int]) -> list[ShardsOfTables]:
    """Make the shards, from number `start`, of images whose first caption is at `low` <= position < `high`. bad: the
    positions of the rejected records that are written with the first.
    """
    check_code(work.output.identity.code, __name__)
    placed = work.placed("kept", low, high, "home")
    home = placed["home"].to_numpy()
    number = placed["number"].to_numpy()
    rows = grouping.rows_at(work.rows, work.schema, placed["position"].to_numpy())
    refused = _refused(work, *bad)
    counts = Counter(f"rejected.{record.reason}" for record in refused)
    splits = pa.table({"home": home, "split": rows["split"]}).group_by(["home", "split"]).aggregate([])
    counts["images_in_two_splits"] = int((np.unique(splits["home"], return_counts=True)[1] > 1).sum())
    table = pa.Table.from_pylist([record._asdict() for record in refused], REJECTED_RECORDS)
    tables = {} if start and not refused else {"rejected_records": table}
    shards: list[ShardsOfTables] = []
    sizes = np.unique(home, return_counts=True)[1].tolist()
    first = 0
    for index, (size, images) in enumerate(grouping.shard_sizes(sizes, work.shard_size), start):
        names = [name for name in work.output.schemas if name in tables or name != "rejected_records"]
        made = work.output.current(index, work.output.key, names)
        if made is None:
            counts.update({"captions": size, "images": images})
            some = rows.slice(first, size)
            named = work.config.source_name or work.format, work.config.split
            table = grouping.captions_table(some, number[first : first + size], *named)
            made_tables = {**tables, "captions": table}
            if kept := work.output.schemas.get("source_columns"):
                made_tables["source_columns"] = grouping.source_columns_table(some, table, kept)
            made = work.output.write(index, StageResult(made_tables, +counts))
        shards.append(made)
        first += size
        counts = Counter()
        tables = {}
        report_done(len(shards))
    return shards


def _refused(work: Work, low: int, high: int) -> list[Rejected]:
    """The rejected records with low <= position < high, in order."""
    refused = work.placed("refused", low, high, "position")
    rows, firsts = (grouping.rows_at(work.rows, work.schema, refused[name].to_numpy()) for name in ("position", "home"))
    return grouping.rejected_records(rows, refused["reason"].to_pylist(), firsts["image"].to_pylist())


def each(
    executor: Executor,
    function: Callable[..., Any],
    calls: Sequence[tuple[Any, ...]],
    counter: Reports | None = None,
    done: Callable[[Any], int] = lambda result: 0,
) -> list[Any]:
    """The results of function(*call), in the order of calls. Raises the error of one that fails. counter: gets the
    captions that running calls report and, in the end, `done(result)`.
    """
    results: list[Any] = [None] * len(calls)
    try:
        for position, result in executor.map(function, calls, counter):
            results[position] = result
            if counter is not None:
                counter(position, done(result))
    except TaskError as failed:
        if isinstance(failed.__cause__, (ValueError, OSError)):
            raise failed.__cause__ from None
        raise StageError(f"{NAME} stopped: {failed}") from failed.__cause__
    return results


def _described(source: str, bad: Rejected) -> str:
    """A rejected record in one line: where it stands, the reason, the rule and the value."""
    where = source if source.rstrip("/").endswith(bad.source) else f"{source.rstrip('/')}/{bad.source}"
    return f"{where}:{bad.line}: {bad.reason}: {bad.detail}"


def ingest_records(
    records: Iterable[Record | Rejected], config: IngestConfig, kept: Mapping[str, pa.DataType]
) -> tuple[pa.Table, pa.Table, list[Rejected]]:
    """Captions of records in memory, their kept columns (source_columns), and rejected records, all as if `ingest` had
    read a table file. kept: types by name. Raises ValueError at the first bad record if `config.strict`.
    """
    schema = grouping.rows_schema(kept)
    rows = pa.Table.from_batches(grouping.blocks(records, schema, config), schema)
    keys = rows.select(grouping.DECIDING).add_column(0, "position", pa.array(range(len(rows)), pa.int64()))
    with grouping.grouped(keys.to_batches(), config.limit) as connection:
        placed, refused = (connection.sql(f"FROM {name} ORDER BY ALL").to_arrow_table() for name in ("kept", "refused"))
    bad, firsts = (rows.take(refused[name]) for name in ("position", "home"))
    left_out = grouping.rejected_records(bad, refused["reason"].to_pylist(), firsts["image"].to_pylist())
    if left_out and config.strict:
        first = left_out[0]
        raise ValueError(f"the caption at position {first.line - 1}: {first.reason}: {first.detail}")
    rows = rows.take(placed["position"]).combine_chunks()
    captions = grouping.captions_table(rows, placed["number"].to_numpy(), config.source_name or "table", config.split)
    return captions, grouping.source_columns_table(rows, captions, source_columns(kept)), left_out


@contextmanager
def _temporary_files(work: Work) -> Iterator[None]:
    """Remove the temporary files at the end; of a source of many parts only if it succeeds, or cannot be read."""
    try:
        yield
    except BaseException as error:
        if work.parts == 1 or isinstance(error, ValueError):
            shutil.rmtree(work.folder, ignore_errors=True)
        if isinstance(error, OSError) and error.errno in NO_ROOM and "cannot write" not in str(error.strerror):
            free = "disk full, free some space and run again"
            why = free if error.errno == errno.ENOSPC else os.strerror(error.errno)
            raise OSError(error.errno, f"cannot write: {why}", str(work.folder)) from error
        raise
    shutil.rmtree(work.folder, ignore_errors=True)
