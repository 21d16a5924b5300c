"""Plain text with one caption per line (`captions.txt`), each of an image of its own.

No file says which images these are, so an image is named by its caption's line number, from 1. The split is taken from
the file's name (`train.txt` -> train).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .files import lines, name_of, split_in
from .record import ReadOptions, Record, Rejected

EXPECTED = "UTF-8 text with one caption per line"
GROUPED = True
FILES = re.compile(r".+\.txt(?:\.(?:gz|bz2|xz|zip))?", re.IGNORECASE)
_IMAGE_FILE = re.compile(rb"[^\s,;|]+\.(?:jpe?g|png|gif|webp|bmp|tiff?)(?![a-z0-9])", re.IGNORECASE)


def files(source: str, options: ReadOptions) -> list[str]:
    """The files that a source in this format consists of: the file itself."""
    return [source]


def records(source: str, options: ReadOptions) -> Iterator[Record | Rejected]:
    """The lines of a text file, one record each, in file order; empty lines are skipped but counted in the line
    numbers.
    """
    name, split = name_of(source), split_in(source)
    for line, text in enumerate(lines(source, EXPECTED), 1):
        if text.strip():
            yield Record(name, line, str(line), text, split, options.language)


def looks_like_sentences(start: bytes) -> bool:
    """Whether a text file's first bytes have no tabs and do not begin with the name of an image file.

    Otherwise it is a table without a header, or a list of image files.
    """
    return b"\t" not in start and not _IMAGE_FILE.match(start)
