"""Stage ingest: caption files -> the tables captions and rejected_records (what could not be used, with reasons)."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...schemas.captions import CAPTIONS, REJECTED_RECORDS, source_columns
from .. import readers
from ..engine.cluster import Executor, Synchronous
from ..engine.lock import locked
from ..engine.manifest import Identity, code_of, describe, finish, finished, prepare, refuse_other
from ..engine.places import RemotePath
from ..engine.progress import Progress, in_progress
from ..engine.shards import MANIFESTS
from ..engine.storage import remove_leftovers, scratch_folder
from ..engine.tables import read_table
from ..ingestion import duplicates, web_text
from ..ingestion.calls import Work
from ..ingestion.config import IngestConfig
from ..ingestion.packing import captions, in_order
from ..ingestion.packing import source_columns as columns_to_keep
from ..ingestion.rows import Reader, rows_schema
from ..ingestion.shuffle import describe_rejected, each, make_shards
from ..ingestion.siblings import group
from ..readers.record import MAX_CAPTIONS, Record, Rejected

if TYPE_CHECKING:
    import pyarrow as pa

NAME = "ingest"
TEMPORARY = ".ingest"
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # a full disk, a used quota, a file above a limit
MANY_FILES = 8  # from so many files on, or so many bytes of several files, each is a part of its own
MANY_BYTES = 1 << 28


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
    executor: Executor | None = None,
    overwrite: bool = False,
) -> Ingested:
    """Read `source` (a path, a URL or a pattern of such) into the tables captions and rejected_records of a run.

    All captions of an image are in one shard; images are in order of first appearance, the captions of an image in
    source order. Of a source of many files that can be read one by one, the files are read by the workers of `executor`
    (None, or if they may not see the folder of spill files: all in this process), and a shard ends where a file ends.
    Memory does not grow with the source: rows are brought together in spill files in the folder `.ingest` of the run
    (see engine.storage.scratch_folder), which take about the space of the captions twice; an interrupted ingest goes on
    with what is there. No table is written before the whole source has been read.

    Tables that were made from the same content and config are kept. metadata: provenance for the Parquet files. Raises
    FileNotFoundError or ValueError, with one line that names the file, when the source cannot be read, has no captions
    or, with `strict`, a bad record; OtherConfigError when `run` was made from something else and `overwrite` is not
    set; OSError when a table cannot be written; EngineError when the workers are lost or the run is locked.
    """
    format = config.format or readers.detect(source)
    if config.language == "all" and format != "multi30k":
        raise ValueError(f"language all is for Multi30K folders, {source} is of the format {format}")
    web_text.checks(config.languages, config.boilerplate)  # finds invalid settings before anything is read
    files = readers.files(source, format, config)
    if executor is None or len(files) < MANY_FILES or not _share_scratch(executor, run):
        executor = Synchronous()
    kept = readers.kept_types(format, files, config)
    contents = each(executor, readers.content, [(file, format) for file in files])
    with locked(run):
        outputs = {"rejected_records": REJECTED_RECORDS, "captions": CAPTIONS}
        if kept:
            outputs = {"source_columns": source_columns(kept), **outputs}
        described = {**describe(config), "format": format}
        del described["strict"]  # it decides whether there is output, but not what is in it
        described.update(web_text.versions() if config.languages else {})
        described.update(duplicates.versions() if config.near_duplicates else {})
        identity = Identity(
            NAME,
            described,
            dict(metadata),
            tuple(outputs),
            code_of(__name__).sha256,
            _inputs(source, files, contents),
        )
        if not overwrite:
            refuse_other(run / "captions", identity)
        if (made := finished(run / "captions", identity)) is not None:
            with in_progress(progress, NAME, None, unit="records"):
                _refuse_rejections(source, run, made.counts, config)
            return Ingested(made.counts, _warnings(made.counts, config))
        parts: list[Sequence[str] | None] = [None]
        many = len(files) >= MANY_FILES or (len(files) > 1 and sum(file["bytes"] for file in contents) >= MANY_BYTES)
        if many and readers.reader_of(format).file_records is not None:
            parts = [[file] for file in files] if config.limit is None else [files]
        work = Work(
            source=source,
            format=format,
            config=config,
            run=run.absolute(),
            folder=scratch_folder(run.absolute(), TEMPORARY),
            key=identity.key(),
            provenance=identity.provenance(),
            code=code_of(__name__),
            outputs=outputs,
            parts=len(parts),
        )
        with in_progress(progress, NAME, None, unit="records"), _spilling(work):
            made_shards = make_shards(work, parts, executor, progress, lambda: _prepare(run, identity, overwrite))
        counts = finish(run, tuple(outputs), identity, made_shards).counts
    return Ingested(counts, _warnings(counts, config))


def _share_scratch(executor: Executor, run: Path) -> bool:
    """Whether the workers can be expected to see the folder of the spill files.

    It is in the run; for a run on a store, in $XDG_CACHE_HOME, which other machines see if a user made it so.
    """
    local = getattr(executor, "scheduler", None) is None
    return local or not isinstance(run, RemotePath) or bool(os.environ.get("XDG_CACHE_HOME"))


def _prepare(run: Path, identity: Identity, overwrite: bool) -> None:
    prepare(run / "captions", identity, overwrite=overwrite)
    remove_leftovers(run / MANIFESTS)


def _inputs(source: str, files: Sequence[str], contents: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """What identifies each file, by its name, or, if two have the same name, by its place below the source."""
    names = [file["file"] for file in contents]
    if len(set(names)) < len(names):
        names = [readers.name_in(source, file) for file in files]
    described = (f"{file['bytes']} bytes, {name} {file[name]}" for file in contents for name in list(file)[2:])
    return dict(zip(names, described, strict=True))


def _refuse_rejections(source: str, run: Path, counts: Mapping[str, int], config: IngestConfig) -> None:
    """With `strict`, raise ValueError for a run with rejected records; `counts` are the counters of its captions."""
    if config.strict and any(name.startswith("rejected.") for name in counts):
        row = next(table for table in read_table(run, "rejected_records") if len(table)).slice(0, 1).to_pylist()[0]
        raise ValueError(describe_rejected(source, Rejected(**row)))


def ingest_records(
    records: Iterable[Record | Rejected], config: IngestConfig, kept: Mapping[str, pa.DataType]
) -> tuple[pa.Table, pa.Table, list[Rejected]]:
    """The captions of records in memory, their columns to keep (the table source_columns), and the records that cannot
    be kept, with their reasons.

    kept: the types of the columns to keep, by name. The order of images, caption numbers and ids are as if `ingest` had
    read the records from a table file. Raises ValueError at the first bad record if `config.strict` is set.
    """
    import pyarrow as pa

    schema = rows_schema(kept)
    rejected: list[pa.RecordBatch] = []
    reader = Reader(0, config.limit, schema, rejected.append)
    blocks = list(reader.blocks(records, stop_when_full=False))
    grouped = group(pa.Table.from_batches(blocks, schema))
    bad = pa.concat_tables([*map(pa.Table.from_batches, [[block] for block in rejected]), grouped.rejected])
    refused = [Rejected(*list(row.values())[1:]) for row in bad.sort_by("position").to_pylist()]
    if refused and config.strict:
        first = refused[0]
        raise ValueError(f"the caption at position {first.line - 1}: {first.reason}: {first.detail}")
    rows = in_order(grouped.kept)
    made = captions(rows, config.source_name or "table")
    return made, columns_to_keep(rows, made, source_columns(kept)), refused


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
            "--id-column (id_column= in Python) names a column that identifies images, such as one of URLs; given the "
            "column of the images themselves, it takes their whole paths"
        )
    if beyond := counts.get("rejected.too_many_captions"):
        warnings.append(
            f"records rejected as their image has more than {MAX_CAPTIONS:,} captions: {beyond:,}; "
            "--image-column names a column that tells the images apart"
        )
    return tuple(warnings)


@contextmanager
def _spilling(work: Work) -> Iterator[None]:
    """Remove the spill files at the end; of a source of many parts only if it succeeds, or cannot be read."""
    try:
        yield
    except OSError as error:
        if work.parts == 1:
            shutil.rmtree(work.folder, ignore_errors=True)
        if error.errno in NO_ROOM and not str(error.strerror).startswith("cannot write"):
            why = (
                "disk full, free some space and run again" if error.errno == errno.ENOSPC else os.strerror(error.errno)
            )
            raise OSError(error.errno, f"cannot write: {why}", str(work.folder)) from error
        raise
    except BaseException as error:
        if work.parts == 1 or isinstance(error, ValueError):
            shutil.rmtree(work.folder, ignore_errors=True)
        raise
    shutil.rmtree(work.folder, ignore_errors=True)
