"""Write records as rows, and decide which of them become captions of which image.

The rows are in memory, or in an Arrow file for each part (a file or a whole source, read by one call). They are in the
order of their positions: by the number of the part, then by the place in it.

DuckDB sorts and groups only the keys of rows (position, image and number), in a small memory or else on disk. The rows
themselves are fetched by their positions when the shards are written.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import Field, model_validator

from ...augment.settings import AtLeastOne, matching
from ...schemas.captions import CAPTIONS
from ..readers.record import MAX_CAPTIONS, Cell, ReadOptions, Record, Rejected, excerpt
from .checks import keys

Connection: TypeAlias = Any  # a duckdb.DuckDBPyConnection; DuckDB is imported when it is needed

# A position is the number of the part, then 40 bits for the row in it, so positions sort as the source's records do
# and a part can be read without those before it.
PART_BITS = 40
BLOCK_ROWS = 8_192  # records in a table that DuckDB reads
KEPT = "kept:"  # prefix of the names of columns to keep, so that none is equal to a field of records
# Columns that decide which rows become captions.
DECIDING = ("image_id", "image", "number", "keys")
# A shard has LEAST captions, or more if there would be more than SHARDS shards, but then at most MOST_MB of text.
LEAST = 1_000
SHARDS = 2_048
MOST_MB = 1
MEMORY = 48_000_000  # bytes for DuckDB, beside those of the keys
MEMORY_OF_KEY = 5  # bytes: DuckDB fails with much less
DIFFERENCES = {"duplicate_text": "case and punctuation", "near_duplicate_text": "a few letters"}

# home: the position of the first row of the image, which decides its shard. ambiguous: whether another image has this
# image_id. again: whether the image has a caption of this number already. before: how many captions of the image come
# before. Rows that were rejected when they were read have no image_id. DuckDB sees a hash in place of an image's name:
# names are long, and only compared.
ROWS = "CREATE TABLE rows AS SELECT position, image_id, hash(image) AS image, number, keys FROM given"
SAMPLE = """
DELETE FROM rows WHERE image_id NOT IN (
    SELECT image_id FROM rows WHERE image_id IS NOT NULL GROUP BY image_id ORDER BY md5(image_id), image_id LIMIT ?)
"""
GROUPS = f"""
CREATE TABLE repeated AS
    WITH keyed AS (SELECT position, unnest(keys) AS key, generate_subscripts(keys, 1) > 1 AS near FROM rows),
    firsts AS (SELECT *, min(position) OVER (PARTITION BY key) AS first FROM keyed)
    SELECT position, CASE WHEN min(near) THEN 'near_duplicate_text' ELSE 'duplicate_text' END AS reason
    FROM firsts WHERE position > first GROUP BY position;
CREATE TABLE placed AS
    WITH named AS (
        SELECT *, first_value(position) OVER image AS home, image != first_value(image) OVER image AS ambiguous
        FROM rows ANTI JOIN repeated USING (position) WHERE image_id IS NOT NULL
        WINDOW image AS (PARTITION BY image_id ORDER BY position)
    ), numbered AS (
        SELECT *, number IS NOT NULL
            AND row_number() OVER (PARTITION BY home, image, number ORDER BY position) > 1 AS again
        FROM named
    ), counted AS (
        SELECT *, count(*) FILTER (NOT ambiguous AND NOT again) OVER (
            PARTITION BY home ORDER BY position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
        FROM numbered
    )
    SELECT home, position, coalesce(number, before) AS number, CASE
        WHEN ambiguous THEN 'ambiguous_image'
        WHEN before >= {MAX_CAPTIONS} THEN 'too_many_captions'
        WHEN again THEN 'duplicate_caption_id' END AS reason
    FROM counted;
CREATE VIEW kept AS SELECT home, position, number FROM placed WHERE reason IS NULL;
CREATE VIEW refused AS
    SELECT position, reason, home FROM placed WHERE reason IS NOT NULL
    UNION ALL SELECT position, reason, position FROM repeated
    UNION ALL SELECT position, NULL, position FROM rows WHERE image_id IS NULL;
"""


ImageLimit = Annotated[AtLeastOne | None, Field(description="keep a random sample of N images; none: all")]
Strict = Annotated[
    bool,
    Field(
        description="stop at the first bad record instead of rejecting it; exit with status 1 if an operator failed "
        "on a caption"
    ),
]
Name = Annotated[str, matching(r"([A-Za-z0-9][A-Za-z0-9._-]*)?", "of letters, digits and . _ -")]
SourceName = Annotated[Name, Field(description="first part of every caption_id")]


class IngestConfig(ReadOptions):
    """What to read of a source and how, what to refuse (see ingestion.checks), and how to cut captions to shards."""

    format: Literal["", "coco", "karpathy", "flickr", "multi30k", "vsepp", "table", "webdataset", "folder", "lines"] = (
        Field("", description="format of CAPTIONS; by default recognised from the content")
    )
    source_name: SourceName = ""
    limit: ImageLimit = None
    split: Name = Field("", description="split of captions for which the source names none")
    shard_size: AtLeastOne | None = Field(
        None,
        description="captions per Parquet file, at most, of whole images; by default 1000, or up to 1 MB of text where "
        "there would be more than 2048 files",
    )
    strict: Strict = False
    languages: tuple[str, ...] = Field(
        (), description="reject captions that seem to be in another language than these (ISO 639-1)"
    )
    boilerplate: bool = Field(False, description="reject file names, web addresses and stock phrases")
    duplicates: bool = Field(False, description="reject captions that repeat an earlier one, of any image")
    near_duplicates: bool = Field(
        False, description="also reject captions that differ from an earlier one in a few letters"
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not re.fullmatch(r"[a-z]{2,3}", self.language):
            raise ValueError(f"language must be an ISO 639 code such as en, or all, was: {self.language}")
        return self


def rows_schema(kept: Mapping[str, pa.DataType]) -> pa.Schema:
    """The schema of rows of records.

    It has the fields of a record, a column `kept:<name>` of the given type for each column to keep, and `keys` (see
    `checks.keys`), null if repetitions are not looked for. A rejected record has `reason` and `detail`, and no
    `image_id`.
    """
    text = pa.string()
    number = pa.int64()
    record = {"source": text, "line": number, "image": text, "text": text, "split": text, "language": text}
    record |= {"number": number, "image_id": text, "reason": text, "detail": text}
    record |= {KEPT + name: type for name, type in kept.items()}
    return pa.schema([*record.items(), ("keys", pa.list_(pa.uint64()))])


def blocks(records: Iterable[Record | Rejected], schema: pa.Schema, config: IngestConfig) -> Iterator[pa.RecordBatch]:
    """Records as tables of at most BLOCK_ROWS rows, in order.

    Args:
        records: read captions, and those that are rejected.
        schema: of the rows, see `rows_schema`; its last column takes the keys by which repetitions are found.
        config: says whether they are looked for.
    """
    records = iter(records)
    *fields, keys_field = schema
    kept_count = sum(field.name.startswith(KEPT) for field in fields)
    while block := list(islice(records, BLOCK_ROWS)):
        rows = [_cells_of_record(record, kept_count) for record in block]
        # From rows to columns: the cells of all rows that belong to one field.
        cells_of_fields = zip(*rows, strict=True)
        columns = [_column_of_values(cells, field) for cells, field in zip(cells_of_fields, fields, strict=True)]
        keys_of_rows: list[list[int] | None] = [None] * len(block)
        if config.duplicates or config.near_duplicates:
            keys_of_texts = keys([record.text for record in block], config.near_duplicates)
            for row, record in enumerate(block):
                if isinstance(record, Record):  # without keys: a caption that repeats a rejected one is no repetition
                    keys_of_rows[row] = keys_of_texts[row]
        yield pa.record_batch([*columns, pa.array(keys_of_rows, keys_field.type)], schema)


def _cells_of_record(record: Record | Rejected, kept_count: int) -> tuple[Cell, ...]:
    """The cells of a record, in the order of the columns of `rows_schema`, without `keys`.

    kept_count: how many columns the user keeps; a rejected record has nulls there.
    """
    if isinstance(record, Rejected):
        in_place_of_fields = (record.source, record.line, None, record.text, None, None, None, None)
        return (*in_place_of_fields, record.reason, record.detail, *[None] * kept_count)
    no_reason = None
    no_detail = None
    return (
        *(record.source, record.line, record.image, record.text, record.split, record.language, record.number),
        *(record.id, no_reason, no_detail),
        *record.kept,
    )


def _column_of_values(values: Sequence[Cell], field: pa.Field) -> pa.Array:
    """The values of a column. In a text column to keep, other values become JSON; else they raise ValueError."""
    try:
        return pa.array(values, field.type)
    except (pa.ArrowException, UnicodeError, OverflowError, TypeError) as error:
        if field.name.startswith(KEPT) and pa.types.is_string(field.type):
            return pa.array([None if value is None else _text_to_keep(value) for value in values], field.type)
        name = field.name.removeprefix(KEPT)
        raise ValueError(
            f"column {name} must be {field.type}, as in the first file: {str(error).splitlines()[0]}"
        ) from None


def _text_to_keep(value: Cell) -> str:
    """A value of a column to keep as text: itself or JSON, in which lone surrogates are escaped."""
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return shown.encode("utf-8", "backslashreplace").decode()


def write_blocks(path: Path, schema: pa.Schema, blocks: Iterable[pa.RecordBatch]) -> dict[str, int]:
    """Write record batches to an Arrow file, all or none.

    Args:
        path: of the file.
        schema: of the batches.
        blocks: the batches; their rows without an image_id are rejected records.

    Returns:
        How many `rows` there are, and how many `characters` in captions.
    """
    # Written beside and renamed: a process that is killed leaves no file that looks whole.
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    rows = 0
    characters = 0
    try:
        with pa.OSFile(str(temporary), "wb") as file, pa.ipc.new_file(file, schema) as writer:
            for block in blocks:
                writer.write_batch(block)
                rows += block.num_rows
                captions = block["text"].filter(block["image_id"].is_valid())
                characters += pc.sum(pc.utf8_length(captions)).as_py() or 0
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return {"rows": rows, "characters": characters}


def _stored_blocks(part: int, path: Path) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of a part in record batches, each with the position of its first row."""
    position = part << PART_BITS
    with pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as reader:
        for index in range(reader.num_record_batches):
            block = reader.get_batch(index)
            yield position, block
            position += block.num_rows


def read_blocks(paths: Iterable[Path], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows in the files of all parts, in batches: `position`, and some of their other columns.

    Args:
        paths: the file of each part, by its number.
        columns: the other columns.
    """
    for position, block in chain.from_iterable(_stored_blocks(part, path) for part, path in enumerate(paths)):
        positions = pa.array(np.arange(position, position + block.num_rows))
        yield pa.record_batch([positions, *map(block.column, columns)], ["position", *columns])


def rows_at(path: Callable[[int], Path], schema: pa.Schema, positions: np.ndarray) -> pa.Table:
    """Read rows from the files that ingest keeps between its stages.

    Args:
        path: gives the file of a part, from the part's number.
        schema: of the rows.
        positions: (n,) of the rows to read: the number of the part, shifted by PART_BITS, plus the row in the part.

    Returns:
        The n rows, in the order of `positions`.
    """
    order = np.argsort(positions, kind="stable")
    ascending = positions[order]
    taken = []
    for part in np.unique(ascending >> PART_BITS).tolist():
        for block_start, block in _stored_blocks(part, path(part)):
            # ascending[low:high] are the positions in this block
            low, high = np.searchsorted(ascending, (block_start, block_start + block.num_rows))
            if high > low:  # copied: while a file is mapped, more of it counts as memory than is read
                taken.append(block.take(pa.array(ascending[low:high] - block_start)))
    table = pa.Table.from_batches(taken, schema)
    is_in_order = (np.diff(order) > 0).all()
    if not is_in_order:
        table = table.take(pa.array(np.argsort(order)))  # row i of the result is that of positions[i]
    return table.combine_chunks()


@contextmanager
def grouped(
    blocks: Iterable[pa.RecordBatch], limit: int | None, rows: int = 0, folder: Path | None = None
) -> Iterator[Connection]:
    """Group rows by image in DuckDB, and decide which become captions.

    Yields a connection with two views, which the caller sorts by all columns. `home` is the position of the first
    caption of a row's image.

    - `kept`, the captions: home, position, and the final number among the captions of the image.
    - `refused`, the rejected records: position, reason (null if the record was rejected when it was read), and home.

    Args:
        blocks: of all rows, `position` and the columns DECIDING.
        limit: how many images are kept, those with the lowest hashes of ids: a larger sample contains a smaller one.
        rows: the number of keys by which texts are compared; DuckDB may use a little more memory for each.
        folder: for data that does not fit into that memory; None: no limit of memory.

    Raises:
        OSError: the disk is full.
    """
    import duckdb

    settings: dict[str, str | bool | int | float | list[str]] = {
        "threads": 1,
        "preserve_insertion_order": False,
        "temp_directory": "",
    }
    if folder is not None:
        settings |= {"temp_directory": str(folder), "memory_limit": f"{MEMORY + MEMORY_OF_KEY * rows}B"}
    schema = pa.schema([("position", pa.int64()), *map(rows_schema({}).field, DECIDING)])
    with duckdb.connect(config=settings) as connection:
        # DuckDB reads the blocks as it needs them: the rows are never in memory at once.
        connection.register("given", pa.RecordBatchReader.from_batches(schema, iter(blocks)))
        connection.execute(ROWS)
        if limit is not None:
            connection.execute(SAMPLE, [limit])
        connection.execute(GROUPS)
        yield connection


def rejected_records(rows: pa.Table, reasons: Sequence[str | None], images: Sequence[str | None]) -> list[Rejected]:
    """Rows as rejected records.

    Args:
        rows: see `rows_schema`.
        reasons: of each; None for a row that was rejected when it was read, which has its own.
        images: of each, the first image that has its image_id.
    """
    records = []
    # Records that were rejected when they were read have a detail; those that grouping rejects get it here.
    for row, reason, image in zip(rows.to_pylist(), reasons, images, strict=True):
        detail = row["detail"]
        if reason in DIFFERENCES:
            detail = f"caption must differ from every earlier one in more than {DIFFERENCES[reason]}"
        elif reason == "ambiguous_image":
            detail = f"image_id {row['image_id']} must be of one image, {image}, was: {row['image']}"
        elif reason == "too_many_captions":
            detail = f"an image must have <= {MAX_CAPTIONS:,} captions, has more: {row['image']}"
        elif reason == "duplicate_caption_id":
            detail = f"caption number must be unique in its image, was again: {row['image']}#{row['number']}"
        text = row["text"] if reason is None else excerpt(row["text"])
        records.append(Rejected(row["source"], row["line"], reason or row["reason"], detail, text))
    return records


def captions_per_shard(config: IngestConfig, captions: int, characters: int) -> int:
    """How many captions a shard may have.

    The config says how many, or else LEAST, SHARDS and MOST_MB: so that all cores of a machine have work, and a store
    has few files.

    Args:
        config: with the size that the user has given, if any.
        captions: how many there are in all.
        characters: how many they have together.
    """
    if config.shard_size is not None:
        return config.shard_size
    if config.limit is not None:  # most captions that were read may be left out, so their number tells nothing
        return LEAST
    captions_of_most_mb = int(MOST_MB * 1_000_000 * captions / max(1, characters))
    return max(LEAST, min(captions // SHARDS, captions_of_most_mb))


class ShardSize(NamedTuple):
    """What one shard holds."""

    captions: int
    images: int


def shard_sizes(sizes: Iterable[int], shard_size: int) -> list[ShardSize]:
    """How images are cut to shards of up to `shard_size` captions; one image alone may have more.

    Args:
        sizes: the captions of each image: [5, 5, 5] with shard_size 12 are shards of (10, 2) and (5, 1).
        shard_size: captions, at most.
    """
    shards = []
    captions = 0
    images = 0
    for size in sizes:
        if images and captions + size > shard_size:
            shards.append(ShardSize(captions, images))
            captions = 0
            images = 0
        captions += size
        images += 1
    if images:
        shards.append(ShardSize(captions, images))
    return shards


def count_shards_of_ranges(kept: Path, starts: Sequence[int], shard_size: int) -> list[int]:
    """How many shards the images of each range of positions fill.

    Args:
        kept: the file with the captions that are kept, sorted by `home`, the position of their image's first caption.
        starts: the first position of each range, ascending; a range ends where the next one starts.
        shard_size: captions of a shard, at most.
    """
    batches = pq.ParquetFile(kept).iter_batches(1 << 13, columns=["home"], use_threads=False)
    home_of_caption = chain.from_iterable(batch["home"].to_pylist() for batch in batches)
    captions_of_ranges: list[list[int]] = [[] for _ in starts]  # of each image in a range, the number of its captions
    for home, captions in groupby(home_of_caption):
        range_number = bisect_right(starts, home) - 1
        captions_of_ranges[range_number].append(sum(1 for _ in captions))
    return [len(shard_sizes(captions_of_images, shard_size)) for captions_of_images in captions_of_ranges]


def captions_table(rows: pa.Table, number: np.ndarray, source_name: str, split: str) -> pa.Table:
    """The table captions, of rows that are kept.

    Args:
        rows: in their final order.
        number: (rows,) the number of each caption among those of its image, which ends its id.
        source_name: begins each id.
        split: of rows that name none.
    """
    # The id is made last: a number is final only when repetitions are out and the source's own numbers are known.
    numbers = pa.array(number).cast(pa.string())
    rows = rows.append_column("caption_id", pc.binary_join_element_wise(source_name, rows["image_id"], numbers, ":"))
    rows = rows.append_column("origin", pa.repeat("human", rows.num_rows))
    splits = pc.if_else(pc.equal(rows["split"], ""), split, rows["split"])
    rows = rows.set_column(rows.schema.get_field_index("split"), "split", splits)
    return rows.select(CAPTIONS.names).cast(CAPTIONS).combine_chunks()


def source_columns_table(rows: pa.Table, built: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table source_columns: the columns of the source that are kept beside the captions.

    Args:
        rows: with these columns, under names that begin with KEPT.
        built: the table captions made of the same rows, in their order.
        schema: the ids of caption and image, then the kept columns.
    """
    id_names, kept_names = schema.names[:2], schema.names[2:]
    columns = [built[name] for name in id_names] + [rows[KEPT + name] for name in kept_names]
    return pa.table(columns, schema=schema).combine_chunks()
