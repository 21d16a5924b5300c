"""Read caption files and folders of published formats as records, one caption each. One module per format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from negcap.pipelines.readers import coco, flickr, karpathy, lines, multi30k, table, vsepp
from negcap.pipelines.readers.detect import detect as _detect
from negcap.pipelines.readers.files import content as _content
from negcap.pipelines.readers.record import ReadOptions, Record, Rejected, clean
from negcap.pipelines.readers.remote import check_protocol, naming

__all__ = ["READERS", "ReadOptions", "Reader", "Record", "Rejected", "content", "detect", "files", "read", "reader_of"]


@dataclass(frozen=True)
class Reader:
    """How one format is read.

    files: the files that reading a source (a path or URL) reads, in order. records: its records, in source order.
    grouped: whether all captions of an image are adjacent, so that reading may stop after the first N images.
    """

    files: Callable[[str, ReadOptions], list[str]]
    records: Callable[[str, ReadOptions], Iterator[Record | Rejected]]
    grouped: bool


def _reader(module: ModuleType) -> Reader:
    return Reader(module.files, module.records, module.GROUPED)


READERS = {
    "coco": _reader(coco),
    "karpathy": _reader(karpathy),
    "flickr": _reader(flickr),
    "multi30k": _reader(multi30k),
    "vsepp": _reader(vsepp),
    "table": _reader(table),
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
    """The files (paths or URLs) that are read for `source`, in order. Raises as `read`."""
    check_protocol(source)
    with naming(source):
        return reader_of(format).files(source, options)


def content(file: str) -> dict[str, Any]:
    """What identifies a file that is read: its name (`file`), `bytes` and `sha256`, as stored. Raises as `read`."""
    with naming(file):
        return _content(file)


def read(source: str, format: str, options: ReadOptions) -> Iterator[Record | Rejected]:
    """The records of a source in its own order: cleaned (see `clean`), or rejected with a reason.

    Raises ValueError or FileNotFoundError, with one line that names the file, when it cannot be read as `format`.
    """
    with naming(source):
        for record in reader_of(format).records(source, options):
            yield clean(record) if type(record) is Record else record
