"""Two runs compared by rows: which negatives both have, which only one of them has, and why the other has not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import pandas as pd

from ..engine.tables import read_table
from .rows import visible
from .summary import by_frequency, console_of, percent, plain_table, print_table

KEYS = ["caption_id", "operator", "text"]
SIDES = {"left_only": "added", "right_only": "removed"}


def difference(run: Path, other: Path, examples: int = 3) -> dict[str, Any]:
    """The negatives of `run` against those of `other`, as JSON: by operator the rows (of a caption, operator, text) in
    `both`, `added` (only in `run`), `removed` (only in `other`), `why_added`, `why_removed` (the reason of the run that
    lacks them; `not drawn` if not tried, `not built` without the operator), `reasons` of candidates that both reject,
    "old -> new", and examples. Raises as `read_table`.
    """

    def rows(where: Path, table: str, columns: Sequence[str]) -> pd.DataFrame:
        parts = [part.select([*columns]).to_pandas() for part in read_table(where, table)]
        return pd.concat(parts).drop_duplicates(KEYS)

    negatives = rows(run, "negatives", KEYS).merge(rows(other, "negatives", KEYS), "outer", indicator="side")
    new, old = (rows(one, "rejections", [*KEYS, "reason", "detail"]) for one in (run, other))
    found: dict[str, Any] = {}
    built = {"added": {*old["operator"]}, "removed": {*new["operator"]}}
    for operator in sorted(negatives["operator"].unique()):
        some = negatives[negatives["operator"] == operator]
        numbers = some["side"].value_counts()
        found[operator] = {"both": int(numbers["both"])}
        for side, name in SIDES.items():
            its = some[some["side"] == side].merge(old if name == "added" else new, "left", KEYS)
            tried = operator in built[name] or numbers["both"] > 0
            found[operator][name] = len(its)
            found[operator][f"why_{name}"] = counted(its["reason"].fillna("not drawn" if tried else "not built"))
            found[operator][f"examples_{name}"] = [
                {key: one[key] for key in (*KEYS, "reason", "detail") if isinstance(one[key], str)}
                for one in its.head(examples * tried).to_dict("records")
            ]
    changed = new[new["text"] != ""].merge(old, on=KEYS, suffixes=("", "_old")).query("reason != reason_old")
    for operator, its in found.items():
        some = changed[changed["operator"] == operator]
        its["reasons"] = counted(some["reason_old"] + " -> " + some["reason"])
    return found


def counted(column: pd.Series) -> dict[str, int]:
    """How often each value occurs, the most frequent first."""
    return {str(value): int(number) for value, number in column.value_counts().items()}


def print_difference(found: Mapping[str, Any], stream: TextIO) -> None:
    """Print what `difference` found."""
    console = console_of(stream)
    table = plain_table("", "in both", "added", "removed", "the same")
    for operator, its in found.items():
        numbers = [its[name] for name in ("both", "added", "removed")]
        table.add_row(operator, *(f"{number:,}" for number in numbers), percent(numbers[0], sum(numbers)))
    print_table(console, table)
    for operator, its in found.items():
        for name in SIDES.values():
            if its[name]:
                run = "the other run" if name == "added" else "this run"
                print(f"\n{operator}, {name} {its[name]:,}; in {run}: {by_frequency(its[f'why_{name}'])}", file=stream)
            for one in its[f"examples_{name}"]:
                why = ", ".join(one[key] for key in ("reason", "detail") if key in one) or "not drawn"
                print(visible(f"  {one['caption_id']}  {one['text']}  ({why})"), file=stream)
        if its.get("reasons"):
            print(f"{operator}, rejected for another reason: {by_frequency(its['reasons'])}", file=stream)
