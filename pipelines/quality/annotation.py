"""Human validation: annotation sheets, and what filled sheets and the table verdicts say of the negatives.

A sheet has caption and negative side by side in random order; its answer key says which is which. As in VALSE
(Parcalabescu et al. 2022), annotators see an image and two texts and say which of them describe it. Then it is counted
how many negatives are valid and fluent, and how far annotators agree.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypedDict

import numpy as np
import pyarrow as pa
from pydantic import Field

from ...augment.settings import AtLeastOne, Operators, Refined, Seed, Settings, Splits
from ...schemas.messages import number_of
from ..engine.storage import write_atomically
from ..engine.tables import read_table
from ..report.rows import Row, visible
from ..report.tables import text_table
from ..tables.columns import UNSPLIT, check_operators, check_splits, image_paths, kinds_of
from ..tables.pairs import with_true
from .accuracy import Accuracy, accuracy, by_image, with_interval
from .strata import sample_strata

if TYPE_CHECKING:
    import pandas as pd

# The letters of ids: no vowels and no digits, so that an id is neither a word nor a number.
LETTERS = "bcdfghjklmnpqrstvwxz"
SHEET = ("item", "image", "text_a", "text_b")  # columns of a sheet, before those for votes
VOTES = ("describes", "fluent")  # questions: which of the texts describes the image, which is fluent
KEY = ("item", "operator", "family", "split", "caption_id", "id", "caption_is", "caption", "text")
# A spreadsheet takes a cell that begins with one of these for a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")
# The number of letters in the id of an item.
ITEM_LETTERS = 8


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


class WrittenSheet(NamedTuple):
    """The files of a sheet and of its answer key, and the items that are on it."""

    sheet: Path
    key: Path
    items: list[Item]


def write_sheet(
    run: Path, output: Path, config: SheetConfig, key: Path | None = None, *, overwrite: bool = False
) -> WrittenSheet:
    """Write an annotation sheet and its key as CSV.

    Args:
        run: the folder of the run.
        output: the file of the sheet.
        config: what is on it.
        key: the file of the key; None for `SHEET.key.csv` beside the sheet.
        overwrite: whether files that exist are replaced; they may hold votes.

    Raises:
        FileExistsError: if one of the files exists, unless `overwrite`.
        IsADirectoryError: if one of them is a folder.
        FileNotFoundError: without negatives.
        ValueError: for operators or splits that the run lacks, or a key that is the sheet.
    """
    key = key or output.with_name(f"{output.stem}.key.csv")
    if key.resolve() == output.resolve():
        raise ValueError(f"key must be another file than the sheet, was: {key}")
    for file in (output, key):
        if file.is_dir():
            raise IsADirectoryError(f"{file} must be a CSV file to write, is a folder")
        if file.exists() and not overwrite:
            raise FileExistsError(f"{file} is there already and may hold votes (--overwrite replaces it)")
    sheet_items = items(run, config)
    image_of_caption = image_paths(run, "caption_id", {item.caption_id for item in sheet_items})
    lines = [[*SHEET, *VOTES]]
    for item in sheet_items:
        texts = [item.caption, item.text] if item.caption_is == "a" else [item.text, item.caption]
        no_votes = ["" for _ in VOTES]
        lines.append([item.item, image_of_caption[item.caption_id], *texts, *no_votes])
    write_atomically(output, _csv(lines))
    write_atomically(key, _csv([KEY, *sheet_items]))
    return WrittenSheet(output, key, sheet_items)


def items(run: Path, config: SheetConfig) -> list[Item]:
    """The items of a sheet, in random order that depends only on the run and the seed."""
    table = "refined" if config.refined else "negatives"
    kinds = kinds_of(run, table)
    check_splits(config.splits, (kind.split for kind in kinds), run / table)
    in_splits = [kind for kind in kinds if not config.splits or (kind.split or UNSPLIT) in config.splits]
    check_operators(config.operators, {kind.operator for kind in in_splits}, run / table)
    only = {"operator": config.operators, "split": config.splits}
    strata = sample_strata(run, table, ["operator"], config.n, config.seed, first=True, only=only)
    if not strata:
        raise ValueError(f"{run / table} has no negatives of these operators and splits")
    rows = with_true(run, [row for rows_of_operator in strata.values() for row in rows_of_operator])
    return sorted(_item(row, config.seed) for row in rows)  # by their random ids


def summary(items: Sequence[Item]) -> str:
    """The size of a sheet in words: `450 pairs (50 noun, …)`."""
    counts = Counter(item.operator for item in items)
    return f"{number_of(len(items), 'pair')} ({', '.join(f'{n:,} {name}' for name, n in sorted(counts.items()))})"


def _item(row: Row, seed: int) -> Item:
    """The item of a negative, under an id of eight letters; seed and negative_id decide the id and the caption's side.

    A hash is used in place of a random generator, so that an item does not depend on the others of the sheet.
    """
    hashed = blake2b(f"{seed}\x1f{row['negative_id']}".encode(), digest_size=8).digest()
    number = int.from_bytes(hashed, "little")
    # The lowest bit chooses the side; the rest, as a number whose digits are the letters, gives the id.
    number, side = divmod(number, 2)
    letters = []
    for _ in range(ITEM_LETTERS):
        number, letter = divmod(number, len(LETTERS))
        letters.append(LETTERS[letter])
    return Item(
        item="".join(letters),
        operator=row["operator"],
        family=row["family"],
        split=row["split"],
        caption_id=row["caption_id"],
        id=row["negative_id"],
        caption_is="ab"[side],
        caption=row["caption"],
        text=row["text"],
    )


def _csv(lines: Sequence[Sequence[str]]) -> bytes:
    """CSV for spreadsheets: UTF-8 with a byte order mark, and no cell that they would read as a formula."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    for line in lines:
        # A spreadsheet takes what stands behind an apostrophe for text.
        cells = [f"'{visible(value)}" if value.startswith(FORMULA) else visible(value) for value in line]
        writer.writerow(cells)
    return text.getvalue().encode("utf-8-sig")


def krippendorff_alpha(votes: pd.DataFrame) -> float | None:
    """Krippendorff's alpha for nominal values, 1 - D_o / D_e of the coincidence matrix.

    As in Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", C.

    votes: a row per item, a column per annotator, null without a vote. Returns None if it is undefined: no item has two
    votes, or all votes are equal.
    """
    import pandas as pd

    given = votes.reset_index(drop=True).stack().dropna()
    counts = pd.crosstab(given.index.get_level_values(0), given.to_numpy()).to_numpy(float)  # (items, answers)
    counts = counts[counts.sum(axis=1) > 1]  # an item with one vote says nothing of agreement
    shares = counts / (counts.sum(axis=1, keepdims=True) - 1)
    # (answers, answers): each pair of votes on an item counts 1 / (its votes - 1); a vote makes no pair with itself.
    coincidences = shares.T @ counts - np.diag(shares.sum(axis=0))
    totals = coincidences.sum(axis=0)
    votes_in_pairs = totals.sum()
    observed = votes_in_pairs - np.trace(coincidences)
    expected = votes_in_pairs * votes_in_pairs - (totals**2).sum()
    return float(1 - (votes_in_pairs - 1) * observed / expected) if expected else None


ANSWERS = ("a", "b", "both", "neither", "unsure")  # the votes on a sheet; a and b are the two texts
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
    """Read a sheet or key: a row per item, indexed by its line in the file; the cells without spaces around them.

    Args:
        file: a CSV as an annotator's spreadsheet has written it, with any delimiter; empty rows are left out.
        columns: that it must have, "item" among them.
        known: the items that it may have, those of the key; None for any.

    Raises:
        ValueError: with file and line, for a file that cannot be read, and a missing column or wrong item.
    """
    import pandas as pd

    try:
        with file.open(encoding="utf-8-sig") as text:
            head = text.readline()
        delimiter = max(",;\t", key=head.count)  # the most frequent one in the head
        # Blank lines are kept for now, so that the row number gives the line.
        rows = pd.read_csv(
            file,
            encoding="utf-8-sig",
            sep=delimiter,
            dtype=str,
            keep_default_na=False,
            index_col=False,
            skip_blank_lines=False,
        )
    except (UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise ValueError(f"{file}: must be a CSV in UTF-8, cannot be read: {error}") from None
    # The index is the line in the file from now on: the head is line 1, row 0 stands in line 2.
    rows = rows.rename(columns=str.strip, index=lambda row: row + 2).map(str.strip)
    lacking = [name for name in columns if name not in rows]
    if lacking:
        raise ValueError(f"{file}:1: must have the columns {', '.join(columns)}, lacks: {', '.join(lacking)}")
    rows = rows[(rows != "").any(axis=1)]
    items = rows["item"]
    _check_items(file, items, items.duplicated(), "occurs twice")
    if known is not None:
        _check_items(file, items, ~items.isin(known), "is none of the key's")
    return rows


def _check_items(file: Path, items: pd.Series, wrong: pd.Series, problem: str) -> None:
    """Raise ValueError, with file and line of the first wrong item, if there is one.

    items: the ids. wrong: whether each is wrong. Both are indexed by line.
    """
    if wrong.any():
        raise ValueError(f"{file}:{wrong.idxmax()}: item {items[wrong].iloc[0]} {problem}")


def _check_words(file: Path, cells: pd.Series, words: Sequence[str]) -> None:
    """Raise ValueError, with the file and line of the first one, if cells of a column are none of these words."""
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
    """The votes on filled-in sheets: a row per item and annotator.

    Args:
        files: the sheets, one per annotator.
        items: of the key, by the id of the item.

    Returns:
        The columns item, operator, id (of the negative), annotator, and one for each question of VOTES with what is
        meant: "caption" or "text" (the negative), "both", "neither", "unsure", null without a vote.

    Raises:
        ValueError: with file and line, for another word, an item that is not in the key or occurs twice, or if there is
            no vote at all.
    """
    import pandas as pd

    if len({file.resolve() for file in files}) < len(files):
        raise ValueError(f"every sheet must be given once, were: {', '.join(map(str, files))}")
    key = pd.DataFrame(items.values(), columns=[*KEY]).set_index("item")
    sheets = []
    for file in files:
        rows = _read(file, ("item", *VOTES), items)
        key_rows = key.loc[rows["item"]].reset_index()
        sheet = key_rows[["item", "operator", "id"]].assign(annotator=str(file))
        for question in VOTES:
            votes = rows[question].str.lower()
            _check_words(file, votes, ("", *ANSWERS))
            votes = votes.reset_index(drop=True)
            # "a" and "b" are sides of the sheet: the caption's side becomes "caption", the other one "text".
            is_side = votes.isin(["a", "b"])
            is_side_of_caption = votes == key_rows["caption_is"]
            meant = votes.mask(is_side, "text").mask(is_side_of_caption, "caption")
            sheet[question] = meant.where(meant != "", None)
        sheets.append(sheet)
    all_votes = pd.concat(sheets, ignore_index=True)
    if not all_votes["describes"].notna().any():
        raise ValueError(f"no votes in {', '.join(map(str, files))}: the column describes is empty")
    return all_votes


class VoteReport(TypedDict):
    """What annotators say of some negatives: shares in %, with 95 % Wilson intervals, of the negatives of which more
    than half of an item's votes say so.

    Attributes:
        name: of the operator, or `all`.
        items, votes: how many negatives have a vote on what describes the image, and how many such votes there are.
        valid: only the caption describes the image.
        false: the negative does not describe it.
        fluent: the negative is fluent; None without votes.
        alpha, alpha_fluent: Krippendorff's, of the votes on both questions; None if undefined.
    """

    name: str
    items: int
    votes: int
    valid: Accuracy
    false: Accuracy
    fluent: Accuracy | None
    alpha: float | None
    alpha_fluent: float | None


class AgreementReport(TypedDict):
    """What filled-in sheets say.

    Attributes:
        operators: of each operator and, if there are several, of all.
        invalid: the ids of the negatives that the majority does not find valid.
        unanswered: the number of items without a vote.
    """

    operators: list[VoteReport]
    invalid: list[str]
    unanswered: int


def agree(sheets: Sequence[Path], key: Path | None = None) -> AgreementReport:
    """Evaluate filled-in sheets, one per annotator. key: the file of their answer key; None: the only `*.key.csv`
    beside the first sheet.

    Returns a report on each operator with votes and, if the key has several operators, on all together; the
    negative_ids of the invalid negatives, those that most annotators do not find false of the image; and how many items
    have no votes. Raises ValueError, with file and line, for invalid votes and items, or no votes at all;
    FileNotFoundError without a key.
    """
    if not sheets:
        raise ValueError("sheets must be at least one file, were: none")
    items = read_key(key or find_key(sheets[0]))
    votes = read_sheets(sheets, items)
    groups = {}
    for operator, votes_of_operator in votes.groupby("operator"):
        if votes_of_operator["describes"].notna().any():
            groups[str(operator)] = votes_of_operator
    if len({item.operator for item in items.values()}) > 1:
        groups[ALL] = votes
    # By item: whether most votes say that only the caption describes the image. Items without votes are missing.
    is_valid = _majorities(votes, "describes", ["caption"])
    invalid_items = [item for name, item in items.items() if name in is_valid and not is_valid[name]]
    return {
        "operators": [judge_votes(name, votes_of_group) for name, votes_of_group in groups.items()],
        "invalid": [item.id for item in invalid_items],
        "unanswered": len(items) - len(is_valid),
    }


def _majorities(votes: pd.DataFrame, question: str, answers: Sequence[str]) -> pd.Series:
    """Whether more than half of an item's votes on a question are one of these answers: (items with a vote,) bool."""
    given = votes[votes[question].notna()]
    return given[question].isin(answers).groupby(given["item"]).mean() > 0.5


def judge_votes(name: str, votes: pd.DataFrame) -> VoteReport:
    """What annotators say of some negatives.

    Args:
        name: of the report: an operator, or `all`.
        votes: on the negatives, a row per item and annotator, see `read_sheets`.
    """

    def share(question: str, answers: Sequence[str]) -> Accuracy:
        """The share of items for which most votes on a question are one of these answers."""
        answered_so = _majorities(votes, question, answers)
        return accuracy(int(answered_so.sum()), len(answered_so))

    def alpha(question: str) -> float | None:
        """The agreement of the votes on a question."""
        return krippendorff_alpha(votes.pivot(index="item", columns="annotator", values=question))

    describes = votes["describes"].dropna()
    return {
        "name": name,
        "items": votes.loc[describes.index, "item"].nunique(),
        "votes": len(describes),
        "valid": share("describes", ["caption"]),
        "false": share("describes", ["caption", "neither"]),
        "fluent": share("fluent", ["text", "both"]) if votes["fluent"].notna().any() else None,
        "alpha": alpha("describes"),
        "alpha_fluent": alpha("fluent"),
    }


def to_text(agreement: AgreementReport) -> str:
    """The agreement that `agree` has measured, as plain-text tables."""
    rows = [["", "items", "votes", "valid, %", "false, %", "fluent, %", "alpha", "alpha fluent"]]
    for report in agreement["operators"]:
        shares = [with_interval(share) for share in (report["valid"], report["false"], report["fluent"])]
        alphas = ["–" if alpha is None else f"{alpha:.3f}" for alpha in (report["alpha"], report["alpha_fluent"])]
        rows.append([report["name"], f"{report['items']:,}", f"{report['votes']:,}", *shares, *alphas])
    lines = text_table(rows)
    if agreement["unanswered"]:
        lines += ["", f"left out, as they have no vote: {number_of(agreement['unanswered'], 'item')}"]
    return "\n".join(lines)


class ReadingReport(TypedDict):
    """What a reader (a language model) says of the negatives of an operator, or of all, in one kind of reading.

    Shares are in %, with 95 % intervals corrected for several negatives of an image; None if it was not asked.

    Attributes:
        reader: the name of the language model.
        reading: `blind`, or with the `image`.
        operator: of the negatives, or `all`.
        negatives: the number of negatives with a verdict.
        told: the share of pairs of which the caption was taken for the text that a person wrote.
        odd, odd_captions: the shares of negatives, and of captions, that were called odd.
        both_true: the share of pairs of which one photo could be described by both texts.
        false: the share of negatives that were called false of the photo.
        first: how often the first of two texts was chosen; 50: no preference.
        steady: the share of pairs of which the same text was chosen in both orders.
        unread: the number of questions without a verdict.
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


def read_reports(run: Path) -> list[ReadingReport]:
    """What readers, such as language models, answered about a run's negatives, by its table verdicts.

    A report for each reader, way of reading ("blind" or with the "image") and operator; of several operators also one
    over all.
    """
    reports = list[ReadingReport]()
    verdicts = pa.concat_tables(read_table(run, "verdicts")).to_pandas()
    for (reader, reading), rows in verdicts.groupby(["reader", "reading"]):
        groups = {str(operator): rows_of_operator for operator, rows_of_operator in rows.groupby("operator")}
        if len(groups) > 1:
            groups[ALL] = rows
        reports += [_reading_report(str(reader), str(reading), name, group) for name, group in groups.items()]
    return reports


def _reading_report(reader: str, reading: str, operator: str, rows: pd.DataFrame) -> ReadingReport:
    """The shares that one reader's answers give for the pairs of an operator.

    rows: of the table verdicts, one for each question that the reader was asked. A pair may be asked twice, with the
    caption first and with the negative first.
    """
    read = rows[rows["problem"] == ""]
    blind = read[read["reading"] == "blind"]
    image = read[read["reading"] == "image"]
    told = blind["told"].eq(True)  # whether the caption was chosen as the text that a person wrote
    questions_on_pair = blind.groupby("negative_id")["told"].transform("size")
    in_both_orders = blind[questions_on_pair > 1]
    # One different answer means that the same text was chosen in both orders.
    different_answers = in_both_orders.groupby("negative_id", sort=False)["told"].transform("nunique")
    return {
        "reader": reader,
        "reading": reading,
        "operator": operator,
        "negatives": read["negative_id"].nunique(),
        "unread": len(rows) - len(read),
        "told": _share(blind, told),
        "odd": _share(read, read["odd"].isin(["negative", "both"])),
        "odd_captions": _share(blind, blind["odd"].isin(["caption", "both"])),
        "both_true": _share(blind, blind["both_true"].eq(True)),
        "false": _share(image, image["false"].eq(True)),
        # the caption was chosen and came first, or neither: the text that came first was chosen
        "first": _share(blind, told == (blind["first"] == "caption")),
        "steady": _share(in_both_orders, different_answers == 1),
    }


def _share(rows: pd.DataFrame, answered_so: pd.Series) -> Accuracy | None:
    """The share of negatives that were answered in a certain way, with its interval over images; None without rows.

    Args:
        rows: the answers, with negative_id and image_id. A pair that was read in both orders has two.
        answered_so: (rows,) bool. The answers to one pair count together as one, their mean.
    """
    if not len(rows):
        return None
    means = answered_so.groupby([rows["negative_id"], rows["image_id"]], sort=False).mean()
    return by_image(means.tolist(), means.index.get_level_values("image_id"))


def readings_text(reports: Sequence[ReadingReport]) -> str:
    """The reports as a plain-text table."""
    head = ["told", "odd", "odd captions", "both true", "false", "first", "steady"]
    rows = [["reader", "reading", "operator", "negatives", *(f"{name}, %" for name in head), "unread"]]
    for report in reports:
        shares = [report["told"], report["odd"], report["odd_captions"], report["both_true"]]
        shares += [report["false"], report["first"], report["steady"]]
        cells = [report["reader"], report["reading"], report["operator"], f"{report['negatives']:,}"]
        rows.append([*cells, *map(with_interval, shares), f"{report['unread']:,}"])
    return "\n".join(text_table(rows))
