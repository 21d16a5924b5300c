"""Files of sentence pairs for natural language inference: SNLI's JSONL and TSV, SICK's TSV."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ...readers.files import raw_lines

# The names of the premise, the hypothesis and the gold label
COLUMNS = (
    ("sentence1", "sentence2", "gold_label"),  # SNLI; negcap publish --format snli
    ("sentence_A", "sentence_B", "entailment_judgment"),  # SICK
    ("premise", "hypothesis", "label"),
)
ENTAILED = "entailment"
LABELS = (ENTAILED, "neutral", "contradiction")
NO_LABEL = "-"  # SNLI: the annotators did not agree


class LabelledPairs(NamedTuple):
    """n pairs of sentences; entailed: whether the hypothesis follows from the premise. dropped: pairs without label."""

    premises: list[str]
    hypotheses: list[str]
    entailed: list[bool]
    dropped: int


def read_pairs(path: Path) -> LabelledPairs:
    """Read a file of pairs, JSON lines if its name ends with `.jsonl`, else tab-separated with a header.

    Pairs whose gold label is "-" are dropped, as is customary with SNLI. Raises FileNotFoundError for a missing file,
    ValueError, naming file and line, for other columns or labels, or if no pair has a label.
    """
    premises, hypotheses, entailed, dropped = [], [], [], 0
    for line, row in _rows(path):
        names = next((names for names in COLUMNS if all(name in row for name in names)), None)
        if names is None:
            wanted = " or ".join(", ".join(names) for names in COLUMNS)
            raise ValueError(f"{path}:{line}: a pair must have {wanted}, has: {', '.join(map(str, row))[:200]}")
        premise, hypothesis, label = (row[name] for name in names)
        known = label.lower() if isinstance(label, str) else label
        if known == NO_LABEL:
            dropped += 1
            continue
        if known not in LABELS:
            valid = ", ".join((*LABELS, NO_LABEL))
            raise ValueError(f"{path}:{line}: {names[2]} must be one of {valid}, was: {label!r}")
        if not (isinstance(premise, str) and isinstance(hypothesis, str)):
            given = f"{premise!r:.60}, {hypothesis!r:.60}"
            raise ValueError(f"{path}:{line}: {names[0]} and {names[1]} must be text, were: {given}")
        premises.append(premise)
        hypotheses.append(hypothesis)
        entailed.append(known == ENTAILED)
    if not entailed:
        raise ValueError(f"{path} must have pairs with a gold label, has none; without a label: {dropped}")
    return LabelledPairs(premises, hypotheses, entailed, dropped)


def _rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The records of a file with the number of the line of each."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            if path.suffix == ".jsonl":
                for number, text in enumerate(raw_lines(file), 1):
                    if text.strip():
                        yield number, _json(path, number, text)
                return
            reader = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            for row in reader:
                yield reader.line_num, row
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be text in UTF-8, is not: {error}") from None


def _json(path: Path, number: int, text: str) -> Mapping[str, Any]:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}:{number}: must be a JSON object, is damaged: {error}") from None
    if not isinstance(row, dict):
        raise ValueError(f"{path}:{number}: must be a JSON object, was: {text.strip():.60}")
    return row
