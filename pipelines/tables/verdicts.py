"""What readers say of a run's negatives: which of them all accept, and how likely they are true of their photo."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from ..engine.tables import has_table, read_table


def accepted(run: Path) -> frozenset[str]:
    """The ids of negatives that were read, and that no reader refuses in any order; see `refuses`.

    Raises FileNotFoundError if the run has no verdicts.
    """
    read: set[str] = set()
    refused: set[str] = set()
    for table in read_table(run, "verdicts"):
        for row in table.to_pylist():
            if not row["problem"]:
                (refused if refuses(row) else read).add(row["negative_id"])
    return frozenset(read - refused)


def refuses(verdict: Mapping[str, Any]) -> bool:
    """Whether a reader refuses a negative: it finds it odd, true together with its caption, or true of the photo."""
    return verdict["odd"] in ("negative", "both") or bool(verdict["both_true"]) or verdict["false"] is False


def p_true_by_readers(run: Path) -> dict[str, float]:
    """The probability that a negative is true of its photo, by those who saw it, by negative_id; see `likelihoods`.

    Empty if the run has no such verdicts, or an image with two captions: then the captions tell (column p_true).
    """
    if not has_table(run, "verdicts"):
        return {}
    seen: set[str] = set()
    for table in read_table(run, "captions", ["image_id"]):
        images = table["image_id"].to_pylist()
        if len(seen) + len(images) > len(seen := seen.union(images)):
            return {}
    return likelihoods(row for table in read_table(run, "verdicts") for row in table.to_pylist())


def likelihoods(verdicts: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """By negative_id, the mean over readers of the photo: 1 - confidence if they call it false, else confidence.

    A reader who gives no confidence counts as certain; one who has not seen the photo does not count.
    """
    found: dict[str, list[float]] = {}
    for row in verdicts:
        if row["reading"] == "image" and not row["problem"]:
            confidence = 1.0 if row["confidence"] is None else row["confidence"]
            found.setdefault(row["negative_id"], []).append(1 - confidence if row["false"] else confidence)
    return {negative_id: fmean(values) for negative_id, values in found.items()}
