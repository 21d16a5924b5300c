"""captions: from the files of a data set to shards of captions, and of the records that could not be read."""

from __future__ import annotations

import errno
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from negcap.pipelines import readers
from negcap.pipelines.engine import manifest
from negcap.pipelines.engine.code import code_of
from negcap.pipelines.engine.shards import (
    Receipt,
    check_folder,
    is_current,
    list_shards,
    read_shard,
    remove_temporary,
    shard_path,
    write_shard,
)
from negcap.pipelines.engine.stage import Progress
from negcap.pipelines.readers.files import content
from negcap.pipelines.readers.record import ReadOptions, Record, Rejected
from negcap.pipelines.readers.spool import Spool, cut, shard_sizes
from negcap.schemas.captions import CAPTIONS, REJECTED_RECORDS

if TYPE_CHECKING:
    import pyarrow as pa

NAME = "ingest"
OUTPUTS = {"rejected_records": REJECTED_RECORDS, "captions": CAPTIONS}
TEMPORARY = ".ingest"
_SOURCE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_REPORT_EVERY = 10_000


@dataclass(frozen=True)
class IngestConfig:
    """What to read of a source, and how.

    format: a key of READERS; empty: told from the content. image_column, caption_column, split_column: of a
    plain table, a name, or a number from 1 where there is no header; empty: the usual names.
    language: ISO 639-1 code of the text; of a Multi30K folder, the one to read, or `all`.
    source_name: the first part of every caption_id; empty: the format's name. limit: the first N images in
    source order. shard_size: captions a shard, at most, of whole images. strict: stop at the first bad record.
    """

    format: str = ""
    image_column: str = ""
    caption_column: str = ""
    split_column: str = ""
    language: str = "en"
    source_name: str = ""
    limit: int | None = None
    shard_size: int = 1000
    strict: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError for a value that makes no sense."""
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


@dataclass(frozen=True)
class Ingested:
    """What ingest made: summed counters (`captions`, `images`, `rejected.<reason>` …), and what a user should know."""

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
    """Read `source` into the tables captions and rejected_records of `run`.

    All captions of an image stand in one shard, images in order of first appearance, an image's captions in
    source order. Nothing is written before the whole source was read; a run that has these tables already, from the
    same content and config, keeps them. Raises FileNotFoundError or ValueError, in one line that names the file,
    when the source cannot be read, holds no captions or, with `strict`, a bad record; OtherConfigError when `run`
    holds something else and `overwrite` is not given; OSError when it cannot be written.
    """
    format = config.format or readers.detect(source)
    if config.language == "all" and format != "multi30k":
        raise ValueError(f"language all is for Multi30K folders, {source} is of the format {format}")
    options = ReadOptions(config.image_column, config.caption_column, config.split_column, config.language)
    identity = identify(source, format, options, config, metadata)
    captions = run / "captions"
    check_folder(run)
    shutil.rmtree(run / TEMPORARY, ignore_errors=True)  # what a killed run left
    if not overwrite and (list_shards(captions) or (captions / manifest.MANIFEST).exists()):
        manifest.prepare(captions, identity)
    counts = _finished(run, identity)
    if counts is not None:
        progress.begin(NAME, None)
        progress.end()
        _refuse_rejections(source, run, counts, config)
        return Ingested(counts, _warnings(counts, config))
    with _temporary(run) as folder:
        progress.begin(NAME, None)
        try:
            spool = Spool(folder, config.limit)
            rejected = _read(source, format, options, config, spool, progress)
            manifest.prepare(captions, identity, overwrite=overwrite)
            counts = _write(run, spool, rejected, format, config, identity, progress)
        finally:
            progress.end()
    return Ingested(counts, _warnings(counts, config))


def identify(
    source: str, format: str, options: ReadOptions, config: IngestConfig, metadata: Mapping[str, str]
) -> manifest.Identity:
    """All that decides the tables' bytes: the content of the source's files, not where they lie; the config."""
    files = [content(url) for url in readers.files(source, format, options)]
    described = {**manifest.describe(config), "format": format}
    del described["strict"]  # decides whether there is an output, not what it is
    return manifest.Identity(
        stage=NAME,
        config=described,
        metadata=dict(metadata),
        schemas={table: manifest.hash_schema(schema) for table, schema in OUTPUTS.items()},
        code=code_of(__name__).sha256,
        inputs={file["file"]: f"{file['bytes']} bytes, sha256 {file['sha256']}" for file in files},
    )


def _read(
    source: str, format: str, options: ReadOptions, config: IngestConfig, spool: Spool, progress: Progress
) -> list[pa.RecordBatch]:
    """Fill the spool; the rejected records as a list of batches."""
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
                    raise ValueError(_strictly(source, bad))
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
        found = f"the first of its bad records: {_strictly(source, first)}" if first else "it has no records"
        raise ValueError(f"{source}: must hold captions in the format {format}, has none; {found}")
    return [*batches, _rejections(rejected)]


def _strictly(source: str, bad: Rejected) -> str:
    where = source if source.rstrip("/").endswith(bad.source) else f"{source.rstrip('/')}/{bad.source}"
    return f"{where}:{bad.line}: {bad.reason}: {bad.detail}"


def _refuse_rejections(source: str, run: Path, counts: Mapping[str, int], config: IngestConfig) -> None:
    """Raise ValueError for a run that holds rejected records, if it has to be strict."""
    if config.strict and any(name.startswith("rejected.") for name in counts):
        row = read_shard(shard_path(run / "rejected_records", 0)).slice(0, 1).to_pylist()[0]
        raise ValueError(_strictly(source, Rejected(**row)))


def _rejections(rejected: list[Rejected]) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_pylist([bad._asdict() for bad in rejected], REJECTED_RECORDS)


def _write(
    run: Path,
    spool: Spool,
    rejected: list[pa.RecordBatch],
    format: str,
    config: IngestConfig,
    identity: manifest.Identity,
    progress: Progress,
) -> dict[str, int]:
    """Write both tables and the manifest; the summed counts."""
    import pyarrow as pa

    key, provenance = identity.key(), identity.provenance()
    for table in OUTPUTS:
        remove_temporary(run / table)
    bad = pa.Table.from_batches(rejected, REJECTED_RECORDS)
    refused = write_shard(bad, run / "rejected_records", 0, key, REJECTED_RECORDS, provenance)
    counts = Counter({f"rejected.{reason}": n for reason, n in Counter(bad["reason"].to_pylist()).items()})
    counts["images_in_two_splits"] = len(spool.in_two_splits)
    receipts: list[dict[str, Receipt]] = []
    sizes = shard_sizes(spool.sizes, config.shard_size)
    build = _builder(spool, config.source_name or format)
    for index, rows in enumerate(cut(spool.in_order(), [captions for captions, _ in sizes])):
        counts.update({"captions": rows.num_rows, "images": sizes[index][1]})
        made = write_shard(build(rows), run / "captions", index, key, CAPTIONS, provenance, +counts)
        receipts.append({"captions": made} if index else {"rejected_records": refused, "captions": made})
        progress.advance(0)
        counts = Counter()
    return dict(manifest.finish(run, tuple(OUTPUTS), identity, receipts).counts)


def ingest_records(records: Iterable[Record | Rejected], config: IngestConfig) -> tuple[pa.Table, list[Rejected]]:
    """The captions table of records that are at hand, and the records that cannot be kept, with their reasons.

    Image order, caption numbers and ids are those that `ingest` gives the same records of a plain table. Raises
    ValueError with `strict` at the first bad record.
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
    """A function from spooled rows to a table of captions."""
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


def _finished(run: Path, identity: manifest.Identity) -> dict[str, int] | None:
    """The counts of tables that are complete and whole already; None when there is something to do."""
    try:
        found = manifest.read_manifest(run / "captions")
    except ValueError:
        return None
    if found is None or not found.complete or found.identity != identity:
        return None
    key = identity.key()
    shards = [shard_path(run / table, index) for index, shard in enumerate(found.shards) for table in shard]
    return dict(found.counts) if all(is_current(shard, key) for shard in shards) else None


def _warnings(counts: Mapping[str, int], config: IngestConfig) -> tuple[str, ...]:
    """What a user should know of the captions read."""
    warnings = []
    if config.language != "en":
        warnings.append(f"language is {config.language}: only English captions are parsed and changed")
    if several := counts.get("images_in_two_splits"):
        warnings.append(f"images with captions in more than one split: {several:,}")
    if same := counts.get("rejected.ambiguous_image"):
        warnings.append(
            f"records rejected as their image has the file name of another image: {same:,}; "
            "--image-column names a column with ids, or file names that are unique without their folder"
        )
    return tuple(warnings)


@contextmanager
def _temporary(run: Path) -> Iterator[Path]:
    """A folder in `run` for what is being read, removed in the end; so is `run` if it is new and stays empty."""
    is_new = not run.exists()
    folder = run / TEMPORARY
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
        if is_new and run.is_dir() and not any(run.iterdir()):
            run.rmdir()
