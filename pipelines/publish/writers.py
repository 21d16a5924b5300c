"""Files that are written row by row: JSON, text tables, Parquet as the Hugging Face hub reads it, tars of samples."""

from __future__ import annotations

import csv
import io
import json
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from ..tables.examples import Example
from .publication import FLOAT, IMAGE, INTEGER, TEXT, Column, Publication, RecordSet

if TYPE_CHECKING:
    import pyarrow as pa

Rows = Iterator[tuple[Any, ...]]  # the path of a file, and what its `add` takes


def write_rows(
    publication: Publication,
    folder: Path,
    rows: Callable[[Publication], Rows],
    open: Callable[[Path], Any],
    what: str,
    columns: Sequence[Column],
) -> list[RecordSet]:
    """Write a format whose files are rows; one record set per file.

    rows: for each row its file, and what is added to it; open: opens a file by its path; what, columns: what the files
    hold.
    """
    with Files(folder, open) as files:
        for name, *row in rows(publication):
            files[name].add(*row)
    return [RecordSet(name, what, tuple(columns)) for name in files]


class JsonRows:
    """A JSON file of one list or one object, written row by row, one row per line.

    It is plain ASCII, since some readers open it in the default encoding of their system.
    """

    def __init__(self, file: Path, brackets: str = "[]") -> None:
        """Create the file, and its folders; brackets: "[]" for a list, "{}" for an object."""
        file.parent.mkdir(parents=True, exist_ok=True)
        self.brackets = brackets
        self.rows = 0
        self.file: IO[str] = file.open("w", encoding="utf-8", newline="\n")
        self.file.write(self.start())

    def start(self) -> str:
        """The text before the rows."""
        return self.brackets[0]

    def end(self) -> str:
        """The text after the rows."""
        return self.brackets[1]

    def add(self, value: Any, key: str | None = None) -> None:
        """Write a row; in an object its key is, by default, its number, from "0"."""
        key = f"{json.dumps(key or str(self.rows))}: " if self.brackets == "{}" else ""
        start = ",\n" if self.rows else "\n"
        self.file.write(start + key + json.dumps(value))
        self.rows += 1

    def close(self) -> None:
        """Write the closing bracket."""
        self.file.write(f"\n{self.end()}\n")
        self.file.close()


class TableRows:
    """A text table with a header, written row by row with the quoting that pandas uses."""

    def __init__(self, file: Path, header: Sequence[str], delimiter: str = ",") -> None:
        """Create the file, and its folders, and write the header."""
        file.parent.mkdir(parents=True, exist_ok=True)
        self.file: IO[str] = file.open("w", encoding="utf-8", newline="")
        self.rows = csv.writer(self.file, delimiter=delimiter, lineterminator="\n")
        self.add(header)

    def add(self, values: Sequence[object]) -> None:
        """Write a row."""
        self.rows.writerow(values)

    def close(self) -> None:
        """Close the file."""
        self.file.close()


class Files(dict[str, Any]):
    """The open files by their path in the published folder; all are closed at the end of the `with` block."""

    def __init__(self, folder: Path, open: Callable[[Path], Any]) -> None:
        """A missing key opens that file of `folder` by calling `open` with its path."""
        super().__init__()
        self.folder, self.open = folder, open

    def __missing__(self, name: str) -> Any:
        self[name] = self.open(self.folder / name)
        return self[name]

    def __enter__(self) -> Files:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self.values():
            file.close()


ROWS, GROUP = 100_000, 10_000  # rows per file, rows per row group
ROWS_WITH_IMAGES, GROUP_WITH_IMAGES = 2_000, 100
EMBEDDED = Column("image", "the image", IMAGE, member="bytes")
SPLIT = Column("split", "the split", property="fullpath", regex=r"^.*/([^/]+)-\d+-of-\d+\.parquet$")


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

    types = {
        FLOAT: pa.float32(),
        TEXT: pa.string(),
        INTEGER: pa.int64(),
        IMAGE: pa.struct([pa.field("bytes", pa.binary()), pa.field("path", pa.string())]),
    }
    features = {
        column.name: {"_type": "Image"}
        if column.type == IMAGE
        else {"dtype": str(types[column.type]), "_type": "Value"}
        for column in columns
    }
    fields = [pa.field(column.name, types[column.type]) for column in columns]
    return pa.schema(fields, metadata={"huggingface": json.dumps({"info": {"features": features}})})


SAMPLES = 5000  # in a tar file


class Tars:
    """Tar files with up to 5,000 samples each; their bytes depend only on the samples."""

    def __init__(self, folder: Path, name: str) -> None:
        """Files are created in `folder`, the first with the first sample; name: of a file, with {} for its number."""
        self.folder, self.name = folder, name
        self.suffixes: set[str] = set()
        self.samples = 0
        self.sizes: dict[str, int] = {}  # number of samples by file
        self.tar: tarfile.TarFile | None = None

    def add(self, parts: Mapping[str, bytes]) -> None:
        """Add a sample: the contents of its members by their suffix."""
        name = self.name.format(self.samples // SAMPLES)
        if name not in self.sizes:
            self.close()
            (self.folder / name).parent.mkdir(exist_ok=True)
            self.tar = tarfile.open(self.folder / name, "w", format=tarfile.USTAR_FORMAT)  # noqa: SIM115
        assert self.tar is not None
        for suffix, data in parts.items():
            self.suffixes.add(suffix)
            entry = tarfile.TarInfo(f"{self.samples:09d}{suffix}")  # no time, no owner
            entry.size = len(data)
            self.tar.addfile(entry, io.BytesIO(data))
        self.samples += 1
        self.sizes[name] = self.sizes.get(name, 0) + 1

    def close(self) -> None:
        """Close the tar file that is being written, if any."""
        if self.tar is not None:
            self.tar.close()
