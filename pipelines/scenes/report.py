"""How many of a run's negatives are really false, judged by the ground truth of synthetic scenes."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from ..engine.tables import has_table, read_table
from .judge import Answer, judge
from .truth import scene_of

TABLES = ("negatives", "refined")


@dataclass
class Tally:
    """The judge's answers on the rows of one operator (or on the captions).

    positive: whether the rows should be true; answers: number of rows by answer; wrong: rows with the wrong answer
    (true negatives, false positives or captions); undecided: number of rows by reason; disagreeing: texts in which a
    verb or pronoun does not agree.
    """

    positive: bool = False
    answers: Counter[Answer] = field(default_factory=Counter)
    wrong: list[dict[str, str]] = field(default_factory=list)
    undecided: Counter[str] = field(default_factory=Counter)
    disagreeing: list[str] = field(default_factory=list)

    @property
    def decided(self) -> int:
        """The number of rows whose answer is not UNDECIDED."""
        return self.answers.total() - self.answers[Answer.UNDECIDED]

    @property
    def right(self) -> int:
        """The number of rows with the right answer: FALSE or MISCOUNTED for negatives, TRUE for the others."""
        return self.decided - len(self.wrong)


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
    tallies = {"captions": Tally(positive=True)}
    columns = ("image_id", "operator", "replaced", "replacement", "caption", "text")
    for name in ("captions", "positives", table):
        if name == "positives" and not has_table(run, name):
            continue
        for part in read_table(run, name, columns if name != "captions" else ("image_id", "text")):
            for row in part.to_pylist():
                tally = tallies.setdefault(row.get("operator", "captions"), Tally(positive=name == "positives"))
                answer, reason, agrees = judge(row["text"], scenes[row["image_id"]])
                tally.answers[answer] += 1
                if not agrees:
                    tally.disagreeing.append(row["text"])
                if answer is Answer.UNDECIDED:
                    tally.undecided[reason] += 1
                elif (answer is Answer.TRUE) is not tally.positive:
                    tally.wrong.append(row)
    return tallies


def to_json(tallies: Mapping[str, Tally]) -> str:
    """The tallies as a JSON object by operator; `share` is that of right answers among decided rows, 0 to 1."""
    made = {
        name: {
            "should_be": "true" if tally.positive else "false",
            "rows": tally.answers.total(),
            **{answer.value: tally.answers[answer] for answer in Answer},
            "share": tally.right / tally.decided if tally.decided else None,
            "disagreeing": len(tally.disagreeing),
            "undecided_because": dict(tally.undecided.most_common()),
        }
        for name, tally in tallies.items()
    }
    return json.dumps(made, indent=1)


def print_report(tallies: Mapping[str, Tally], stream: TextIO, shown: int) -> None:
    """Print a table of the tallies, the reasons of undecided rows, and for each operator the most frequent kinds of
    wrong rows.

    shown: how many reasons and kinds per operator.
    """
    from ..report.summary import console_of, plain_table

    table = plain_table("", "rows", "false", "only by count", "true", "undecided", "right")
    for name, tally in tallies.items():
        true, false, counted, unsure = (tally.answers[answer] for answer in Answer)
        share = f"{100 * tally.right / tally.decided:.2f} %" if tally.decided else "–"
        numbers = (tally.answers.total(), false + counted, counted, true, unsure)
        table.add_row(f"{name} (true)" if tally.positive else name, *(f"{number:,}" for number in numbers), share)
    console_of(stream).print(table)
    for name, tally in tallies.items():
        for reason, count in tally.undecided.most_common(shown):
            print(f"{name}: {count:,} undecided: {reason}", file=stream)
    for name, tally in tallies.items():
        if tally.disagreeing:
            count, first = len(tally.disagreeing), tally.disagreeing[0]
            print(f"{name}: {count:,} where a verb or pronoun does not agree: {first}", file=stream)
    for name, tally in tallies.items():
        for kind, rows in _kinds(tally.wrong)[:shown]:
            print(f"{name}: {len(rows):,} {'not true' if tally.positive else 'true'}: {kind}", file=stream)
            said = f"{rows[0]['caption']} → {rows[0]['text']}" if "caption" in rows[0] else rows[0]["text"]
            print(f"  {rows[0]['image_id']}  {said}", file=stream)


def _kinds(wrong: Iterable[dict[str, str]]) -> list[tuple[str, list[dict[str, str]]]]:
    """The wrong rows grouped by "replaced → replacement", most frequent first."""
    rows: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in wrong:
        rows[f"{row['replaced']} → {row['replacement']}" if "replaced" in row else "caption"].append(row)
    return sorted(rows.items(), key=lambda one: (-len(one[1]), one[0]))
