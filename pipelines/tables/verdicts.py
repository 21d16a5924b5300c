"""The negatives of a run that all readers accept, by its table verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from negcap.pipelines.engine.tables import has_table, read_table


def accepted(run: Path) -> frozenset[str]:
    """The ids of negatives that were read, and that no reader refuses in any order; see `refuses`.

    Raises FileNotFoundError if the run has no verdicts.
    """
    if not has_table(run, "verdicts"):
        raise FileNotFoundError(f"{run} has no verdicts: run negcap vet {run} first")
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
