"""Stage ingest: caption files -> the tables captions and rejected_records.

It has three steps, done by workers: `read_part` (files of a part -> rows), `group_rows` (rows of all parts -> which
become captions, in which order, and which are refused), `pack_range` (a range of positions -> shards). Each call writes
its files once, so that an interrupted ingest goes on.
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
from typing import Any, NamedTuple, TypedDict, TypeVar

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
# Sources of so many files or more, or of several files with so many bytes or more, have each file as a part.
MANY_FILES = 8
MANY_BYTES = 1 << 28
RANGE_ROWS = 1 << 17  # rows that are packed into shards in one call
REPORT_EVERY = 10_000  # records


class Ingested(NamedTuple):
    """The result of `ingest`: summed counters (`captions`, `images`, `rejected.<reason>` …), and warnings for users."""

    counts: Mapping[str, int]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Work:
    """What all calls of an ingest in workers share.

    Attributes:
        source, format, config: what is read, and how.
        folder: of the temporary files.
        output: the tables that are made.
        schema: of the rows of parts.
        parts: how many parts the source is read in.
        shard_size: captions per shard at most; 0: not known yet.
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

    def read_range(self, name: str, low: int, high: int, column: str) -> pa.Table:
        """The rows of a temporary table with low <= `column` < high.

        name: "kept" (captions, sorted by `home`, the position of the first caption of their image) or "refused"
        (records, sorted by `position`), as `grouping.grouped` makes them.
        """
        path = self.folder / f"{name}.parquet"
        filters = [(column, ">=", low), (column, "<", high)]
        return pq.read_table(path, filters=filters, use_threads=False).combine_chunks()

    def once(self, name: str, files: Sequence[Path], make: Callable[[], Receipt]) -> Receipt:
        """Do a step of the ingest, unless an earlier, interrupted ingest has done it and its files are still intact.

        Args:
            name: of the step, by which its result is kept in a file of JSON.
            files: that `make` writes.
            make: does the step, and returns plain JSON.

        Returns:
            The result of `make`, from now or from then.
        """
        # A worker with other code than the command would make other rows under the same key.
        check_code(self.output.identity.code, __name__)
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{name}.json"
        key = f"{self.output.key} {self.config.strict} {self.parts}"
        try:
            receipt = json.loads(path.read_bytes())
            if receipt["key"] == key and receipt["files"] == [*map(sha256_file, files)]:
                return receipt["result"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            pass  # none, or half a file: the step is done again
        result = make()
        write_json(path, {"key": key, "result": result, "files": [*map(sha256_file, files)]})
        return result


class PartRead(TypedDict):
    """What reading a part has found: how many rows (records), and how many characters their captions have."""

    rows: int
    characters: int


class Grouped(TypedDict):
    """What grouping has found. shards: for each range of positions, how many shards the images fill whose first caption
    is there. first: the first rejected record, as the values of a Rejected, or None.
    """

    shards: list[int]
    first: list[Any] | None


Receipt = TypeVar("Receipt", PartRead, Grouped)
Result = TypeVar("Result")


def ingest(source: str, run: Path, config: IngestConfig, execution: Execution) -> Ingested:
    """Read `source` (a path, URL or pattern) into the tables captions and rejected_records of a run.

    Images are in order of first appearance; all captions of an image are in one shard, in source order. Many files that
    can be read one by one are read by the workers of `execution` (in this process if they may not see the temporary
    files), and a shard ends where a file does. Memory grows by some 10 bytes a record: rows lie in the folder `.ingest`
    (engine.storage.scratch_folder), from which an interrupted ingest goes on. Nothing is written before all is read.

    Tables of the same content and config are kept. Raises FileNotFoundError or ValueError, naming the file, when the
    source cannot be read, has no captions or, with `strict`, a bad record; OtherConfigError when `run` was made from
    something else, unless it overwrites; OSError; EngineError when workers are lost or the run is locked.
    """
    format = config.format or readers.detect(source)
    if config.language == "all" and format not in ("multi30k", "vsepp"):
        raise ValueError(f"language all is for folders of Multi30K or VSE++, {source} is of the format {format}")
    if config.languages:
        # Finds invalid settings before anything is read.
        checks.in_languages(config.languages)
    files = readers.files_of(source, format, config)
    progress = execution.progress
    executor = _choose_executor(files, run, execution.executor)
    kept_columns = readers.kept_types(format, files, config)
    contents = each(executor, readers.content, [(file, format) for file in files])
    with locked(run):
        outputs = {"rejected_records": REJECTED_RECORDS, "captions": CAPTIONS}
        if kept_columns:
            outputs = {"source_columns": source_columns(kept_columns), **outputs}
        identity = Identity(
            stage=NAME,
            config=_described_config(config, format),
            metadata=package(),
            tables=tuple(outputs),
            code=code_of(__name__),
            inputs=_described_files(source, files, contents),
        )
        output = Output(run.absolute(), identity, outputs, execution.overwrite)
        complete = output.complete_manifest()
        if complete is not None:
            with progress.stage(NAME, None, unit="records"):
                if config.strict and any(name.startswith("rejected.") for name in complete.counts):
                    bad = next(row for table in read_table(run, "rejected_records") for row in table.to_pylist())
                    raise ValueError(_describe_rejected(source, Rejected(**bad)))
            return Ingested(complete.counts, reading_warnings(run, complete.counts, config))
        parts = _divide_files(
            source, readers.reader_of(format).alone, files, sum(int(content["bytes"]) for content in contents)
        )
        work = Work(
            source=source,
            format=format,
            config=config,
            folder=scratch_folder(output.run, INGESTING),
            output=output,
            schema=grouping.rows_schema(kept_columns),
            parts=len(parts),
        )
        with progress.stage(NAME, None, unit="records"), _temporary_files(work):
            calls = _read_and_group(work, parts, executor, progress)
            output.begin()
            reports = Reports(lambda _, shards: progress.advance(0, shards))
            packed = each(executor, pack_range, calls, reports, len)
        counts = output.finish([shard for shards in packed for shard in shards])
    return Ingested(counts, reading_warnings(run, counts, config))


def _choose_executor(files: Sequence[str], run: Path, executor: Executor) -> Executor:
    """The executor that reads the files: the given one, or this process alone.

    This process reads them if they are few, or if the workers may not see its temporary files: for a run on a store
    these are on the local disk, unless the user has put them on a shared one by $XDG_CACHE_HOME.
    """
    are_workers_here = executor.scheduler is None
    sees_files = are_workers_here or not isinstance(run, RemotePath) or bool(os.environ.get("XDG_CACHE_HOME"))
    return executor if sees_files and len(files) >= MANY_FILES else Executor()


def _described_config(config: IngestConfig, format: str) -> dict[str, Any]:
    """The settings that decide the rows, with the versions of the libraries that they need."""
    described = {**describe(config), "format": format}
    # `strict` decides whether there is output, but not what is in it.
    del described["strict"]
    if config.languages:
        described["py3langid"] = version("py3langid")
    if config.near_duplicates:
        described["datasketch"] = version("datasketch")
    return described


def _described_files(source: str, files: Sequence[str], contents: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Size and hash of each file, by its name, or by its path in the source if two have one name."""
    names = [content["file"] for content in contents]
    if len(set(names)) < len(names):
        names = [readers.name_in(source, file) for file in files]
    described = {}
    for name, content in zip(names, contents, strict=True):
        [hash_name] = [key for key in content if key not in ("file", "bytes")]  # what was hashed, `sha256` of a file
        described[name] = f"{content['bytes']} bytes, {hash_name} {content[hash_name]}"
    return described


def _divide_files(source: str, is_read_by_file: bool, files: Sequence[str], total_bytes: int) -> list[Sequence[str]]:
    """Divide the files of a source into parts, each of which is read in one call.

    Each file is a part if there are many, or they are large, and the format can be read file by file; else the source
    is one part. total_bytes: the size of all files.
    """
    readable = files if is_read_by_file else [source]
    is_large = len(files) >= MANY_FILES or (len(files) > 1 and total_bytes >= MANY_BYTES)
    return [[file] for file in readable] if is_large else [readable]


class PackCall(NamedTuple):
    """The arguments of a call of `pack_range`, see there."""

    work: Work
    low: int
    high: int
    first_shard: int
    rejected: range


def _read_and_group(
    work: Work, parts: Sequence[Sequence[str]], executor: Executor, progress: Progress
) -> list[PackCall]:
    """Read all parts and group their rows, and return the calls of `pack_range` that are then to be made.

    Args:
        work: what the calls share; its shard_size is not known yet.
        parts: the files of each part.
        executor: makes the calls.
        progress: is told of every row that was read.

    Raises:
        ValueError: there is no caption or, with `strict`, a bad record; names the first.
    """
    reports = Reports(lambda _, rows: progress.advance(rows, 0))
    to_read = [(work, number, files) for number, files in enumerate(parts)]
    read = each(executor, read_part, to_read, reports, lambda part: part["rows"])
    rows = sum(part["rows"] for part in read)
    characters = sum(part["characters"] for part in read)
    work = replace(work, shard_size=grouping.captions_per_shard(work.config, rows, characters))
    # A position is that of a row in its part, with the number of the part in the high bits: parts need not know how
    # many rows the others have. Ranges are of at most RANGE_ROWS positions, of one part each.
    ranges = [
        range(part << PART_BITS | start, part << PART_BITS | min(start + RANGE_ROWS, part_read["rows"]))
        for part, part_read in enumerate(read)
        for start in range(0, part_read["rows"], RANGE_ROWS)
    ]
    [group] = each(executor, group_rows, [(work, rows, [positions.start for positions in ranges])])
    bad = Rejected(*group["first"]) if group["first"] else None
    if bad is not None and work.config.strict:
        raise ValueError(_describe_rejected(work.source, bad))
    if not any(group["shards"]):
        why = f"the first of its bad records: {_describe_rejected(work.source, bad)}" if bad else "it has no records"
        raise ValueError(f"{work.source}: must hold captions in the format {work.format}, has none; {why}")
    return _plan_pack_calls(work, ranges, group["shards"])


def _plan_pack_calls(work: Work, ranges: Sequence[range], shards: Sequence[int]) -> list[PackCall]:
    """Plan a call of `pack_range` for each range of positions that has the first caption of some image.

    Rejected records of ranges without such an image go to the next call, those at the end to the last call.

    Args:
        work: what the calls share.
        ranges: of positions, ascending.
        shards: how many shards the images of each range fill.
    """
    # Shards are numbered through all calls before any is made: the number that each range fills is known by now.
    calls: list[PackCall] = []
    first_shard = 0
    rejected_from = 0
    for positions, number in zip(ranges, shards, strict=True):
        if number:
            is_last = first_shard + number == sum(shards)
            behind_all = work.parts << PART_BITS  # a position has the number of its part above PART_BITS bits
            rejected_to = behind_all if is_last else positions.stop
            rejected = range(rejected_from, rejected_to)
            calls.append(PackCall(work, positions.start, positions.stop, first_shard, rejected))
            first_shard += number
            rejected_from = positions.stop
    return calls


def read_part(work: Work, number: int, files: Sequence[str]) -> PartRead:
    """Read part `number` of the source and write its records as rows."""

    def make() -> PartRead:
        """Read the files of the part, and write their captions, checked, as rows for the next steps."""
        records_of_files = (readers.read(work.source, work.format, work.config, [file]) for file in files)
        read = chain.from_iterable(records_of_files)
        records = checks.refusing(read, work.config.languages, work.config.boilerplate)
        blocks = grouping.blocks(_reported(records, work), work.schema, work.config)
        written = grouping.write_blocks(work.rows(number), work.schema, blocks)
        return PartRead(rows=written["rows"], characters=written["characters"])

    return work.once(f"read-{number:05d}", [work.rows(number)], make)


def _reported(records: Iterable[Record | Rejected], work: Work) -> Iterator[Record | Rejected]:
    """Yield the records and report how many were read. With `strict`, stop after the first rejected one."""
    for number, record in enumerate(records, 1):
        yield record
        if number % REPORT_EVERY == 0:
            report_done(number)
        if work.config.strict and type(record) is Rejected:
            return


def group_rows(work: Work, rows: int, starts: Sequence[int]) -> Grouped:
    """Decide which of all rows become captions, in which order, and which are refused; write that to two files.

    Args:
        work: see Work.
        rows: how many there are in all, by which the memory of DuckDB is limited.
        starts: the first position of each range in which shards are counted.
    """

    def make() -> Grouped:
        """Write the two files with DuckDB, which sorts on the disk what does not fit into memory."""
        import duckdb

        # how many keys texts are compared by: one of each text and, for near-duplicates, one of each of its bands
        keys = rows * (1 + checks.BANDS if work.config.near_duplicates else 1)
        try:
            rows_of_parts = grouping.read_blocks(map(work.rows, range(work.parts)), grouping.DECIDING)
            with grouping.grouped(rows_of_parts, work.config.limit, keys, work.folder / "duckdb") as connection:
                for path in files:
                    target = str(path).replace("'", "''")
                    rows_sorted = f"FROM {path.stem} ORDER BY ALL"
                    connection.execute(f"COPY ({rows_sorted}) TO '{target}' (FORMAT parquet, ROW_GROUP_SIZE 20480)")
                [first] = connection.execute("SELECT min(position) FROM refused").fetchone()
        except duckdb.IOException as error:
            raise OSError(errno.EIO, f"cannot write: {str(error).splitlines()[0]}", str(work.folder)) from error
        shards = grouping.count_shards_of_ranges(files[0], starts, work.shard_size)
        first_rejected = None if first is None else list(_refused(work, range(first, first + 1))[0])
        return Grouped(shards=shards, first=first_rejected)

    files = [work.folder / f"{name}.parquet" for name in ("kept", "refused")]
    return work.once("group", files, make)


def pack_range(work: Work, low: int, high: int, first_shard: int, rejected: range) -> list[ShardsOfTables]:
    """Make the shards of those images whose first caption is at `low` <= position < `high`.

    Args:
        work: see Work.
        low, high: the positions.
        first_shard: the number of the first shard.
        rejected: the positions of the rejected records that are written with the first shard.
    """
    check_code(work.output.identity.code, __name__)
    # Images are not divided: each caption is placed at its `home`, where the first caption of its image was read.
    placed = work.read_range("kept", low, high, "home")
    home = placed["home"].to_numpy()  # for each caption, the position of the first caption of its image
    number = placed["number"].to_numpy()  # of each caption among those of its image
    rows = grouping.rows_at(work.rows, work.schema, placed["position"].to_numpy())
    refused = _refused(work, rejected)
    counts = Counter(f"rejected.{record.reason}" for record in refused)
    counts["images_in_two_splits"] = _images_in_two_splits(home, rows["split"])
    # The table of rejected records has shards for ranges that have some, and always a first one, even if it is empty.
    tables: dict[str, pa.Table] = {}
    if refused or first_shard == 0:
        tables["rejected_records"] = pa.Table.from_pylist([record._asdict() for record in refused], REJECTED_RECORDS)
    shards: list[ShardsOfTables] = []
    captions_of_images = np.unique(home, return_counts=True)[1].tolist()
    first_row = 0
    for index, (size, images) in enumerate(grouping.shard_sizes(captions_of_images, work.shard_size), first_shard):
        # The tables of this shard: `tables` has rejected records only if they are written with it.
        names = [name for name in work.output.schemas if name in tables or name != "rejected_records"]
        shard = work.output.current(index, work.output.key, names)
        if shard is None:  # it is missing, damaged, or made from something else
            counts.update({"captions": size, "images": images})
            rows_of_shard = rows.slice(first_row, size)
            captions = grouping.captions_table(
                rows_of_shard,
                number[first_row : first_row + size],
                work.config.source_name or work.format,
                work.config.split,
            )
            tables["captions"] = captions
            kept_columns = work.output.schemas.get("source_columns")
            if kept_columns is not None:
                tables["source_columns"] = grouping.source_columns_table(rows_of_shard, captions, kept_columns)
            shard = work.output.write(index, StageResult(tables, +counts))  # +: without zeros
        shards.append(shard)
        first_row += size
        # What is counted for the whole range, and its rejected records, are in the first shard alone.
        counts = Counter()
        tables = {}
        report_done(len(shards))
    return shards


def _images_in_two_splits(home: np.ndarray, split: pa.ChunkedArray) -> int:
    """How many images have captions of several splits.

    Args:
        home: for each caption, the position of the first caption of its image, which stands for the image.
        split: for each caption, its split.
    """
    splits_of_images = pa.table({"home": home, "split": split}).group_by(["home", "split"]).aggregate([])
    _, splits = np.unique(splits_of_images["home"], return_counts=True)
    return int((splits > 1).sum())


def _refused(work: Work, positions: range) -> list[Rejected]:
    """The rejected records at some positions, in order."""
    refused = work.read_range("refused", positions.start, positions.stop, "position")
    # A record is refused if its image has the name of another image: the message names that one, found at `home`.
    rows = grouping.rows_at(work.rows, work.schema, refused["position"].to_numpy())
    first_captions = grouping.rows_at(work.rows, work.schema, refused["home"].to_numpy())
    return grouping.rejected_records(rows, refused["reason"].to_pylist(), first_captions["image"].to_pylist())


def each(
    executor: Executor,
    function: Callable[..., Result],
    calls: Sequence[tuple[object, ...]],
    counter: Reports | None = None,
    done: Callable[[Result], int] = lambda result: 0,
) -> list[Result]:
    """The results of function(*call), in the order of calls.

    Args:
        executor: makes the calls.
        function: is called, importable by workers.
        calls: the arguments of each call.
        counter: is told how far each call is: what it reports by `report_done` and, in the end, `done(result)`.
        done: what a result counts as: the rows or shards that were made.

    Raises:
        Exception: that of a call which fails.
    """
    results: dict[int, Result] = {}
    try:
        for position, result in executor.map(function, calls, counter):
            results[position] = result
            if counter is not None:
                counter(position, done(result))
    except TaskError as failed:
        # Errors of the source or of the disk are shown as they are: users can mend these.
        if isinstance(failed.__cause__, (ValueError, OSError)):
            raise failed.__cause__ from None
        raise StageError(f"{NAME} stopped: {failed}") from failed.__cause__
    return [results[position] for position in range(len(calls))]


def _describe_rejected(source: str, bad: Rejected) -> str:
    """A rejected record in one line, "captions.csv:7: empty: caption must …": its place, the reason, rule and value."""
    where = source if source.rstrip("/").endswith(bad.source) else f"{source.rstrip('/')}/{bad.source}"
    return f"{where}:{bad.line}: {bad.reason}: {bad.detail}"


class IngestedRecords(NamedTuple):
    """What `ingest_records` makes: the table captions, their kept columns (source_columns), and rejected records."""

    captions: pa.Table
    source_columns: pa.Table
    rejected: list[Rejected]


def ingest_records(
    records: Iterable[Record | Rejected], config: IngestConfig, kept: Mapping[str, pa.DataType]
) -> IngestedRecords:
    """The captions of records in memory, as if `ingest` had read them from a table file.

    Args:
        records: in order.
        config: of the ingest.
        kept: by name, the type of each column that the user keeps beside the captions.

    Raises:
        ValueError: a record is bad, and `config.strict`; names the first.
    """
    schema = grouping.rows_schema(kept)
    rows = pa.Table.from_batches(grouping.blocks(records, schema, config), schema)
    keys = rows.select(grouping.DECIDING).add_column(0, "position", pa.array(range(len(rows)), pa.int64()))
    with grouping.grouped(keys.to_batches(), config.limit) as connection:
        kept_rows = connection.sql("FROM kept ORDER BY ALL").to_arrow_table()
        refused = connection.sql("FROM refused ORDER BY ALL").to_arrow_table()
    # `home` is the position of the first row with the same image_id: a message may name the images of both.
    first_captions = rows.take(refused["home"])
    rejected = grouping.rejected_records(
        rows.take(refused["position"]), refused["reason"].to_pylist(), first_captions["image"].to_pylist()
    )
    if rejected and config.strict:
        first = rejected[0]
        raise ValueError(f"the caption at position {first.line - 1}: {first.reason}: {first.detail}")
    rows = rows.take(kept_rows["position"]).combine_chunks()
    captions = grouping.captions_table(
        rows, kept_rows["number"].to_numpy(), config.source_name or "table", config.split
    )
    kept_columns = grouping.source_columns_table(rows, captions, source_columns(kept))
    return IngestedRecords(captions, kept_columns, rejected)


@contextmanager
def _temporary_files(work: Work) -> Iterator[None]:
    """Remove the temporary files at the end, and say what to do if the disk is full.

    After an error they stay if the source has many parts, for the next attempt; not if the source itself is wrong.
    """
    try:
        yield
    except BaseException as error:
        if work.parts == 1 or isinstance(error, ValueError):
            shutil.rmtree(work.folder, ignore_errors=True)
        has_good_message = isinstance(error, OSError) and "cannot write" in str(error.strerror)
        if isinstance(error, OSError) and error.errno in NO_ROOM and not has_good_message:
            free = "disk full, free some space and run again"
            why = free if error.errno == errno.ENOSPC else os.strerror(error.errno)
            raise OSError(error.errno, f"cannot write: {why}", str(work.folder)) from error
        raise
    shutil.rmtree(work.folder, ignore_errors=True)
