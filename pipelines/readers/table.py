"""Plain tables: CSV, TSV, JSON lines, a JSON list of objects, Parquet; one file, or several of one kind.

The columns are those of the options, or those with a usual name (pipelines/readers/columns.py). A caption cell that is
a list, as in many published Parquet files, holds several captions of its image. Where there is no split column, the
split is taken from the file's name: `train.csv` -> train.

Of images that are embedded in Parquet (structs of bytes and path, as `datasets` writes them) only the paths are read. A
row whose image has no path, or a row of a table without a column of images, is of an image of its own, which has the
row's number as its name; in a source of several files, after the file's name.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from . import columns, files
from .files import LongLine, lines, name_of
from .record import OWN, ReadOptions, Record, Rejected, excerpt

if TYPE_CHECKING:
    import pyarrow as pa

FILES = re.compile(r"(?P<stem>.+)\.(?P<kind>csv|tsv|jsonl|ndjson|json|parquet)(?:\.(?:gz|bz2|xz|zip))?", re.IGNORECASE)
STATISTICS = re.compile(r"_stats\.json$")  # which img2dataset writes beside its tables
DELIMITED = "a CSV or TSV table whose first line names the columns"
DELIMITERS = "\t,;|"
PATH, BYTES = "path", "bytes"  # the fields of embedded images
_QUOTED = re.compile(r'"((?:[^"]|"")*)"')


def one_kind(source: str, urls: Sequence[str]) -> list[str]:
    """The tables among the files of a folder or pattern. Raises ValueError if they are of several kinds (CSV and
    Parquet, say), or there is none.
    """
    names = map(name_of, urls)
    kinds = sorted({found["kind"].lower() if (found := FILES.fullmatch(name)) else name for name in names})
    if len(kinds) != 1:
        were = f"has {' and '.join(kinds[:5])}" if kinds else "has none"
        raise ValueError(f"{source}: must hold tables of one kind (csv, tsv, jsonl, json or parquet), {were}")
    return list(urls)


def records(source: str, url: str, options: ReadOptions) -> Iterator[Record | Rejected]:
    """The rows of one table file as records; `line` is the line number, in JSON lists and Parquet the row number, from
    1.

    source: the folder or pattern that the file `url` belongs to, for the names of records. Raises ValueError, naming
    the file, when it is broken or lacks a column.
    """
    split, shown = files.split_in(url), files.name_in(source, url)
    stem = found["stem"] if (found := FILES.fullmatch(shown)) else shown
    before = "" if source == url else stem.replace("/", "_") + "-"
    for record in KINDS[kind_of(url)](url, options):
        if record.source != shown:
            record = record._replace(source=shown)
        if isinstance(record, Rejected):
            yield record
            continue
        if record.split is None:
            record = record._replace(split=split)
        if record.image is OWN:
            record = record._replace(image=f"{before}{record.line}")
        yield from captions_of(record)


def kept_types(url: str, options: ReadOptions) -> dict[str, pa.DataType]:
    """The types of the columns to keep, given the first file of a source: in Parquet its own, text otherwise.

    What is neither text, number nor time of day becomes text.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if kind_of(url) != "parquet":
        return dict.fromkeys(options.keep_columns, pa.string())
    with files.reading(url, "a Parquet file", pa.ArrowException), files.open_bytes(url) as file:
        schema = pq.read_schema(file)
    types = [schema.field(column).type for column in choose_columns(schema, options, url).kept]
    return {
        name: type if pa.types.is_primitive(type) and not pa.types.is_null(type) else pa.string()
        for name, type in zip(options.keep_columns, types, strict=True)
    }


def captions_of(record: Record) -> Iterator[Record]:
    """One record per caption if the record's text is a list of captions; any other record as it is."""
    if type(record.text) is list and record.text:
        for caption in record.text:
            yield record._replace(text=caption)
    else:
        yield record


def kind_of(url: str) -> str:
    """The kind of a table file, recognised by its content: a key of KINDS."""
    start = files.head(url).removeprefix(b"\xef\xbb\xbf")
    if start.startswith(b"PAR1"):
        return "parquet"
    start = start.lstrip()
    if start.startswith(b"{"):
        return "jsonl"
    return "json" if re.match(rb"\[\s*[{\]]", start) else "delimited"


def _delimited_rows(url: str, options: ReadOptions) -> Iterator[Record | Rejected]:
    """The rows of a CSV or TSV file: one below a header line, or without a header when columns are given as numbers.

    CSV may have quoted fields, and `;` or `|` as separator. TSV has one record per line; quotes around a whole field
    are removed, all others are kept (some programs quote TSV; most published caption files do not, and have stray
    quotes).
    """
    header = next(lines(url, DELIMITED), "")
    if isinstance(header, LongLine):
        raise ValueError(f"{url}: must be {DELIMITED}; {LongLine.RULE}")
    delimiter = _delimiter(header, options)
    found = [name.strip() for name in _cut(header, delimiter)]
    if not any(found):
        raise ValueError(f"{url}: must be {DELIMITED}; the line is empty")
    headerless = bool(options.image_column) and columns.numbered(options)
    if headerless:
        found = [str(number) for number in range(1, len(found) + 1)]
        asked = (options.image_column, options.caption_column, options.split_column, options.language_column)
        numbers = [int(name) for name in (*asked, options.id_column, *options.keep_columns) if name]
        if max(numbers) > len(found):
            raise ValueError(f"{url}: column numbers must be <= {len(found)}, were: {numbers}")
    chosen = columns.choose(found, options, url)
    rows = _tsv(url) if delimiter == "\t" else csv_rows(url, delimiter, DELIMITED)
    names = list(reversed(found))  # of columns of one name the first counts
    for line, row in islice(rows, 0 if headerless else 1, None):
        if isinstance(row, str):
            yield Rejected(name_of(url), line, "not_a_record", row, "")
        elif len(row) == len(found):
            cells = dict(zip(names, reversed(row), strict=True))
            yield columns.record_of(chosen, name_of(url), line, cells, options.language)
        elif any(field.strip() for field in row):
            detail = f"a record must have {len(found)} fields, has {len(row)}"
            yield Rejected(name_of(url), line, "not_a_record", detail, excerpt(delimiter.join(row)))


def _tsv(url: str) -> Iterator[tuple[int, Sequence[str] | str]]:
    for line, content in enumerate(lines(url, DELIMITED), 1):
        yield line, LongLine.RULE if isinstance(content, LongLine) else _cut(content, "\t")


def csv_rows(url: str, delimiter: str, expected: str) -> Iterator[tuple[int, Sequence[str] | str]]:
    """CSV rows, each with the number of its first line; for a row that cannot be parsed, the error message (str)."""
    with files.reading(url, expected), files.open_text(url) as file:
        checked = _CsvLines(file)
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


class _CsvLines:
    """The lines of an open file for `csv.reader`, which raise csv.Error where a record is too long; it can go on then.

    count: of the lines read. size: characters of the record; its reader sets it to 0 before each.
    """

    def __init__(self, file: io.TextIOWrapper) -> None:
        self._lines = files.raw_lines(file)
        self.count = self.size = 0

    def __iter__(self) -> _CsvLines:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.count += 1
        self.size += len(line)
        if isinstance(line, LongLine) or self.size > files.MAX_LINE:
            raise csv.Error(LongLine.RULE)
        return line


def has_header(start: bytes) -> bool:
    """Whether the first line of a file, given its first bytes, names an image and a caption column."""
    header = start.split(b"\n")[0].decode("utf-8", "replace").rstrip("\r")
    found = [name.strip() for name in _cut(header, _delimiter(header, ReadOptions.of({})))]
    return columns.can_choose(found, ReadOptions.of({}))


def _delimiter(header: str, options: ReadOptions) -> str:
    """The delimiter of a header line: the first of DELIMITERS that gives the columns, or else the most frequent one."""
    for delimiter in DELIMITERS:
        if delimiter in header and columns.can_choose([name.strip() for name in _cut(header, delimiter)], options):
            return delimiter
    return max(DELIMITERS, key=header.count)


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


def parse_json(text: str) -> Any:
    """The value of a JSON text; None if it is no JSON, or nested too deep."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _jsonl_rows(url: str, options: ReadOptions, items: Iterable[Any] | None = None) -> Iterator[Record | Rejected]:
    """Records of JSON objects, one a line or the given ones, whose columns are the keys of the first."""
    name, chosen = name_of(url), None
    for line, item in enumerate(items or lines(url, "JSON, one object per line"), 1):
        if isinstance(item, LongLine):
            yield Rejected(name, line, "too_long", LongLine.RULE, excerpt(item))
        elif isinstance(value := parse_json(item) if isinstance(item, str) else item, dict):
            chosen = chosen or columns.choose(list(value), options, url)
            yield columns.record_of(chosen, name, line, value, options.language)
        elif not isinstance(item, str) or item.strip():
            yield Rejected(name, line, "not_a_record", "a record must be one JSON object", excerpt(item))


def _parquet_rows(url: str, options: ReadOptions) -> Iterator[Record | Rejected]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with files.reading(url, "a Parquet file", pa.ArrowException), files.open_bytes(url) as file:
        parquet = pq.ParquetFile(file)
        chosen = choose_columns(parquet.schema_arrow, options, url)
        read = [name for field in parquet.schema_arrow if field.name in chosen.names for name in without_bytes(field)]
        batches = parquet.iter_batches(batch_size=4096, columns=read, use_threads=False)
        yield from rows_of(batches, chosen, name_of(url), options.language)


def choose_columns(schema: pa.Schema, options: ReadOptions, where: str) -> columns.Columns:
    """The columns to read of an Arrow table, chosen by `columns.choose`.

    Of images that are embedded (structs of bytes and path, as `datasets` writes them) only the paths are read.
    """
    import pyarrow as pa

    plain, images, unread = [], {}, {}
    for column in schema:
        path = _embedded(column.type)
        if path is not None:
            images[column.name] = path
        elif pa.types.is_struct(column.type):
            unread[column.name] = "a struct without a field path or bytes"
        else:
            plain.append(column.name)
    return columns.choose(plain, options, where, images, unread)


def without_bytes(column: pa.Field) -> list[str]:
    """What to read of a column: itself; of embedded images only the paths, `image.path`, or nothing if they have none.

    It is a list of one name or none.
    """
    path = _embedded(column.type)
    return [column.name] if path is None else [f"{column.name}.{path}"] if path else []


def _embedded(kind: pa.DataType) -> str | None:
    """Of a type of embedded images, the field with the image's path, or "" where there is none; None for others."""
    import pyarrow as pa

    fields = {field.name: field.type for field in kind} if pa.types.is_struct(kind) else {}
    if PATH in fields and (_is_text(fields[PATH]) or pa.types.is_null(fields[PATH])):
        return PATH
    return "" if BYTES in fields or pa.types.is_binary(kind) or pa.types.is_large_binary(kind) else None


def rows_of(
    batches: Iterable[pa.RecordBatch], chosen: columns.Columns, name: str, language: str
) -> Iterator[Record | Rejected]:
    """The rows of Arrow record batches as records; `line` is the row number, from 1.

    chosen: the columns to read. name: of the source, in the records. language: of the captions if no column has it.
    """
    line = 0
    for batch in batches:
        cells = {column: _cells(batch.column(column)) for column in chosen.names if column != chosen.image}
        if chosen.image is not None:
            cells[chosen.image] = image_cells(batch.column(chosen.image), chosen.field)
        for row in zip(*cells.values(), strict=True):
            line += 1
            yield columns.record_of(chosen, name, line, dict(zip(cells, row, strict=True)), language)


def image_cells(column: pa.Array, field: str) -> list[Any]:
    """The names of images in a column; of structs, those in their `field`, or OWN if an image has none."""
    import pyarrow.compute as pc

    if not field:
        return _cells(column)
    paths = _cells(pc.struct_field(column, field))
    return [path or (OWN if embedded else None) for path, embedded in zip(paths, column.is_valid(), strict=True)]


def _cells(column: Any) -> list[Any]:
    """A column's values. Bytes in text that are not UTF-8 become lone surrogates instead of raising an error."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if _is_text(column.type):
        return [_text(value) for value in column.cast(pa.large_binary()).to_pylist()]
    if _is_list(column.type) and _is_text(column.type.value_type):
        rows = column.cast(pa.large_list(pa.large_binary())).to_pylist()
        return [None if row is None else [_text(value) for value in row] for row in rows]
    return column.to_pylist()


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "surrogateescape")


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _is_list(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return pa.types.is_list(kind) or pa.types.is_large_list(kind)


KINDS: dict[str, Callable[[str, ReadOptions], Iterator[Record | Rejected]]] = {
    "delimited": _delimited_rows,
    "json": lambda url, options: _jsonl_rows(
        url, options, files.json_items(url, "item", "a complete JSON list of objects")
    ),
    "jsonl": _jsonl_rows,
    "parquet": _parquet_rows,
}
