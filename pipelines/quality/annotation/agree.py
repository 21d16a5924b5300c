"""Evaluate annotation sheets, and what language models said of the same negatives (the table verdicts): how many are
valid and fluent, how well annotators agree, and how well the models agree with them.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...engine.tables import read_table
from ..aligned import aligned
from ..bias import Accuracy, accuracy, by_image
from ..bias.pairs import with_interval
from .sheet import KEY, NEGATIVE, VOTES, Item


def alpha(votes: Sequence[Sequence[object]]) -> float | None:
    """Krippendorff's alpha for nominal values: one row of votes per item, where None is a missing vote.

    1 - D_o / D_e of the coincidence matrix (Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", C):
    1 is perfect agreement, 0 chance. Items with fewer than two votes do not count. Returns None if alpha is undefined:
    no item has two votes, or all votes are equal.
    """
    values = sorted({str(vote) for unit in votes for vote in unit if vote is not None})
    number = {value: i for i, value in enumerate(values)}
    counts = np.zeros((len(votes), len(values)))
    for row, unit in zip(counts, votes, strict=True):
        for vote in unit:
            if vote is not None:
                row[number[str(vote)]] += 1
    given = counts.sum(axis=1)
    counts, given = counts[given > 1], given[given > 1]
    coincidences = (counts / (given - 1)[:, None]).T @ counts - np.diag((counts / (given - 1)[:, None]).sum(axis=0))
    totals = coincidences.sum(axis=0)
    n = totals.sum()
    expected = n * n - (totals**2).sum()
    if not expected:
        return None
    observed = n - np.trace(coincidences)
    return float(1 - (n - 1) * observed / expected)


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


ALL, CONTROLS = "all", "controls"


@dataclass(frozen=True)
class Agreement:
    """The annotators' judgement of one operator's negatives: shares of items in %, with 95 % Wilson intervals.

    A majority is more than half of an item's votes. valid: the majority says that only the caption describes the image;
    false: it says that the negative does not describe the image, whatever it says of the caption; fluent: it says that
    the negative is fluent, None without votes on fluency. alpha, alpha_fluent: Krippendorff's alpha of the votes on
    which texts describe the image and which are fluent, None if undefined. For controls, whose two texts are both true,
    `valid` means that the majority says so, `false` that it says that the second text does not describe the image.
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
    """The result of the evaluation.

    operators: one entry per operator, then all negatives together and the controls; invalid: ids of negatives that the
    majority does not find valid; unanswered: number of items without a vote.
    """

    operators: Sequence[Agreement]
    annotators: Sequence[Annotator]
    invalid: Sequence[str]
    unanswered: int


def agree(sheets: Sequence[Path], key: Path | None = None) -> Report:
    """Read filled-in sheets and their key, and evaluate the votes.

    sheets: one per annotator, or with vote columns `describes_NAME` for several; key: None for the only `*.key.csv`
    beside the first sheet. Raises ValueError for invalid votes, items that are not in the key or occur twice (with file
    and line), or no votes at all; FileNotFoundError if there is no key.
    """
    if not sheets:
        raise ValueError("sheets must be at least one file, were: none")
    items = read_key(key or find_key(sheets[0]))
    read = read_sheets(sheets, items)
    groups: dict[str, list[Item]] = {}
    for item in items.values():
        groups.setdefault(item.operator if item.kind == NEGATIVE else CONTROLS, []).append(item)
    negatives = [item for item in items.values() if item.kind == NEGATIVE]
    controls = groups.pop(CONTROLS, [])
    named = [*sorted(groups.items()), *([(ALL, negatives)] if len(groups) > 1 else []), (CONTROLS, controls)]
    judged = [
        judge_votes(name, some, read) for name, some in named if any(_votes(item, read.describes) for item in some)
    ]
    voted = {item.item for item in items.values() if _votes(item, read.describes)}
    invalid = [item.id for item in negatives if item.item in voted and not _valid(item, read)]
    annotators = [_annotator(name, controls, read) for name in read.annotators]
    return Report(judged, annotators, invalid, len(items) - len(voted))


def _votes(item: Item, votes: Votes) -> list[str]:
    """The votes on an item, with the sides a and b replaced by what is on them: "caption" or "text"."""
    sides = {item.caption_is: "caption", "ab".replace(item.caption_is, ""): "text"}
    return [sides.get(own[item.item], own[item.item]) for own in votes.values() if item.item in own]


def says_false(item: Item, read: Sheets) -> list[bool]:
    """Whether each vote on a negative says that it does not describe the image, in the order of the annotators."""
    return [vote in ("caption", "neither") for vote in _votes(item, read.describes)]


def reads_well(item: Item, read: Sheets) -> list[bool]:
    """Whether each vote on a negative says that it is fluent; votes in the order of the annotators."""
    return [vote in ("text", "both") for vote in _votes(item, read.fluent)]


def _majority(votes: Sequence[str], *wanted: str) -> bool:
    return 2 * sum(vote in wanted for vote in votes) > len(votes)


def _valid(item: Item, read: Sheets) -> bool:
    return _majority(_votes(item, read.describes), "caption" if item.kind == NEGATIVE else "both")


def judge_votes(name: str, items: Sequence[Item], read: Sheets) -> Agreement:
    """The annotators' judgement of some items, at least one of which must have votes. name: of the result, such as an
    operator.
    """
    describes = [votes for item in items if (votes := _votes(item, read.describes))]
    fluent = [votes for item in items if (votes := _votes(item, read.fluent))]
    valid = [_valid(item, read) for item in items if _votes(item, read.describes)]
    false = [_majority(votes, "caption", "neither") for votes in describes]
    fluently = [_majority(votes, "text", "both") for votes in fluent]
    return Agreement(
        name,
        len(describes),
        sum(map(len, describes)),
        accuracy(sum(valid), len(valid)),
        accuracy(sum(false), len(false)),
        accuracy(sum(fluently), len(fluent)) if fluent else None,
        alpha(describes),
        alpha(fluent),
    )


def _annotator(name: str, controls: Sequence[Item], read: Sheets) -> Annotator:
    own = {name: read.describes[name]}
    answers = [votes[0] for item in controls if (votes := _votes(item, own))]
    correct = accuracy(sum(vote == "both" for vote in answers), len(answers)) if answers else None
    return Annotator(name, len(read.describes[name]), correct)


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


def to_json(report: Report) -> str:
    """The report as JSON."""
    return json.dumps(asdict(report), indent=1, ensure_ascii=False)


Row = Mapping[str, Any]


@dataclass(frozen=True)
class Reading:
    """What one reader said of the negatives of one operator, read blind or with the photo.

    negatives: their number; unread: questions without a verdict (malformed or refused answers, missing images). In %,
    with 95 % intervals corrected for several negatives of an image: told: the caption was taken for the person's;
    odd: the negative is odd; odd_captions: the caption is; both_true: one photo could be described by both; false: the
    negative is false of the photo. first: the text that stood first was chosen (50: no preference). steady: the same
    text was chosen in both orders. None where the reading does not ask for it.
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


def verdicts_of(run: Path) -> list[dict[str, Any]]:
    """The rows of a run's table verdicts (what language models say of its negatives). Raises FileNotFoundError if it
    has none.
    """
    return [row for table in read_table(run, "verdicts") for row in table.to_pylist()]


def read_reports(run: Path) -> list[Reading]:
    """The reports of a run: by reader and reading, one of each operator and, if there are several, one of all."""
    groups: dict[tuple[str, str], dict[str, list[Row]]] = {}
    for row in verdicts_of(run):
        groups.setdefault((row["reader"], row["reading"]), {}).setdefault(row["operator"], []).append(row)
    reports = []
    for (reader, reading), operators in sorted(groups.items()):
        named = sorted(operators.items())
        if len(named) > 1:
            named.append((ALL, [row for rows in operators.values() for row in rows]))
        reports += [_reading(reader, reading, name, rows) for name, rows in named]
    return reports


def _reading(reader: str, reading: str, operator: str, rows: Sequence[Row]) -> Reading:
    read = [row for row in rows if not row["problem"]]
    blind = [row for row in read if row["reading"] == "blind"]
    image = [row for row in read if row["reading"] == "image"]
    chosen: dict[str, list[bool]] = {}
    for row in blind:
        chosen.setdefault(row["negative_id"], []).append(row["told"])
    images = {row["negative_id"]: row["image_id"] for row in blind}
    twice = {key: told for key, told in chosen.items() if len(told) > 1}
    return Reading(
        reader,
        reading,
        operator,
        len({row["negative_id"] for row in read}),
        len(rows) - len(read),
        _share(blind, lambda row: row["told"]),
        _share(read, lambda row: row["odd"] in ("negative", "both")),
        _share(blind, lambda row: row["odd"] in ("caption", "both")),
        _share(blind, lambda row: row["both_true"]),
        _share(image, lambda row: row["false"]),
        _share(blind, lambda row: row["told"] == (row["first"] == "caption")),
        by_image([float(len(set(told)) == 1) for told in twice.values()], [images[key] for key in twice])
        if twice
        else None,
    )


def _share(rows: Iterable[Row], holds: Callable[[Row], bool]) -> Accuracy | None:
    """The share of negatives for which an answer holds; its mean over the orders in which a pair was read."""
    found: dict[str, tuple[str, list[bool]]] = {}
    for row in rows:
        found.setdefault(row["negative_id"], (row["image_id"], []))[1].append(bool(holds(row)))
    if not found:
        return None
    return by_image([sum(said) / len(said) for _, said in found.values()], [image for image, _ in found.values()])


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


def readings_json(reports: Sequence[Reading]) -> str:
    """The reports as JSON."""
    return json.dumps([asdict(one) for one in reports], indent=1, ensure_ascii=False)


@dataclass(frozen=True)
class Beside:
    """One question on which a reader and the majority of the annotators have both answered for `items` negatives.

    question: `false` (the negative does not describe the photo; a reader who has not seen it says so if no photo could
    be described by both texts) or `fluent`. Confusion: both_yes, people_only, reader_only, both_no: the number of
    negatives of which both, only the people, only the reader, or neither say yes. alpha: Krippendorff's, of the reader
    and the majority; alpha_with: of the reader and all annotators; alpha_people: of the annotators alone. None if
    undefined.
    """

    reader: str
    reading: str
    question: str
    items: int
    both_yes: int
    people_only: int
    reader_only: int
    both_no: int
    alpha: float | None
    alpha_with: float | None
    alpha_people: float | None


def beside(sheets: Sequence[Path], run: Path, key: Path | None = None) -> list[Beside]:
    """Compare the verdicts in a run with annotation sheets of its negatives, by reader and reading.

    Raises ValueError if there is no negative on which both have answered, and as `agree` and `verdicts_of`.
    """
    items = read_key(key or find_key(sheets[0]))
    read = read_sheets(sheets, items)
    negatives = [item for item in items.values() if item.kind == NEGATIVE]
    answers: dict[tuple[str, str, str], dict[str, list[bool]]] = {}
    for row in verdicts_of(run):
        if row["problem"]:
            continue
        said = {"false": row["false"] if row["reading"] == "image" else not row["both_true"]}
        said["fluent"] = row["odd"] not in ("negative", "both")
        for question, yes in said.items():
            by_negative = answers.setdefault((row["reader"], row["reading"], question), {})
            by_negative.setdefault(row["negative_id"], []).append(bool(yes))
    found = [
        one
        for (reader, reading, question), said_of in sorted(answers.items())
        if (one := _compare(reader, reading, question, negatives, read, said_of)) is not None
    ]
    if not found:
        raise ValueError(f"the sheets and the verdicts of {run} have no negative in common")
    return found


def _compare(
    reader: str,
    reading: str,
    question: str,
    negatives: Sequence[Item],
    read: Sheets,
    said: Mapping[str, Sequence[bool]],
) -> Beside | None:
    """The comparison on one question; a reader who was asked twice says yes if it did so each time."""
    ask: Callable[[Item, Sheets], list[bool]] = says_false if question == "false" else reads_well
    units: list[tuple[list[bool], bool]] = []
    for item in negatives:
        votes = ask(item, read)
        if votes and item.id in said:
            units.append((votes, all(said[item.id])))
    if not units:
        return None
    pairs = [(2 * sum(votes) > len(votes), own) for votes, own in units]
    return Beside(
        reader,
        reading,
        question,
        len(units),
        pairs.count((True, True)),
        pairs.count((True, False)),
        pairs.count((False, True)),
        pairs.count((False, False)),
        alpha(pairs),
        alpha([[*votes, own] for votes, own in units]),
        alpha([votes for votes, _ in units]),
    )


def beside_text(found: Sequence[Beside]) -> str:
    """The comparisons as a plain-text table."""
    head = ["reader", "reading", "question", "negatives", "both yes", "people only", "reader only", "both no"]
    rows = [[*head, "alpha", "alpha with people", "alpha of people"]]
    for one in found:
        counts: list[Any] = [one.items, one.both_yes, one.people_only, one.reader_only, one.both_no]
        alphas = ["–" if value is None else f"{value:.3f}" for value in (one.alpha, one.alpha_with, one.alpha_people)]
        rows.append([one.reader, one.reading, one.question, *(f"{n:,}" for n in counts), *alphas])
    return "\n".join(aligned(rows))
