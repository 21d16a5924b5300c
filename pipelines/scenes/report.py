"""How many of a run's negatives are really false, judged by the ground truth of synthetic scenes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TextIO, TypedDict

import pandas as pd

from ..engine.tables import has_table, read_table
from ..report.tables import console_of, terminal_table
from .judge import SceneVerdict, judge, scene_of

TABLES = ("negatives", "refined")
# A value in a row of a run's tables.
Cell = str | int | bool | None


def judge_run(run: Path, table: str = "negatives") -> pd.DataFrame:
    """Judge all rows of captions, positives and a table of negatives.

    Args:
        run: the folder of a run of scenes.
        table: negatives or refined.

    Returns:
        One row per sentence: the columns of its table; `operator`, "captions" of captions; `kind`, what was changed,
        and `said`, both in words; whether it `should_be` true; the `verdict`, and the `reason` of an undecided one;
        whether that is `right`, null if undecided.

    Raises:
        FileNotFoundError: the run lacks scenes or the table.
        ValueError: there is no such table of negatives.
    """
    if table not in TABLES:
        raise ValueError(f"table must be one of {', '.join(TABLES)}, was: {table}")
    if not has_table(run, "scenes"):
        raise FileNotFoundError(
            f"{run} must be a run of scenes, has none: negcap scenes makes one, negcap vet is for other runs"
        )
    scenes = {row["image_id"]: scene_of(row) for part in read_table(run, "scenes") for row in part.to_pylist()}
    judged = []
    for name in ("captions", "positives", table):
        for row in _rows(run, name):
            should_be_true = name != table
            verdict, reason = judge(str(row["text"]), scenes[row["image_id"]])
            is_decided = verdict is not SceneVerdict.UNDECIDED
            judged.append(
                {
                    "operator": "captions",  # which the rows of other tables replace by their own
                    **row,
                    "should_be": should_be_true,
                    "verdict": verdict.value,
                    "reason": reason,
                    "right": (verdict is SceneVerdict.TRUE) is should_be_true if is_decided else None,
                    "kind": f"{row['replaced']} → {row['replacement']}" if "replaced" in row else "caption",
                    "said": f"{row['caption']} → {row['text']}" if "caption" in row else row["text"],
                }
            )
    return pd.DataFrame(judged)


def _rows(run: Path, name: str) -> Iterator[Mapping[str, Cell]]:
    """The rows of the table `name` (captions, negatives, refined or positives), with the columns that are judged.

    A run without the table positives has no rows of it.
    """
    if name == "positives" and not has_table(run, name):
        return
    columns: tuple[str, ...] = ("image_id", "text")
    if name != "captions":
        columns = ("image_id", "operator", "replaced", "replacement", "caption", "text")
    for part in read_table(run, name, columns):
        yield from part.to_pylist()


class OperatorCounts(TypedDict):
    """How the sentences of an operator were judged.

    should_be: "true" or "false". rows: their number, and by verdict. share: of right verdicts among decided rows, 0 to
    1, None if none is. undecided_because: the number of undecided rows by reason, the most frequent first.
    """

    should_be: str
    rows: int
    true: int
    false: int
    miscounted: int
    undecided: int
    share: float | None
    undecided_because: dict[str, int]


def counts(judged: pd.DataFrame) -> dict[str, OperatorCounts]:
    """How the rows of `judge_run` were judged, by operator."""
    by_operator = {}
    for name, rows in judged.groupby("operator", sort=False):
        number_of = Counter(rows["verdict"])
        decided = rows["right"].dropna()
        by_operator[str(name)] = OperatorCounts(
            should_be="true" if rows["should_be"].iloc[0] else "false",
            rows=len(rows),
            true=number_of[SceneVerdict.TRUE.value],
            false=number_of[SceneVerdict.FALSE.value],
            miscounted=number_of[SceneVerdict.MISCOUNTED.value],
            undecided=number_of[SceneVerdict.UNDECIDED.value],
            share=int(decided.sum()) / len(decided) if len(decided) else None,
            undecided_because=dict(Counter(rows.loc[rows["right"].isna(), "reason"]).most_common()),
        )
    return by_operator


def print_report(judged: pd.DataFrame, stream: TextIO, shown: int) -> None:
    """Print a table of the counts and, per operator, at most `shown` reasons of undecided and kinds of wrong rows."""
    table = terminal_table("", "rows", "false", "only by count", "true", "undecided", "right")
    undecided: list[str] = []
    wrong: list[str] = []
    for name, tally in counts(judged).items():
        is_positive = tally["should_be"] == "true"
        share = "–" if tally["share"] is None else f"{100 * tally['share']:.2f} %"
        false = tally["false"] + tally["miscounted"]
        numbers = (tally["rows"], false, tally["miscounted"], tally["true"], tally["undecided"])
        table.add_row(f"{name} (true)" if is_positive else name, *(f"{number:,}" for number in numbers), share)
        reasons = list(tally["undecided_because"].items())[:shown]
        undecided += [f"{name}: {count:,} undecided: {reason}" for reason, count in reasons]
        wrong_rows = judged[(judged["operator"] == name) & judged["right"].eq(False)]
        groups = sorted(wrong_rows.groupby("kind"), key=lambda group: (-len(group[1]), group[0]))
        for kind, rows in groups[:shown]:
            wrong.append(f"{name}: {len(rows):,} {'not true' if is_positive else 'true'}: {kind}")
            wrong.append(f"  {rows['image_id'].iloc[0]}  {rows['said'].iloc[0]}")
    console_of(stream).print(table)
    for line in (*undecided, *wrong):
        print(line, file=stream)
