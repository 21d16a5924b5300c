"""CSV and TSV: one record per row below a header line, or without a header when columns are given as numbers.

CSV may have quoted fields, and `;` or `|` as separator. TSV has one record per line; quotes around a whole field are
removed, all others are kept (some programs quote TSV; most published caption files do not, and have stray quotes).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence

from negcap.pipelines.readers import columns
from negcap.pipelines.readers.files import lines, name_of, open_text, reading
from negcap.pipelines.readers.record import ReadOptions, Record, Rejected, excerpt

EXPECTED = "a CSV or TSV table whose first line names the columns"
DELIMITERS = "\t,;|"
_QUOTED = re.compile(r'"((?:[^"]|"")*)"')


def rows(url: str, options: ReadOptions) -> Iterator[Record | Rejected]:
    """The records of a file, in order; `line` is the first line of each. Raises ValueError when a column is missing."""
    header = next(lines(url, EXPECTED), "")
    delimiter = delimiter_of(header, options)
    found = [name.strip() for name in _cut(header, delimiter)]
    if not any(found):
        raise ValueError(f"{url}: must be {EXPECTED}; the line is empty")
    image, caption, split, language = positions = _positions(found, options, url)
    width = len(found)
    name = name_of(url)
    cut = _tsv_rows(url) if delimiter == "\t" else _csv_rows(url, delimiter)
    if not (options.image_column and columns.numbered(options)):
        next(cut, None)
    elif max(position or 0 for position in positions) >= width:
        raise ValueError(
            f"{url}: column numbers must be <= {width}, were: {[p + 1 for p in positions if p is not None]}"
        )
    for line, row in cut:
        if isinstance(row, str):
            yield Rejected(name, line, "not_a_record", row, "")
        elif len(row) == width:
            its_split = None if split is None else row[split]
            its_language = options.language if language is None else row[language]
            yield Record(name, line, row[image], row[caption], its_split, its_language)
        elif any(field.strip() for field in row):
            detail = f"a record must have {width} fields, has {len(row)}"
            yield Rejected(name, line, "not_a_record", detail, excerpt(delimiter.join(row)))


def delimiter_of(header: str, options: ReadOptions) -> str:
    """The delimiter of a header line: the first of DELIMITERS that gives the columns, or else the most frequent one."""
    for delimiter in DELIMITERS:
        found = [name.strip() for name in _cut(header, delimiter)] if delimiter in header else []
        if found and columns.can_choose(found, options):
            return delimiter
    return max(DELIMITERS, key=header.count)


def has_header(start: bytes) -> bool:
    """Whether the first line of a file, given its first bytes, names an image and a caption column."""
    header = start.split(b"\n")[0].decode("utf-8", "replace").rstrip("\r")
    found = [name.strip() for name in _cut(header, delimiter_of(header, ReadOptions()))]
    return columns.can_choose(found, ReadOptions())


def _positions(found: Sequence[str], options: ReadOptions, url: str) -> tuple[int, int, int | None, int | None]:
    """The positions of image, caption, split and language in a row, from 0; None where there is no such column."""
    if options.image_column and columns.numbered(options):
        split, language = (int(n) - 1 if n else None for n in (options.split_column, options.language_column))
        return int(options.image_column) - 1, int(options.caption_column) - 1, split, language
    chosen = columns.choose(found, options, url)
    split, language = (found.index(name) if name else None for name in (chosen.split, chosen.language))
    return found.index(chosen.image), found.index(chosen.caption), split, language


def _tsv_rows(url: str) -> Iterator[tuple[int, Sequence[str] | str]]:
    for line, content in enumerate(lines(url, EXPECTED), 1):
        yield line, _cut(content, "\t")


def _csv_rows(url: str, delimiter: str) -> Iterator[tuple[int, Sequence[str] | str]]:
    """CSV rows, each with the number of its first line; for a row that cannot be parsed, the error message (str)."""
    with reading(url, EXPECTED), open_text(url) as file:
        parser = csv.reader(file, delimiter=delimiter)
        while True:
            line = parser.line_num + 1
            try:
                row = next(parser, None)
            except csv.Error as error:
                yield line, f"a record must be CSV: {error}"
                continue
            if row is None:
                return
            yield line, row


def _cut(line: str, delimiter: str) -> list[str]:
    """The fields of one line, without the quotes around them."""
    if delimiter != "\t":
        try:
            return next(csv.reader([line], delimiter=delimiter), [])
        except csv.Error:
            return line.split(delimiter)
    fields = line.split("\t")
    if '"' in line:
        quoted = [_QUOTED.fullmatch(field) for field in fields]
        fields = [match[1].replace('""', '"') if match else field for match, field in zip(quoted, fields, strict=True)]
    return fields
