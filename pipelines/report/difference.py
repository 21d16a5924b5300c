"""Two runs compared by rows: which negatives both have, which only one of them has, and why the other has not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO, TypedDict

import pandas as pd

from ..engine.tables import read_table
from .rows import visible
from .summary import by_frequency, percent
from .tables import console_of, print_table, terminal_table

# Two rows with the same values in these columns are the same negative.
KEYS = ["caption_id", "operator", "text"]
WHY = ["reason", "detail"]  # columns that say why a candidate was rejected


class OperatorDifference(TypedDict):
    """The negatives of one operator in two runs.

    Attributes:
        both, added, removed: numbers of rows in both runs, in this run alone, and in the other run alone.
        why_added, why_removed: how often the run that lacks the rows gives each reason; `not drawn` for a negative that
            it did not try, `not built` for all of them if it did not run the operator.
        examples_added, examples_removed: some of the rows, with the reason if there is one.
        reasons: of candidates that both runs reject for different reasons, how often each "old -> new".
    """

    both: int
    added: int
    why_added: dict[str, int]
    examples_added: list[dict[str, str]]
    removed: int
    why_removed: dict[str, int]
    examples_removed: list[dict[str, str]]
    reasons: dict[str, int]


def difference(run: Path, other: Path, examples: int = 3) -> dict[str, OperatorDifference]:
    """Compare the negatives of `run` with those of `other`, by operator. Raises FileNotFoundError if one lacks any."""
    negatives = _distinct_rows(run, "negatives", KEYS)
    negatives = negatives.merge(_distinct_rows(other, "negatives", KEYS), "outer", indicator="side")
    new_rejections = _distinct_rows(run, "rejections", [*KEYS, *WHY])
    old_rejections = _distinct_rows(other, "rejections", [*KEYS, *WHY])
    # A candidate without a text cannot be found in the other run.
    rejected_twice = new_rejections[new_rejections["text"] != ""].merge(old_rejections, on=KEYS, suffixes=("", "_old"))
    differently = rejected_twice.query("reason != reason_old")
    differences: dict[str, OperatorDifference] = {}
    for operator in sorted(negatives["operator"].unique()):
        rows = negatives[negatives["operator"] == operator]
        both = int((rows["side"] == "both").sum())
        added = _rows_of_one_side(rows[rows["side"] == "left_only"], old_rejections, operator, both > 0)
        removed = _rows_of_one_side(rows[rows["side"] == "right_only"], new_rejections, operator, both > 0)
        other_reason = differently[differently["operator"] == operator]
        differences[operator] = {
            "both": both,
            "added": len(added.rows),
            "why_added": added.why(),
            "examples_added": added.examples(examples),
            "removed": len(removed.rows),
            "why_removed": removed.why(),
            "examples_removed": removed.examples(examples),
            "reasons": counted(other_reason["reason_old"] + " -> " + other_reason["reason"]),
        }
    return differences


def _distinct_rows(run: Path, table: str, columns: Sequence[str]) -> pd.DataFrame:
    """Some columns of a table, one row for each negative or candidate (see KEYS)."""
    parts = [part.select([*columns]).to_pandas() for part in read_table(run, table)]
    return pd.concat(parts).drop_duplicates(KEYS)


@dataclass(frozen=True)
class _OneSided:
    """The negatives of one operator that only one of two runs has, with the reasons of the run that lacks them.

    rows: with the columns KEYS and WHY, which are null if the row was not rejected. built: whether the run that lacks
    them ran the operator.
    """

    rows: pd.DataFrame
    built: bool

    def why(self) -> dict[str, int]:
        """How often the other run gives each reason."""
        return counted(self.rows["reason"].fillna("not drawn" if self.built else "not built"))

    def examples(self, number: int) -> list[dict[str, str]]:
        """The first rows, without null values; none if the other run did not run the operator, which explains all."""
        if not self.built:
            return []
        examples = []
        for row in self.rows.head(number).to_dict("records"):
            examples.append({name: row[name] for name in (*KEYS, *WHY) if isinstance(row[name], str)})
        return examples


def _rows_of_one_side(rows: pd.DataFrame, rejections: pd.DataFrame, operator: str, in_both: bool) -> _OneSided:
    """The rows that a run lacks, each with the reason if the run has rejected it.

    Args:
        rows: the negatives of an operator that only the other run has.
        rejections: of the run that lacks them.
        operator: its name.
        in_both: whether the run has other negatives of the operator.
    """
    built = in_both or bool((rejections["operator"] == operator).any())
    return _OneSided(rows.merge(rejections, "left", KEYS), built)


def counted(column: pd.Series) -> dict[str, int]:
    """How often each value occurs, the most frequent first."""
    return {str(value): int(number) for value, number in column.value_counts().items()}


def print_difference(differences: Mapping[str, OperatorDifference], stream: TextIO) -> None:
    """Print what `difference` returns: a table of numbers, then reasons and examples."""
    table = terminal_table("", "in both", "added", "removed", "the same")
    for operator, counts in differences.items():
        numbers = [counts["both"], counts["added"], counts["removed"]]
        table.add_row(operator, *(f"{number:,}" for number in numbers), percent(counts["both"], sum(numbers)))
    print_table(console_of(stream), table)
    for operator, counts in differences.items():
        if counts["added"]:
            why = f"in the other run: {by_frequency(counts['why_added'])}"
            print(f"\n{operator}, added {counts['added']:,}; {why}", file=stream)
            _print_examples(counts["examples_added"], stream)
        if counts["removed"]:
            why = f"in this run: {by_frequency(counts['why_removed'])}"
            print(f"\n{operator}, removed {counts['removed']:,}; {why}", file=stream)
            _print_examples(counts["examples_removed"], stream)
        if counts["reasons"]:
            print(f"{operator}, rejected for another reason: {by_frequency(counts['reasons'])}", file=stream)


def _print_examples(examples: Sequence[Mapping[str, str]], stream: TextIO) -> None:
    """Print a line for each example: caption_id, text, and why the other run lacks it."""
    for row in examples:
        why = ", ".join(row[name] for name in WHY if name in row) or "not drawn"
        print(visible(f"  {row['caption_id']}  {row['text']}  ({why})"), file=stream)
