"""Read caption files and folders of published formats as records, one caption each. One module per format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import ModuleType
from typing import TYPE_CHECKING, Any

from . import coco, flickr, karpathy, lines, multi30k, table, vsepp, webdataset
from .detect import detect as _detect
from .files import content as _content
from .files import name_in
from .record import ReadOptions, Record, Rejected, clean
from .remote import check_protocol, naming

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "READERS",
    "ReadOptions",
    "Reader",
    "Record",
    "Rejected",
    "content",
    "detect",
    "files",
    "kept_types",
    "name_in",
    "read",
    "reader_of",
]


@dataclass(frozen=True)
class Reader:
    """How one format is read.

    files: the files that reading a source (a path or URL) reads, in order. records: its records, in source order.
    grouped: whether all captions of an image are adjacent, so that reading may stop after the first N images.
    file_records: the records of one of the files of a source, for formats in which each is read alone; None for others.
    """

    files: Callable[[str, ReadOptions], list[str]]
    records: Callable[[str, ReadOptions], Iterator[Record | Rejected]]
    grouped: bool
    file_records: Callable[[str, str, ReadOptions], Iterator[Record | Rejected]] | None = None


def _reader(module: ModuleType) -> Reader:
    return Reader(module.files, module.records, module.GROUPED, getattr(module, "file_records", None))


READERS = {
    "coco": _reader(coco),
    "karpathy": _reader(karpathy),
    "flickr": _reader(flickr),
    "multi30k": _reader(multi30k),
    "vsepp": _reader(vsepp),
    "table": _reader(table),
    "webdataset": _reader(webdataset),
    "lines": _reader(lines),
}


def reader_of(format: str) -> Reader:
    """The reader of a format. Raises ValueError, which lists the known formats, for any other name."""
    if format not in READERS:
        raise ValueError(f"format must be one of {', '.join(READERS)}, was: {format}")
    return READERS[format]


def detect(source: str) -> str:
    """The format of `source` (a path or URL): a key of READERS.

    Raises FileNotFoundError when there is no such file or folder; ValueError, naming the source and what was expected,
    when it has no known format or cannot be read.
    """
    check_protocol(source)
    with naming(source):
        return _detect(source)


def files(source: str, format: str, options: ReadOptions) -> list[str]:
    """The files (paths or URLs) that are read for a source, in order.

    Raises ValueError or FileNotFoundError, with one line that names the file, when the source cannot be read as
    `format`.
    """
    check_protocol(source)
    with naming(source):
        return reader_of(format).files(source, options)


def kept_types(format: str, files: Sequence[str], options: ReadOptions) -> Mapping[str, pa.DataType]:
    """The type of each column of `options.keep_columns` in the files of a source.

    Raises ValueError for a format without columns, or when a file lacks a column or cannot be read.
    """
    import pyarrow as pa

    if not options.keep_columns:
        return {}
    if format == "table":
        with naming(files[0]):
            return table.kept_types(files, options)
    if format != "webdataset":
        raise ValueError(f"keep_columns is for tables and WebDataset tars, the format is {format}")
    return dict.fromkeys(options.keep_columns, pa.string())


def content(file: str, format: str = "") -> dict[str, Any]:
    """What identifies a file that is read: its name (`file`), `bytes` and `sha256`, as stored. Of an archive of
    `format` webdataset, the hash is of the names of its members and the texts.

    Raises ValueError or FileNotFoundError, with one line that names the file, when it cannot be read.
    """
    with naming(file):
        return webdataset.content(file) if format == "webdataset" else _content(file)


def read(
    source: str, format: str, options: ReadOptions, files: Sequence[str] | None = None
) -> Iterator[Record | Rejected]:
    """The records of a source in its own order: cleaned (see `clean`), or rejected with a reason.

    files: read only these of its files, in a format that has `file_records`. Raises ValueError or FileNotFoundError,
    with one line that names the file, when it cannot be read as `format`.
    """
    reader = reader_of(format)
    with naming(source):
        if files is None or reader.file_records is None:
            found = reader.records(source, options)
        else:
            found = chain.from_iterable(reader.file_records(source, file, options) for file in files)
        for record in found:
            yield clean(record) if type(record) is Record else record
