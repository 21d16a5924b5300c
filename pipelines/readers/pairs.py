"""Read sets of captions with their negatives, as others publish them: one record per caption.

The columns or keys are found by the names that the sets use: SugarCrepe and SugarCrepe++, NegCLIP, ARO, CREPE, VALSE,
TROHN, CE-CLIP, VisMin, and any CSV, TSV, JSON, JSON Lines or Parquet file with a caption and a negative in each record.
"""

from __future__ import annotations

import ast
import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from . import columns, files, table
from .record import Record, Rejected, clean, excerpt

EXPECTED = "a set of captions with negatives (JSON, JSON Lines, CSV, TSV or Parquet)"
SUFFIXES = (".json", ".jsonl", ".csv", ".tsv", ".parquet")
PACKED = (".gz", ".bz2", ".xz", ".zip")
ROLES = {  # of columns, by the names that sets give them
    "caption": (
        "caption", "true_caption", "original_caption", "positive_caption", "title", "text", "sentence", "positive",
    ),
    "negative": (
        "negative_caption", "negative", "foil", "false_caption", "neg_caption", "negative_captions", "negatives",
        "hard_negs", "hard_negatives", "hard_neg", "neg_captions", "edited_caption", "rejected", "negative_prompt",
    ),
    "image": columns.IMAGE,
    "sibling": ("caption2", "caption_2", "positive_caption2"),
    "label": ("label", "category", "linguistic_phenomena", "operator", "change_type", "type", "neg_type"),
    "split": columns.SPLIT,
    "key": ("id", "sample_id", "index"),
}  # fmt: skip
BESIDE = (
    "croissant.json",
    "sizes.json",
    "dataset_info.json",
    "dataset_infos.json",
)  # what lies beside published tables


@dataclass(frozen=True)
class Foreign:
    """A caption with the negatives that a set has for it.

    image: path or name; None if the set names none. captions: true captions of the image in this record, the one that
    the negatives belong to first. negatives: (text, label) of each; the label is what the set calls their kind.
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
    """The files of a source: itself, or those in a folder whose names say JSON, CSV, TSV or Parquet; if there are none,
    those in the folders below it. What describes a set, such as croissant.json, is left out.

    Raises FileNotFoundError if there is nothing, ValueError for a folder or file of another kind.
    """
    if not files.is_folder(source):
        _suffix(source)
        return [source]
    for inside in (files.names, files.names_below):
        here = [name for name in inside(source) if _plain(name).endswith(SUFFIXES)]
        hidden = (any(part[:1] in (".", "_") for part in name.split("/")) for name in here)
        if found := [
            name for name, no in zip(here, hidden, strict=True) if not no and files.name_of(name) not in BESIDE
        ]:
            return [files.join(source, name) for name in found]
    raise ValueError(f"{source}: must be {EXPECTED}, or a folder of such files")


def read_pairs(url: str, source: str = "") -> Iterator[Foreign | Rejected]:
    """The records of one file, in order.

    source: the folder that the file is of, for the names of records and for the split, which is taken from the name of
    the file or else of a folder. Raises ValueError, in one line, if the file is broken, NoColumnError if it lacks a
    column.
    """
    name = files.name_in(source or url, url)
    split = next(filter(None, map(files.split_in, reversed(name.split("/")))), "")
    stem = _plain(files.name_of(url)).rpartition(".")[0]
    known: set[str] = set()
    roles: Mapping[str, str | None] | None = None
    for line, (key, row) in enumerate(_rows(url), 1):
        if not isinstance(row, Mapping):
            yield Rejected(name, line, "not_a_record", f"a record must be an object, was: {type(row).__name__}", "")
            continue
        if roles is None:
            roles = _roles(list(row), url)
        key = key or str(row.get(roles["key"] or "", "") or "")
        if key and key in known:
            yield Rejected(name, line, "duplicate_caption_id", f"id must be unique in a file, was twice: {key}", "")
            continue
        known.add(key)
        yield _record(row, roles, name, line, split, stem)


def _record(
    row: Mapping[str, Any], roles: Mapping[str, str | None], name: str, line: int, split: str, label: str
) -> Foreign | Rejected:
    """One row as a record; cleaned, as captions are."""

    def cell(role: str) -> Any:
        column = roles[role]
        return row.get(column) if column else None

    image = cell("image")
    named = roles["image"] is not None
    if isinstance(image, Mapping):  # an embedded one, of Hugging Face
        image = image.get("path")
        named = image is not None
    own = cell("split")
    texts = [cell("caption"), *filter(None, [cell("sibling")])]
    kept: list[str] = []
    for text in texts:
        found = clean(Record(name, line, image if named else "image", text, own or split))
        if isinstance(found, Rejected):
            return found
        kept.append(found.text)
        image, own = found.image, found.split
    negatives = []
    for text, kind in _negatives(cell("negative")):
        found = clean(Record(name, line, "image", text))
        if isinstance(found, Rejected):
            return found._replace(detail=found.detail.replace("caption must", "negative must", 1))
        negatives.append((found.text, str(kind or cell("label") or label)))
    if not negatives:
        return Rejected(name, line, "no_text", "a record must have a negative, has none", excerpt(kept[0]))
    return Foreign(name, line, image if named else None, tuple(kept), own, tuple(negatives))


def _negatives(value: Any) -> list[tuple[Any, Any]]:
    """The negatives in a cell, with their kind if it is there: a text, a list, or a list written as text (NegCLIP)."""
    if isinstance(value, str) and value[:1] == "[" and value[-1:] == "]":
        try:
            value = ast.literal_eval(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return [(value, None)]
    items = value if isinstance(value, list | tuple) else [] if value is None else [value]
    found = []
    for item in items:
        if isinstance(item, Mapping):
            text = next((item[name] for name in (*ROLES["negative"], *ROLES["caption"]) if name in item), None)
            found.append((text, next((item[name] for name in ROLES["label"] if item.get(name)), None)))
        else:
            found.append((item, None))
    return found


def _roles(found: Sequence[str], url: str) -> Mapping[str, str | None]:
    """The column of each role. Raises NoColumnError if caption or negative is missing, with what was found."""
    roles = {role: columns.guess(usual, found) for role, usual in ROLES.items()}
    for role in ("caption", "negative"):
        if roles[role] is None:
            listed, usual = ", ".join(found) or "none", ", ".join(ROLES[role][:4])
            raise NoColumnError(f"{url}: must have a column for the {role} ({usual} …), has: {listed}")
    return roles


def _plain(name: str) -> str:
    """A file name in lower case without the suffix of a compression."""
    lower = name.lower()
    return next((lower.removesuffix(packed) for packed in PACKED if lower.endswith(packed)), lower)


def _suffix(url: str) -> str:
    plain = _plain(files.name_of(url))
    for suffix in SUFFIXES:
        if plain.endswith(suffix):
            return suffix
    raise ValueError(f"{url}: must be {EXPECTED}, by the end of its name ({', '.join(SUFFIXES)})")


def _rows(url: str) -> Iterator[tuple[str, Any]]:
    """(id or "", row) of each record in a file; a row that is none is a text."""
    suffix = _suffix(url)
    if suffix == ".parquet":
        yield from _parquet(url)
    elif suffix == ".json":
        yield from _json(url)
    elif suffix == ".jsonl":
        for line in files.lines(url, EXPECTED):
            value = table.parse_json(line)
            yield "", line if value is None else value
    else:
        yield from (("", row) for row in _delimited(url, "\t" if suffix == ".tsv" else ","))


def _delimited(url: str, delimiter: str) -> Iterator[Any]:
    usual = csv.field_size_limit(files.MAX_LINE)  # for lists of negatives; it holds for the whole process
    try:
        rows = table.csv_rows(url, delimiter, EXPECTED)
        header = next(rows, (0, ""))[1]
        names = [name.removeprefix("\ufeff").strip() for name in header] if isinstance(header, list) else []
        for _, row in rows:
            if isinstance(row, str) or len(row) > len(names):
                yield "a bad row"
            elif row:
                yield dict(zip_longest(names, row))
    finally:
        csv.field_size_limit(usual)


def _json(url: str) -> Iterator[tuple[str, Any]]:
    """The items of a list, or of an object by their key; ids that occur twice come twice."""
    import ijson

    with files.reading(url, EXPECTED), files.open_bytes(url) as file:
        start = file.read(1 << 10).lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if start == b"{":
        with files.open_json(url, EXPECTED) as items:
            yield from ijson.kvitems(items, "", use_float=True)
    else:
        yield from (("", item) for item in files.json_items(url, "item", EXPECTED))


def _parquet(url: str) -> Iterator[tuple[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with files.reading(url, EXPECTED, pa.ArrowException), files.open_bytes(url) as file:
        parquet = pq.ParquetFile(file)
        read = [column for field in parquet.schema_arrow for column in table.without_bytes(field)]
        for batch in parquet.iter_batches(batch_size=1000, columns=read):
            yield from (("", row) for row in batch.to_pylist())
