"""What language models said of negatives (the table verdicts): shares with intervals, and a preference for position."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...engine.tables import read_table
from ..aligned import aligned
from ..bias import Accuracy
from ..bias.accuracy import by_image, with_interval

ALL = "all"
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


def to_text(reports: Sequence[Reading]) -> str:
    """The reports as a plain-text table."""
    names = ("told", "odd", "odd_captions", "both_true", "false", "first", "steady")
    rows = [
        ["reader", "reading", "operator", "negatives", *(name.replace("_", " ") + ", %" for name in names), "unread"]
    ]
    for one in reports:
        cells = [with_interval(getattr(one, name)) for name in names]
        rows.append([one.reader, one.reading, one.operator, f"{one.negatives:,}", *cells, f"{one.unread:,}"])
    return "\n".join(aligned(rows))


def to_json(reports: Sequence[Reading]) -> str:
    """The reports as JSON."""
    return json.dumps([asdict(one) for one in reports], indent=1, ensure_ascii=False)
