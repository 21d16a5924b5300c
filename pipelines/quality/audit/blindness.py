"""The blind baselines on a run's tables: how well models that never see the images tell captions from negatives."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...engine.progress import Progress, in_progress
from ..bias import (
    ALL,
    Blindness,
    BlindReport,
    CachedReports,
    Pair,
    measure_each,
    read_all,
    read_corpus,
    with_all,
)
from ..bias.measure import Unmeasured
from .config import AuditConfig


def measure_table(
    run: Path, table: str, config: AuditConfig, progress: Progress, order: Sequence[str] = ()
) -> Blindness:
    """Measure the blind baselines on every operator of a table, then on all together.

    order: operators to begin with; the others follow. Operators with too few images are `unmeasured`; without
    scikit-learn, all are.
    """
    found = read_all(run, table, config.splits, config.seed, limit=config.limit)
    names = [*(n for n in order if n in found), *(n for n in found if n not in order)]
    pairs = with_all({name: found[name] for name in names})
    blind = CachedReports(run, config.seed, read_corpus(run), config.limit)

    def one(name: str, some: Sequence[Pair]) -> BlindReport:
        try:
            return blind(name, some)
        finally:
            progress.advance(0 if name == ALL else len(some))

    with in_progress(progress, f"blind {table}", len(pairs), unit="pairs"):
        try:
            return measure_each(pairs, one)
        except ImportError as error:
            return Blindness({name: Unmeasured(str(error), len(some)) for name, some in pairs.items()})
