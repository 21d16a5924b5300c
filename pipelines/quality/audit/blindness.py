"""The blind baselines on a run's tables: how well models that never see the images tell captions from negatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from negcap.pipelines.engine.progress import in_progress
from negcap.pipelines.engine.stage import Progress
from negcap.pipelines.quality.audit.config import AuditConfig

if TYPE_CHECKING:
    from negcap.pipelines.quality.bias import BlindReport


@dataclass(frozen=True)
class Blindness:
    """Blind reports by operator (`all`: all operators together), and for operators without one, the reason."""

    reports: Mapping[str, BlindReport]
    unmeasured: Mapping[str, str]


def measure_table(
    run: Path, table: str, config: AuditConfig, progress: Progress, order: Sequence[str] = ()
) -> Blindness:
    """Measure the blind baselines on every operator of a table, then on all together.

    order: operators to begin with; the others follow. Operators with too few images are `unmeasured`; without
    scikit-learn, all are.
    """
    from negcap.pipelines.quality.bias import CachedReports, read_all, read_corpus, with_all

    found = read_all(run, table, config.splits, config.seed, limit=config.limit)
    pairs = {name: found[name] for name in [*(n for n in order if n in found), *(n for n in found if n not in order)]}
    blind = CachedReports(run, config.seed, read_corpus(run), config.limit)
    reports: dict[str, BlindReport] = {}
    unmeasured: dict[str, str] = {}
    with in_progress(progress, f"blind {table}", len(with_all(pairs))):
        for name, some in with_all(pairs).items():
            try:
                reports[name] = blind(name, some)
            except (ValueError, ImportError) as error:
                unmeasured[name] = str(error).removeprefix(f"{name}: ")
            progress.advance(len(some))
    return Blindness(reports, unmeasured)
