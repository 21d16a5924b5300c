"""Plain tables: CSV, TSV, JSON lines, a JSON list of objects, Parquet; one file, or several of one kind. Columns are
named or have a usual name; a caption cell may be a list, also one written as text, of several captions; without a split
column, the file's name has the split: `train.csv` -> train. Of images embedded in Parquet (structs of bytes and path)
only paths are read. A row without one is of an image of its own, named by the row's number, of several files after the
file's name.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, repeat
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from . import files
from .cells import captions_in
from .files import lines, name_of
from .record import OWN, ReadOptions, Record, Rejected, excerpt, plain_name, reject
from .truth import NO_COLUMN, SAYS_FALSE, SAYS_TRUE, only_true, truth_columns, values_of_items

FILES = re.compile(r"(?P<stem>.+)\.(?P<kind>csv|tsv|jsonl|ndjson|json|parquet)(?:\.(?:gz|bz2|xz|zip))?", re.IGNORECASE)
DELIMITED = "a CSV or TSV table whose first line names the columns"
DELIMITERS = "\t,;|"
JSON_LIST = "a complete JSON list of objects"
# The usual names of columns, the most likely first; a file name identifies an image better than a data set's own number
IMAGE = (
    "image", "image_path", "image_file", "image_name", "filepath", "file_path", "filename", "file_name",
    "path", "img_path", "img_name", "img", "image_url", "url", "image_id", "imageid", "img_id", "imgid",
    "photo", "photo_id",
)  # fmt: skip
CAPTION = (
    "caption", "captions", "text", "sentence", "sentences", "title", "raw", "comment", "description",
    "alt_text",
)  # fmt: skip
SPLIT = ("split", "subset", "partition")
URL = ("image_url", "url")
ID = ("uid", "key")  # of DataComp, of img2dataset
SUCCESS = "success"  # the status of an image that img2dataset has downloaded
_QUOTED = re.compile(r'"((?:[^"]|"")*)"')
Row = Mapping[str, Any] | Rejected


@dataclass(frozen=True)
class Columns:
    """The names of the columns of one file; None where there is none. image: None: each row is of an image of its own.
    id: what identifies the image. status: whether img2dataset has downloaded it. truth: those that may say whether the
    caption is true of its image. kept: those that the user wants kept.
    field: of an image column of structs, the field with the path; empty: the column itself names the image.
    """

    image: str | None
    caption: str
    split: str | None
    language: str | None
    id: str | None
    status: str | None
    truth: tuple[str, ...]
    kept: tuple[str, ...]
    field: str

    @property
    def names(self) -> list[str]:
        """The names of all these columns, each once."""
        return list(dict.fromkeys(name for name in self.in_order if name))

    @property
    def in_order(self) -> tuple[str | None, ...]:
        """The names of these columns in the order of the values that `record_of` takes."""
        return (self.image, self.caption, self.split, self.language, self.id, self.status, *self.truth, *self.kept)

    def values(self, row: Mapping[str, Any]) -> list[Any]:
        """The values of these columns in a row, as `record_of` takes them."""
        return [row.get(name) if name else None for name in self.in_order]


def choose(
    names: Sequence[str],
    options: ReadOptions,
    where: str,
    images: Mapping[str, str] | None = None,
    unread: Mapping[str, str] | None = None,
) -> Columns:
    """The columns to read, among those with plain values (`names`) and `images`: embedded ones with the field of the
    path, or "". unread: others, and why. In a table of nothing but captions (and splits, languages, kept columns) each
    row is of an image of its own. Raises ValueError, listing the columns of the file `where`, when there is none to
    choose.
    """
    images, unread = images or {}, unread or {}

    def column(role: str, wanted: str, usual: Sequence[str] = (), among: Sequence[str] = names) -> str:
        name = (wanted if wanted in among else guess([plain_name(wanted)], among)) if wanted else guess(usual, among)
        if name is not None:
            return name
        listed = ", ".join(dict.fromkeys([*names, *images])) or "none"
        if unread:
            listed += f"; not readable: {', '.join(f'{name} ({why})' for name, why in unread.items())}"
        if wanted:
            raise ValueError(f"{where}: {role} column must be one of the columns found, was: {wanted}; found: {listed}")
        raise ValueError(
            f"{where}: no column has a usual name of {role} columns, use --columns {role}=NAME; found: {listed}"
        )

    def optional(role: str, wanted: str, usual: Sequence[str] = ()) -> str | None:
        return column(role, wanted) if wanted else guess(usual, names)

    image = None if options.image_column else guess(IMAGE, names) or guess(IMAGE, [*images])
    if image is None:
        caption_names = [plain_name(options.caption_column)] if options.caption_column else CAPTION
        beside = (options.split_column, options.language_column, options.truth_column, *options.keep_columns)
        others = {
            guess(usual, names) for usual in (caption_names, SPLIT, *([plain_name(name)] for name in beside if name))
        }
        others |= {name for name in names if plain_name(name) in SAYS_TRUE + SAYS_FALSE}
        only_captions = guess(caption_names, names) and not {*names, *images, *unread} - {"", *others}
        if options.image_column or not only_captions:
            image = column("image", options.image_column, (), [*names, *images])
    id = optional("id", options.id_column)
    by_url = not id and image is not None and image == guess(URL, names)
    if by_url:
        id = guess(ID, names)
    caption = column("caption", options.caption_column, CAPTION)
    split = optional("split", options.split_column, SPLIT)
    language = optional("language", options.language_column)
    if options.truth_column not in ("", NO_COLUMN):
        truth: tuple[str, ...] = (column("truth", options.truth_column),)
    else:
        others_read = (image, caption, split, language, id)
        truth = truth_columns(tuple(name for name in names if name not in others_read), options.truth_column)
    return Columns(
        image if image in names or images.get(image or "") else None,
        caption,
        split,
        language,
        id,
        "status" if by_url and id == "key" and "status" in names else None,
        truth,
        tuple(column("keep", name) for name in options.keep_columns),
        "" if image in names else images.get(image or "", ""),
    )


def guess(usual: Sequence[str], names: Sequence[str]) -> str | None:
    """The first of the `usual` names that is in `names`, as spelt there; case, spaces, - and _ are ignored. Or None."""
    plain = {plain_name(name): name for name in reversed(names)}
    return next((plain[name] for name in usual if name in plain), None)


def _can_choose(names: Sequence[str], options: ReadOptions) -> bool:
    try:
        choose(names, options, "")
    except ValueError:
        return False
    return True


def record_of(chosen: Columns, source: str, line: int, values: Sequence[Any], language: str) -> Record | Rejected:
    """The record of a row's values (Columns.values); Rejected without an id, or if the image was not downloaded."""
    image, caption, split, its_language, id, status, *others = values
    image, language = image if chosen.image else OWN, its_language if chosen.language else language
    truth = dict(zip(chosen.truth, others, strict=False)) if chosen.truth else None
    kept = tuple(others[len(chosen.truth) :])
    record = Record(source, line, image, caption, split, language, None, id, kept, truth)
    if id is None and chosen.id:
        return reject(record, "no_image", f"image id must be a name, URL or whole number, is missing in {chosen.id}")
    if chosen.status and status != SUCCESS:
        return reject(record, "no_image", f"image must have been downloaded, its status was: {status!r:.80}")
    return record


def files_of(source: str, options: ReadOptions) -> list[str]:
    """The tables of a folder or pattern, or the source itself. Raises ValueError for several kinds, or none."""
    urls = files.files_named(FILES, source)
    matches = {name: FILES.fullmatch(name) for name in map(name_of, urls)}
    kinds = sorted({match["kind"].lower() if match else name for name, match in matches.items()})
    if len(kinds) != 1:
        were = f"has {' and '.join(kinds[:5])}" if kinds else "has none"
        raise ValueError(f"{source}: must hold tables of one kind (csv, tsv, jsonl, json or parquet), {were}")
    return urls


def records(source: str, url: str, options: ReadOptions) -> Iterator[Record | Rejected]:
    """The rows of one table file as records; `line`: of the line or, in JSON lists and Parquet, the row, from 1.
    source: the folder or pattern of `url`, for their names. Raises ValueError for a broken file, or one that lacks a
    column.
    """
    split, shown = files.split_in(url), files.name_in(source, url)
    match = FILES.fullmatch(shown)
    before = "" if source == url else (match["stem"] if match else shown).replace("/", "_") + "-"
    kind = kind_of(url)
    rows = _parquet(url, shown, options) if kind == "parquet" else _text(kind, url, shown, options)
    for record in only_true(chain.from_iterable(map(captions_of, rows)), options, url):
        if isinstance(record, Record) and record.split is None:
            record = record._replace(split=split)
        if isinstance(record, Record) and record.image is OWN:
            record = record._replace(image=f"{before}{record.line}")
        yield record


def captions_of(record: Record | Rejected) -> Iterator[Record | Rejected]:
    """One record per caption if the record's text is a list of captions (see `captions_in`); any other as it is."""
    if isinstance(record, Rejected):
        yield record
        return
    captions = captions_in(record.text)
    if len(captions) == 1 and captions[0] is record.text:
        yield record
        return
    for caption, truth in zip(captions, values_of_items(record.truth, len(captions)), strict=True):
        yield record._replace(text=caption, truth=truth)


def kind_of(url: str) -> str:
    """The kind of a table file, recognised by its content: parquet, jsonl, json or delimited."""
    start = files.head(url)
    if start.startswith(b"PAR1"):
        return "parquet"
    start = start.lstrip()
    if start.startswith(b"{"):
        return "jsonl"
    return "json" if re.match(rb"\[\s*[{\]]", start) else "delimited"


def _text(kind: str, url: str, name: str, options: ReadOptions) -> Iterator[Record | Rejected]:
    """The records of a text file, whose columns are those of its first row."""
    chosen = None
    for line, row in delimited(url, options) if kind == "delimited" else objects(url, kind):
        if isinstance(row, Rejected):
            yield row._replace(source=name)
        else:
            chosen = chosen or choose(list(row), options, url)
            yield record_of(chosen, name, line, chosen.values(row), options.language)


def objects(url: str, kind: str, expected: str = "") -> Iterator[tuple[int, Row]]:
    """The objects in JSON lines or, if `kind` is json, in a list, each with its number, from 1."""
    listed = kind == "json"
    expected = expected or (JSON_LIST if listed else "JSON, one object per line")
    items = files.json_items(url, "item", expected) if listed else lines(url, expected)
    for number, item in enumerate(items, 1):
        if isinstance(value := item if listed else parse_json(item), Mapping):
            yield number, value
        elif listed or item.strip():
            yield number, Rejected("", number, "not_a_record", "a record must be one JSON object", excerpt(item))


def parse_json(text: str) -> Any:
    """The value of a JSON text; None if it is no JSON, or nested too deep."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def delimited(url: str, options: ReadOptions, delimiter: str = "") -> Iterator[tuple[int, Row]]:
    """The rows of a CSV or TSV file below its header, or of all lines when columns are given as numbers. CSV may have
    quoted fields, and `;` or `|` (delimiter: empty: by the header). TSV has a record a line; quotes are removed around
    whole fields only, since most published caption files have stray ones.
    """
    header = next(lines(url, DELIMITED), "")
    delimiter = delimiter or _delimiter(header, options)
    names = [name.strip() for name in _cut(header, delimiter)]
    if not any(names):
        raise ValueError(f"{url}: must be {DELIMITED}; the line is empty")
    given = [options.image_column, options.caption_column, options.split_column, options.language_column]
    truth = options.truth_column if options.truth_column != NO_COLUMN else ""
    given = [*given[:2], *filter(None, [*given[2:], options.id_column, truth, *options.keep_columns])]
    headerless = all(re.fullmatch(r"[1-9][0-9]*", name) for name in given)
    if headerless:
        numbers = [int(name) for name in given]
        if max(numbers) > len(names):
            raise ValueError(f"{url}: column numbers must be <= {len(names)}, were: {numbers}")
        names = [str(number) for number in range(1, len(names) + 1)]
    first_with = {name: names.index(name) for name in names}
    tsv = ((line, _cut(text, "\t")) for line, text in enumerate(lines(url, DELIMITED), 1))
    rows: Iterator[tuple[int, Sequence[str] | str]] = tsv if delimiter == "\t" else _csv(url, delimiter)
    for line, row in islice(rows, 0 if headerless else 1, None):
        if isinstance(row, str):
            yield line, Rejected("", line, "not_a_record", row, "")
        elif len(row) == len(names):
            yield line, {name: row[at] for name, at in first_with.items()}
        elif any(field.strip() for field in row):
            detail = f"a record must have {len(names)} fields, has {len(row)}"
            yield line, Rejected("", line, "not_a_record", detail, excerpt(delimiter.join(row)))


def _csv(url: str, delimiter: str) -> Iterator[tuple[int, Sequence[str] | str]]:
    """CSV rows, each with the number of its first line; for a row that cannot be parsed, the error message (str)."""
    rest, before = lines(url, DELIMITED, ends=True), 0
    parser = csv.reader(rest, delimiter=delimiter)
    while True:
        first = before + parser.line_num + 1
        try:
            row = next(parser, None)
        except csv.Error as error:
            yield first, f"a record must be CSV: {error}"
            before, parser = before + parser.line_num, csv.reader(rest, delimiter=delimiter)
            continue
        if row is None:
            return
        yield first, row


def has_header(start: bytes) -> bool:
    """Whether the first line of a file, given its first bytes, names an image and a caption column."""
    header, options = start.split(b"\n")[0].decode("utf-8", "replace").rstrip("\r"), ReadOptions.of({})
    return _can_choose([name.strip() for name in _cut(header, _delimiter(header, options))], options)


def _delimiter(header: str, options: ReadOptions) -> str:
    """The delimiter of a header line: the first of DELIMITERS that gives the columns, or else the most frequent one."""
    for delimiter in DELIMITERS:
        if delimiter in header and _can_choose([name.strip() for name in _cut(header, delimiter)], options):
            return delimiter
    return max(DELIMITERS, key=header.count)


def _cut(line: str, delimiter: str) -> list[str]:
    """The fields of one line, without the quotes around them."""
    if delimiter != "\t":
        try:
            return next(csv.reader([line], delimiter=delimiter), [])
        except csv.Error:
            return line.split(delimiter)
    if '"' not in line:
        return line.split("\t")
    quoted = ((field, _QUOTED.fullmatch(field)) for field in line.split("\t"))
    return [match[1].replace('""', '"') if match else field for field, match in quoted]


def _parquet(url: str, name: str, options: ReadOptions) -> Iterator[Record | Rejected]:
    with files.open_bytes(url, "a Parquet file", pa.ArrowException) as file:
        parquet = pq.ParquetFile(file)
        chosen = choose_columns(parquet.schema_arrow, options, url)
        read = [name for field in parquet.schema_arrow if field.name in chosen.names for name in without_bytes(field)]
        batches = parquet.iter_batches(batch_size=4096, columns=read, use_threads=False)
        yield from rows_of(batches, chosen, name, options.language)


def parquet_rows(url: str, expected: str) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file, all columns; of embedded images only the paths."""
    with files.open_bytes(url, expected, pa.ArrowException) as file:
        parquet = pq.ParquetFile(file)
        check_single(parquet.schema_arrow.names, parquet.schema_arrow, url)
        read = [name for field in parquet.schema_arrow for name in without_bytes(field)]
        for batch in parquet.iter_batches(batch_size=1000, columns=read):
            yield from batch.to_pylist()


def kept_types(url: str, options: ReadOptions) -> dict[str, pa.DataType]:
    """The types of those columns to keep that are numbers or times in a Parquet file, the first file of a source."""
    if kind_of(url) != "parquet":
        return {}
    with files.open_bytes(url, "a Parquet file", pa.ArrowException) as file:
        schema = pq.read_schema(file)
    types = [schema.field(column).type for column in choose_columns(schema, options, url).kept]
    kept = zip(options.keep_columns, types, strict=True)
    return {name: type for name, type in kept if pa.types.is_primitive(type) and not pa.types.is_null(type)}


def choose_columns(schema: pa.Schema, options: ReadOptions, where: str) -> Columns:
    """The columns to read of an Arrow table, chosen by `choose`; of embedded images only the paths are read."""
    role = [plain_name(options.caption_column)] if options.caption_column else CAPTION
    packed = [column.name for column in schema if _is_binary(column.type)]
    if (name := guess(role, packed)) and not guess(role, [name for name in schema.names if name not in packed]):
        raise ValueError(
            f"{where}: the caption column {name} is binary, must be text: write it as such, e.g. cast({name} as string)"
        )
    images = {column.name: path for column in schema if (path := _path_in(column.type)) is not None}
    structs = [column.name for column in schema if pa.types.is_struct(column.type) and column.name not in images]
    plain = [name for name in schema.names if name not in images and name not in structs]
    chosen = choose(plain, options, where, images, dict.fromkeys(structs, "a struct without a field path or bytes"))
    check_single(chosen.names, schema, where)
    return chosen


def check_single(names: Iterable[str], schema: pa.Schema, where: str) -> None:
    """Raise ValueError, naming the file `where`, if an Arrow table has several columns of one of these names."""
    for name in names:
        if (count := schema.names.count(name)) > 1:
            raise ValueError(f"{where}: must have one column {name}, has {count}: rename or drop the others")


def without_bytes(column: pa.Field) -> list[str]:
    """What to read of a column: [itself]; of embedded images only the paths, [`image.path`], or []."""
    path = _path_in(column.type)
    return [column.name] if path is None else [f"{column.name}.{path}"] if path else []


def _path_in(kind: pa.DataType) -> str | None:
    """Of a type of embedded images, the field with the image's path, or "" where there is none; None for others."""
    fields = {field.name: field.type for field in kind} if pa.types.is_struct(kind) else {}
    if "path" in fields and (_is_text(fields["path"]) or pa.types.is_null(fields["path"])):
        return "path"
    return "" if "bytes" in fields or _is_binary(kind) else None


def rows_of(
    batches: Iterable[pa.RecordBatch], chosen: Columns, name: str, language: str
) -> Iterator[Record | Rejected]:
    """Rows of Arrow batches as records with `line` from 1. name: of the source; language: if no column has it."""
    read = 0
    for batch in batches:
        cells = [_cells(batch.column(column)) if column else repeat(None) for column in chosen.in_order[1:]]
        images = image_cells(batch.column(chosen.image), chosen.field) if chosen.image else repeat(None)
        for line, values in enumerate(zip(images, *cells, strict=False), read + 1):
            yield record_of(chosen, name, line, values, language)
        read += len(batch)


def image_cells(column: pa.Array, field: str) -> list[Any]:
    """The names of images in a column; of structs, those in their `field`, or OWN if an image has none."""
    if not field:
        return _cells(column)
    paths = _cells(pc.struct_field(column, field))
    return [path or (OWN if embedded else None) for path, embedded in zip(paths, column.is_valid(), strict=True)]


def _cells(column: Any) -> list[Any]:
    """A column's values. Bytes in text that are not UTF-8 become lone surrogates instead of raising an error."""

    def decoded(value: bytes | None) -> str | None:
        return None if value is None else value.decode("utf-8", "surrogateescape")

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if _is_text(column.type):
        return list(map(decoded, column.cast(pa.large_binary()).to_pylist()))
    is_list = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    if is_list and _is_text(column.type.value_type):
        rows = column.cast(pa.large_list(pa.large_binary())).to_pylist()
        return [None if row is None else list(map(decoded, row)) for row in rows]
    return column.to_pylist()


def _is_binary(kind: pa.DataType) -> bool:
    variable = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
    return variable or pa.types.is_fixed_size_binary(kind)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
