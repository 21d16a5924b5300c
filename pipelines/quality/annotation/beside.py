"""Readers (language models) beside people: how far the verdicts on negatives agree with the votes of annotators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..aligned import aligned
from .agree import Sheets, alpha, find_key, read_key, read_sheets, reads_well, says_false
from .readers import verdicts_of
from .sheet import NEGATIVE, Item


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
        alpha([[str(one), str(other)] for one, other in pairs]),
        alpha(_padded([[*votes, own] for votes, own in units])),
        alpha(_padded([votes for votes, _ in units])),
    )


def _padded(units: Sequence[Sequence[bool]]) -> list[list[str | None]]:
    return [[str(vote) for vote in unit] for unit in units]


def to_text(found: Sequence[Beside]) -> str:
    """The comparisons as a plain-text table."""
    head = ["reader", "reading", "question", "negatives", "both yes", "people only", "reader only", "both no"]
    rows = [[*head, "alpha", "alpha with people", "alpha of people"]]
    for one in found:
        counts: list[Any] = [one.items, one.both_yes, one.people_only, one.reader_only, one.both_no]
        alphas = ["–" if value is None else f"{value:.3f}" for value in (one.alpha, one.alpha_with, one.alpha_people)]
        rows.append([one.reader, one.reading, one.question, *(f"{n:,}" for n in counts), *alphas])
    return "\n".join(aligned(rows))
