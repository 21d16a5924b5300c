"""Readers: from a caption file or folder of some published format to records. One module a format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType

from negcap.pipelines.readers import coco, flickr, karpathy, lines, multi30k, table, vsepp
from negcap.pipelines.readers.detect import detect
from negcap.pipelines.readers.record import ReadOptions, Record, Rejected, clean

__all__ = ["READERS", "ReadOptions", "Reader", "Record", "Rejected", "detect", "files", "read", "reader_of"]


@dataclass(frozen=True)
class Reader:
    """How one format is read: the files of a source, and its records in source order.

    grouped: all captions of an image are adjacent, so that reading may stop after the first N images.
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
    """The reader of a format; ValueError listing the formats when there is none."""
    if format not in READERS:
        raise ValueError(f"format must be one of {', '.join(READERS)}, was: {format}")
    return READERS[format]


def files(source: str, format: str, options: ReadOptions) -> list[str]:
    """The files that reading `source` reads, in order."""
    return reader_of(format).files(source, options)


def read(source: str, format: str, options: ReadOptions) -> Iterator[Record | Rejected]:
    """The records of a source in its order, cleaned or rejected.

    Raises ValueError or FileNotFoundError, one line that names the file, when it cannot be read as `format`.
    """
    for record in reader_of(format).records(source, options):
        yield clean(record) if type(record) is Record else record
