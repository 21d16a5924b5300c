"""Read caption files and folders of published formats as records, one caption each; recognise the format, by the
content and, where that does not suffice, the name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import ijson
import pyarrow as pa

from ...schemas.messages import word
from . import files, formats, table, webdataset
from .files import files_named, head, is_folder, is_pattern, matching, name_in, name_of, names, naming
from .record import ReadOptions, Record, Rejected, clean
from .truth import NO_COLUMN

__all__ = [
    "READERS", "ReadOptions", "Reader", "Record", "Rejected",
    "content", "detect", "files_of", "kept_types", "name_in", "read", "reader_of",
]  # fmt: skip

EXPECTED = (
    "COCO or Karpathy JSON, a Flickr token file (`name.jpg#k⇥caption`), a Multi30K or VSE++ folder, a CSV, TSV, JSON, "
    "JSONL or Parquet table with image and caption columns, WebDataset tars, a folder of images with a text file each, "
    "or a *.txt file with one caption per line"
)
# What some sets put between id and caption. Such lines are refused: taken for captions, each would begin with an id.
SEPARATORS = (b"##", b"|||", b"||", b"@@@", b"::")
EMPTY_JSON = re.compile(rb"\{\s*\}|\[\s*\]|null")
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_TOKEN_LINE = re.compile(rb"\S[^\t\n]*#\d{1,4}\t")
_IMAGE_FILE = re.compile(rb"[^\s,;|]+\.(?:jpe?g|png|gif|webp|bmp|tiff?)(?![a-z0-9])", re.IGNORECASE)


class Reader(NamedTuple):
    """How one format is read.

    Attributes:
        records: the records of a file (path or URL) of a source.
        files: the files of a source, in order.
        alone: whether each file is read alone; else `records` reads the whole source.
    """

    records: Callable[[str, str, ReadOptions], Iterator[Record | Rejected]]
    files: Callable[[str, ReadOptions], list[str]] = lambda source, options: [source]
    alone: bool = True


READERS = {
    "coco": Reader(formats.coco),
    "karpathy": Reader(formats.karpathy),
    "flickr": Reader(formats.flickr),
    "multi30k": Reader(formats.multi30k, files=formats.multi30k_files, alone=False),
    "vsepp": Reader(formats.vsepp, files=formats.vsepp_files, alone=False),
    "table": Reader(table.records, files=table.files_of),
    "webdataset": Reader(webdataset.records, files=lambda source, options: files_named(webdataset.FILES, source)),
    "folder": Reader(formats.folder, files=formats.folder_files, alone=False),
    "lines": Reader(formats.plain_lines),
}


def reader_of(format: str) -> Reader:
    """The reader of a format. Raises ValueError, which lists the known formats, for any other name."""
    return READERS[word("format", format, READERS)]


def files_of(source: str, format: str, options: ReadOptions) -> list[str]:
    """The files (paths or URLs) of a source, in order.

    Raises ValueError or FileNotFoundError naming a bad file; ValueError if the options name a column that says whether
    a caption is true, and the format has no columns.
    """
    if options.truth_column not in ("", NO_COLUMN) and format not in ("table", "webdataset", "coco"):
        raise ValueError(f"truth_column is for tables, WebDataset tars and COCO annotations, the format is {format}")
    with naming(source):
        return reader_of(format).files(source, options)


def kept_types(format: str, urls: Sequence[str], options: ReadOptions) -> Mapping[str, pa.DataType]:
    """The type that each of `options.keep_columns` has in the table captions: as in the first file, else text.

    Args:
        format: a key of READERS.
        urls: the files of the source. Only the first one is opened; when the others are read, their values must fit.
        options: with the columns to keep.

    Raises:
        ValueError: the format has no columns to keep, or the first file lacks one of them.
    """
    if options.keep_columns and format not in ("table", "webdataset"):
        raise ValueError(f"keep_columns is for tables and WebDataset tars, the format is {format}")
    types: Mapping[str, pa.DataType] = {}
    if options.keep_columns and format == "table":
        with naming(urls[0]):
            types = table.kept_types(urls[0], options)
    # WebDataset states no types: each sample is JSON of its own, of which anything but text is kept as JSON
    return {name: types.get(name, pa.string()) for name in options.keep_columns}


def content(file: str, format: str = "") -> dict[str, str | int]:
    """The name (`file`), `bytes` and a hash of a file, by which a run knows whether it has changed.

    The hash is `sha256` of the file as it is stored; for a WebDataset archive, of its members' names and texts. Raises
    ValueError or FileNotFoundError, which name the file.
    """
    with naming(file):
        return webdataset.content(file) if format == "webdataset" else files.content(file)


def read(
    source: str, format: str, options: ReadOptions, only: Sequence[str] | None = None
) -> Iterator[Record | Rejected]:
    """The records of a source, in its order: cleaned (see `clean`), or rejected with a reason.

    Args:
        source: a path, URL or pattern.
        format: a key of READERS.
        options: with the columns that the user has named.
        only: some files of the source; None: all.

    Raises:
        ValueError, FileNotFoundError: a file cannot be read as `format`; names it.
    """
    reader = reader_of(format)
    with naming(source):
        for file in only or (reader.files(source, options) if reader.alone else [source]):
            for record in reader.records(source, file, options):
                yield clean(record) if type(record) is Record else record


def detect(source: str) -> str:
    """Recognise the format of `source` (a path or URL): a key of READERS, such as "coco".

    Raises FileNotFoundError without such a file or folder, ValueError, with what was expected, for an unknown format.
    """
    with naming(source):
        pattern = is_pattern(source)
        if pattern:
            source = matching(source)[0]
        format = _format_of_folder(source) if is_folder(source) else _format_of_file(source)
        if pattern and format not in ("table", "webdataset"):
            raise ValueError(f"{source}: a pattern must be of tables or of WebDataset tars, this file is of {format}")
        return format


def _format_of_folder(source: str) -> str:
    """The format of a folder, by the names of its files. Raises ValueError if they tell none."""
    present = names(source)
    if any(formats.VSEPP.fullmatch(name) for name in present):
        return "vsepp"
    if formats.multi30k_captions(source):
        return "multi30k"
    if format := _format_of_names(present):
        return format
    if formats.is_folder_of_images(source):
        return "folder"
    below = files.names_below(source)  # asked for late, as a store may have very many
    if format := _format_of_names(below):
        return format
    holds = ", ".join(below[:5]) + (", …" if len(below) > 5 else "") if below else "no files"
    raise ValueError(
        f"{source}: must be a Multi30K folder, a VSE++ folder, a folder of tables or WebDataset tars, or of images "
        f"with a text file each; holds {holds}"
    )


def _format_of_names(listed: Sequence[str]) -> str:
    """The format of a folder with files of these names: "webdataset" for tar archives, "table" for tables, else ""."""
    archives = {name.partition(".")[0] for name in listed if webdataset.FILES.fullmatch(name)}
    tables = {name.partition(".")[0] for name in listed if name.endswith(".parquet")}
    # img2dataset writes a table beside each archive, 00012.tar and 00012.parquet: it has the same captions, and reading
    # it does not take opening the archive. So archives are only read if one of them has no table.
    if archives - tables:
        return "webdataset"
    return "table" if any(map(table.FILES.fullmatch, listed)) else ""


def _format_of_file(source: str) -> str:
    """The format of a file, by its name and first bytes. Raises ValueError that says what it looks like."""
    name = name_of(source)
    if formats.VSEPP.fullmatch(name):
        return "vsepp"
    if webdataset.FILES.fullmatch(name):
        return "webdataset"
    start = head(source)
    if start.startswith(b"PAR1"):
        return "table"
    start = start.lstrip()
    # In Latin text in UTF-16 every second byte is 0: here, more than 40 of the first 50 at even or at odd positions.
    is_utf16 = start[1:100:2].count(0) > 40 or start[:100:2].count(0) > 40
    # The zeros taken away, text has no other control characters; a program or an archive has.
    if is_utf16 and not _CONTROL.search(start[:100].replace(b"\0", b"")):
        raise ValueError(
            f"{source}: must be UTF-8, looks like UTF-16 without a byte order mark: "
            "iconv -f UTF-16LE -t UTF-8 converts it"
        )
    if not start:
        raise ValueError(f"{source}: is empty; give a file with captions")
    if len(_CONTROL.findall(start)) * 50 > len(start):  # a text may have a stray one, which costs a record
        raise ValueError(f"{source}: is binary; it must be {EXPECTED}")
    if EMPTY_JSON.fullmatch(start.rstrip()):
        raise ValueError(f"{source}: has no captions, only {start.decode().strip()}; it must be {EXPECTED}")
    # From here on by the content, the most certain form first: any file may be lines of text, so that comes last.
    if start.startswith(b"{"):
        return "table" if table.kind_of(source) == "jsonl" else _format_of_json(source)
    if _TOKEN_LINE.match(start):
        return "flickr"
    if table.FILES.fullmatch(name) or table.kind_of(source) != "delimited" or table.has_header(start):
        return "table"
    if formats.MULTI30K.fullmatch(name):
        raise ValueError(f"{source}: looks like one file of Multi30K, give the folder it is in")
    if not formats.LINES.fullmatch(name):
        raise ValueError(f"{source}: has none of the known forms; it must be {EXPECTED}; --format names one")
    if b"\t" in start or (_IMAGE_FILE.match(start) and not formats.has_ids(start)):
        raise ValueError(
            f"{source}: looks like a table without a header or a list of images; for a table give --format table and "
            "the numbers of its columns, --columns image=1,caption=2"
        )
    # The last line may be cut off where the beginning of the file ends.
    texts = [line for line in start.splitlines()[:-1] if line.strip()] or [start]
    for mark in SEPARATORS:
        if all(line.count(mark) == 1 for line in texts):
            raise ValueError(
                f"{source}: each line has {mark.decode()}, so it looks like a table; with tabs in place of that, "
                "--format table --columns image=1,caption=2 reads it"
            )
    return "lines"


def _format_of_json(source: str) -> str:
    """The format of a file that holds a JSON object: "coco", "karpathy" or "table".

    The first image or annotation decides; the file is read no further.
    """
    # The images may stand before or behind the annotations, and be many: only what decides is looked at.
    members: set[str] = set()  # of the first annotation
    lists: set[str] = set()
    with files.open_json(source, "complete JSON") as file:
        for prefix, event, value in ijson.parse(file, use_float=True, buf_size=files.BUFFER):
            if prefix == "images.item.sentences":
                return "karpathy"
            if event == "start_array" and prefix in ("images", "annotations"):
                lists.add(prefix)
            elif prefix == "annotations.item" and event == "map_key":
                members.add(value)
            elif prefix == "annotations.item" and event == "end_map":
                return "coco" if "image_id" in members else "table"
    return "coco" if len(lists) == 2 else "table"
