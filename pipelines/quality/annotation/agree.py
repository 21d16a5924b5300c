"""Evaluate annotation sheets: how many negatives are valid and fluent, and how well annotators agree."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ..aligned import aligned
from ..bias import Accuracy, accuracy
from ..bias.accuracy import with_interval
from .alpha import alpha
from .sheet import NEGATIVE, Item
from .votes import Sheets, Votes, find_key, read_key, read_sheets

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
        alpha(_padded(describes)),
        alpha(_padded(fluent)),
    )


def _padded(votes: Sequence[Sequence[str]]) -> list[list[str | None]]:
    return [[*unit] for unit in votes]


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
