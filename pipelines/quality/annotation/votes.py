"""Read filled-in annotation sheets and their key, as spreadsheets save them; errors name file and line."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from .sheet import KEY, VOTES, Item

DELIMITERS = ",;\t"
ANSWERS = ("a", "b", "both", "neither", "unsure")
Votes = dict[str, dict[str, str]]  # annotator -> item -> answer


class Sheets(NamedTuple):
    """The votes of all annotators on the two questions, in terms of the sheet: a, b, both, neither or unsure."""

    annotators: Sequence[str]
    describes: Votes
    fluent: Votes


def find_key(sheet: Path) -> Path:
    """The only key file in the folder of a sheet. Raises FileNotFoundError for none, ValueError for several."""
    keys = sorted(sheet.parent.glob("*.key.csv"))
    if not keys:
        raise FileNotFoundError(f"no *.key.csv beside {sheet}: give --key")
    if len(keys) > 1:
        raise ValueError(f"{len(keys)} keys beside {sheet} ({', '.join(key.name for key in keys)}): give --key")
    return keys[0]


def read_key(file: Path) -> dict[str, Item]:
    """Read a key: its rows by item. Raises ValueError, with file and line, for an invalid one, or FileNotFoundError."""
    items: dict[str, Item] = {}
    for line, row in _rows(file, KEY):
        if row["caption_is"] not in ("a", "b"):
            raise ValueError(f"{file}:{line}: caption_is must be a or b, was: {row['caption_is']!r}")
        if row["item"] in items:
            raise ValueError(f"{file}:{line}: item {row['item']} occurs twice")
        items[row["item"]] = Item(**{name: row[name] for name in KEY})
    if not items:
        raise ValueError(f"{file}: must have items, has none")
    return items


def read_sheets(files: Sequence[Path], items: Mapping[str, Item]) -> Sheets:
    """Read the votes of annotators from filled-in sheets: one sheet each, or one with vote columns for several.

    items: those of the answer key, by their id on the sheet. Raises ValueError, with file and line, for a vote that is
    none of the words, an item that is not in the key or occurs twice, or no votes at all.
    """
    if len({file.resolve() for file in files}) < len(files):
        raise ValueError(f"every sheet must be given once, were: {', '.join(map(str, files))}")
    describes: Votes = {}
    fluent: Votes = {}
    for file in files:
        seen: dict[str, int] = {}
        for line, row in _rows(file, ("item",)):
            suffixes = [name.removeprefix(VOTES[0]) for name in row if _is_vote(name, VOTES[0])]
            if not suffixes:
                raise ValueError(f"{file}: must have a column describes (or describes_1, describes_2 …), has none")
            if row["item"] not in items:
                raise ValueError(f"{file}:{line}: item must be one of the key's, was: {row['item']!r}")
            if row["item"] in seen:
                raise ValueError(f"{file}:{line}: item {row['item']} is already in line {seen[row['item']]}")
            seen[row["item"]] = line
            for suffix in suffixes:
                name = f"{file}{suffix.replace('_', ' ', 1)}"
                for question, votes in zip(VOTES, (describes, fluent), strict=True):
                    own = votes.setdefault(name, {})
                    if answer := _answer(file, line, question, row.get(question + suffix, "")):
                        own[row["item"]] = answer
    if not any(describes.values()):
        raise ValueError(f"no votes in {', '.join(map(str, files))}: the column describes is empty")
    return Sheets(sorted(describes), describes, fluent)


def _is_vote(column: str, question: str) -> bool:
    return column == question or column.startswith(f"{question}_")


def _answer(file: Path, line: int, question: str, cell: str) -> str:
    """A vote in lower case, empty if none is given. Raises ValueError, with file and line, for an invalid one."""
    vote = cell.strip().lower()
    if vote and vote not in ANSWERS:
        raise ValueError(f"{file}:{line}: {question} must be one of {', '.join(ANSWERS)}, was: {cell!r}")
    return vote


def _rows(file: Path, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Line number and cells by column of every row of a CSV, whatever its delimiter; empty rows are skipped."""
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: must be UTF-8, is not at byte {error.start}") from None
    head = text.split("\n", 1)[0]
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=max(DELIMITERS, key=head.count), strict=True)
    try:
        names = [name.strip() for name in next(reader, [])]
        missing = [name for name in columns if name not in names]
        if missing or len(set(names)) < len(names):
            raise ValueError(
                f"{file}:1: must have the columns {', '.join(columns)}, each once, has: {', '.join(names)}"
            )
        for cells in reader:
            if any(cell.strip() for cell in cells):
                if len(cells) > len(names):
                    raise ValueError(f"{file}:{reader.line_num}: must have {len(names)} cells, has {len(cells)}")
                padded = [*cells, *("" for _ in names[len(cells) :])]
                yield reader.line_num, {name: cell.strip() for name, cell in zip(names, padded, strict=True)}
    except csv.Error as error:
        raise ValueError(f"{file}:{reader.line_num}: {error}") from None
