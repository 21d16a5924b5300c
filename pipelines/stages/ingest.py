"""Stage ingest: caption files -> the tables captions and rejected_records (what could not be used, with reasons)."""

from __future__ import annotations

import errno
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from negcap.pipelines import readers
from negcap.pipelines.engine.manifest import describe
from negcap.pipelines.engine.source import Parts, SourceStage, run_source
from negcap.pipelines.engine.stage import Progress, StageResult
from negcap.pipelines.engine.storage import scratch_folder
from negcap.pipelines.engine.tables import read_table
from negcap.pipelines.readers.record import MAX_CAPTIONS, ReadOptions, Record, Rejected
from negcap.pipelines.readers.spool import Spool, cut, shard_sizes
from negcap.schemas.captions import CAPTIONS, REJECTED_RECORDS

if TYPE_CHECKING:
    import pyarrow as pa

NAME = "ingest"
TEMPORARY = ".ingest"
_SOURCE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_REPORT_EVERY = 10_000


@dataclass(frozen=True)
class IngestConfig:
    """What to read of a source, and how.

    format: a key of READERS; empty: detected. image_column, caption_column, split_column: of a plain table, a name, or
    a number from 1 if there is no header; empty: found by their usual names. language: ISO 639-1 code of the
    captions; for a Multi30K folder, the language to read, or `all`. language_column: the column with the code of each
    caption; empty: all are in `language`. source_name: the first part of every caption_id; empty: the format. limit:
    read only the first N images. shard_size: captions per shard, at most; an image is not split. strict: stop at the
    first bad record.
    """

    format: str = ""
    image_column: str = ""
    caption_column: str = ""
    split_column: str = ""
    language: str = "en"
    language_column: str = ""
    source_name: str = ""
    limit: int | None = None
    shard_size: int = 1000
    strict: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError for a value that is not valid."""
        if self.format and self.format not in readers.READERS:
            raise ValueError(f"format must be one of {', '.join(readers.READERS)}, was: {self.format}")
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"limit must be >= 1, was: {self.limit}")
        if self.shard_size < 1:
            raise ValueError(f"shard_size must be >= 1, was: {self.shard_size}")
        if not re.fullmatch(r"[a-z]{2,3}", self.language):
            raise ValueError(f"language must be an ISO 639 code such as en, or all, was: {self.language}")
        if self.source_name and not _SOURCE_NAME.fullmatch(self.source_name):
            raise ValueError(f"source_name must be of letters, digits and . _ -, was: {self.source_name}")

    @property
    def reading(self) -> ReadOptions:
        """How the reader of the format reads the source."""
        columns = self.image_column, self.caption_column, self.split_column
        return ReadOptions(*columns, self.language, self.language_column)


@dataclass(frozen=True)
class Ingested:
    """The result of `ingest`: summed counters (`captions`, `images`, `rejected.<reason>` …), and warnings for users."""

    counts: Mapping[str, int]
    warnings: tuple[str, ...]


def ingest(
    source: str,
    run: Path,
    config: IngestConfig,
    *,
    metadata: Mapping[str, str],
    progress: Progress,
    overwrite: bool = False,
) -> Ingested:
    """Read `source` (a path or URL) into the tables captions and rejected_records of the run in folder `run`.

    All captions of an image are in one shard; images are in order of first appearance, the captions of an image in
    source order. Nothing is written before the whole source has been read. Tables that were made from the same content
    and config are kept. metadata: provenance for the Parquet files. Raises FileNotFoundError or ValueError, with one
    line that names the file, when the source cannot be read, has no captions or, with `strict`, a bad record;
    OtherConfigError when `run` was made from something else and `overwrite` is not set; OSError when a table cannot be
    written.
    """
    format = config.format or readers.detect(source)
    if config.language == "all" and format != "multi30k":
        raise ValueError(f"language all is for Multi30K folders, {source} is of the format {format}")
    options = config.reading
    files = [readers.content(url) for url in readers.files(source, format, options)]
    described = {**describe(config), "format": format}
    del described["strict"]  # it decides whether there is output, but not what is in it
    if not config.language_column:
        del described["language_column"]  # runs were made before there was such a setting

    def parts() -> Parts:
        with _temporary(run) as folder:
            spool = Spool(folder, config.limit)
            rejected = _read(source, format, options, config, spool, progress)
            yield from _shards(spool, rejected, config.shard_size, config.source_name or format)

    stage = SourceStage(
        name=NAME,
        module=__name__,
        outputs={"rejected_records": REJECTED_RECORDS, "captions": CAPTIONS},
        config=described,
        inputs={file["file"]: f"{file['bytes']} bytes, sha256 {file['sha256']}" for file in files},
        metadata=metadata,
        parts=parts,
        check=lambda counts: _refuse_rejections(source, run, counts, config),
    )
    counts = run_source(stage, run, progress=progress, overwrite=overwrite)
    return Ingested(counts, _warnings(counts, config))


def _read(
    source: str, format: str, options: ReadOptions, config: IngestConfig, spool: Spool, progress: Progress
) -> list[pa.RecordBatch]:
    """Add all records to the spool; returns the rejected ones, in batches."""
    grouped = readers.reader_of(format).grouped
    rejected: list[Rejected] = []
    batches: list[pa.RecordBatch] = []
    first: Rejected | None = None
    kept = 0
    try:
        for record in readers.read(source, format, options):
            bad = spool.add(record) if isinstance(record, Record) else record
            if bad is not None:
                if config.strict:
                    raise ValueError(_describe_rejected(source, bad))
                first = first or bad
                rejected.append(bad)
                if len(rejected) >= _REPORT_EVERY:
                    batches.append(_rejections(rejected))
                    rejected = []
                continue
            kept += 1
            if kept % _REPORT_EVERY == 0:
                progress.advance(_REPORT_EVERY, 0)
            if spool.full and grouped:
                break
    finally:
        spool.close()
    progress.advance(kept % _REPORT_EVERY, 0)
    if not spool.images:
        found = f"the first of its bad records: {_describe_rejected(source, first)}" if first else "it has no records"
        raise ValueError(f"{source}: must hold captions in the format {format}, has none; {found}")
    return [*batches, _rejections(rejected)]


def _describe_rejected(source: str, bad: Rejected) -> str:
    where = source if source.rstrip("/").endswith(bad.source) else f"{source.rstrip('/')}/{bad.source}"
    return f"{where}:{bad.line}: {bad.reason}: {bad.detail}"


def _refuse_rejections(source: str, run: Path, counts: Mapping[str, int], config: IngestConfig) -> None:
    """With `strict`, raise ValueError for a run with rejected records; `counts` are the counters of its captions."""
    if config.strict and any(name.startswith("rejected.") for name in counts):
        row = next(read_table(run, "rejected_records")).slice(0, 1).to_pylist()[0]
        raise ValueError(_describe_rejected(source, Rejected(**row)))


def _rejections(rejected: list[Rejected]) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_pylist([bad._asdict() for bad in rejected], REJECTED_RECORDS)


def _shards(spool: Spool, rejected: list[pa.RecordBatch], size: int, source_name: str) -> Parts:
    """Yield a function per shard of at most `size` captions; the first shard also has all rejected records."""
    import pyarrow as pa

    bad = pa.Table.from_batches(rejected, REJECTED_RECORDS)
    counts = Counter({f"rejected.{reason}": n for reason, n in Counter(bad["reason"].to_pylist()).items()})
    counts["images_in_two_splits"] = len(spool.in_two_splits)
    tables = {"rejected_records": bad}
    sizes = shard_sizes(spool.sizes, size)
    build = _builder(spool, source_name)
    for rows, (captions, images) in zip(cut(spool.in_order(), [captions for captions, _ in sizes]), sizes, strict=True):
        counts.update({"captions": captions, "images": images})
        yield partial(StageResult, {**tables, "captions": build(rows)}, +counts)
        counts, tables = Counter(), {}


def ingest_records(records: Iterable[Record | Rejected], config: IngestConfig) -> tuple[pa.Table, list[Rejected]]:
    """The captions table of records in memory, and the records that cannot be kept, with their reasons.

    The order of images, caption numbers and ids are as if `ingest` had read the records from a table file. Raises
    ValueError at the first bad record if `config.strict` is set.
    """
    import pyarrow as pa

    refused = []
    with TemporaryDirectory() as folder:
        spool = Spool(Path(folder), config.limit)
        try:
            for record in records:
                bad = spool.add(record) if isinstance(record, Record) else record
                if bad is not None:
                    if config.strict:
                        raise ValueError(f"record {bad.line}: {bad.reason}: {bad.detail}")
                    refused.append(bad)
        finally:
            spool.close()
        rows = pa.Table.from_batches(spool.in_order(), spool.schema)
    return _builder(spool, config.source_name or "table")(rows), refused


def _builder(spool: Spool, source_name: str) -> Callable[[pa.Table], pa.Table]:
    """A function that makes a table of captions from rows of a spool."""
    import pyarrow as pa
    import pyarrow.compute as pc

    text = pa.string()
    images, image_ids = pa.array(spool.images, text), pa.array(spool.image_ids, text)
    splits, languages = pa.array(spool.splits, text), pa.array(spool.languages, text)

    def build(rows: pa.Table) -> pa.Table:
        image_id = image_ids.take(rows["image"].combine_chunks())
        number = rows["number"].combine_chunks().cast(text)
        columns = {
            "caption_id": pc.binary_join_element_wise(source_name, image_id, number, ":"),
            "image_id": image_id,
            "image": images.take(rows["image"].combine_chunks()),
            "split": splits.take(rows["split"].combine_chunks()),
            "language": languages.take(rows["language"].combine_chunks()),
            "origin": pa.repeat("human", rows.num_rows),
            "text": rows["text"].combine_chunks(),
        }
        return pa.table([columns[name] for name in CAPTIONS.names], schema=CAPTIONS)

    return build


def _warnings(counts: Mapping[str, int], config: IngestConfig) -> tuple[str, ...]:
    """Warnings for the user about the captions that were read."""
    warnings = []
    if config.language != "en" or config.language_column:
        read = f"from the column {config.language_column}" if config.language_column else config.language
        warnings.append(f"language is {read}: only English captions are parsed and changed")
    if several := counts.get("images_in_two_splits"):
        warnings.append(f"images with captions in more than one split: {several:,}")
    if same := counts.get("rejected.ambiguous_image"):
        warnings.append(
            f"records rejected as their image has the file name of another image: {same:,}; "
            "--image-column names a column with ids, or file names that are unique without their folder"
        )
    if beyond := counts.get("rejected.too_many_captions"):
        warnings.append(
            f"records rejected as their image has more than {MAX_CAPTIONS:,} captions: {beyond:,}; "
            "--image-column names a column that tells the images apart"
        )
    return tuple(warnings)


@contextmanager
def _temporary(run: Path) -> Iterator[Path]:
    """A temporary folder in `run`, or on the local disk, removed at the end."""
    folder = scratch_folder(run, TEMPORARY)
    shutil.rmtree(folder, ignore_errors=True)  # left by a run that was killed
    try:
        folder.mkdir(parents=True)
        yield folder
    except OSError as error:
        if error.errno == errno.ENOSPC and not error.filename:
            message = "cannot write: disk full, free some space and run again"
            raise OSError(error.errno, message, str(folder)) from error
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
