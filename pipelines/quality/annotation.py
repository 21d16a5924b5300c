"""Human validation. An annotation sheet: caption and negative side by side in random order; and its answer key. As in
VALSE (Parcalabescu et al. 2022), annotators see an image and two texts and say which of them describe it. Then filled
sheets, and the table verdicts: how many negatives are valid and fluent, and agreement.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from pydantic import Field

from ...augment.settings import AtLeastOne, Operators, Refined, Seed, Settings, Splits
from ...schemas.messages import number_of
from ..engine.storage import write_atomically
from ..engine.tables import read_table
from ..report.rows import visible
from ..tables.columns import UNSPLIT, check_operators, check_splits, kinds_of
from ..tables.pairs import with_true
from .accuracy import Accuracy, accuracy, aligned, by_image, with_interval
from .strata import Row, sample_strata

if TYPE_CHECKING:
    import pandas as pd

LETTERS = "bcdfghjklmnpqrstvwxz"  # no vowels and no digits, so that an id is neither a word nor a number
SHEET = ("item", "image", "text_a", "text_b")
VOTES = ("describes", "fluent")
KEY = ("item", "operator", "family", "split", "caption_id", "id", "caption_is", "caption", "text")
FORMULA = ("=", "+", "-", "@", "\t", "\r")


class SheetConfig(Settings):
    """The contents of an annotation sheet."""

    n: AtLeastOne = Field(50, description="examples per operator")
    seed: Seed = 0
    operators: Operators = ()
    splits: Splits = ()
    refined: Refined = False


class Item(NamedTuple):
    """A row of the key: the random id on the sheet; where the negative, `text`, comes from, and its `id`; the side ("a"
    or "b") of the caption.
    """

    item: str
    operator: str
    family: str
    split: str
    caption_id: str
    id: str
    caption_is: str
    caption: str
    text: str


def write_sheet(
    run: Path, output: Path, config: SheetConfig, key: Path | None = None, *, overwrite: bool = False
) -> tuple[Path, Path, list[Item]]:
    """Write the sheet and its key (None: `SHEET.key.csv` beside it) as CSV; returns their paths and the items. Raises
    FileExistsError if one exists (it may hold votes), unless `overwrite`; FileNotFoundError without negatives;
    ValueError for operators or splits that the run lacks, or a key that is the sheet.
    """
    key = key or output.with_name(f"{output.stem}.key.csv")
    if key.resolve() == output.resolve():
        raise ValueError(f"key must be another file than the sheet, was: {key}")
    for file in (output, key):
        if file.is_dir():
            raise IsADirectoryError(f"{file} must be a CSV file to write, is a folder")
        if file.exists() and not overwrite:
            raise FileExistsError(f"{file} is there already and may hold votes (--overwrite replaces it)")
    found = items(run, config)
    wanted = {item.caption_id for item in found}
    images = dict[str, str]()
    for rows in read_table(run, "captions", ("caption_id", "image")):
        named = zip(rows["caption_id"].to_pylist(), rows["image"].to_pylist(), strict=True)
        images |= {caption_id: image for caption_id, image in named if caption_id in wanted}
    lines = [[*SHEET, *VOTES]]
    for item in found:
        texts = (item.caption, item.text) if item.caption_is == "a" else (item.text, item.caption)
        lines.append([item.item, images[item.caption_id], *texts, *("" for _ in VOTES)])
    write_atomically(output, _csv(lines))
    write_atomically(key, _csv([list(KEY), *(list(item) for item in found)]))
    return output, key, found


def items(run: Path, config: SheetConfig) -> list[Item]:
    """The items of a sheet, in random order that depends only on the run and the seed."""
    table = "refined" if config.refined else "negatives"
    kinds = kinds_of(run, table)
    check_splits(config.splits, (kind.split for kind in kinds), run / table)
    made = {kind.operator for kind in kinds if not config.splits or (kind.split or UNSPLIT) in config.splits}
    check_operators(config.operators, made, run / table)
    only = {"operator": config.operators, "split": config.splits}
    drawn = sample_strata(run, table, ["operator"], config.n, config.seed, True, only)
    if not drawn:
        raise ValueError(f"{run / table} has no negatives of these operators and splits")
    rows = with_true(run, [row for rows in drawn.values() for row in rows])
    return sorted(_item(row, config.seed) for row in rows)


def summary(found: Sequence[Item]) -> str:
    """The size of a sheet in words: `450 pairs (50 noun, …)`."""
    counts = Counter(item.operator for item in found)
    return f"{number_of(len(found), 'pair')} ({', '.join(f'{n:,} {name}' for name, n in sorted(counts.items()))})"


def _item(row: Row, seed: int) -> Item:
    """An item of the sheet: its name of eight letters and the side of the caption depend on the seed and the id."""
    id = row["negative_id"]
    number = int.from_bytes(blake2b(f"{seed}\x1f{id}".encode(), digest_size=8).digest(), "little")
    letters = []
    number, side = divmod(number, 2)
    for _ in range(8):
        number, letter = divmod(number, len(LETTERS))
        letters.append(LETTERS[letter])
    of = {name: row[name] for name in ("operator", "family", "split", "caption_id", "caption", "text")}
    return Item(item="".join(letters), id=id, caption_is="ab"[side], **of)


def _csv(lines: Sequence[Sequence[str]]) -> bytes:
    """CSV for spreadsheets: UTF-8 with a byte order mark, and no cell that they would read as a formula."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(
        ["'" * value.startswith(FORMULA) + visible(value) for value in line] for line in lines
    )
    return text.getvalue().encode("utf-8-sig")


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


ANSWERS = ("a", "b", "both", "neither", "unsure")
ALL = "all"


def find_key(sheet: Path) -> Path:
    """The only key file in the folder of a sheet. Raises FileNotFoundError for none, ValueError for several."""
    keys = sorted(sheet.parent.glob("*.key.csv"))
    if not keys:
        raise FileNotFoundError(f"no *.key.csv beside {sheet}: give --key")
    if len(keys) > 1:
        raise ValueError(f"{len(keys)} keys beside {sheet} ({', '.join(key.name for key in keys)}): give --key")
    return keys[0]


def _read(file: Path, columns: Sequence[str], known: Collection[str] | None = None) -> pd.DataFrame:
    """The cells of a CSV, by whatever delimiter, less the spaces around them, a row per item, by line; empty rows are
    left out. known: the items that it may have, None for any. Raises ValueError, with file and line.
    """
    import pandas as pd

    try:
        with file.open(encoding="utf-8-sig") as text:
            head = text.readline()
        options: dict[str, Any] = {"sep": max(",;\t", key=head.count), "dtype": str, "keep_default_na": False}
        rows = pd.read_csv(file, encoding="utf-8-sig", index_col=False, skip_blank_lines=False, **options)
    except (UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise ValueError(f"{file}: must be a CSV in UTF-8, cannot be read: {error}") from None
    rows = rows.rename(columns=str.strip, index=lambda row: row + 2).map(str.strip)
    if lacking := [name for name in columns if name not in rows]:
        raise ValueError(f"{file}:1: must have the columns {', '.join(columns)}, lacks: {', '.join(lacking)}")
    rows = rows[(rows != "").any(axis=1)]
    items = rows["item"]
    for problem, wrong in (
        ("occurs twice", items.duplicated()),
        ("is none of the key's", ~items.isin(items if known is None else known)),
    ):
        if wrong.any():
            raise ValueError(f"{file}:{wrong.idxmax()}: item {items[wrong].iloc[0]} {problem}")
    return rows


def _check_words(file: Path, cells: pd.Series, words: Sequence[str]) -> None:
    wrong = cells[~cells.isin(words)]
    if len(wrong):
        rule = f"{cells.name} must be one of {', '.join(filter(None, words))}"
        raise ValueError(f"{file}:{wrong.index[0]}: {rule}, was: {wrong.iloc[0]!r}")


def read_key(file: Path) -> dict[str, Item]:
    """Read a key: its rows by item. Raises ValueError, with file and line, for an invalid one, or FileNotFoundError."""
    rows = _read(file, KEY)
    _check_words(file, rows["caption_is"], ("a", "b"))
    if not len(rows):
        raise ValueError(f"{file}: must have items, has none")
    return {row[0]: Item(*row) for row in rows[[*KEY]].itertuples(index=False)}


def read_sheets(files: Sequence[Path], items: Mapping[str, Item]) -> pd.DataFrame:
    """The votes on filled-in sheets, one per annotator: a row per item and annotator, with the key's operator and id,
    and for each question the side meant ("caption", "text"), both, neither, unsure or None. items: of the key, by id.
    Raises ValueError, with file and line, for another word, an item that is not in the key or occurs twice, or no votes
    at all.
    """
    import pandas as pd

    if len({file.resolve() for file in files}) < len(files):
        raise ValueError(f"every sheet must be given once, were: {', '.join(map(str, files))}")
    key = pd.DataFrame(items.values(), columns=[*KEY]).set_index("item")
    parts = []
    for file in files:
        rows = _read(file, ("item", *VOTES), items)
        of = key.loc[rows["item"]].reset_index()
        votes: dict[str, pd.Series] = {}
        for question in VOTES:
            given = rows[question].str.lower()
            _check_words(file, given, ("", *ANSWERS))
            given = given.reset_index(drop=True)
            meant = given.where(~given.isin(["a", "b"]), "text").where(given != of["caption_is"], "caption")
            votes[question] = meant.where(meant != "", None)
        parts.append(of[["item", "operator", "id"]].assign(annotator=str(file), **votes))
    found = pd.concat(parts, ignore_index=True)
    if not found["describes"].notna().any():
        raise ValueError(f"no votes in {', '.join(map(str, files))}: the column describes is empty")
    return found


def agree(sheets: Sequence[Path], key: Path | None = None) -> dict[str, Any]:
    """Evaluate filled-in sheets, one per annotator; key: None for the only `*.key.csv` beside the first. Returns
    `operators`: of each and all what `judge_votes` finds; `invalid`: the ids of negatives that the majority does not
    find valid; `unanswered`: the number of items without a vote. Raises ValueError, with file and line, for invalid
    votes and items, or no votes at all; FileNotFoundError without a key.
    """
    if not sheets:
        raise ValueError("sheets must be at least one file, were: none")
    items = read_key(key or find_key(sheets[0]))
    votes = read_sheets(sheets, items)
    groups = {str(name): some for name, some in votes.groupby("operator") if some["describes"].notna().any()}
    groups |= {ALL: votes} if len({item.operator for item in items.values()}) > 1 else {}
    valid = _majorities(votes, "describes", "caption")
    return {
        "operators": [judge_votes(name, some) for name, some in groups.items()],
        "invalid": [item.id for item in items.values() if not valid.get(item.item, True)],
        "unanswered": len(items) - len(valid),
    }


def _majorities(votes: pd.DataFrame, question: str, *wanted: str) -> pd.Series:
    """By item with votes, whether more than half of them are one of those wanted."""
    given = votes[votes[question].notna()]
    return given[question].isin(wanted).groupby(given["item"]).mean() > 0.5


def judge_votes(name: str, votes: pd.DataFrame) -> dict[str, Any]:
    """The annotators' judgement, under a name, of votes (see `read_sheets`) on negatives: shares of them in % with 95 %
    Wilson intervals, by majorities of votes (more than half). valid: only the caption describes the image; false: the
    negative does not; fluent: it is, None without votes. alpha, alpha_fluent: Krippendorff's of the votes on both
    questions, None if undefined.
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
        "valid": share("describes", "caption"),
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
    lines = aligned(rows)
    if report["unanswered"]:
        lines += ["", f"left out, as they have no vote: {number_of(report['unanswered'], 'item')}"]
    return "\n".join(lines)


def read_reports(run: Path) -> list[dict[str, Any]]:
    """What readers said, by a run's table verdicts: by reader and reading, of each operator and, if several, of all.

    unread: questions without a verdict. In %, with 95 % intervals corrected for several negatives of an image, None if
    not asked: told: the caption is taken for the person's; odd, odd_captions: the negative, the caption is; both_true:
    one photo fits both; false: the negative is, of the photo; first: the first text was chosen (50: no preference);
    steady: the same one in both orders.
    """
    reports = list[dict[str, Any]]()
    verdicts = pa.concat_tables(read_table(run, "verdicts")).to_pandas()
    for (reader, reading), rows in verdicts.groupby(["reader", "reading"]):
        groups = {str(operator): some for operator, some in rows.groupby("operator")}
        groups |= {ALL: rows} if len(groups) > 1 else {}
        for name, some in groups.items():
            reports.append({"reader": str(reader), "reading": str(reading), "operator": name, **_reading(some)})
    return reports


def _reading(rows: pd.DataFrame) -> dict[str, Any]:
    """What one reader says of the pairs of an operator; rows: a question each, of the table verdicts."""
    read = rows[rows["problem"] == ""]
    blind = read[read["reading"] == "blind"]
    image = read[read["reading"] == "image"]
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
