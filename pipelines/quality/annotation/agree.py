"""Evaluate filled annotation sheets and the table verdicts: how many negatives are valid and fluent, and agreement."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ...engine.tables import read_table
from ..accuracy import Accuracy, accuracy, aligned, by_image, with_interval
from .sheet import KEY, NEGATIVE, VOTES, Item

if TYPE_CHECKING:
    import pandas as pd


def alpha(votes: pd.DataFrame) -> float | None:
    """Krippendorff's alpha for nominal values, a row of votes per item, a column per annotator: 1 - D_o / D_e of the
    coincidence matrix (Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", C). None if it is undefined: no
    item has two votes, or all votes are equal.
    """
    import pandas as pd

    given = votes.reset_index(drop=True).stack().dropna()
    counts = pd.crosstab(given.index.get_level_values(0), given.to_numpy()).to_numpy(float)
    counts = counts[counts.sum(axis=1) > 1]
    shares = counts / (counts.sum(axis=1, keepdims=True) - 1)
    coincidences = shares.T @ counts - np.diag(shares.sum(axis=0))
    totals = coincidences.sum(axis=0)
    n = totals.sum()
    expected = n * n - (totals**2).sum()
    return float(1 - (n - 1) * (n - np.trace(coincidences)) / expected) if expected else None


DELIMITERS = ",;\t"
ANSWERS = ("a", "b", "both", "neither", "unsure")


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


def read_sheets(files: Sequence[Path], items: Mapping[str, Item]) -> pd.DataFrame:
    """The votes on filled-in sheets, one per annotator or one with vote columns for several: a row per item and
    annotator, with the key's kind, operator and id, and for each question the side meant ("caption", "text"), both,
    neither, unsure or None. items: of the key, by id. Raises ValueError, with file and line, for another word, an item
    that is not in the key or occurs twice, or no votes at all.
    """
    import pandas as pd

    if len({file.resolve() for file in files}) < len(files):
        raise ValueError(f"every sheet must be given once, were: {', '.join(map(str, files))}")
    votes = []
    for file in files:
        seen: dict[str, int] = {}
        for line, row in _rows(file, ("item",)):
            columns = [name for name in row if name == VOTES[0] or name.startswith(f"{VOTES[0]}_")]
            if not columns:
                raise ValueError(f"{file}: must have a column describes (or describes_1, describes_2 …), has none")
            if row["item"] not in items:
                raise ValueError(f"{file}:{line}: item must be one of the key's, was: {row['item']!r}")
            if row["item"] in seen:
                raise ValueError(f"{file}:{line}: item {row['item']} is already in line {seen[row['item']]}")
            seen[row["item"]] = line
            item = items[row["item"]]
            for suffix in (name.removeprefix(VOTES[0]) for name in columns):
                given = [_vote(file, line, question, row.get(question + suffix, ""), item) for question in VOTES]
                annotator = f"{file}{suffix.replace('_', ' ', 1)}"
                votes.append((item.item, annotator, item.kind, item.operator, item.id, *given))
    found = pd.DataFrame(votes, columns=["item", "annotator", "kind", "operator", "id", *VOTES])
    if not found["describes"].notna().any():
        raise ValueError(f"no votes in {', '.join(map(str, files))}: the column describes is empty")
    return found


def _vote(file: Path, line: int, question: str, cell: str, item: Item) -> str | None:
    """What a vote means, None if none is given. Raises ValueError, with file and line, for an invalid one."""
    vote = cell.strip().lower()
    if vote and vote not in ANSWERS:
        raise ValueError(f"{file}:{line}: {question} must be one of {', '.join(ANSWERS)}, was: {cell!r}")
    return {"": None, item.caption_is: "caption"}.get(vote, "text" if vote in ("a", "b") else vote)


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


ALL, CONTROLS = "all", "controls"


@dataclass(frozen=True)
class Agreement:
    """The annotators' judgement of an operator's negatives, in % of items with 95 % Wilson intervals, by majorities of
    votes. valid: only the caption describes the image; false: the negative does not; fluent: the negative is, None
    without votes. alpha, alpha_fluent: Krippendorff's of the votes on both questions, None if undefined. Of controls,
    `valid` is that both texts are true.
    """

    name: str
    items: int
    votes: int
    valid: Accuracy
    false: Accuracy
    fluent: Accuracy | None
    alpha: float | None
    alpha_fluent: float | None


@dataclass(frozen=True)
class Annotator:
    """An annotator's number of votes, and the share of controls answered correctly ("both"), None if none answered."""

    name: str
    votes: int
    controls: Accuracy | None


@dataclass(frozen=True)
class Report:
    """The evaluation: by operator, then all negatives, then controls; by annotator; the ids of negatives that the
    majority does not find valid; the number of items without a vote.
    """

    operators: Sequence[Agreement]
    annotators: Sequence[Annotator]
    invalid: Sequence[str]
    unanswered: int


def agree(sheets: Sequence[Path], key: Path | None = None) -> Report:
    """Evaluate filled-in sheets: one per annotator, or with vote columns `describes_NAME` for several; key: None for
    the only `*.key.csv` beside the first. Raises ValueError, with file and line, for invalid votes and items, or no
    votes at all; FileNotFoundError without a key.
    """
    if not sheets:
        raise ValueError("sheets must be at least one file, were: none")
    items = read_key(key or find_key(sheets[0]))
    votes = read_sheets(sheets, items)
    negative = votes["kind"] == NEGATIVE
    voted = votes[votes["describes"].notna()]
    groups = {str(name): some for name, some in votes[negative].groupby("operator") if some["describes"].notna().any()}
    if len({item.operator for item in items.values() if item.kind == NEGATIVE}) > 1:
        groups[ALL] = votes[negative]
    groups[CONTROLS] = votes[~negative]
    valid = _majorities(voted[voted["kind"] == NEGATIVE], "describes", "caption")
    invalid = set(valid.index[~valid])
    annotators = []
    for name, some in votes.groupby("annotator"):
        answers = some.loc[some["kind"] != NEGATIVE, "describes"].dropna()
        # both sentences of a control are true, so that "both" is its right answer
        right = accuracy((answers == "both").sum(), len(answers)) if len(answers) else None
        annotators.append(Annotator(str(name), int(some["describes"].notna().sum()), right))
    return Report(
        operators=[judge_votes(name, some) for name, some in groups.items() if some["describes"].notna().any()],
        annotators=annotators,
        invalid=[item.id for item in items.values() if item.item in invalid],
        unanswered=len(items) - voted["item"].nunique(),
    )


def _majorities(votes: pd.DataFrame, question: str, *wanted: str) -> pd.Series:
    """By item with votes, whether more than half of them are one of those wanted."""
    given = votes[votes[question].notna()]
    return given[question].isin(wanted).groupby(given["item"]).mean() > 0.5


def judge_votes(name: str, votes: pd.DataFrame) -> Agreement:
    """The annotators' judgement of votes (see `read_sheets`) on negatives, or on controls, under a name."""

    def share(question: str, *wanted: str) -> Accuracy:
        says = _majorities(votes, question, *wanted)
        return accuracy(int(says.sum()), len(says))

    describes = votes["describes"].dropna()
    return Agreement(
        name,
        votes.loc[describes.index, "item"].nunique(),
        len(describes),
        share("describes", "caption" if (votes["kind"] == NEGATIVE).all() else "both"),
        share("describes", "caption", "neither"),
        share("fluent", "text", "both") if votes["fluent"].notna().any() else None,
        *(alpha(votes.pivot(index="item", columns="annotator", values=question)) for question in VOTES),
    )


def to_text(report: Report) -> str:
    """The report as plain-text tables."""
    rows = [["", "items", "votes", "valid, %", "false, %", "fluent, %", "alpha", "alpha fluent"]]
    for one in report.operators:
        shares = [with_interval(share) for share in (one.valid, one.false, one.fluent)]
        alphas = ["–" if value is None else f"{value:.3f}" for value in (one.alpha, one.alpha_fluent)]
        rows.append([one.name, f"{one.items:,}", f"{one.votes:,}", *shares, *alphas])
    people = [["annotator", "votes", "controls right, %"]]
    people += [[one.name, f"{one.votes:,}", with_interval(one.controls)] for one in report.annotators]
    lines = [*aligned(rows), "", *aligned(people)]
    if report.unanswered:
        lines += ["", f"{report.unanswered:,} items have no vote and are left out"]
    return "\n".join(lines)


@dataclass(frozen=True)
class Reading:
    """What one reader said of the negatives of an operator, blind or with the photo. unread: questions without a
    verdict. In %, with 95 % intervals corrected for several negatives of an image, None if not asked: told: the caption
    is taken for the person's; odd, odd_captions: the negative, the caption is; both_true: one photo fits both; false:
    the negative is, of the photo; first: the first text was chosen (50: no preference); steady: the same one in both
    orders.
    """

    reader: str
    reading: str
    operator: str
    negatives: int
    unread: int
    told: Accuracy | None
    odd: Accuracy | None
    odd_captions: Accuracy | None
    both_true: Accuracy | None
    false: Accuracy | None
    first: Accuracy | None
    steady: Accuracy | None


def read_reports(run: Path) -> list[Reading]:
    """The reports of a run's verdicts: by reader and reading, one of each operator and, if several, of all."""
    reports, verdicts = list[Reading](), pa.concat_tables(read_table(run, "verdicts")).to_pandas()
    for (reader, reading), rows in verdicts.groupby(["reader", "reading"]):
        groups = {str(operator): some for operator, some in rows.groupby("operator")}
        groups |= {ALL: rows} if len(groups) > 1 else {}
        reports += [_reading(str(reader), str(reading), name, some) for name, some in groups.items()]
    return reports


def _reading(reader: str, reading: str, operator: str, rows: pd.DataFrame) -> Reading:
    """What one reader says of the pairs of an operator; rows: a question each, of the table readings."""
    read = rows[rows["problem"] == ""]
    blind, image = read[read["reading"] == "blind"], read[read["reading"] == "image"]
    told = blind["told"].eq(True)
    twice = blind[blind.groupby("negative_id")["told"].transform("size") > 1]
    agreed = twice.groupby("negative_id", sort=False)["told"].transform("nunique") == 1
    return Reading(
        reader,
        reading,
        operator,
        read["negative_id"].nunique(),
        len(rows) - len(read),
        _share(blind, told),
        _share(read, read["odd"].isin(["negative", "both"])),
        _share(blind, blind["odd"].isin(["caption", "both"])),
        _share(blind, blind["both_true"].eq(True)),
        _share(image, image["false"].eq(True)),
        _share(blind, told == (blind["first"] == "caption")),
        _share(twice, agreed),
    )


def _share(rows: pd.DataFrame, holds: pd.Series) -> Accuracy | None:
    """The share of negatives for which an answer holds; its mean over the orders in which a pair was read."""
    if not len(rows):
        return None
    means = holds.groupby([rows["negative_id"], rows["image_id"]], sort=False).mean()
    return by_image(means.tolist(), means.index.get_level_values("image_id"))


def readings_text(reports: Sequence[Reading]) -> str:
    """The reports as a plain-text table."""
    names = ("told", "odd", "odd_captions", "both_true", "false", "first", "steady")
    rows = [
        ["reader", "reading", "operator", "negatives", *(name.replace("_", " ") + ", %" for name in names), "unread"]
    ]
    for one in reports:
        cells = [with_interval(getattr(one, name)) for name in names]
        rows.append([one.reader, one.reading, one.operator, f"{one.negatives:,}", *cells, f"{one.unread:,}"])
    return "\n".join(aligned(rows))
