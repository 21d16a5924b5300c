"""How many of a run's negatives are really false, judged by the ground truth of synthetic scenes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, TextIO

import pandas as pd

from ..engine.tables import has_table, read_table
from ..report.tables import console_of, terminal_table
from .judge import Answer, judge, scene_of

TABLES = ("negatives", "refined")


def judge_run(run: Path, table: str = "negatives") -> pd.DataFrame:
    """Judge all rows of captions, positives and `table` (negatives, refined; else ValueError) of a run, one row per
    sentence: its columns; `said`, `kind`; `operator`, "captions" of captions; `should_be` true; `verdict`; `reason` of
    an undecided one; `right`, null if undecided. Raises FileNotFoundError without scenes or table.
    """
    if table not in TABLES:
        raise ValueError(f"table must be one of {', '.join(TABLES)}, was: {table}")
    if not has_table(run, "scenes"):
        raise FileNotFoundError(
            f"{run} must be a run of scenes, has none: negcap scenes makes one, negcap vet is for other runs"
        )
    scenes = {row["image_id"]: scene_of(row) for part in read_table(run, "scenes") for row in part.to_pylist()}
    columns = ("image_id", "operator", "replaced", "replacement", "caption", "text")
    judged = []
    for name in ("captions", "positives", table):
        if name == "positives" and not has_table(run, name):
            continue
        for part in read_table(run, name, columns if name != "captions" else ("image_id", "text")):
            for row in part.to_pylist():
                verdict, reason = judge(row["text"], scenes[row["image_id"]])
                right = (verdict is Answer.TRUE) is (name != table) if verdict is not Answer.UNDECIDED else None
                kind = f"{row['replaced']} → {row['replacement']}" if "replaced" in row else "caption"
                said = f"{row['caption']} → {row['text']}" if "caption" in row else row["text"]
                known = {"should_be": name != table, "verdict": verdict.value, "reason": reason}
                judged.append({"operator": "captions", **row, **known, "right": right, "kind": kind, "said": said})
    return pd.DataFrame(judged)


def counts(judged: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """By operator the number of rows by answer, and the `share` of right answers among decided rows, 0 to 1."""
    found = {}
    for name, rows in judged.groupby("operator", sort=False):
        answers = rows["verdict"].value_counts()
        decided = rows["right"].dropna()
        found[str(name)] = {
            "should_be": "true" if rows["should_be"].iloc[0] else "false",
            "rows": len(rows),
            **{answer.value: int(answers.get(answer.value, 0)) for answer in Answer},
            "share": int(decided.sum()) / len(decided) if len(decided) else None,
            "undecided_because": dict(Counter(rows.loc[rows["right"].isna(), "reason"]).most_common()),
        }
    return found


def print_report(judged: pd.DataFrame, stream: TextIO, shown: int) -> None:
    """Print a table of the counts and, per operator, at most `shown` reasons of undecided and kinds of wrong rows."""
    table = terminal_table("", "rows", "false", "only by count", "true", "undecided", "right")
    undecided = list[str]()
    wrong = list[str]()
    for name, its in counts(judged).items():
        rows = judged[judged["operator"] == name]
        positive = its["should_be"] == "true"
        share = f"{100 * its['share']:.2f} %" if its["share"] is not None else "–"
        numbers = (its["rows"], its["false"] + its["miscounted"], its["miscounted"], its["true"], its["undecided"])
        table.add_row(f"{name} (true)" if positive else name, *(f"{number:,}" for number in numbers), share)
        reasons = list(its["undecided_because"].items())[:shown]
        undecided += [f"{name}: {count:,} undecided: {reason}" for reason, count in reasons]
        groups = rows[rows["right"].eq(False)].groupby("kind")
        for kind, of_kind in sorted(groups, key=lambda group: (-len(group[1]), group[0]))[:shown]:
            wrong.append(f"{name}: {len(of_kind):,} {'not true' if positive else 'true'}: {kind}")
            wrong.append(f"  {of_kind['image_id'].iloc[0]}  {of_kind['said'].iloc[0]}")
    console_of(stream).print(table)
    for line in (*undecided, *wrong):
        print(line, file=stream)
