"""The calls of an ingest, each made in a worker: read a part, group a range of images, pack a range into shards.

    read_part    the files of a part              -> rows by the hash of their image_id, rejected records
    find_range   a range of keys of all parts     -> the captions that repeat earlier ones (if that is asked for)
    group_range  a range of hashes of all parts   -> rows by the position of their image's first caption
    plan_range   a range of positions             -> how many shards it fills
    pack_range   a range of positions             -> the shards

Each call writes its own files, once (see `spill.once`), so that an interrupted ingest goes on where it stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import negcap.pipelines.readers as readers

from ...schemas.captions import REJECTED_RECORDS
from ..engine.cluster import report_done
from ..engine.manifest import Code
from ..engine.run import write_tables
from ..engine.shards import Origin, Receipt, current_receipts
from ..engine.stage import StageResult
from ..readers.record import Rejected
from .config import IngestConfig
from .duplicates import duplicates_schema, find, keys_of, keys_schema, reasons
from .packing import (
    captions,
    image_sizes,
    images_in_two_splits,
    in_order,
    shard_sizes,
    source_columns,
)
from .rows import PART_BITS, Reader, rejected_schema, rows_schema
from .siblings import group, kept_schema
from .spill import KEYS, BlockWriter, once, read_blocks, read_range, sort_block, write_blocks
from .web_text import checks, refusing

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa


REPORT_EVERY = 10_000


@dataclass(frozen=True)
class Work:
    """What all calls of an ingest, which run in workers, have in common.

    source, format, config: what is read, and how. run: the run's folder. folder: of the spill files. key, provenance:
    of the shards (see engine.shards.Origin). code: to compare with the worker's. outputs: the schemas of the tables, by
    name. parts, ranges, key_ranges: how many parts the source has, and how many ranges of hashes of image_ids and of
    keys of `duplicates` there are (0: not known yet). shard_size: captions per shard, at most (0: not known yet).
    """

    source: str
    format: str
    config: IngestConfig
    run: Path
    folder: Path
    key: str
    provenance: Mapping[str, str]
    code: Code
    outputs: Mapping[str, pa.Schema]
    parts: int
    ranges: int = 0
    key_ranges: int = 0
    shard_size: int = 0

    @property
    def rows(self) -> pa.Schema:
        """The schema of the spill files `rows`: the fields of a record, and the columns of the source to keep."""
        kept = self.outputs.get("source_columns")
        return rows_schema({} if kept is None else {name: kept.field(name).type for name in kept.names[2:]})

    def path(self, name: str, number: int) -> Path:
        """A spill file: path("rows", 3) -> <folder>/rows-00003.arrow."""
        return self.folder / f"{name}-{number:05d}.arrow"

    def once(self, name: str, number: int, files: Sequence[Path], make: Any) -> dict[str, Any]:
        """Run `make`, which writes `files`, unless the call `name` with this number was finished before (see
        `spill.once`); its result.
        """
        self.code.check()
        self.folder.mkdir(parents=True, exist_ok=True)
        key = f"{self.key} {self.config.strict} {self.parts} {self.ranges} {self.key_ranges}"
        return once(self.folder / f"{name}-{number:05d}.json", key, files, make)


def read_part(work: Work, number: int, files: Sequence[str] | None) -> dict[str, Any]:
    """Read part `number` of the source and write its captions, sorted by the hash of their image_id, and its rejected
    records.

    files: the files of the part; None: the whole source is one part. Returns `rows`, the number of records read,
    `characters`, that of the characters in their captions, and `first`, the first rejected record (None if there is
    none).
    """
    rows, rejected, keys = (work.path(name, number) for name in ("rows", "rejected", "keys"))
    files_made = [rows, rejected, *([keys] if work.config.duplicates or work.config.near_duplicates else [])]

    def make() -> dict[str, Any]:
        with BlockWriter(rejected, rejected_schema()) as bad:
            reader = Reader(number, work.config.limit, work.rows, bad.write)
            found = _records(work, reader, files)
            if asked := checks(work.config.languages, work.config.boilerplate):
                found = refusing(found, asked)
            grouped = readers.reader_of(work.format).grouped
            blocks = reader.blocks(_reported(found, work.config.strict), grouped)
            if len(files_made) == 3:
                blocks = _with_keys(blocks, keys, work.config.near_duplicates)
            write_blocks(rows, work.rows, blocks)
        return {"rows": reader.rows, "characters": reader.characters, "first": first_rejected(rejected)}

    return work.once("read", number, files_made, make)


def _with_keys(blocks: Iterator[pa.RecordBatch], path: Path, near: bool) -> Iterator[pa.RecordBatch]:
    """The blocks of rows; the keys of their captions are written to a file."""
    with BlockWriter(path, keys_schema()) as writer:
        for block in blocks:
            writer.write(sort_block(keys_of(block, near)))
            yield block


def _records(work: Work, reader: Reader, files: Sequence[str] | None) -> Iterator[Any]:
    """The records of a part; of several files, none is begun when the limit of images has been reached."""
    for given in [None] if files is None else [[file] for file in files]:
        yield from readers.read(work.source, work.format, work.config, given)
        if reader.full:
            return


def _reported(records: Iterator[Any], strict: bool) -> Iterator[Any]:
    """The records; how many were read is reported. strict: stop after the first rejected one."""
    for number, record in enumerate(records, 1):
        yield record
        if number % REPORT_EVERY == 0:
            report_done(number)
        if strict and type(record) is Rejected:
            return


def find_range(work: Work, number: int) -> dict[str, Any]:
    """Find the captions that repeat an earlier one, among those whose keys (see `ingestion.duplicates`) lie in range
    `number`.
    """
    path = work.path("duplicates", number)

    def make() -> dict[str, Any]:
        keys = read_range((work.path("keys", part) for part in range(work.parts)), keys_schema(), *_keys(work, number))
        write_blocks(path, duplicates_schema(), [sort_block(find(keys))])
        return {}

    return work.once("find", number, [path], make)


def _keys(work: Work, number: int) -> tuple[int, int]:
    return KEYS * number // work.key_ranges, KEYS * (number + 1) // work.key_ranges


def group_range(work: Work, number: int) -> dict[str, Any]:
    """Bring together the captions of each image whose hash lies in range `number` of all hashes of image_ids.

    Returns `first`: the first record that is rejected for what its image has already, None if there is none.
    """
    kept, rejected = work.path("kept", number), work.path("refused", number)

    def make() -> dict[str, Any]:
        schema = work.rows
        low, high = (KEYS * end // work.ranges for end in (number, number + 1))
        found = (work.path("duplicates", part) for part in range(work.key_ranges))
        refused = reasons(read_range(found, duplicates_schema(), low, high))
        rows = read_range((work.path("rows", part) for part in range(work.parts)), schema, low, high)
        grouped = group(rows, refused)
        write_blocks(kept, kept_schema(schema), grouped.kept.to_batches())
        write_blocks(rejected, rejected_schema(), [sort_block(grouped.rejected)])
        return {"first": first_rejected(rejected)}

    return work.once("group", number, [kept, rejected], make)


def plan_range(work: Work, low: int, high: int) -> int:
    """The number of shards that the images fill whose first caption has a position in the source from `low` to below
    `high`.
    """
    import pyarrow as pa

    rows = read_range(_kept(work), pa.schema([kept_schema(work.rows).field("home")]), low, high)
    return len(shard_sizes(image_sizes(rows["home"].to_numpy()).tolist(), work.shard_size))


def pack_range(work: Work, low: int, high: int, start: int, bad: tuple[int, int]) -> list[dict[str, Receipt]]:
    """Make the shards, from number `start`, of the images whose first caption has a position from `low` to below
    `high`.

    bad: the range of positions of the rejected records that are written with the first of these shards. Returns the
    receipts of the shards, by table.
    """
    work.code.check()
    origin = Origin(work.key, work.provenance)
    rows = in_order(read_range(_kept(work), kept_schema(work.rows), low, high))
    rejected = read_range(_rejected(work, *bad), rejected_schema(), *bad)
    rejected = rejected.sort_by("position").select(REJECTED_RECORDS.names).cast(REJECTED_RECORDS)
    counts = Counter({f"rejected.{reason}": n for reason, n in Counter(rejected["reason"].to_pylist()).items()})
    counts["images_in_two_splits"] = images_in_two_splits(rows)
    tables = {} if start and not len(rejected) else {"rejected_records": rejected}
    receipts: list[dict[str, Receipt]] = []
    first = 0
    for index, (size, images) in enumerate(shard_sizes(image_sizes(rows["home"].to_numpy()).tolist(), work.shard_size)):
        names = [name for name in work.outputs if name in tables or name != "rejected_records"]
        made = current_receipts(work.run, names, start + index, work.key)
        if made is None:
            counts.update({"captions": size, "images": images})
            some = rows.slice(first, size)
            made_tables = {**tables, "captions": captions(some, work.config.source_name or work.format)}
            if kept := work.outputs.get("source_columns"):
                made_tables["source_columns"] = source_columns(some, made_tables["captions"], kept)
            made = write_tables(work.run, start + index, work.outputs, StageResult(made_tables, +counts), origin)
        receipts.append(made)
        first += size
        counts, tables = Counter(), {}
        report_done(len(receipts))
    return receipts


def first_rejected(path: Path) -> list[Any] | None:
    """The first rejected record in a file: its position, then the fields of a Rejected; None if there is none."""
    for block in read_blocks(path):
        return list(block.slice(0, 1).to_pylist()[0].values())
    return None


def _kept(work: Work) -> list[Path]:
    return [work.path("kept", number) for number in range(work.ranges)]


def _rejected(work: Work, low: int, high: int) -> list[Path]:
    """The files that may have rejected records with low <= position < high."""
    read = range(low >> PART_BITS, min(work.parts, (high - 1 >> PART_BITS) + 1))
    refused = (work.path("refused", number) for number in range(work.ranges))
    return [*(work.path("rejected", part) for part in read), *refused]
