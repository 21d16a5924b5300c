"""Records as rows of spill files: what is read of the source before the captions of an image are brought together.

A row's position says where its record stands in the whole source: the number of its part (files that one call reads),
then its number in that part. Captions keep the order of positions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...schemas.captions import REJECTED_RECORDS
from ..readers.record import Record, Rejected, image_id
from .spill import BLOCK_ROWS, hash_keys, sort_block

if TYPE_CHECKING:
    import pyarrow as pa

PART_BITS = 40  # a part has at most 2**40 records
KEPT = "kept:"
_FIELDS = ("image_id", "image", "number", "split", "language", "text", "source", "line")


def rows_schema(kept: Mapping[str, pa.DataType]) -> pa.Schema:
    """Rows by the hash of their image_id: `hash`, `position`, and the fields of a Record (number: null for none).

    kept: the types of the columns to keep, which become `kept:<name>`.
    """
    import pyarrow as pa

    unsigned, text = pa.uint64(), pa.string()
    types = [unsigned, unsigned, text, text, pa.int64(), text, text, text, text, pa.int64(), *kept.values()]
    return pa.schema(list(zip(("hash", "position", *_FIELDS, *(KEPT + name for name in kept)), types, strict=True)))


def rejected_schema() -> pa.Schema:
    """Rejected records by `position`: it, and the columns of the table rejected_records."""
    import pyarrow as pa

    return pa.schema([pa.field("position", pa.uint64()), *REJECTED_RECORDS])


class Reader:
    """Turns records into blocks of rows, and counts them.

    rows: how many records were read, rejected ones included. characters: in the captions of the others. full: whether a
    record was dropped because its image is not among the first `limit`.
    """

    def __init__(
        self, part: int, limit: int | None, schema: pa.Schema, rejected: Callable[[pa.RecordBatch], object]
    ) -> None:
        """part: the number of the part that is read. limit: images to keep, the first ones; None: all.

        schema: of the rows, see `rows_schema`. rejected: called with blocks of rejected records.
        """
        self.rows = self.characters = 0
        self.full = False
        self._part, self._limit, self._schema, self._rejected = part, limit, schema, rejected
        self._images: set[str] = set()
        self._bad: list[tuple[Any, ...]] = []

    def blocks(self, records: Iterable[Record | Rejected], stop_when_full: bool) -> Iterator[pa.RecordBatch]:
        """Blocks of rows of the good records, each sorted by the hash of the image_id; the rejected records are given
        to the writer.

        stop_when_full: whether to stop as soon as `limit` images are complete, which is right if the captions of an
        image are adjacent.
        """
        waiting: list[tuple[Any, ...]] = []
        first = self._part << PART_BITS
        last_image, last_id = None, ""
        for position, record in enumerate(records, first):
            self.rows += 1
            if isinstance(record, Rejected):
                self._bad.append((position, *record))
                if len(self._bad) == BLOCK_ROWS:
                    self._flush_rejected()
                continue
            source, line, image, text, split, language, number, id, kept = record
            self.characters += len(text)
            if id is not None:
                last_image, last_id = None, id
            elif image != last_image:
                last_image, last_id = image, image_id(image)
            if self._limit is not None and last_id not in self._images:
                if len(self._images) == self._limit:
                    self.full = True
                    if stop_when_full:
                        break
                    continue
                self._images.add(last_id)
            waiting.append((position, last_id, image, number, split, language, text, source, line, *kept))
            if len(waiting) == BLOCK_ROWS:
                yield _block(waiting, self._schema)
                waiting = []
        if waiting:
            yield _block(waiting, self._schema)
        self._flush_rejected()

    def _flush_rejected(self) -> None:
        if self._bad:
            self._rejected(rejections(self._bad).to_batches()[0])
        self._bad = []


def rejections(found: list[tuple[Any, ...]]) -> pa.Table:
    """Rejected records, each as (position, *Rejected), as rows of `rejected_schema`, in order of position."""
    import pyarrow as pa

    schema = rejected_schema()
    columns = zip(*sorted(found), strict=True) if found else ((),) * len(schema)
    return pa.table([pa.array(column, of.type) for column, of in zip(columns, schema, strict=True)], schema=schema)


def _block(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    columns = list(zip(*rows, strict=True))
    arrays = [_array(column, of) for column, of in zip(columns, list(schema)[1:], strict=True)]
    hashes = pa.array(hash_keys(columns[1]))
    return sort_block(pa.table([hashes, *arrays], schema=schema))


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
