"""Parquet files as the Hugging Face hub and `datasets` name and read them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..tables.examples import Example
from .publication import FLOAT, IMAGE, INTEGER, MESSAGES, TEXT, Column, Publication

if TYPE_CHECKING:
    import pyarrow as pa

ROWS, GROUP = 100_000, 10_000  # rows per file, rows per row group
ROWS_WITH_IMAGES, GROUP_WITH_IMAGES = 2_000, 100
EMBEDDED = Column("image", "the image", IMAGE, member="bytes")
SPLIT = Column("split", "the split", property="fullpath", regex=r"^.*/([^/]+)-\d+-of-\d+\.parquet$")
STRING = {"dtype": "string", "_type": "Value"}
MESSAGE = [{"role": STRING, "content": [{"type": STRING, "text": STRING}]}]  # as `datasets` describes it


class ParquetRows:
    """The rows of one operator and split as Parquet files, written one row group at a time.

    A file has at most 100,000 rows, or 2,000 with images.
    """

    def __init__(self, stem: Path, columns: Sequence[Column]) -> None:
        """Write files `{stem}-00000-of-000NN.parquet`; images are in the column EMBEDDED, if it is one of `columns`."""
        self.stem = stem
        self.schema = schema(columns)
        self.most, self.group = (ROWS_WITH_IMAGES, GROUP_WITH_IMAGES) if EMBEDDED in columns else (ROWS, GROUP)
        self.rows: list[Sequence[Any]] = []
        self.total = 0
        self.files: list[Path] = []
        self.writer: Any = None

    def add(self, row: Sequence[Any]) -> None:
        """Add a row, its values in the order of the columns."""
        self.rows.append(row)
        self.total += 1
        full = self.total % self.most == 0
        if full or len(self.rows) == self.group:
            self._flush()
        if full:
            self._end_file()

    def _flush(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self.writer is None:
            self.stem.parent.mkdir(parents=True, exist_ok=True)
            self.files.append(self.stem.with_name(f"{self.stem.name}-{len(self.files):05d}"))
            self.writer = pq.ParquetWriter(self.files[-1], self.schema, compression="zstd")
        values = zip(zip(*self.rows, strict=True), self.schema, strict=True)
        columns = [pa.array(column, item.type) for column, item in values]
        self.writer.write_table(pa.Table.from_arrays(columns, schema=self.schema))
        self.rows = []

    def _end_file(self) -> None:
        if self.writer is not None:
            self.writer.close()
        self.writer = None

    def close(self) -> None:
        """Write the remaining rows, and rename the files now that their number is known."""
        if self.rows:
            self._flush()
        self._end_file()
        for file in self.files:
            file.rename(file.with_name(f"{file.name}-of-{len(self.files):05d}.parquet"))


def image_value(publication: Publication, example: Example) -> Any:
    """What the column of images holds: the file and its path if images are published too, else the path to open."""
    if publication.with_images and publication.images is not None:
        return {"bytes": publication.images.read(example.image), "path": example.image}
    return publication.prefix + example.image


def schema(columns: Sequence[Column]) -> pa.Schema:
    """The Arrow schema of columns, with the metadata from which `datasets` knows which column holds images."""
    import pyarrow as pa

    part = pa.struct([pa.field("type", pa.string()), pa.field("text", pa.string())])
    message = pa.struct([pa.field("role", pa.string()), pa.field("content", pa.list_(part))])
    types = {
        FLOAT: pa.float32(),
        TEXT: pa.string(),
        INTEGER: pa.int64(),
        IMAGE: pa.struct([pa.field("bytes", pa.binary()), pa.field("path", pa.string())]),
        MESSAGES: pa.list_(message),
    }
    features: dict[str, Any] = {}
    for column in columns:
        special = {IMAGE: {"_type": "Image"}, MESSAGES: MESSAGE}
        features[column.name] = special.get(column.type) or {"dtype": str(types[column.type]), "_type": "Value"}
    fields = [pa.field(column.name, types[column.type]) for column in columns]
    return pa.schema(fields, metadata={"huggingface": json.dumps({"info": {"features": features}})})
