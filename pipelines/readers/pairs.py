"""Sets of captions with their negatives that others made, or that `negcap publish` wrote.

`read_pairs` reads records of one caption and its negatives: SugarCrepe and SugarCrepe++, NegCLIP, ARO, CREPE, VALSE,
TROHN, CE-CLIP, VisMin, and any CSV, TSV, JSON, JSON Lines or Parquet file whose columns have names that such sets use.
`read_published` also reads what is no such record: the questions of NegBench, and Winoground's pairs of images.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from typing import NamedTuple

import ijson

from . import containers, files, paths, table
from .cells import captions_in, is_missing, items_of
from .paths import value_at
from .record import Record, Rejected, clean, excerpt, plain_name
from .truth import NO_COLUMN, SAYS_FALSE, checked, truth_columns
from .usual import IMAGE, SPLIT, guess

EXPECTED = "a set of captions with negatives (JSON, JSON Lines, CSV, TSV or Parquet)"
PUBLISHED = "SugarCrepe, ARO, CREPE, NegCLIP, VALSE, COCO, NegBench, Parquet …, or Winoground's examples.jsonl"
SUFFIXES = (".json", ".jsonl", ".csv", ".tsv", ".parquet")
ALL = "all"  # the label of negatives whose set tells no kinds apart
# What a column can hold, and the names that sets give it: if a row has several, the first of these counts.
ROLES = {
    "caption": (
        "caption", "true_caption", "original_caption", "positive_caption", "title", "text", "sentence", "positive",
    ),
    "negative": (
        "negative_caption", "negative", "foil", "false_caption", "neg_caption", "negative_captions", "negatives",
        "hard_negs", "hard_negatives", "hard_neg", "neg_captions", "edited_caption", "rejected", "negative_prompt",
    ),
    "image": IMAGE,
    "sibling": (),
    "label": (
        "label", "category", "linguistic_phenomena", "operator", "change_type", "type", "neg_type", "kind", "family",
    ),
    "split": SPLIT,
    "key": ("id", "sample_id", "index"),
}  # fmt: skip
SIBLING = re.compile(r"(positive[\s_-]*)?caption[\s_-]*[2-9]", re.IGNORECASE)  # columns of other captions of the image
BESIDE = ("croissant.json", "sizes.json", "dataset_info.json", "dataset_infos.json")  # what describes published tables
_FILE = re.compile(
    rf"(?P<stem>.*)(?P<suffix>{'|'.join(map(re.escape, SUFFIXES))})(?:\.(?:gz|bz2|xz|zip))?", re.IGNORECASE
)


Row = Mapping[str, object]  # of a table, by column; or an object of a JSON file
Roles = Mapping[str, tuple[str, ...]]  # role -> columns that have it


class Negative(NamedTuple):
    """A false text about an image.

    label: the set's name for its kind, or the operator that made it. family: of the operator, "" if not known.
    only_adds: whether it says all that its caption says, and more; None: not known.
    """

    text: str
    label: str
    family: str = ""
    only_adds: bool | None = None


class NamedImage(NamedTuple):
    """An image of a set: its id, and the path of its file as the set names it."""

    id: str
    path: str

    @classmethod
    def of_file(cls, path: str) -> NamedImage:
        """The image in a file, whose name without folder and suffix is its id."""
        return cls(Path(path).stem, path)


@dataclass(frozen=True)
class CaptionWithNegatives:
    """A true caption of an image and false ones, as one record of a file or as some rows of a run.

    image: the path of its file; None if the set does not name it. image_id: "" in a record of `read_pairs`, whose
    caller gives ids. captions: true ones of the image; the negatives are of the first. source, line: of the record.
    """

    image: str | None
    captions: tuple[str, ...]
    negatives: tuple[Negative, ...]
    image_id: str = ""
    split: str = ""
    source: str = ""
    line: int = 0

    @property
    def images(self) -> tuple[NamedImage, ...]:
        """Its only image."""
        return (NamedImage(self.image_id, self.image or ""),)


@dataclass(frozen=True)
class MultipleChoice:
    """A question of NegBench: which of the options is true of the image? template: the form of the true one."""

    image: NamedImage
    true: str
    false: tuple[str, ...]
    template: str

    @property
    def images(self) -> tuple[NamedImage, ...]:
        """Its only image."""
        return (self.image,)


@dataclass(frozen=True)
class TwoImages:
    """Two images, each with a caption that is false of the other, as in Winoground."""

    images: tuple[NamedImage, NamedImage]
    captions: tuple[str, str]
    label: str


Published = CaptionWithNegatives | MultipleChoice | TwoImages
WINOGROUND = {"image_0", "image_1", "caption_0", "caption_1"}  # the columns of two images
CHOSEN = "correct_answer"  # NegBench's column with the number of the true option


class NoColumnError(ValueError):
    """A file has no column with captions, or none with negatives."""


def pair_files(source: str) -> list[str]:
    """The files of a source: itself, or the JSON, CSV, TSV and Parquet files in a folder, or else in those below it.

    Files that describe a set, such as croissant.json, are left out. Raises FileNotFoundError if there is no source,
    ValueError if it has no such files.
    """
    if not files.is_folder(source):
        _stem_and_suffix(source)
        return [source]
    for names_in in (files.names, files.names_below):
        names = [name for name in names_in(source) if _FILE.fullmatch(files.name_of(name)) and _may_hold_records(name)]
        if names:
            return [files.join(source, name) for name in names]
    raise ValueError(f"{source}: must be {EXPECTED}, or a folder of such files")


def _may_hold_records(name: str) -> bool:
    """Whether a file in a folder may hold records: it neither describes the set nor is hidden, as caches are."""
    *folders, file = name.split("/")
    return file not in BESIDE and not any(part.startswith((".", "_")) for part in (*folders, file))


def published_files(source: Path, splits: Sequence[str] = ()) -> list[Path]:
    """The files of a published set, which is a file, or a folder and all folders below it but `images`.

    splits: only files of these, if any. A split is named by a folder, a file, or a part of a file's name: `val-1.json`
    and `captions_val.json` are of `val`.
    """
    if source.is_file():
        data = [source]
    else:
        data = []
        for path in sorted(source.rglob("*")):
            name = path.relative_to(source).as_posix()
            is_picture = name.startswith("images/")
            if path.suffix in SUFFIXES and _may_hold_records(name) and not is_picture and path.is_file():
                data.append(path)
    return [path for path in data if not splits or _names_of_split(path, source) & {*splits}]


def _names_of_split(file: Path, source: Path) -> set[str]:
    """The names that may be the split of a file: {"val-1", "val"} for val-1.json."""
    folders = file.relative_to(source).parts[:-1] if file != source else ()
    before_dash = file.stem.split("-")[0]
    return {*folders, file.stem, before_dash, file.stem.removeprefix("captions_")}


def read_published(file: Path) -> Iterator[Published]:
    """The cases of a published test set's file, in order. The columns of its first row say which format it has.

    A file without columns of captions and negatives, such as a list of images beside them, has no cases. Adjacent
    records of one caption become one. Raises ValueError for a file that cannot be read, or has a bad record.
    """
    try:
        first = next((row for _, row in _read_rows(str(file)) if isinstance(row, Mapping)), None)
        if first is None:
            # A file without a row has no captions, or raises an error that says what is wrong.
            yield from _captions_of_published(file)
        elif CHOSEN in first:
            yield from map(_to_multiple_choice, _rows_of_published(file))
        elif first.keys() >= WINOGROUND:
            yield from map(_to_two_images, _rows_of_published(file))
        elif not _columns_by_role(first, {}, str(file)).fault:  # it has columns of captions and negatives
            yield from _captions_of_published(file)
    except (ValueError, KeyError, TypeError, IndexError, OSError) as error:
        raise ValueError(f"{file}: must be a published set ({PUBLISHED}), cannot be read: {error!r:.120}") from error


def _rows_of_published(file: Path) -> Iterator[dict[str, str]]:
    """The rows of a file, whose cells are texts."""
    for _, row in _read_rows(str(file)):
        if isinstance(row, Rejected):
            raise ValueError(f"record {row.line}: {row.detail}")
        if not isinstance(row, Mapping):
            raise ValueError(f"a record must be an object, was: {row!r:.80}")
        yield {name: "" if cell is None else str(cell) for name, cell in row.items()}


def _to_multiple_choice(row: Mapping[str, str]) -> MultipleChoice:
    """The question in a row of NegBench, whose options are in the columns caption_0, caption_1, …"""
    options = [text for name, text in row.items() if name.startswith("caption_")]
    true = options.pop(int(row[CHOSEN]))
    template = row.get("correct_answer_template") or ALL
    return MultipleChoice(NamedImage.of_file(row["image_path"]), true, tuple(options), template)


def _to_two_images(row: Mapping[str, str]) -> TwoImages:
    """The two images and captions in a row of Winoground's form."""
    images = (NamedImage.of_file(row["image_0"]), NamedImage.of_file(row["image_1"]))
    return TwoImages(images, (row["caption_0"], row["caption_1"]), row.get("operator") or row.get("tag") or ALL)


def _captions_of_published(file: Path) -> Iterator[CaptionWithNegatives]:
    """The captions of a file, each with the negatives of all its records that follow each other."""
    by_caption = groupby(_good_records(file), lambda record: (record.image, record.captions[0]))
    for (image, _), records_of_caption in by_caption:
        if image is None:
            raise ValueError("a record must name its image")
        # A number, as in CREPE, names a file without saying so: 2345 is 2345.jpg.
        path = image.removeprefix("images/") if Path(image).suffix else f"{image}.jpg"
        records = list(records_of_caption)
        negatives: list[Negative] = []
        for record in records:
            for negative in record.negatives:
                # Without a column of labels the file's name is the label; NegCLIP names its files by splits.
                names_split = record.split and negative.label == file.stem
                negatives.append(negative._replace(label=ALL) if names_split else negative)
        yield replace(records[-1], image=path, image_id=Path(path).stem, negatives=tuple(negatives))


def _good_records(file: Path) -> Iterator[CaptionWithNegatives]:
    """The records of a file, none of which may be a bad one."""
    for record in read_pairs(str(file)):
        if isinstance(record, Rejected):
            raise ValueError(f"record {record.line}: {record.detail}")
        yield record


def read_pairs(
    url: str, source: str = "", columns: Mapping[str, str | Sequence[str]] | None = None
) -> Iterator[CaptionWithNegatives | Rejected]:
    """The records of one file, in order.

    Args:
        url: of the file.
        source: its folder. Names of records begin below it, and in these names a file or folder may name the split.
        columns: the columns by role (of ROLES, or "truth"), maybe several for captions and negatives; numbers in a
            table without a header. Columns for other roles are found by their usual names.

    Raises:
        ValueError: a broken file.
        NoColumnError: it lacks a column.
    """
    name = files.name_in(source or url, url)
    known: set[str] = set()
    given = {role: (name,) if isinstance(name, str) else tuple(name) for role, name in (columns or {}).items()}
    truth_column = next(iter(given.pop("truth", ())), "")
    reader: _RecordReader | None = None
    for line, (key, row) in enumerate(_read_rows(url, given, truth_column), 1):
        if not isinstance(row, Mapping):
            detail = row.detail if isinstance(row, Rejected) else f"a record must be an object, was: {row!r:.80}"
            yield Rejected(name, line, "not_a_record", detail, "")
            continue
        # The first row decides which columns the file has: a later row that lacks one has an empty cell there.
        if reader is None:
            reader = _RecordReader.of_first_row(row, given, truth_column, url, name)
        key = key or reader.key(row)
        if key and key in known:
            yield Rejected(name, line, "duplicate_caption_id", f"id must be unique in a file, was twice: {key}", "")
            continue
        known.add(key)
        yield reader.record(row, line)


class _Columns(NamedTuple):
    """The columns of a row by role, {"caption": ("caption",), "negative": ("foil",)}; fault: why captions and negatives
    cannot be read from them, "" if they can.
    """

    roles: Roles
    fault: str


def _columns_by_role(row: Row, given: Roles, url: str) -> _Columns:
    """The columns of a row by role: those given, and others by their usual names."""
    names_of_roles = {role: guess(usual, list(row)) for role, usual in ROLES.items()}
    roles = {role: (name,) for role, name in names_of_roles.items() if name is not None} | dict(given)
    present = list(paths.names_in(row))
    if not present:
        return _Columns(roles, f"{url}: has an empty record; a record must have a caption and a negative")
    for role, names in given.items():
        absent = next((name for name in names if name not in present), None)
        if absent is not None:
            return _Columns(roles, f"{url}: {role} column must be one of {', '.join(row)}, was: {absent}")
    for role in ("caption", "negative"):
        if role not in roles:
            usual = ", ".join(ROLES[role][:4])
            rule = f"{url}: must have a column for the {role} ({usual} …)"
            has = f"has: {', '.join(present) or 'none'}"
            return _Columns(roles, f"{rule}, {has}; name it by --columns {role}=NAME")
    return _Columns(roles, "")


@dataclass(frozen=True)
class _RecordReader:
    """How the rows of one file become records.

    name: the file, in its source. roles: the columns by role. split, label: from the names of the file and its folders,
    for rows without such columns. says_false: for each column that says whether captions are true, whether a yes in it
    marks a false caption.
    """

    name: str
    roles: Roles
    split: str
    label: str
    says_false: Mapping[str, bool] = field(default_factory=dict)

    @classmethod
    def of_first_row(cls, row: Row, given: Roles, truth_column: str, url: str, name: str) -> _RecordReader:
        """The reader of a file, by its first row.

        Args:
            row: the first one; all others are taken to have its columns.
            given: the columns that the user has named, by role.
            truth_column: the column that says whether a caption is true; "": none, NO_COLUMN: none is to be looked for.
            url: the file.
            name: its name in records.

        Raises:
            NoColumnError: the row lacks a column that is needed.
        """
        columns = _columns_by_role(row, given, url)
        if columns.fault:
            raise NoColumnError(columns.fault)
        says_false: dict[str, bool] = {}
        if truth_column:
            says_false = {
                column: plain_name(column) in SAYS_FALSE for column in truth_columns(tuple(row), truth_column)
            }
            if truth_column != NO_COLUMN and not says_false:
                raise NoColumnError(f"{url}: truth column must be one of {', '.join(row)}, was: {truth_column}")
        folders_and_file = reversed(name.split("/"))  # the file's own name says more of a split than a folder's
        split = next(filter(None, map(files.split_in, folders_and_file)), "")
        return cls(name, columns.roles, split, _stem_and_suffix(url).stem, says_false)

    def key(self, row: Row) -> str:
        """The id of the row in its file; "" if it has none."""
        return str(self._cell(row, "key") or "")

    def record(self, row: Row, line: int) -> CaptionWithNegatives | Rejected:
        """The record in a row, its texts cleaned as captions are."""
        image = self._cell(row, "image")
        has_image = "image" in self.roles
        if isinstance(image, Mapping):  # an embedded one, of Hugging Face
            image = image.get("path")
            has_image = image is not None
        # `clean` refuses a record without an image, which is allowed here: "image" is passed instead.
        image = image if has_image else "image"
        split = self._cell(row, "split") or self.split

        captions: list[Record] = []
        for text in chain.from_iterable(map(captions_in, (self._cell(row, "caption"), *self._siblings(row)))):
            caption = clean(Record(self.name, line, image, text, split))
            if isinstance(caption, Rejected):
                return caption
            captions.append(caption)
        first = captions[0]

        negatives: list[Negative] = []
        usual_label = self._cell(row, "label") or self.label
        for text, label in _labelled_texts(self._cell(row, "negative")):
            negative = clean(Record(self.name, line, "image", text))
            if isinstance(negative, Rejected):
                return negative._replace(detail=negative.detail.replace("caption must", "negative must", 1))
            negatives.append(Negative(negative.text, str(label or usual_label)))
        if not negatives:
            detail = "a record must have a negative, has none"
            return Rejected(self.name, line, "no_text", detail, excerpt(first.text))

        # A column of the row may say that the caption itself is false of its image.
        if self.says_false:
            judged = checked(Record(self.name, line, "", first.text, truth=row), self.says_false)
            if isinstance(judged, Rejected):
                return judged
        return CaptionWithNegatives(
            image=first.image if has_image else None,
            captions=tuple(caption.text for caption in captions),
            negatives=tuple(negatives),
            split=first.split,
            source=self.name,
            line=line,
        )

    def _cell(self, row: Row, role: str) -> object:
        """The value in the column of a role; of several columns the list of all captions in them; None without one."""
        values = [value_at(row, name) for name in self.roles.get(role, ())]
        if len(values) == 1:
            return values[0]
        several = [item for cell in values if not is_missing(cell) for item in captions_in(cell)]
        return several if values else None

    def _siblings(self, row: Row) -> list[object]:
        """The cells with other captions of the image."""
        names = self.roles.get("sibling")
        if not names:
            named = set(chain.from_iterable(self.roles.values()))
            names = tuple(name for name in row if SIBLING.fullmatch(name) and name not in named)
        return [row[name] for name in names if row.get(name)]


class _LabelledText(NamedTuple):
    """A negative as a file has it, and the file's name for its kind; None if it has none."""

    text: object
    label: object


def _labelled_texts(cell: object) -> list[_LabelledText]:
    """The negatives in a cell, with their kind if it is there: a text, a list, or a list written as text (NegCLIP)."""
    labelled = []
    for item in [] if cell is None else items_of(cell):
        text = item
        label = None
        if isinstance(item, Mapping):
            # In a list of negatives, a member called `caption` is the negative's text.
            text = next((item[name] for name in (*ROLES["negative"], *ROLES["caption"]) if name in item), None)
            label = next((item[name] for name in ROLES["label"] if item.get(name)), None)
        labelled.append(_LabelledText(text, label))
    return labelled


class _FileName(NamedTuple):
    """The parts of a file's name: `foils` and `.json`."""

    stem: str
    suffix: str


def _stem_and_suffix(url: str) -> _FileName:
    """Split the name of a file, in lower case: `a/B.csv.gz` -> b, .csv. Raises ValueError for other suffixes."""
    match = _FILE.fullmatch(files.name_of(url).lower())
    if match is None:
        raise ValueError(f"{url}: must be {EXPECTED}, by the end of its name ({', '.join(SUFFIXES)})")
    return _FileName(match["stem"], match["suffix"])


class _KeyedRow(NamedTuple):
    """A row of a file; or, where there is none, the text in its place or the reason why it was rejected.

    key: its id in a JSON object of rows, else "".
    """

    key: str
    row: object


def _read_rows(url: str, given: Roles | None = None, truth_column: str = "") -> Iterator[_KeyedRow]:
    """Each record in a file, whatever its format. given: columns that the user names, maybe by numbers."""
    given = given or {}
    suffix = _stem_and_suffix(url).suffix
    if suffix == ".parquet":
        yield from (_KeyedRow("", row) for row in table.parquet_rows(url, EXPECTED))
    elif suffix in (".json", ".jsonl"):
        kind = table.kind_of(url)
        # By content, as sets name files of JSON Lines .json, and the other way round.
        if kind == "object":  # maybe an object for each id, which may come twice
            rows = containers.rows_in(url, EXPECTED, partial(_has_columns, given=given))
            yield from _rows_by_id(url) if rows is None else _with_file_names(rows, url)
        else:
            kind = suffix[1:] if kind == "delimited" else kind
            yield from (_KeyedRow("", row) for _, row in table.objects(url, kind, expected=EXPECTED))
    else:
        given_columns = [name for names in given.values() for name in names]
        if truth_column not in ("", NO_COLUMN):
            given_columns.append(truth_column)
        delimiter = "," if suffix == ".csv" else "\t"
        rows_of_file = table.delimited(url, given_columns, lambda names: False, delimiter)
        yield from (_KeyedRow("", row) for _, row in rows_of_file)


def _has_columns(row: Row, given: Roles) -> bool:
    """Whether an object has the columns of a record: a caption, a negative, and those that are given."""
    return not _columns_by_role(row, given, "").fault


def _with_file_names(rows: Iterable[tuple[str, object]], url: str) -> Iterator[_KeyedRow]:
    """The records of a JSON object; where it lists its images, as COCO does, they are named by `file_name`."""
    images = (image for image in files.json_items(url, "images.item", EXPECTED) if isinstance(image, Mapping))
    names = {image["id"]: image["file_name"] for image in images if "id" in image and "file_name" in image}
    for key, row in rows:
        if isinstance(row, Mapping):
            number = row.get("image_id")
            if isinstance(number, int | str) and number in names:
                row = {**row, "image_id": names[number]}
        yield _KeyedRow(key, row)


def _rows_by_id(url: str) -> Iterator[_KeyedRow]:
    """The members of a JSON object, each with its id."""
    with files.open_json(url, EXPECTED) as items:
        for key, row in ijson.kvitems(items, "", use_float=True, buf_size=files.BUFFER):
            yield _KeyedRow(key, row)
