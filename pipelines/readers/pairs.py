"""Read sets of captions with their negatives, one record per caption: SugarCrepe and SugarCrepe++, NegCLIP, ARO, CREPE,
VALSE, TROHN, CE-CLIP, VisMin, and any CSV, TSV, JSON, JSON Lines or Parquet file whose columns have names that such
sets use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import ijson

from . import files, table
from .cells import captions_in, items_of
from .record import ReadOptions, Record, Rejected, clean, excerpt

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
    "image": table.IMAGE,
    "sibling": (),
    "label": (
        "label", "category", "linguistic_phenomena", "operator", "change_type", "type", "neg_type", "kind", "family",
    ),
    "split": table.SPLIT,
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


def read_pairs(url: str, source: str = "", columns: Mapping[str, str] | None = None) -> Iterator[Foreign | Rejected]:
    """The records of one file, in order. source: its folder, for the names of records and for the split, by the name of
    the file or else of a folder. columns: by role; the others have usual names. Raises ValueError for a broken file,
    NoColumnError if it lacks a column.
    """
    name = files.name_in(source or url, url)
    split = next(filter(None, map(files.split_in, reversed(name.split("/")))), "")
    stem, suffix = _stem_and_suffix(url)
    known: set[str] = set()
    roles: Mapping[str, str | None] | None = None
    for line, (key, row) in enumerate(_rows(url, suffix), 1):
        if not isinstance(row, Mapping):
            detail = row.detail if isinstance(row, Rejected) else f"a record must be an object, was: {row!r:.80}"
            yield Rejected(name, line, "not_a_record", detail, "")
            continue
        if roles is None:
            roles = {role: table.guess(usual, list(row)) for role, usual in ROLES.items()} | dict(columns or {})
            if absent := next((role for role in columns or () if roles[role] not in row), None):
                raise NoColumnError(f"{url}: {absent} column must be one of {', '.join(row)}, was: {roles[absent]}")
            if lacking := next((role for role in ("caption", "negative") if roles[role] is None), None):
                listed, usual = ", ".join(row) or "none", ", ".join(ROLES[lacking][:4])
                raise NoColumnError(f"{url}: must have a column for the {lacking} ({usual} …), has: {listed}")
        cells = {role: row.get(column) if column else None for role, column in roles.items()}
        others = [name for name in row if SIBLING.fullmatch(name)] if roles["sibling"] is None else [roles["sibling"]]
        cells["sibling"] = [row[name] for name in others if row.get(name)]
        key = key or str(cells["key"] or "")
        if key and key in known:
            yield Rejected(name, line, "duplicate_caption_id", f"id must be unique in a file, was twice: {key}", "")
            continue
        known.add(key)
        yield _record(cells, roles["image"] is not None, name, line, split, stem)


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
    first, texts = captions[0], tuple(caption.text for caption in captions)
    if not negatives:
        return Rejected(name, line, "no_text", "a record must have a negative, has none", excerpt(first.text))
    return Foreign(name, line, first.image if named else None, texts, first.split, tuple(negatives))


def _negatives(value: Any) -> list[tuple[Any, Any]]:
    """The negatives in a cell, with their kind if it is there: a text, a list, or a list written as text (NegCLIP)."""
    negatives = []
    for item in [] if value is None else items_of(value):
        text, label = item, None
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


def _rows(url: str, suffix: str) -> Iterator[tuple[str, Any]]:
    """(id or "", row) of each record in a file; a row that is none is a text, or rejected."""
    if suffix == ".parquet":
        yield from (("", row) for row in table.parquet_rows(url, EXPECTED))
    elif suffix == ".json" and files.head(url).lstrip().startswith(b"{"):  # an object for each id, which may come twice
        with files.open_json(url, EXPECTED) as items:
            yield from ijson.kvitems(items, "", use_float=True, buf_size=files.BUFFER)
    elif suffix in (".json", ".jsonl"):
        yield from (("", row) for _, row in table.objects(url, suffix[1:], EXPECTED))
    else:
        yield from (("", row) for _, row in table.delimited(url, ReadOptions.of({}), "," if suffix == ".csv" else "\t"))
