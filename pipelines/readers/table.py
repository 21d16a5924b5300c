"""Plain tables: CSV, TSV, JSON lines, a JSON list of objects, Parquet; one file, or several of one kind.

The columns are those of the options, or those with a usual name (pipelines/readers/columns.py). A caption cell that is
a list, as in many published Parquet files, holds several captions of its image. Where there is no split column, the
split is taken from the file's name: `train.csv` -> train.

Of images that are embedded in Parquet (structs of bytes and path, as `datasets` writes them) only the paths are read. A
row whose image has no path, or a row of a table without a column of images, is of an image of its own, which has the
row's number as its name; in a source of several files, after the file's name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any

from . import columns, delimited
from .embedded import is_text, nested_columns, without_bytes
from .files import (
    LongLine,
    head,
    is_folder,
    is_pattern,
    join,
    lines,
    matching,
    name_in,
    name_of,
    names,
    open_bytes,
    reading,
    split_in,
)
from .json_stream import MAX_DEPTH, is_deep, json_items, json_text
from .record import OWN, ReadOptions, Record, Rejected, excerpt

if TYPE_CHECKING:
    import pyarrow as pa

GROUPED = False
FILES = re.compile(r"(?P<stem>.+)\.(?P<kind>csv|tsv|jsonl|ndjson|json|parquet)(?:\.(?:gz|bz2|xz|zip))?", re.IGNORECASE)
STATISTICS = re.compile(r"_stats\.json$")  # which img2dataset writes beside its tables
_BATCH = 4096
_TYPED = 16  # files whose columns are looked at for types
_DECODE = json.JSONDecoder().decode


def files(source: str, options: ReadOptions) -> list[str]:
    """The table files that a source consists of: the file itself, the tables in a folder, or those that match a
    pattern, in order.

    Raises ValueError if they are of several kinds (CSV and Parquet, say).
    """
    if is_pattern(source):
        urls = matching(source)
    elif is_folder(source):
        urls = [join(source, name) for name in names(source) if FILES.fullmatch(name) and not STATISTICS.search(name)]
    else:
        return [source]
    kinds = sorted(
        {match["kind"].lower() if (match := FILES.fullmatch(name_of(url))) else name_of(url) for url in urls}
    )
    if len(kinds) != 1:
        were = f"has {' and '.join(kinds[:5])}" if kinds else "has none"
        raise ValueError(f"{source}: must hold tables of one kind (csv, tsv, jsonl, json or parquet), {were}")
    return urls


def records(source: str, options: ReadOptions) -> Iterator[Record | Rejected]:
    """The rows of all tables of a source, file by file, as records; `line` is the line number, in JSON lists and
    Parquet the row number, from 1.
    """
    for url in files(source, options):
        yield from file_records(source, url, options)


def file_records(source: str, url: str, options: ReadOptions) -> Iterator[Record | Rejected]:
    """The rows of one table file as records; `line` is the line number, in JSON lists and Parquet the row number, from
    1.

    source: the folder or pattern that the file `url` belongs to, for the names of records. Raises ValueError, naming
    the file, when it is broken or lacks a column.
    """
    named_split = split_in(url)
    name, shown = name_of(url), name_in(source, url)
    for record in KINDS[kind_of(url)](url, options):
        if shown != name:
            record = record._replace(source=shown)
        if isinstance(record, Rejected):
            yield record
            continue
        if record.split is None:
            record = record._replace(split=named_split)
        if record.image is OWN:
            file = match["stem"] if (match := FILES.fullmatch(shown)) else shown
            before = "" if source == url else file.replace("/", "_") + "-"
            record = record._replace(image=f"{before}{record.line}")
        yield from captions_of(record)


def kept_types(urls: Sequence[str], options: ReadOptions) -> dict[str, pa.DataType]:
    """The types of the columns to keep: in Parquet those of the first file that has values, text otherwise.

    What is neither text, number nor time of day becomes text.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = dict.fromkeys(options.keep_columns, pa.string())
    unknown = set(types)
    for url in urls[:_TYPED] if unknown else ():
        if not unknown or kind_of(url) != "parquet":
            break
        with reading(url, "a Parquet file", pa.ArrowException), open_bytes(url) as file:
            schema = pq.read_schema(file)
        chosen = choose_columns(schema, options, url).kept
        for name, column in zip(options.keep_columns, chosen, strict=True):
            if name in unknown and not pa.types.is_null(type := schema.field(column).type):
                types[name] = type if pa.types.is_primitive(type) else pa.string()
                unknown.discard(name)
    return types


def captions_of(record: Record) -> Iterator[Record]:
    """One record per caption if the record's text is a list of captions; any other record as it is."""
    if type(record.text) is list and record.text:
        for caption in record.text:
            yield record._replace(text=caption)
    else:
        yield record


def kind_of(url: str) -> str:
    """The kind of a table file, recognised by its content: a key of KINDS."""
    start = head(url).removeprefix(b"\xef\xbb\xbf")
    if start.startswith(b"PAR1"):
        return "parquet"
    start = start.lstrip()
    if start.startswith(b"{"):
        return "jsonl"
    return "json" if re.match(rb"\[\s*[{\]]", start) else "delimited"


def _jsonl_rows(url: str, options: ReadOptions) -> Iterator[Record | Rejected]:
    return _object_rows(lines(url, "JSON, one object per line"), url, options, _decoded_line, lambda value: value)


def _decoded_line(line: str) -> Any:
    """The JSON value in a line. Raises ValueError for none, and for one that is nested too deep."""
    if is_deep(line):
        raise ValueError(f"a record must be nested at most {MAX_DEPTH} deep")
    return _DECODE(line)


def _json_rows(url: str, options: ReadOptions) -> Iterator[Record | Rejected]:
    items = json_items(url, "item", "a complete JSON list of objects")
    return _object_rows(items, url, options, lambda item: item, json_text)


def _object_rows(
    items: Iterable[Any], url: str, options: ReadOptions, decode: Callable[[Any], Any], text: Callable[[Any], Any]
) -> Iterator[Record | Rejected]:
    """Records of objects, whose columns are the keys of the first.

    decode: makes an object of an item, raises ValueError for what is none. text: makes text of a value.
    """
    name, chosen = name_of(url), None
    for line, item in enumerate(items, 1):
        try:
            value = decode(item)
        except ValueError:
            value = None
        if isinstance(item, LongLine):
            yield Rejected(name, line, "too_long", LongLine.RULE, excerpt(item))
            continue
        if not isinstance(value, dict):
            if not isinstance(item, str) or item.strip():
                yield Rejected(
                    name,
                    line,
                    "not_a_record",
                    f"a record must be one JSON object, at most {MAX_DEPTH} deep",
                    excerpt(item),
                )
            continue
        if chosen is None:
            chosen = columns.choose(list(value), options, url)
        captions = value.get(chosen.caption)
        captions = [text(caption) for caption in captions] if isinstance(captions, list) else text(captions)
        others = [text(value.get(column)) if column else None for column in chosen.others]
        kept = tuple(text(value.get(column)) for column in chosen.kept)
        yield columns.record_of(chosen, (name, line), captions, others, kept, options.language)


def _parquet_rows(url: str, options: ReadOptions) -> Iterator[Record | Rejected]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with reading(url, "a Parquet file", pa.ArrowException), open_bytes(url) as file:
        parquet = pq.ParquetFile(file)
        chosen = choose_columns(parquet.schema_arrow, options, url)
        read = [name for field in parquet.schema_arrow if field.name in chosen.names for name in without_bytes(field)]
        batches = parquet.iter_batches(batch_size=_BATCH, columns=read, use_threads=False)
        yield from rows_of(batches, chosen, name_of(url), options.language)


def choose_columns(schema: pa.Schema, options: ReadOptions, where: str) -> columns.Columns:
    """The columns to read of an Arrow table, chosen by `columns.choose`."""
    nested = nested_columns(schema)
    plain = [name for name in schema.names if name not in nested.images and name not in nested.unread]
    return columns.choose(plain, options, where, nested)


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
        others = [cells[column] if column else repeat(None) for column in chosen.others]
        kept = zip(*(cells[column] for column in chosen.kept), strict=True) if chosen.kept else repeat(())
        for text, values, *rest in zip(cells[chosen.caption], kept, *others, strict=False):
            line += 1
            yield columns.record_of(chosen, (name, line), text, rest, values, language)


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
    if is_text(column.type):
        return [_decoded(value) for value in column.cast(pa.large_binary()).to_pylist()]
    if _is_list(column.type) and is_text(column.type.value_type):
        rows = column.cast(pa.large_list(pa.large_binary())).to_pylist()
        return [None if row is None else [_decoded(value) for value in row] for row in rows]
    return column.to_pylist()


def _decoded(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "surrogateescape")


def _is_list(kind: Any) -> bool:
    import pyarrow as pa

    return pa.types.is_list(kind) or pa.types.is_large_list(kind)


KINDS: dict[str, Callable[[str, ReadOptions], Iterator[Record | Rejected]]] = {
    "delimited": delimited.rows,
    "json": _json_rows,
    "jsonl": _jsonl_rows,
    "parquet": _parquet_rows,
}
