"""How many of a run's negatives are really false, judged by the ground truth of synthetic scenes."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ..engine.tables import has_table, read_table
from .judge import Answer, judge
from .table import scene_of

if TYPE_CHECKING:
    from rich.table import Table

    from .world import Scene

CAPTIONS = "captions"
TABLES = ("negatives", "refined")
SHOWN = 5


@dataclass
class Tally:
    """The judge's answers on the rows of one operator (or on the captions).

    positive: whether the rows should be true; answers: number of rows by answer; wrong: rows with the wrong answer
    (true negatives, false positives or captions); undecided: number of rows by reason; disagreeing: number of rows
    where a verb or pronoun does not agree; disagrees: the text of one of these.
    """

    positive: bool = False
    answers: Counter[Answer] = field(default_factory=Counter)
    wrong: list[dict[str, str]] = field(default_factory=list)
    undecided: Counter[str] = field(default_factory=Counter)
    disagreeing: int = 0
    disagrees: str = ""

    @property
    def rows(self) -> int:
        """The number of rows judged."""
        return sum(self.answers.values())

    @property
    def decided(self) -> int:
        """The number of rows whose answer is not UNDECIDED."""
        return self.rows - self.answers[Answer.UNDECIDED]

    @property
    def right(self) -> int:
        """The number of rows with the right answer: FALSE or MISCOUNTED for negatives, TRUE for the others."""
        return (
            self.answers[Answer.TRUE] if self.positive else self.answers[Answer.FALSE] + self.answers[Answer.MISCOUNTED]
        )

    def add(self, row: Mapping[str, str], scene: Scene) -> None:
        """Judge one more text of the operator by the facts of its scene, and count the answer. row: with the column
        `text`.
        """
        answer, reason, agrees = judge(row["text"], scene)
        if not agrees:
            self.disagreeing, self.disagrees = self.disagreeing + 1, self.disagrees or row["text"]
        self.answers[answer] += 1
        if answer is Answer.UNDECIDED:
            self.undecided[reason] += 1
        elif (answer is Answer.TRUE) is not self.positive:
            self.wrong.append(dict(row))


def judge_run(run: Path, table: str = "negatives") -> dict[str, Tally]:
    """Judge all rows of a run's table; returns a tally per operator.

    `captions` and the operator of the positives come first, as controls. table: "negatives" or "refined"; ValueError
    for another. Raises FileNotFoundError if the run has no scenes or no such table.
    """
    if table not in TABLES:
        raise ValueError(f"table must be one of {', '.join(TABLES)}, was: {table}")
    if not has_table(run, "scenes"):
        raise FileNotFoundError(f"{run} has no scenes: only a run made by negcap scenes can be judged")
    scenes = {row["image_id"]: scene_of(row) for part in read_table(run, "scenes") for row in part.to_pylist()}
    tallies: dict[str, Tally] = defaultdict(Tally)
    tallies[CAPTIONS].positive = True
    for row in _rows(run, "captions", ("image_id", "text")):
        tallies[CAPTIONS].add(row, scenes[row["image_id"]])
    columns = ("image_id", "operator", "replaced", "replacement", "caption", "text")
    if has_table(run, "positives"):
        for row in _rows(run, "positives", columns):
            tallies[row["operator"]].positive = True
            tallies[row["operator"]].add(row, scenes[row["image_id"]])
    for row in _rows(run, table, columns):
        tallies[row["operator"]].add(row, scenes[row["image_id"]])
    return dict(tallies)


def _rows(run: Path, table: str, columns: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    for part in read_table(run, table, columns):
        yield from part.to_pylist()


def to_json(tallies: Mapping[str, Tally]) -> str:
    """The tallies as a JSON object by operator; `share` is that of right answers among decided rows, 0 to 1."""
    made = {
        name: {
            "should_be": "true" if tally.positive else "false",
            "rows": tally.rows,
            **{answer.value: tally.answers[answer] for answer in Answer},
            "share": tally.right / tally.decided if tally.decided else None,
            "disagreeing": tally.disagreeing,
            "undecided_because": dict(tally.undecided.most_common()),
        }
        for name, tally in tallies.items()
    }
    return json.dumps(made, indent=1)


def to_table(tallies: Mapping[str, Tally]) -> Table:
    """The tallies as a table, one row per operator."""
    from ..report.summary import plain_table

    table = plain_table("", "rows", "false", "only by count", "true", "undecided", "right")
    for name, tally in tallies.items():
        false, counted = tally.answers[Answer.FALSE], tally.answers[Answer.MISCOUNTED]
        share = f"{100 * tally.right / tally.decided:.2f} %" if tally.decided else "–"
        numbers = (tally.rows, false + counted, counted, tally.answers[Answer.TRUE], tally.answers[Answer.UNDECIDED])
        table.add_row(f"{name} (true)" if tally.positive else name, *(f"{number:,}" for number in numbers), share)
    return table


def print_report(tallies: Mapping[str, Tally], stream: TextIO, shown: int = SHOWN) -> None:
    """Print the table, the reasons of undecided rows, and for each operator the most frequent kinds of wrong rows.

    shown: how many reasons and kinds per operator.
    """
    from ..report.summary import console_of

    console_of(stream).print(to_table(tallies))
    for name, tally in tallies.items():
        for reason, count in tally.undecided.most_common(shown):
            print(f"{name}: {count:,} undecided: {reason}", file=stream)
    for name, tally in tallies.items():
        if tally.disagreeing:
            print(
                f"{name}: {tally.disagreeing:,} where a verb or pronoun does not agree: {tally.disagrees}", file=stream
            )
    for name, tally in tallies.items():
        for kind, count, row in kinds(tally)[:shown]:
            print(f"{name}: {count:,} {'not true' if tally.positive else 'true'}: {kind}", file=stream)
            said = f"{row['caption']} → {row['text']}" if "caption" in row else row["text"]
            print(f"  {row['image_id']}  {said}", file=stream)


def kinds(tally: Tally) -> list[tuple[str, int, dict[str, str]]]:
    """The wrong rows grouped by "replaced → replacement": (group, number of rows, one of them), most frequent first."""
    rows: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in tally.wrong:
        rows[f"{row['replaced']} → {row['replacement']}" if "replaced" in row else "caption"].append(row)
    return sorted(((kind, len(found), found[0]) for kind, found in rows.items()), key=lambda one: (-one[1], one[0]))
