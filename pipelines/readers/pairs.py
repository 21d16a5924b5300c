"""Read sets of captions with their negatives, one record per caption: SugarCrepe and SugarCrepe++, NegCLIP, ARO, CREPE,
VALSE, TROHN, CE-CLIP, VisMin, and any CSV, TSV, JSON, JSON Lines or Parquet file whose columns have names that such
sets use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import ijson

from . import containers, files, paths, table
from .cells import captions_in, is_missing, items_of
from .paths import value_at
from .record import Record, Rejected, clean, excerpt, plain_name
from .truth import NO_COLUMN, SAYS_FALSE, checked, truth_columns
from .usual import IMAGE, SPLIT, guess

EXPECTED = "a set of captions with negatives (JSON, JSON Lines, CSV, TSV or Parquet)"
SUFFIXES = (".json", ".jsonl", ".csv", ".tsv", ".parquet")
ROLES = {  # of columns, by the names that sets give them
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


@dataclass(frozen=True)
class Foreign:
    """A caption with a set's negatives. image: None if it has no name. captions: true ones of the image, that of the
    negatives first. negatives: (text, label) of each; the label is what the set calls their kind.
    """

    source: str
    line: int
    image: str | None
    captions: tuple[str, ...]
    split: str
    negatives: tuple[tuple[str, str], ...]


class NoColumnError(ValueError):
    """A file has no column with captions, or none with negatives."""


def pair_files(source: str) -> list[str]:
    """The files of a source: itself, or those named as JSON, CSV, TSV or Parquet in a folder, else in those below it;
    none that describe a set, such as croissant.json. Raises FileNotFoundError for nothing, ValueError for others.
    """
    if not files.is_folder(source):
        _stem_and_suffix(source)
        return [source]
    for names_in in (files.names, files.names_below):
        names = [
            name
            for name in names_in(source)
            if _FILE.fullmatch(files.name_of(name))
            and files.name_of(name) not in BESIDE
            and not any(part[:1] in (".", "_") for part in name.split("/"))
        ]
        if names:
            return [files.join(source, name) for name in names]
    raise ValueError(f"{source}: must be {EXPECTED}, or a folder of such files")


def read_pairs(
    url: str, source: str = "", columns: Mapping[str, str | Sequence[str]] | None = None
) -> Iterator[Foreign | Rejected]:
    """The records of one file, in order.

    Args:
        url: of the file.
        source: its folder, for the names of records and for the split, by the name of the file or else of a folder.
        columns: by role, of captions and negatives maybe several; numbers in a table without a header. The other roles
            have usual names.

    Raises:
        ValueError: a broken file.
        NoColumnError: it lacks a column.
    """
    name = files.name_in(source or url, url)
    split = next(filter(None, map(files.split_in, reversed(name.split("/")))), "")
    stem, suffix = _stem_and_suffix(url)
    known: set[str] = set()
    given = {role: (name,) if isinstance(name, str) else tuple(name) for role, name in (columns or {}).items()}
    truth_column = next(iter(given.pop("truth", ())), "")
    roles: Mapping[str, tuple[str, ...]] | None = None
    for line, (key, row) in enumerate(_rows(url, suffix, given, truth_column), 1):
        if not isinstance(row, Mapping):
            detail = row.detail if isinstance(row, Rejected) else f"a record must be an object, was: {row!r:.80}"
            yield Rejected(name, line, "not_a_record", detail, "")
            continue
        if roles is None:
            roles = _roles(row, given, url)
            truth = {column: plain_name(column) in SAYS_FALSE for column in truth_columns(tuple(row), truth_column)}
            if truth_column not in ("", NO_COLUMN) and not truth:
                raise NoColumnError(f"{url}: truth column must be one of {', '.join(row)}, was: {truth_column}")
        cells: dict[str, Any] = {role: None for role in ROLES}
        for role, names in roles.items():
            values = [value_at(row, name) for name in names]
            several = (item for cell in values if not is_missing(cell) for item in captions_in(cell))
            cells[role] = values[0] if len(values) == 1 else list(several)
        others = roles.get("sibling") or [name for name in row if SIBLING.fullmatch(name) and name not in _named(roles)]
        cells["sibling"] = [row[name] for name in others if row.get(name)]
        key = key or str(cells["key"] or "")
        if key and key in known:
            yield Rejected(name, line, "duplicate_caption_id", f"id must be unique in a file, was twice: {key}", "")
            continue
        known.add(key)
        record = _record(cells, "image" in roles, name, line, split, stem)
        if truth_column and truth and isinstance(record, Foreign):
            said = checked(Record(name, line, "", record.captions[0], truth=row), truth)
            record = said if isinstance(said, Rejected) else record
        yield record


def _roles(row: Mapping[str, Any], given: Mapping[str, tuple[str, ...]], url: str) -> dict[str, tuple[str, ...]]:
    """The columns of a row by role: those given, and others by their usual names. Raises NoColumnError."""
    found = {**_usual_roles(row), **given}
    for role, names in given.items():
        absent = next((name for name in names if name not in set(paths.names_in(row))), None)
        if absent is not None:
            raise NoColumnError(f"{url}: {role} column must be one of {', '.join(row)}, was: {absent}")
    for role in ("caption", "negative"):
        if role not in found:
            listed = ", ".join(paths.names_in(row)) or "none"
            usual = ", ".join(ROLES[role][:4])
            named = f"name it by --columns {role}=NAME"
            raise NoColumnError(f"{url}: must have a column for the {role} ({usual} …), has: {listed}; {named}")
    return found


def _usual_roles(row: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """The columns of a row that have a usual name of a role."""
    names = {role: guess(usual, list(row)) for role, usual in ROLES.items()}
    return {role: (name,) for role, name in names.items() if name is not None}


def _named(roles: Mapping[str, tuple[str, ...]]) -> set[str]:
    """The columns that have a role."""
    return set(chain.from_iterable(roles.values()))


def _record(
    cells: Mapping[str, Any], named: bool, name: str, line: int, split: str, default_label: str
) -> Foreign | Rejected:
    """The values of the roles in one row as a record; cleaned, as captions are. named: whether images have names."""
    image = cells["image"]
    if isinstance(image, Mapping):  # an embedded one, of Hugging Face
        image = image.get("path")
        named = image is not None
    captions: list[Record] = []
    for text in chain.from_iterable(map(captions_in, (cells["caption"], *cells["sibling"]))):
        caption = clean(Record(name, line, image if named else "image", text, cells["split"] or split))
        if isinstance(caption, Rejected):
            return caption
        captions.append(caption)
    negatives: list[tuple[str, str]] = []
    for text, label in _negatives(cells["negative"]):
        negative = clean(Record(name, line, "image", text))
        if isinstance(negative, Rejected):
            return negative._replace(detail=negative.detail.replace("caption must", "negative must", 1))
        negatives.append((negative.text, str(label or cells["label"] or default_label)))
    first = captions[0]
    texts = tuple(caption.text for caption in captions)
    if not negatives:
        return Rejected(name, line, "no_text", "a record must have a negative, has none", excerpt(first.text))
    return Foreign(name, line, first.image if named else None, texts, first.split, tuple(negatives))


def _negatives(value: Any) -> list[tuple[Any, Any]]:
    """The negatives in a cell, with their kind if it is there: a text, a list, or a list written as text (NegCLIP)."""
    negatives = []
    for item in [] if value is None else items_of(value):
        text = item
        label = None
        if isinstance(item, Mapping):
            text = next((item[name] for name in (*ROLES["negative"], *ROLES["caption"]) if name in item), None)
            label = next((item[name] for name in ROLES["label"] if item.get(name)), None)
        negatives.append((text, label))
    return negatives


def _stem_and_suffix(url: str) -> tuple[str, str]:
    match = _FILE.fullmatch(files.name_of(url).lower())
    if match is None:
        raise ValueError(f"{url}: must be {EXPECTED}, by the end of its name ({', '.join(SUFFIXES)})")
    return match["stem"], match["suffix"]


def _rows(url: str, suffix: str, given: Mapping[str, tuple[str, ...]], truth_column: str) -> Iterator[tuple[str, Any]]:
    """(id or "", row) of each record in a file; a row that is none is a text, or rejected."""
    if suffix == ".parquet":
        yield from (("", row) for row in table.parquet_rows(url, EXPECTED))
        return
    if suffix in (".json", ".jsonl"):
        kind = table.kind_of(url)
        if kind == "object":  # maybe an object for each id, which may come twice
            rows = containers.rows_in(url, EXPECTED, partial(_is_pair, given=given))
            yield from _keyed(url) if rows is None else _with_file_names(rows, url)
        else:
            kind = suffix[1:] if kind == "delimited" else kind
            yield from (("", row) for _, row in table.objects(url, kind, expected=EXPECTED))
        return
    numbers = [*_named(given), *([truth_column] if truth_column not in ("", NO_COLUMN) else [])]
    delimiter = "," if suffix == ".csv" else "\t"
    yield from (("", row) for _, row in table.delimited(url, numbers, lambda names: False, delimiter))


def _with_file_names(rows: Iterable[tuple[str, Any]], url: str) -> Iterator[tuple[str, Any]]:
    """The records of a JSON object; where it lists its images, as COCO does, they are named by `file_name`."""
    images = (image for image in files.json_items(url, "images.item", EXPECTED) if isinstance(image, Mapping))
    names = {image["id"]: image["file_name"] for image in images if "id" in image and "file_name" in image}
    for key, row in rows:
        number = row.get("image_id") if isinstance(row, Mapping) else None
        is_named = isinstance(number, int | str) and number in names
        yield key, {**row, "image_id": names[number]} if is_named else row


def _keyed(url: str) -> Iterator[tuple[str, Any]]:
    with files.open_json(url, EXPECTED) as items:
        yield from ijson.kvitems(items, "", use_float=True, buf_size=files.BUFFER)


def _is_pair(row: Mapping[str, Any], given: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether an object has the columns of a record."""
    try:
        _roles(row, given, "")
    except NoColumnError:
        return False
    return True
