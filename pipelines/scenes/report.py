"""How many of a run's negatives are really false, by the truth of the scenes they are about."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from negcap.pipelines.engine.shards import list_shards, read_table
from negcap.pipelines.scenes.judge import Answer, judge
from negcap.pipelines.scenes.table import scene_of

if TYPE_CHECKING:
    from rich.table import Table

    from negcap.pipelines.scenes.world import Scene

CAPTIONS = "captions"
TABLES = ("negatives", "refined")
SHOWN = 5


@dataclass
class Tally:
    """The verdicts on the rows of one operator (or on the captions), and the rows that are as they should not be.

    wrong: negatives that are true, positives and captions that are not; undecided: with the reason; disagreeing: rows
    where a verb or pronoun does not agree, and one of them.
    """

    positive: bool = False
    answers: Counter[Answer] = field(default_factory=Counter)
    wrong: list[dict[str, str]] = field(default_factory=list)
    undecided: Counter[str] = field(default_factory=Counter)
    disagreeing: int = 0
    disagrees: str = ""

    @property
    def rows(self) -> int:
        """All rows."""
        return sum(self.answers.values())

    @property
    def decided(self) -> int:
        """Rows with a verdict."""
        return self.rows - self.answers[Answer.UNDECIDED]

    @property
    def right(self) -> int:
        """Rows that are as they should be: false, as people count; true, if they are positives or captions."""
        return (
            self.answers[Answer.TRUE] if self.positive else self.answers[Answer.FALSE] + self.answers[Answer.MISCOUNTED]
        )

    def add(self, row: Mapping[str, str], scene: Scene) -> None:
        """Judge one more row."""
        answer, reason, agrees = judge(row["text"], scene)
        if not agrees:
            self.disagreeing, self.disagrees = self.disagreeing + 1, self.disagrees or row["text"]
        self.answers[answer] += 1
        if answer is Answer.UNDECIDED:
            self.undecided[reason] += 1
        elif (answer is Answer.TRUE) is not self.positive:
            self.wrong.append(dict(row))


def judge_run(run: Path, table: str = "negatives") -> dict[str, Tally]:
    """Operator -> the verdicts on its rows; `captions` and the positives' operator are controls and come first.

    Raises FileNotFoundError without scenes or negatives, ValueError for a table that holds no negatives.
    """
    if table not in TABLES:
        raise ValueError(f"table must be one of {', '.join(TABLES)}, was: {table}")
    if not list_shards(run / "scenes"):
        raise FileNotFoundError(f"{run} has no scenes: only what negcap scenes has drawn can be judged")
    scenes = {row["image_id"]: scene_of(row) for part in read_table(run, "scenes") for row in part.to_pylist()}
    tallies: dict[str, Tally] = defaultdict(Tally)
    tallies[CAPTIONS].positive = True
    for row in _rows(run, "captions", ("image_id", "text")):
        tallies[CAPTIONS].add(row, scenes[row["image_id"]])
    columns = ("image_id", "operator", "replaced", "replacement", "caption", "text")
    if list_shards(run / "positives"):
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
    """Everything counted, as JSON."""
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
    """A row an operator."""
    from negcap.pipelines.report.summary import plain_table

    table = plain_table("", "rows", "false", "in logic too", "true", "undecided", "as it should be")
    for name, tally in tallies.items():
        false, counted = tally.answers[Answer.FALSE], tally.answers[Answer.MISCOUNTED]
        share = f"{100 * tally.right / tally.decided:.2f} %" if tally.decided else "–"
        numbers = (tally.rows, false + counted, false, tally.answers[Answer.TRUE], tally.answers[Answer.UNDECIDED])
        table.add_row(f"{name} (true)" if tally.positive else name, *(f"{number:,}" for number in numbers), share)
    return table


def print_report(tallies: Mapping[str, Tally], stream: TextIO, shown: int = SHOWN) -> None:
    """The table; why rows could not be decided; and of each operator the commonest rows that are wrong."""
    from negcap.pipelines.report.summary import console_of

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
    """Of the rows that are not as they should be: what replaced what, how often, and one of them; commonest first."""
    rows: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in tally.wrong:
        rows[f"{row['replaced']} → {row['replacement']}" if "replaced" in row else "caption"].append(row)
    return sorted(((kind, len(found), found[0]) for kind, found in rows.items()), key=lambda one: (-one[1], one[0]))
