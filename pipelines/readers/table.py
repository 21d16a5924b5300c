"""Plain tables: CSV, TSV, JSON lines, a JSON list of objects, Parquet; one file, or several of one kind.

The user names the columns, or they have usual names. A caption cell may be a list of several captions, also one written
as text. Without a split column, the file's name has the split: `train.csv` -> train. If images are embedded in Parquet
(structs of bytes and path), only their paths are read. A row without a path is of an image of its own, which is named
by the row's number, or in a source of several files by the file's name and the number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice, repeat
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...schemas.messages import did_you_mean
from . import containers, files, paths
from .cells import captions_in, is_missing
from .delimited import delimiter_of, names_in, numbered_columns, rows
from .files import lines, name_of
from .paths import value_at
from .record import OWN, Cell, ReadOptions, Record, Rejected, excerpt, is_image_name, plain_name, reject
from .truth import NO_COLUMN, SAYS_FALSE, SAYS_TRUE, only_true, truth_columns, values_of_items
from .usual import CAPTION, ID, IMAGE, INNER_CAPTION, NUMBERED, SPLIT, URL, guess

FILES = re.compile(r"(?P<stem>.+)\.(?P<kind>csv|tsv|jsonl|ndjson|json|parquet)(?:\.(?:gz|bz2|xz|zip))?", re.IGNORECASE)
DELIMITED = "a CSV or TSV table whose first line names the columns"
JSON_LIST = "a complete JSON list of objects"
# The fields of a turn of a conversation that have who speaks and what is said: as LLaVA names them, and OpenAI.
TURNS = (("from", "value"), ("role", "content"))
SUCCESS = "success"  # the status of an image that img2dataset has downloaded
NO_HEADER = "; the numbers of the columns, if it has no header: --columns image=1,caption=2"


class NumberedRow(NamedTuple):
    """A row of a file with its number, from 1: a line of CSV, an object of JSON; Rejected where it cannot be read."""

    number: int
    row: Mapping[str, Cell] | Rejected


@dataclass(frozen=True)
class Columns:
    """The names of the columns of one file that are read, by what is in them.

    A column inside another one has its path as its name (`readers.paths`).

    Attributes:
        image: what names the image; None: each row is of an image of its own.
        captions: captions of the row's image, one or a list in a cell.
        split: the split; None: the file's name may have it.
        language: the language; None: all rows are in that of the options.
        id: what identifies the image; None: its name does.
        status: whether img2dataset has downloaded the image; None: any row is taken.
        truth: columns that may say whether the caption is true of its image.
        kept: columns that the user wants kept.
        field: if the image column has structs, the field with the path; empty: the column itself names the image.
    """

    image: str | None
    captions: tuple[str, ...]
    split: str | None
    language: str | None
    id: str | None
    status: str | None
    truth: tuple[str, ...]
    kept: tuple[str, ...]
    field: str

    @property
    def in_order(self) -> tuple[str | None, ...]:
        """The names of these columns in the order of the values that `record_of` takes."""
        single = (self.image, self.split, self.language, self.id, self.status)
        return (*single, *self.captions, *self.truth, *self.kept)

    def among(self, names: Sequence[str]) -> list[str]:
        """The columns of a table, among all its `names`, that must be read for these columns, each once."""
        return list(dict.fromkeys(column_of(name, names) for name in self.in_order if name))

    def values(self, row: Mapping[str, Cell]) -> list[Cell]:
        """The values of these columns in a row, as `record_of` takes them."""
        return [value_at(row, name) if name else None for name in self.in_order]


def choose(
    names: Sequence[str],
    options: ReadOptions,
    where: str,
    images: Mapping[str, str] | None = None,
    unread: Mapping[str, str] | None = None,
) -> Columns:
    """Choose the columns to read of a table: those that the user names, and others by their usual names.

    In a table without a column of images each row is of an image of its own, if its other columns are all explained.

    Args:
        names: of the columns with plain values.
        options: which columns the user names.
        where: the file, for messages.
        images: columns of embedded images, each with the field that has the path, or "".
        unread: columns that cannot be read, each with the reason, for messages.

    Raises:
        ValueError: there is no column of captions or images, or none of the name that the user gives. The message
            lists the columns that there are.
    """
    return _Chooser(names, options, where, images or {}, unread or {}).columns()


@dataclass(frozen=True)
class _Chooser:
    """Chooses the columns of one table. The fields are the arguments of `choose`."""

    names: Sequence[str]
    options: ReadOptions
    where: str
    images: Mapping[str, str]
    unread: Mapping[str, str]

    def columns(self) -> Columns:
        """The columns of each role, by the options or what their names usually mean; ValueError if one is missing."""
        options = self.options
        names = self.names
        # The image first: on it depends whether a column of ids is needed, and which columns may say what is true.
        image = self.image()
        id = self.optional("id", options.id_column)
        # A URL is a poor name: tables of URLs have an id of their own, which img2dataset also names its files by.
        by_url = not id and image is not None and image == guess(URL, names)
        if by_url:
            id = guess(ID, names)
        if options.caption_column:
            given = [self.required("caption", name) for name in options.caption_column]
            captions = tuple(_whole_conversation(name, names) for name in given)
        else:
            captions = (self.required("caption", "", CAPTION),)
        split = self.optional("split", options.split_column, SPLIT)
        language = self.optional("language", options.language_column)
        if options.truth_column not in ("", NO_COLUMN):
            truth: tuple[str, ...] = (self.required("truth", options.truth_column),)
        else:
            read = (image, *captions, split, language, id)
            truth = truth_columns(tuple(name for name in names if name not in read), options.truth_column)
        kept = tuple(self.required("keep", name) for name in options.keep_columns)
        # Embedded pictures are a struct, one field of which is the file's name: {"bytes": …, "path": "1.jpg"}.
        field = "" if image is None or image in names else self.images[image]
        is_named = image in names or field != ""  # else the embedded images have no paths
        return Columns(
            image=image if is_named else None,
            captions=captions,
            split=split,
            language=language,
            id=id,
            status="status" if by_url and id == "key" and "status" in names else None,
            truth=truth,
            kept=kept,
            field=field,
        )

    def image(self) -> str | None:
        """The column of images; None in a table that has only captions. Raises ValueError if another table lacks it."""
        names = self.names
        wanted = self.options.image_column
        if not wanted:
            usual = guess(IMAGE, names) or guess(IMAGE, [*self.images]) or _guess_inside(IMAGE, names, self.options)
            if usual is not None or self.has_only_captions():
                return usual
        return self.required("image", wanted, among=[*names, *self.images])

    def has_only_captions(self) -> bool:
        """Whether all columns are captions or say something of them: splits, languages, truth, columns to keep."""
        options = self.options
        names = self.names
        usual_captions = [plain_name(name) for name in options.caption_column] or CAPTION
        if guess(usual_captions, names) is None:
            return False
        # Each column must be explained: an unknown one may be the image's, and then the user is asked to name it.
        given = [options.split_column, options.language_column, options.truth_column, *options.keep_columns]
        given += options.caption_column
        explained = {guess([plain_name(name)], names) for name in given if name}
        explained |= {guess(usual_captions, names), guess(SPLIT, names)}
        explained |= {name for name in names if plain_name(name) in SAYS_TRUE + SAYS_FALSE}
        no_name = ""  # a column without a name, such as the row numbers that pandas writes
        return {*names, *self.images, *self.unread} <= {no_name, *explained}

    def optional(self, role: str, wanted: str, usual: Sequence[str] = ()) -> str | None:
        """The column of a role; None if the user names none and none has a usual name."""
        return self.required(role, wanted) if wanted else guess(usual, self.names)

    def required(self, role: str, wanted: str, usual: Sequence[str] = (), among: Sequence[str] = ()) -> str:
        """The column of a role. Raises ValueError if there is none.

        Args:
            role: what the column is for, as --columns names it.
            wanted: the name that the user gives, or "".
            usual: the names that such columns have, if the user gives none.
            among: the columns to choose from; empty: all with plain values.
        """
        among = among or self.names
        name: str | None
        if wanted and wanted in among:
            return wanted
        if wanted:
            name = guess([plain_name(wanted)], among)
            below = wanted.partition(".")[2]  # data.caption of the objects in the list `data`
            if name is None and below:
                name = guess([plain_name(below)], among)
        else:
            inner = INNER_CAPTION if role == "caption" else usual
            name = guess(usual, among) or _guess_inside(inner, among, self.options)
        if name is None:
            raise ValueError(f"{self.where}: {self.lacking(role, wanted)}")
        return name

    def lacking(self, role: str, wanted: str) -> str:
        """The message about a column that is not there: which there are, and what to do."""
        names = self.names
        numbered = [name for name in names if NUMBERED.fullmatch(name)]
        if role == "caption" and not wanted and numbered:
            flag = ",".join(f"caption={name}" for name in numbered)
            return (
                f"no caption column found; if {', '.join(numbered)} all have true captions of the image, use "
                f"--columns {flag}"
            )
        listed = ", ".join(dict.fromkeys([*names, *self.images])) or "none"
        if self.unread:
            listed += f"; not readable: {', '.join(f'{name} ({why})' for name, why in self.unread.items())}"
        if wanted:
            similar = did_you_mean(wanted, [*names, *self.images])
            return f"{role} column must be one of the columns found, was: {wanted}; found: {listed}{similar}"
        turns = [name for name in names if _is_conversation(name, names)]
        if role == "caption" and turns:
            listed += f"; --columns caption={turns[0]} takes the answers in {turns[0]}"
        # If both roles are lacking, the message has the whole flag, so that one correction is enough.
        lacks_both = role == "image" and guess(CAPTION, names) is None
        flag = "--columns image=NAME,caption=NAME" if lacks_both else f"--columns {role}=NAME"
        return f"no {role} column found (columns: {listed}); name it: {flag}"


def _guess_inside(usual: Sequence[str], names: Sequence[str], options: ReadOptions) -> str | None:
    """Guess a column inside another one, such as `regions.caption`, by the last part of its path; or None.

    The first of the `usual` names that any column has counts. If several columns have it, the one of the options'
    language is meant: `en.caption` beside `de.caption`.

    Args:
        usual: names, the most likely first.
        names: all columns, with dots in the paths of those inside others.
        options: with the language.
    """
    for wanted in usual:
        inner = [name for name in names if "." in name and plain_name(name.rpartition(".")[2]) == wanted]
        if len(inner) > 1:
            inner = [name for name in inner if name.rpartition(".")[0] == options.language]
            return inner[0] if len(inner) == 1 else None
        if inner:
            return inner[0]
    return None


def _is_conversation(name: str, names: Sequence[str]) -> bool:
    """Whether a column holds a list of turns, each with who speaks and what is said."""
    return any(f"{name}.{who}" in names and f"{name}.{words}" in names for who, words in TURNS)


def _whole_conversation(name: str, names: Sequence[str]) -> str:
    """The column of a whole conversation if `name` is what is said in it, as questions are no captions; else `name`."""
    outer, _, inner = name.rpartition(".")
    return outer if _is_conversation(outer, names) and inner in [words for _, words in TURNS] else name


def _can_choose(names: Sequence[str], options: ReadOptions) -> bool:
    """Whether a table with columns of these names can be read: names or options say where captions and images are."""
    try:
        choose(names, options, where="")
    except ValueError:
        return False
    return True


def record_of(chosen: Columns, source: str, line: int, values: Sequence[Cell], language: str) -> Record | Rejected:
    """The record of a row. Rejected if it has no id, or if its image was not downloaded.

    Args:
        chosen: the columns of the row.
        source: the name of the file.
        line: the number of the row.
        values: of the columns, see `Columns.values`.
        language: of rows that have no column of it.
    """
    # In the order of `Columns.in_order`: five single values, then those of the captions, of truth, and what is kept.
    image, split, own_language, id, status, *others = values
    truth_start = len(chosen.captions)
    kept_start = truth_start + len(chosen.truth)
    text: Cell = others[0]
    if truth_start > 1:
        texts = [cell for cell in others[:truth_start] if not is_missing(cell)]
        text = [caption for cell in texts for caption in captions_in(cell)]
    truth = dict(zip(chosen.truth, others[truth_start:kept_start], strict=True)) if chosen.truth else None
    record = Record(
        source=source,
        line=line,
        image=image if chosen.image else OWN,
        text=text,
        split=split,
        language=own_language if chosen.language else language,
        number=None,
        id=id,
        kept=tuple(others[kept_start:]),
        truth=truth,
    )
    if id is None and chosen.id:
        return reject(record, "no_image", f"image id must be a name, URL or whole number, is missing in {chosen.id}")
    if chosen.status and status != SUCCESS:
        return reject(record, "no_image", f"image must have been downloaded, its status was: {status!r:.80}")
    return record


def files_of(source: str, options: ReadOptions) -> list[str]:
    """The tables of a folder or pattern, or the source itself. Raises ValueError for several kinds, or none."""
    urls = files.files_named(FILES, source)
    kinds = sorted({_kind_in_name(name_of(url)) for url in urls})
    if len(kinds) != 1:
        were = f"has {' and '.join(kinds[:5])}" if kinds else "has none"
        raise ValueError(f"{source}: must hold tables of one kind (csv, tsv, jsonl, json or parquet), {were}")
    return urls


def _kind_in_name(name: str) -> str:
    """The kind of table that a file's name says, such as csv; the name itself if it says none, for messages."""
    match = FILES.fullmatch(name)
    return match["kind"].lower() if match else name


def records(source: str, url: str, options: ReadOptions) -> Iterator[Record | Rejected]:
    """The rows of one table file as records; `line`: of the line or, in JSON lists and Parquet, the row, from 1.

    Args:
        source: the folder or pattern that the file is of, or the file itself.
        url: of the file.
        options: how to read it.

    Raises:
        ValueError: the file is broken, or lacks a column.
    """
    split = files.split_in(url)
    name = files.name_in(source, url)
    kind = kind_of(url)
    rows = _read_parquet(url, name, options) if kind == "parquet" else _read_text_table(kind, url, name, options)

    # In a table without images, row 3 is of the image "3". Rows of several files have equal numbers: there the name of
    # the file is added, "captions-3" for captions.csv.
    prefix = ""
    if source != url:
        match = FILES.fullmatch(name)
        stem = match["stem"] if match else name
        prefix = stem.replace("/", "_") + "-"
    for record in only_true(chain.from_iterable(map(captions_of, rows)), options, url):
        if isinstance(record, Record) and record.split is None:
            record = record._replace(split=split)
        if isinstance(record, Record) and record.image is OWN:
            record = record._replace(image=f"{prefix}{record.line}")
        yield record


_NO_LIST = re.compile(r"[^\[{\n]*")  # a text that cannot be a list of captions; nearly all captions match


def captions_of(record: Record | Rejected) -> Iterator[Record | Rejected]:
    """One record per caption if the record's text is a list of captions (see `captions_in`); else the record itself.

    If image, id, split, language or truth is a list as long as that of the captions, each caption gets its own value.
    """
    if isinstance(record, Rejected):
        yield record
        return
    # A fast test first, by which most records are known to have one caption.
    if type(record.text) is str and type(record.image) is not list and _NO_LIST.fullmatch(record.text):
        yield record
        return
    captions = captions_in(record.text)
    # One text is returned by `captions_in` as it is; a list of one, and an object, are taken apart.
    if len(captions) == 1 and captions[0] is record.text and not isinstance(record.image, list):
        yield record
        return
    # Lists beside a list of captions: one of the same length has a value for each caption, one of length 1 is of all.
    lists: dict[str, list[Cell]] = {}
    for name in ("image", "id", "split", "language"):
        value = getattr(record, name)
        if isinstance(value, list) and len(value) in (1, len(captions)):
            lists[name] = value if len(value) > 1 else value * len(captions)
    truths = values_of_items(record.truth, len(captions))
    for number, (caption, truth) in enumerate(zip(captions, truths, strict=True)):
        own_values = {name: values[number] for name, values in lists.items()}
        record_of_caption = record._replace(text=caption, truth=truth, **own_values)
        if isinstance(caption, list) and caption and all(isinstance(text, str) for text in caption):
            yield from captions_of(record_of_caption)  # several captions of each object: a list of lists
        else:
            yield record_of_caption


def kind_of(url: str) -> str:
    """The kind of a table file, recognised by its content: parquet, jsonl, json (a list), object or delimited."""
    start = files.head(url)
    if start.startswith(b"PAR1"):
        return "parquet"
    start = start.lstrip()
    if start.startswith(b"{"):
        # JSON lines, if the first line is whole and others follow; `{"a": 1}` alone is an object on one line.
        first, _, rest = start.partition(b"\n")
        first_line_is_whole = parse_json(first.decode("utf-8", "replace")) is not None
        return "jsonl" if first_line_is_whole and rest.strip() else "object"
    # What begins with `["` is a list of texts or a table whose first cell does: the name of the file decides.
    if name_of(url).lower().rpartition(".json")[1] and re.match(rb"\[\s*\"", start):
        return "json"
    return "json" if re.match(rb"\[\s*[{\]]", start) else "delimited"


def _read_text_table(kind: str, url: str, name: str, options: ReadOptions) -> Iterator[Record | Rejected]:
    """The records of a text file, whose columns are those of its first row.

    Args:
        kind: of the file: `delimited`, or JSON as `kind_of` tells it.
        url: the file.
        name: its name in records.
        options: with the columns that the user has named.
    """
    if kind == "delimited":
        # All columns that the user names: a file is taken to have no header if all of them are numbers.
        truth = options.truth_column if options.truth_column != NO_COLUMN else ""
        others = (options.split_column, options.language_column, options.id_column, truth, *options.keep_columns)
        given = [column for column in (options.image_column, *options.caption_column, *others) if column]
        rows = delimited(url, given, partial(_can_choose, options=options))
    else:
        rows = objects(url, kind, lambda row: _can_choose([*paths.names_in(row)], options))
    chosen = None
    for line, row in rows:
        if isinstance(row, Rejected):
            yield row._replace(source=name)
            continue
        # The first row decides: each row of JSON has names of its own, but all are taken to have those of the first.
        if chosen is None:
            try:
                chosen = choose([*paths.names_in(row)], options, url)
            except ValueError as error:
                if kind != "delimited" or _seems_header(row):
                    raise  # the header is one, and lacks a column
                raise ValueError(f"{error}{NO_HEADER}") from None
        yield record_of(chosen, name, line, chosen.values(row), options.language)


def _seems_header(row: Mapping[str, Cell]) -> bool:
    """Whether the columns of a row have names such as people give to columns, not sentences, numbers or file names."""
    return all(len(name.split()) < 4 and not is_image_name(name) and not name.isdigit() for name in row)


def objects(
    url: str, kind: str, is_row: Callable[[Mapping[str, Cell]], bool] = bool, expected: str = ""
) -> Iterator[NumberedRow]:
    """The objects in a JSON file, each with its number, from 1.

    Args:
        url: of the file.
        kind: jsonl: one object a line; json: a list of objects, or of texts, which are captions; object: see
            `readers.containers`.
        is_row: whether an object has the columns that are to be read.
        expected: what the file should be, for messages.

    Raises:
        ValueError: the file is broken, or no objects were found in it; the message says what it has.
    """
    items: Iterable[Cell]
    if kind == "object":
        expected = expected or "complete JSON"
        keyed = containers.rows_in(url, expected, is_row)
        if keyed is None:
            has = containers.described(url, expected)
            raise ValueError(
                f"{url}: must have a list of objects with an image and a caption, or captions by image, has {has}; "
                "columns inside lists are named by --columns image=LIST.NAME,caption=LIST.NAME"
            )
        items = (row for _, row in keyed)
    elif kind == "json":
        items = files.json_items(url, "item", expected or JSON_LIST)
    else:
        items = lines(url, expected or "JSON, one object per line")
    for number, item in enumerate(items, 1):
        if kind == "jsonl":
            value = _with_image_as_key(parse_json(item), is_row)
        else:
            value = {"caption": item} if isinstance(item, str) else item
        if isinstance(value, Mapping):
            yield NumberedRow(number, value)
        elif kind != "jsonl" or item.strip():
            rejected = Rejected("", number, "not_a_record", "a record must be one JSON object", excerpt(item))
            yield NumberedRow(number, rejected)


def _with_image_as_key(value: Cell, is_row: Callable[[Mapping[str, Cell]], bool]) -> Cell:
    """The row that a line of JSON means: `{"1.jpg": ["A dog."]}` has the image as its key; others as they are."""
    if not isinstance(value, Mapping) or len(value) != 1 or is_row(value):
        return value
    ((name, captions),) = value.items()
    return {"image": name, "caption": captions} if isinstance(captions, str | list) else value


def parse_json(text: str) -> Cell:
    """The value of a JSON text; None if it is no JSON, or nested too deep."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def delimited(
    url: str, given: Sequence[str], is_header: Callable[[Sequence[str]], bool], delimiter: str = ""
) -> Iterator[NumberedRow]:
    """The rows of a CSV or TSV file below its header, or of all lines when columns are given as numbers.

    Args:
        url: of the file.
        given: the names or numbers of columns that the user gives.
        is_header: whether the caller can read columns of these names; the delimiter is the one that gives such names.
        delimiter: of fields; empty: it is found in the header.
    """
    # The file is opened twice: the delimiter, and how many fields a record has, must be known before it is cut.
    header = next(lines(url, DELIMITED), "")
    delimiter = delimiter or delimiter_of(header, is_header)
    names = names_in(header, delimiter)
    if not any(names):
        raise ValueError(f"{url}: must be {DELIMITED}; the line is empty")
    numbers = numbered_columns(given, names)
    if numbers:
        if max(numbers) > len(names):
            raise ValueError(f"{url}: column numbers must be <= {len(names)}, were: {numbers}")
        names = [str(number) for number in range(1, len(names) + 1)]
    repeated_names = {name for name in names if names.count(name) > 1}
    first_row = 0 if numbers else 1
    for row in islice(rows(lines(url, DELIMITED), delimiter, len(names)), first_row, None):
        problem = row.problem
        if not problem and not numbers and row.fields[0] == names[0] and [*map(str.strip, row.fields)] == names:
            problem = "a record must not be the names of the columns again"  # as when files were joined
        if problem:
            yield NumberedRow(row.line, Rejected("", row.line, "not_a_record", problem, excerpt(row.text)))
            continue
        cells: dict[str, Cell] = dict(zip(names, row.fields, strict=True))
        for repeated in repeated_names:  # several columns of one name become a list
            cells[repeated] = [cell for name, cell in zip(names, row.fields, strict=True) if name == repeated]
        yield NumberedRow(row.line, cells)


def has_header(start: bytes) -> bool:
    """Whether the first line of a file, given its first bytes, names an image and a caption column."""
    header = start.split(b"\n")[0].decode("utf-8", "replace").rstrip("\r")
    is_header = partial(_can_choose, options=ReadOptions.of({}))
    return is_header(names_in(header, delimiter_of(header, is_header)))


def _read_parquet(url: str, name: str, options: ReadOptions) -> Iterator[Record | Rejected]:
    """The records of a Parquet file, which is called `name` in them."""
    with files.open_bytes(url, "a Parquet file", pa.ArrowException) as file:
        # Only the columns that are read, and of structs only the fields: a table may hold gigabytes of pictures.
        parquet = pq.ParquetFile(file)
        chosen = choose_columns(parquet.schema_arrow, options, url)
        wanted = chosen.among(parquet.schema_arrow.names)
        read = [name for field in parquet.schema_arrow if field.name in wanted for name in without_bytes(field)]
        batches = parquet.iter_batches(batch_size=4096, columns=read, use_threads=False)
        yield from rows_of(batches, chosen, name, options.language)


def parquet_rows(url: str, expected: str) -> Iterator[dict[str, Cell]]:
    """The rows of a Parquet file, with all columns; from embedded images only the paths are read."""
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
    """The columns to read of an Arrow table, chosen by `choose`; from embedded images only the paths are read.

    Args:
        schema: of the table.
        options: with the columns that the user has named.
        where: the file, for messages.

    Raises:
        ValueError: the caption column is binary, a column that is read stands twice, or one that is needed is missing.
    """
    role = [plain_name(name) for name in options.caption_column] or CAPTION
    binary = [column.name for column in schema if _is_binary(column.type)]
    name = guess(role, binary)
    if name and not guess(role, [column for column in schema.names if column not in binary]):
        raise ValueError(
            f"{where}: the caption column {name} is binary, must be text: write it as such, e.g. cast({name} as string)"
        )
    path_in_column = {column.name: _path_in(column.type) for column in schema}
    images = {column: path for column, path in path_in_column.items() if path is not None}
    # The columns with plain values, also those inside others. A column without any inside is a struct, not readable.
    names: list[str] = []
    for column in schema:
        if column.name not in images:
            names += _names_inside(column)
    readable = {column_of(name, schema.names) for name in names}
    structs = [name for name in schema.names if name not in images and name not in readable]
    chosen = choose(names, options, where, images, dict.fromkeys(structs, "a struct without a field path or bytes"))
    check_single(chosen.among(schema.names), schema, where)
    return chosen


def check_single(names: Iterable[str], schema: pa.Schema, where: str) -> None:
    """Raise ValueError, naming the file `where`, if an Arrow table has several columns of one of these names."""
    for name in names:
        count = schema.names.count(name)
        if count > 1:
            raise ValueError(f"{where}: must have one column {name}, has {count}: rename or drop the others")


def _names_inside(column: pa.Field, depth: int = paths.DEPTH) -> list[str]:
    """The name of a column and those of the columns inside it, if it has structs or lists of structs.

    A struct has no plain value, so that its own name is left out.
    """
    is_list = _is_list(column.type)
    kind = column.type.value_type if is_list else column.type
    if not pa.types.is_struct(kind):
        return [column.name]
    names = [column.name] if is_list else []
    if depth > 1:
        inside = [name for field in kind for name in _names_inside(field, depth - 1)]
        names += [f"{column.name}.{name}" for name in inside]
    return names


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind)


def column_of(name: str, names: Sequence[str]) -> str:
    """The column of a file, one of `names`, in which a column is found: itself, or for `image.path` the struct `image`.

    A name that is in none of them is returned as it is.
    """
    if name in names:
        return name
    return next((outer for outer in names if name.startswith(f"{outer}.")), name)


def without_bytes(column: pa.Field) -> list[str]:
    """What to read of a column: itself; if it has embedded images, only their paths, [`image.path`], or nothing."""
    path = _path_in(column.type)
    if path is None:
        return [column.name]
    return [f"{column.name}.{path}"] if path else []


def _path_in(kind: pa.DataType) -> str | None:
    """Where a column of images has the path: in the field "path" of a struct; "" if it has only the bytes of images.

    None for a type that holds no images.
    """
    # As Hugging Face's datasets write a picture or a sound: struct<bytes, path>, one of which may be null.
    fields = {field.name: field.type for field in kind} if pa.types.is_struct(kind) else {}
    if "path" in fields and (_is_text(fields["path"]) or pa.types.is_null(fields["path"])):
        return "path"
    return "" if "bytes" in fields or _is_binary(kind) else None


def rows_of(
    batches: Iterable[pa.RecordBatch], chosen: Columns, name: str, language: str
) -> Iterator[Record | Rejected]:
    """The records in Arrow batches, one for each row, with `line` from 1.

    Args:
        batches: the rows.
        chosen: which column has which role.
        name: of the source, for the records.
        language: of the captions, if no column has it.
    """
    rows_before = 0
    for batch in batches:
        # One list for each column of `Columns.in_order`, the image first, and endless Nones for one that is lacking.
        # The captions are always there, so `zip` ends with them.
        images = _names_of_images(batch, chosen) if chosen.image else repeat(None)
        others = [_values_of_column(batch, column) if column else repeat(None) for column in chosen.in_order[1:]]
        for line, values in enumerate(zip(images, *others, strict=False), rows_before + 1):
            yield record_of(chosen, name, line, values, language)
        rows_before += len(batch)


def _values_of_column(batch: pa.RecordBatch, name: str) -> list[Cell]:
    """The values of a column of a batch, or of a column inside one."""
    outer = column_of(name, batch.schema.names)
    cells = _column_values(batch.column(outer))
    return cells if outer == name else [value_at({outer: cell}, name) for cell in cells]


def _names_of_images(batch: pa.RecordBatch, chosen: Columns) -> list[Cell]:
    """The names of the images of a batch's rows, whose column of images is plain or has structs."""
    image = chosen.image or ""
    return image_cells(batch.column(image), chosen.field) if chosen.field else _values_of_column(batch, image)


def image_cells(column: pa.Array, field: str) -> list[Cell]:
    """The names of images in a column; if it has structs, they are in this field, or OWN if an image has none."""
    if not field:
        return _column_values(column)
    image_paths = _column_values(pc.struct_field(column, field))
    is_embedded = column.is_valid()
    return [path or (OWN if embedded else None) for path, embedded in zip(image_paths, is_embedded, strict=True)]


def _column_values(column: pa.Array) -> list[Cell]:
    """A column's values. Bytes in text that are not UTF-8 become lone surrogates instead of raising an error."""

    def decoded(value: bytes | None) -> str | None:
        return None if value is None else value.decode("utf-8", "surrogateescape")

    # pyarrow reads text without checking that it is UTF-8, but raises when it makes a str of it: so bytes are read.
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if _is_text(column.type):
        return list(map(decoded, column.cast(pa.large_binary()).to_pylist()))
    if _is_list(column.type) and _is_text(column.type.value_type):
        rows = column.cast(pa.large_list(pa.large_binary())).to_pylist()
        return [None if row is None else list(map(decoded, row)) for row in rows]
    return column.to_pylist()


def _is_binary(kind: pa.DataType) -> bool:
    """Whether a column has bytes, in any of Arrow's layouts of them."""
    variable = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
    return variable or pa.types.is_fixed_size_binary(kind)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
