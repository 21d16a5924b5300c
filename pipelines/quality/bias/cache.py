"""A cache of blind reports in the run's folder: measuring is slow, and several formats need the same reports."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ...engine.manifest import code_of
from ...engine.storage import scratch_folder, write_atomically
from .accuracy import Accuracy
from .measure import LIMIT
from .pairs import Pair, limit_pairs
from .report import BlindReport, Cue, blind, check_libraries

FOLDER = ".cache/blind"
ACCURACIES = ("format_rule", "shorter", "ngrams", "odds", "language_model")
LIBRARIES = ("numpy", "scipy", "scikit-learn")


class CachedReports:
    """A callable like `blind`, on the pairs of random images up to a limit, that caches reports in `run`/.cache/blind.

    A report's file is named by the hash of all that determines it: the pairs, the corpus, the seed, the code and the
    versions of the libraries. A damaged file is measured again. Nothing is cached if the run cannot be written to.
    """

    def __init__(self, run: Path, seed: int = 0, corpus: Sequence[tuple[str, str]] = (), limit: int = LIMIT) -> None:
        """corpus: (text, image_id) of true captions for the language model; limit: most pairs per report."""
        self.folder = scratch_folder(run, FOLDER)
        self.seed, self.corpus, self.limit = seed, corpus, limit
        self.base = _hash([seed, [list(entry) for entry in corpus]])

    def __call__(self, name: str, pairs: Sequence[Pair]) -> BlindReport:
        """The report on `pairs`, called `name`, from the cache if it is there. Raises what `blind` raises."""
        check_libraries()
        some = limit_pairs(pairs, self.limit, self.seed)
        file = self.folder / f"{_hash([*_basis(), self.base, name, [list(pair) for pair in some]])}.json"
        kept = _read(file)
        if kept is not None:
            return kept
        report = blind(name, some, self.seed, self.corpus)
        _write(file, report)
        return report


@cache
def _basis() -> list[Any]:
    """What determines a report besides its input: the hash of the code and the versions of the libraries."""
    return [code_of(blind).sha256, [version(name) for name in LIBRARIES]]


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, separators=(",", ":")).encode()).hexdigest()


def _write(file: Path, report: BlindReport) -> None:
    value = asdict(report)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, json.dumps({"sha256": _hash(value), "report": value}).encode())
    except OSError:
        pass


def _read(file: Path) -> BlindReport | None:
    """The report in a file; None if there is no such file or its content is damaged."""
    try:
        entry = json.loads(file.read_bytes())
        value = entry["report"]
        if _hash(value) != entry["sha256"]:
            return None
        value |= {name: Accuracy(**value[name]) for name in ACCURACIES}
        value |= {name: tuple((gram, weight) for gram, weight in value[name]) for name in ("true_cues", "false_cues")}
        return BlindReport(**{**value, "words": tuple(Cue(**cue) for cue in value["words"])})
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
