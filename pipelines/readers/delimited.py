"""CSV and TSV: one record per row below a header line, or without a header when columns are given as numbers.

CSV may have quoted fields, and `;` or `|` as separator. TSV has one record per line; quotes around a whole field are
removed, all others are kept (some programs quote TSV; most published caption files do not, and have stray quotes).
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence

from . import columns
from .files import MAX_LINE, LongLine, lines, name_of, open_text, raw_lines, reading
from .record import ReadOptions, Record, Rejected, excerpt

EXPECTED = "a CSV or TSV table whose first line names the columns"
DELIMITERS = "\t,;|"
_QUOTED = re.compile(r'"((?:[^"]|"")*)"')


def rows(url: str, options: ReadOptions) -> Iterator[Record | Rejected]:
    """The rows of a CSV or TSV file as records, in order; `line` is the first line of each. Raises ValueError when a
    column is missing.
    """
    header = next(lines(url, EXPECTED), "")
    if isinstance(header, LongLine):
        raise ValueError(f"{url}: must be {EXPECTED}; {LongLine.RULE}")
    delimiter = delimiter_of(header, options)
    found = [name.strip() for name in _cut(header, delimiter)]
    if not any(found):
        raise ValueError(f"{url}: must be {EXPECTED}; the line is empty")
    headerless = bool(options.image_column) and columns.numbered(options)
    chosen, at = _positions(found, options, url, headerless)
    name = name_of(url)
    cut = _tsv_rows(url) if delimiter == "\t" else _csv_rows(url, delimiter)
    if not headerless:
        next(cut, None)
    caption, others = at[chosen.caption], [at.get(column) for column in chosen.others]
    kept = [at[column] for column in chosen.kept]
    for line, row in cut:
        if isinstance(row, str):
            yield Rejected(name, line, "not_a_record", row, "")
        elif len(row) == len(found):
            cells = [None if position is None else row[position] for position in others]
            values = tuple(row[position] for position in kept)
            yield columns.record_of(chosen, (name, line), row[caption], cells, values, options.language)
        elif any(field.strip() for field in row):
            detail = f"a record must have {len(found)} fields, has {len(row)}"
            yield Rejected(name, line, "not_a_record", detail, excerpt(delimiter.join(row)))


class CsvLines:
    """The lines of an open file for `csv.reader`, which raise csv.Error where a record is too long; it can go on then.

    count: of the lines read. size: characters of the record; its reader sets it to 0 before each.
    """

    def __init__(self, file: io.TextIOWrapper) -> None:
        self._lines = raw_lines(file)
        self.count = self.size = 0

    def __iter__(self) -> CsvLines:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.count += 1
        self.size += len(line)
        if isinstance(line, LongLine) or self.size > MAX_LINE:
            raise csv.Error(LongLine.RULE)
        return line


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


def _positions(
    found: Sequence[str], options: ReadOptions, url: str, headerless: bool
) -> tuple[columns.Columns, dict[str | None, int]]:
    """The columns to read, and their positions in a row, from 0. Raises ValueError for a number beyond the last."""
    if not headerless:
        chosen = columns.choose(found, options, url)
        return chosen, {name: found.index(name) for name in chosen.names}
    others = (options.split_column or None, options.language_column or None, options.id_column or None)
    chosen = columns.Columns(options.image_column, options.caption_column, *others, None, options.keep_columns)
    if max(map(int, chosen.names)) > len(found):
        numbers = [*map(int, chosen.names)]
        raise ValueError(f"{url}: column numbers must be <= {len(found)}, were: {numbers}")
    return chosen, {name: int(name) - 1 for name in chosen.names}


def _tsv_rows(url: str) -> Iterator[tuple[int, Sequence[str] | str]]:
    for line, content in enumerate(lines(url, EXPECTED), 1):
        yield line, LongLine.RULE if isinstance(content, LongLine) else _cut(content, "\t")


def _csv_rows(url: str, delimiter: str) -> Iterator[tuple[int, Sequence[str] | str]]:
    """CSV rows, each with the number of its first line; for a row that cannot be parsed, the error message (str)."""
    with reading(url, EXPECTED), open_text(url) as file:
        checked = CsvLines(file)
        parser = csv.reader(checked, delimiter=delimiter)
        while True:
            line, checked.size = checked.count + 1, 0
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
