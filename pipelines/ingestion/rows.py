"""Records as rows, before the captions of an image are brought together: in memory, or in an Arrow file for each part.

A part is what one call reads: a file, or a whole source. A row's position says where it is: the number of its part,
then its number in the part's file, rejected records included. Captions keep the order of positions.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from ...augment.settings import AboveZero, AtLeastOne, matching
from ..readers.record import ReadOptions, Record, Rejected, image_id
from .checks import keys

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

PART_BITS = 40  # a part has at most 2**40 records
BLOCK_ROWS = 32_768
KEPT = "kept:"


ImageLimit = Annotated[AtLeastOne | None, Field(description="read only the first N images; none: all")]
Strict = Annotated[
    bool,
    Field(
        description="stop at the first bad record instead of rejecting it; exit with status 1 if an operator failed "
        "on a caption"
    ),
]
SourceName = Annotated[
    str,
    Field(description="first part of every caption_id"),
    matching(r"([A-Za-z0-9][A-Za-z0-9._-]*)?", "of letters, digits and . _ -"),
]


class IngestConfig(ReadOptions):
    """What to read of a source, how to read its records, and how to cut captions to shards, which split no image.

    Captions to refuse, as rejected records: see ingestion.checks.
    """

    format: Literal["", "coco", "karpathy", "flickr", "multi30k", "vsepp", "table", "webdataset", "lines"] = Field(
        "", description="format of CAPTIONS; by default recognised from the content"
    )
    source_name: SourceName = ""
    limit: ImageLimit = None
    shard_size: AtLeastOne | None = Field(None, description="captions per Parquet file, at most, of whole images")
    shard_mb: AboveZero | None = Field(
        None,
        description="MB of text per Parquet file, instead; by default 1000 captions, or up to 1 MB where there would "
        "be more than 2048 files",
    )
    strict: Strict = False
    languages: tuple[str, ...] = Field(
        (), description="reject captions that seem to be in another language than these (ISO 639-1)"
    )
    boilerplate: bool = Field(False, description="reject file names, web addresses and stock phrases")
    duplicates: bool = Field(False, description="reject captions that repeat an earlier one, of any image")
    near_duplicates: bool = Field(
        False, description="reject also what differs from an earlier caption in a few letters"
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.shard_mb is not None and self.shard_size is not None:
            raise ValueError("shard_size and shard_mb exclude each other: give one of them")
        if not re.fullmatch(r"[a-z]{2,3}", self.language):
            raise ValueError(f"language must be an ISO 639 code such as en, or all, was: {self.language}")
        return self


def rows_schema(kept: Mapping[str, pa.DataType]) -> pa.Schema:
    """Rows of records: their fields (number: null for none), and `keys` (see `checks.keys`), null if none are asked
    for. A rejected record has `reason` and `detail`, and no `image_id`.

    kept: the types of the columns to keep, which become `kept:<name>`.
    """
    import pyarrow as pa

    text = pa.string()
    names = ("image_id", "image", "split", "language", "text", "source", "reason", "detail")
    numbers = [("number", pa.int64()), ("line", pa.int64()), ("keys", pa.list_(pa.uint64()))]
    return pa.schema([*((name, text) for name in names), *numbers, *((KEPT + name, of) for name, of in kept.items())])


class Reader:
    """Turns records into blocks of rows, and counts them.

    rows: how many records were read, rejected ones included. characters: in the captions of the others. full: whether a
    record was dropped because its image is not among the first `limit`.
    """

    def __init__(self, config: IngestConfig, schema: pa.Schema) -> None:
        """schema: of the rows, see `rows_schema`."""
        self.rows = self.characters = 0
        self.full = False
        self._config, self._schema = config, schema

    def blocks(self, records: Iterable[Record | Rejected], stop_when_full: bool) -> Iterator[pa.RecordBatch]:
        """Blocks of rows of the records, in order; captions of images beyond the first `limit` are left out.

        stop_when_full: whether to stop as soon as `limit` images are complete, which is right if the captions of an
        image are adjacent.
        """
        images: set[str] = set()
        waiting: list[tuple[Any, ...]] = []
        blank = (None,) * (len(self._schema) - 11)
        last_image, last_id = None, ""
        for record in records:
            self.rows += 1
            if isinstance(record, Rejected):
                row = (None, None, None, None, record.text, record.source, record.reason, record.detail)
                waiting.append((*row, None, record.line, *blank))
            else:
                source, line, image, text, split, language, number, id, kept = record
                self.characters += len(text)
                if id is not None:
                    last_image, last_id = None, id
                elif image != last_image:
                    last_image, last_id = image, image_id(image)
                if self._config.limit is not None and last_id not in images:
                    if len(images) == self._config.limit:
                        self.full = True
                        if stop_when_full:
                            break
                        continue
                    images.add(last_id)
                waiting.append((last_id, image, split, language, text, source, None, None, number, line, *kept))
            if len(waiting) == BLOCK_ROWS:
                yield self._block(waiting)
                waiting = []
        if waiting:
            yield self._block(waiting)

    def _block(self, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
        import pyarrow as pa

        columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
        asked = self._config.duplicates or self._config.near_duplicates
        found = keys(columns[4], self._config.near_duplicates) if asked else [None] * len(rows)
        columns.insert(10, [own if id is not None else None for own, id in zip(found, columns[0], strict=True)])
        return pa.record_batch([_array(*pair) for pair in zip(columns, self._schema, strict=True)], self._schema)


def _array(values: Sequence[Any], of: pa.Field) -> pa.Array:
    """The values of a column. In a column to keep, what is no text becomes JSON; raises ValueError for other types."""
    import pyarrow as pa

    try:
        return pa.array(values, of.type)
    except (pa.ArrowException, UnicodeError, OverflowError, TypeError) as error:
        if of.name.startswith(KEPT) and pa.types.is_string(of.type):
            return pa.array([None if value is None else _text(value) for value in values], of.type)
        name = of.name.removeprefix(KEPT)
        raise ValueError(
            f"column {name} must be {of.type}, as in the first file: {str(error).splitlines()[0]}"
        ) from None


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text.encode("utf-8", "backslashreplace").decode()


def write_blocks(path: Path, schema: pa.Schema, blocks: Iterable[pa.RecordBatch]) -> int:
    """Write record batches to an Arrow file, which is there when all are written; the number of rows."""
    import pyarrow as pa

    temporary, rows = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp"), 0
    try:
        with pa.OSFile(str(temporary), "wb") as file, pa.ipc.new_file(file, schema) as writer:
            for block in blocks:
                writer.write_batch(block)
                rows += block.num_rows
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return rows


def read_blocks(paths: Iterable[Path], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The `position` and some columns of the rows in the files of all parts."""
    import numpy as np
    import pyarrow as pa

    for part, path in enumerate(paths):
        position = part << PART_BITS
        with pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as reader:
            for index in range(reader.num_record_batches):
                block = reader.get_batch(index)
                positions = pa.array(np.arange(position, position + block.num_rows))
                yield pa.record_batch([positions, *map(block.column, columns)], ["position", *columns])
                position += block.num_rows


def rows_at(path: Callable[[int], Path], schema: pa.Schema, positions: np.ndarray) -> pa.Table:
    """The rows at some positions, in their order; path: the file of a part, given its number."""
    import numpy as np
    import pyarrow as pa

    order = np.argsort(positions, kind="stable")
    wanted, found = positions[order], []
    for part in np.unique(wanted >> PART_BITS).tolist():
        start = part << PART_BITS
        with pa.memory_map(str(path(part))) as file, pa.ipc.open_file(file) as reader:
            for index in range(reader.num_record_batches):
                block = reader.get_batch(index)
                low, high = np.searchsorted(wanted, (start, start + block.num_rows))
                if high > low:  # copied: while a file is mapped, more of it counts as memory than is read
                    found.append(block.take(pa.array(wanted[low:high] - start)))
                start += block.num_rows
    table = pa.Table.from_batches(found, schema)
    if (order[1:] > order[:-1]).all():
        return table.combine_chunks()
    return table.take(pa.array(np.argsort(order, kind="stable"))).combine_chunks()
