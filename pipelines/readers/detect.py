"""Recognise the format of a caption file or folder by its content and, where that does not suffice, its name."""

from __future__ import annotations

import json
import re

from . import delimited, lines, multi30k, table, vsepp, webdataset
from .files import head, is_folder, is_pattern, matching, name_of, names
from .json_stream import json_events

EXPECTED = (
    "COCO annotation JSON, Karpathy dataset JSON, a Flickr token file (`name.jpg#k⇥caption`), "
    "a Multi30K folder, VSE++ `<split>_caps.txt` or its folder, "
    "a CSV, TSV, JSONL or Parquet table with image and caption columns, WebDataset tars, or a *.txt file with one "
    "caption per line"
)
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_TOKEN_LINE = re.compile(rb"\S[^\t\n]*#\d{1,4}\t")


def detect(source: str) -> str:
    """The format of `source` (a path or URL): a key of READERS.

    Raises FileNotFoundError when there is no such file or folder; ValueError, naming the source and what was expected,
    when it has no known format or cannot be read.
    """
    if is_pattern(source):
        source = matching(source)[0]
        if (format := detect(source)) not in ("table", "webdataset"):
            raise ValueError(f"{source}: a pattern must be of tables or of WebDataset tars, this file is of {format}")
        return format
    if is_folder(source):
        return _detect_folder(source)
    name = name_of(source)
    if vsepp.CAPTIONS.fullmatch(name):
        return "vsepp"
    if webdataset.FILES.fullmatch(name):
        return "webdataset"
    start = head(source)
    if start.startswith(b"PAR1"):
        return "table"
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ValueError(f"{source}: must be UTF-8, starts with a UTF-16 byte order mark")
    start = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not start or len(_CONTROL.findall(start)) * 50 > len(start):
        raise ValueError(f"{source}: must be {EXPECTED}; is {'binary' if start else 'empty'}")
    if start.startswith(b"{") and not _is_json_lines(start):
        return _detect_json(source)
    if _TOKEN_LINE.match(start):
        return "flickr"
    if table.FILES.fullmatch(name) or table.kind_of(source) != "delimited" or delimited.has_header(start):
        return "table"
    if multi30k.CAPTIONS.fullmatch(name):
        raise ValueError(f"{source}: looks like one file of Multi30K, give the folder it is in")
    if lines.FILES.fullmatch(name):
        if lines.looks_like_sentences(start):
            return "lines"
        raise ValueError(
            f"{source}: looks like a table without a header or a list of images; for a table give --format table and "
            "the numbers of its columns, --image-column 1 --caption-column 2"
        )
    raise ValueError(f"{source}: must be {EXPECTED}; looks like none of them")


def _detect_folder(source: str) -> str:
    present = names(source)
    if any(vsepp.CAPTIONS.fullmatch(name) for name in present):
        return "vsepp"
    if multi30k.is_multi30k(source):
        return "multi30k"
    archives = {name.partition(".")[0] for name in present if webdataset.FILES.fullmatch(name)}
    if archives and not archives <= {name.partition(".")[0] for name in present if name.endswith(".parquet")}:
        return "webdataset"
    if any(table.FILES.fullmatch(name) for name in present):  # of img2dataset, those beside its archives
        return "table"
    holds = ", ".join(present[:5]) + (", …" if len(present) > 5 else "") if present else "no files"
    raise ValueError(
        f"{source}: must be a Multi30K folder, a VSE++ folder or a folder of tables or WebDataset tars; holds {holds}"
    )


def _is_json_lines(start: bytes) -> bool:
    """Whether the first line is a complete JSON object, and not one that a whole COCO or Karpathy file consists of."""
    try:
        first = json.loads(start.split(b"\n")[0].decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return False
    return not any(isinstance(first.get(key), list) for key in ("images", "annotations"))


def _detect_json(source: str) -> str:
    for prefix, event, _ in json_events(source, "complete JSON"):
        if prefix == "images.item.sentences":
            return "karpathy"
        if prefix in ("images.item", "annotations.item") and event == "end_map":
            return "coco"
    expected = "COCO annotation JSON (images, annotations) or Karpathy dataset JSON (images with sentences)"
    raise ValueError(f"{source}: must be {expected}; has none of these")
