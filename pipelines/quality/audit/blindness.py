"""The blind baselines on a run's tables, or why an operator has none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from negcap.pipelines.engine.stage import Progress

if TYPE_CHECKING:
    from negcap.pipelines.quality.bias import BlindReport

ALL = "all"


@dataclass(frozen=True)
class Blindness:
    """Reports by operator (`all`: of all together), and why others were not measured."""

    reports: Mapping[str, BlindReport]
    unmeasured: Mapping[str, str]


def measured(
    run: Path,
    table: str,
    limit: int,
    seed: int,
    progress: Progress,
    order: Sequence[str] = (),
    splits: Sequence[str] = (),
) -> Blindness:
    """The baselines on every operator of a table (of these splits), in this order, at most `limit` pairs each.

    An operator of too few images, or all of them where scikit-learn is not installed, stand among the unmeasured.
    Raises ValueError for a limit below 1.
    """
    from negcap.pipelines.quality.bias import measure, read_all, read_corpus

    if limit < 1:
        raise ValueError(f"limit must be >= 1, was: {limit}")
    found = read_all(run, table, splits, seed)
    pairs = {name: found[name] for name in [*(n for n in order if n in found), *(n for n in found if n not in order)]}
    if len(pairs) > 1:
        pairs[ALL] = [pair for some in pairs.values() for pair in some]
    corpus = read_corpus(run)
    reports: dict[str, BlindReport] = {}
    unmeasured: dict[str, str] = {}
    progress.begin(f"blind {table}", len(pairs))
    try:
        for name, some in pairs.items():
            try:
                reports[name] = measure({name: some}, seed, corpus, limit)[name]
            except (ValueError, ImportError) as error:
                unmeasured[name] = str(error).removeprefix(f"{name}: ")
            progress.advance(len(some))
    finally:
        progress.end()
    return Blindness(reports, unmeasured)
