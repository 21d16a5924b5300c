"""Evaluate filled annotation sheets and the table verdicts: how many negatives are valid and fluent, and agreement."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

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


def agree(sheets: Sequence[Path], key: Path | None = None) -> dict[str, Any]:
    """Evaluate filled-in sheets: one per annotator, or with vote columns `describes_NAME` for several; key: None for
    the only `*.key.csv` beside the first. Returns `operators`: of each, all and the controls what `judge_votes` finds;
    `annotators`: name, number of votes, and the share of `controls` answered right, None if none; `invalid`: the ids of
    negatives that the majority does not find valid; `unanswered`: the number of items without a vote. Raises
    ValueError, with file and line, for invalid votes and items, or no votes at all; FileNotFoundError without a key.
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
        annotators.append({"name": str(name), "votes": int(some["describes"].notna().sum()), "controls": right})
    return {
        "operators": [judge_votes(name, some) for name, some in groups.items() if some["describes"].notna().any()],
        "annotators": annotators,
        "invalid": [item.id for item in items.values() if item.item in invalid],
        "unanswered": len(items) - voted["item"].nunique(),
    }


def _majorities(votes: pd.DataFrame, question: str, *wanted: str) -> pd.Series:
    """By item with votes, whether more than half of them are one of those wanted."""
    given = votes[votes[question].notna()]
    return given[question].isin(wanted).groupby(given["item"]).mean() > 0.5


def judge_votes(name: str, votes: pd.DataFrame) -> dict[str, Any]:
    """The annotators' judgement, under a name, of votes (see `read_sheets`) on negatives, or on controls: shares of
    items in % with 95 % Wilson intervals, by majorities of votes (more than half). valid: only the caption describes
    the image (of controls: both texts); false: the second text does not; fluent: it is, None without votes. alpha,
    alpha_fluent: Krippendorff's of the votes on both questions, None if undefined.
    """

    def share(question: str, *wanted: str) -> Accuracy:
        says = _majorities(votes, question, *wanted)
        return accuracy(int(says.sum()), len(says))

    describes = votes["describes"].dropna()
    alphas = [alpha(votes.pivot(index="item", columns="annotator", values=question)) for question in VOTES]
    return {
        "name": name,
        "items": votes.loc[describes.index, "item"].nunique(),
        "votes": len(describes),
        "valid": share("describes", "caption" if (votes["kind"] == NEGATIVE).all() else "both"),
        "false": share("describes", "caption", "neither"),
        "fluent": share("fluent", "text", "both") if votes["fluent"].notna().any() else None,
        **dict(zip(("alpha", "alpha_fluent"), alphas, strict=True)),
    }


def to_text(report: Mapping[str, Any]) -> str:
    """What `agree` found as plain-text tables."""
    rows = [["", "items", "votes", "valid, %", "false, %", "fluent, %", "alpha", "alpha fluent"]]
    for one in report["operators"]:
        shares = [with_interval(one[name]) for name in ("valid", "false", "fluent")]
        alphas = ["–" if one[name] is None else f"{one[name]:.3f}" for name in ("alpha", "alpha_fluent")]
        rows.append([one["name"], f"{one['items']:,}", f"{one['votes']:,}", *shares, *alphas])
    people = [["annotator", "votes", "controls right, %"]]
    people += [[one["name"], f"{one['votes']:,}", with_interval(one["controls"])] for one in report["annotators"]]
    lines = [*aligned(rows), "", *aligned(people)]
    if report["unanswered"]:
        lines += ["", f"{report['unanswered']:,} items have no vote and are left out"]
    return "\n".join(lines)


def read_reports(run: Path) -> list[dict[str, Any]]:
    """What readers said, by a run's table verdicts: by reader and reading, of each operator and, if several, of all.

    unread: questions without a verdict. In %, with 95 % intervals corrected for several negatives of an image, None if
    not asked: told: the caption is taken for the person's; odd, odd_captions: the negative, the caption is; both_true:
    one photo fits both; false: the negative is, of the photo; first: the first text was chosen (50: no preference);
    steady: the same one in both orders.
    """
    reports, verdicts = list[dict[str, Any]](), pa.concat_tables(read_table(run, "verdicts")).to_pandas()
    for (reader, reading), rows in verdicts.groupby(["reader", "reading"]):
        groups = {str(operator): some for operator, some in rows.groupby("operator")}
        groups |= {ALL: rows} if len(groups) > 1 else {}
        for name, some in groups.items():
            reports.append({"reader": str(reader), "reading": str(reading), "operator": name, **_reading(some)})
    return reports


def _reading(rows: pd.DataFrame) -> dict[str, Any]:
    """What one reader says of the pairs of an operator; rows: a question each, of the table verdicts."""
    read = rows[rows["problem"] == ""]
    blind, image = read[read["reading"] == "blind"], read[read["reading"] == "image"]
    told = blind["told"].eq(True)
    twice = blind[blind.groupby("negative_id")["told"].transform("size") > 1]
    agreed = twice.groupby("negative_id", sort=False)["told"].transform("nunique") == 1
    return {
        "negatives": read["negative_id"].nunique(),
        "unread": len(rows) - len(read),
        "told": _share(blind, told),
        "odd": _share(read, read["odd"].isin(["negative", "both"])),
        "odd_captions": _share(blind, blind["odd"].isin(["caption", "both"])),
        "both_true": _share(blind, blind["both_true"].eq(True)),
        "false": _share(image, image["false"].eq(True)),
        "first": _share(blind, told == (blind["first"] == "caption")),
        "steady": _share(twice, agreed),
    }


def _share(rows: pd.DataFrame, holds: pd.Series) -> Accuracy | None:
    """The share of negatives for which an answer holds; its mean over the orders in which a pair was read."""
    if not len(rows):
        return None
    means = holds.groupby([rows["negative_id"], rows["image_id"]], sort=False).mean()
    return by_image(means.tolist(), means.index.get_level_values("image_id"))


def readings_text(reports: Sequence[Mapping[str, Any]]) -> str:
    """The reports as a plain-text table."""
    names = ("told", "odd", "odd_captions", "both_true", "false", "first", "steady")
    shares = [name.replace("_", " ") + ", %" for name in names]
    rows = [["reader", "reading", "operator", "negatives", *shares, "unread"]]
    for one in reports:
        cells = [one["reader"], one["reading"], one["operator"], f"{one['negatives']:,}"]
        rows.append([*cells, *(with_interval(one[name]) for name in names), f"{one['unread']:,}"])
    return "\n".join(aligned(rows))
