"""The blind baselines on many pairs: operator by operator and all together, of a mapping or of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ...tables.columns import operators_of
from .pairs import Pair, Pick, limit_pairs, read_all, read_corpus
from .report import BlindReport, blind, check_libraries

ALL = "all"
LIMIT = 100_000
Measure = Callable[[str, Sequence[Pair]], BlindReport]


class Unmeasured(NamedTuple):
    """Why there is no blind report on some pairs, and their number."""

    reason: str
    pairs: int


@dataclass(frozen=True)
class Blindness:
    """By operator (`all`: all operators together), its blind report, or why there is none."""

    results: Mapping[str, BlindReport | Unmeasured]

    @property
    def reports(self) -> dict[str, BlindReport]:
        """The blind reports."""
        return {name: one for name, one in self.results.items() if isinstance(one, BlindReport)}

    @property
    def unmeasured(self) -> dict[str, Unmeasured]:
        """Why others could not be measured."""
        return {name: one for name, one in self.results.items() if isinstance(one, Unmeasured)}


def measure(
    pairs: Mapping[str, Sequence[Pair]], seed: int = 0, corpus: Sequence[tuple[str, str]] = (), limit: int = LIMIT
) -> dict[str, BlindReport]:
    """Measure the blind baselines on every operator's pairs, and if there are several operators, on all together as
    `all`.

    corpus: (text, image_id) of true captions for the language model. limit: most pairs per report; if there are more,
    those of random images. Raises ValueError for too few pairs or images, ImportError if scikit-learn is missing.
    """
    return {name: blind(name, limit_pairs(some, limit, seed), seed, corpus) for name, some in with_all(pairs).items()}


def measure_each(pairs: Mapping[str, Sequence[Pair]], one: Measure) -> Blindness:
    """Measure each of these lists of pairs; those that are too small to be measured are `unmeasured`.

    one: makes the report of a name and its pairs, like `blind`. Raises ImportError if scikit-learn is missing.
    """
    check_libraries()
    results: dict[str, BlindReport | Unmeasured] = {}
    for name, some in pairs.items():
        try:
            results[name] = one(name, some)
        except ValueError as error:
            results[name] = Unmeasured(str(error).removeprefix(f"{name}: "), len(some))
    return Blindness(results)


def with_all(pairs: Mapping[str, Sequence[Pair]]) -> dict[str, Sequence[Pair]]:
    """The pairs by operator, and if there are several operators, also those of all together under the key `all`."""
    together = {ALL: [pair for some in pairs.values() for pair in some]} if len(pairs) > 1 else {}
    return {**pairs, **together}


@dataclass(frozen=True)
class BlindConfig:
    """Which negatives of a run are measured.

    operators, splits: only these, all if empty; table: "negatives" or "refined"; pick: the first draw of each caption
    ("first") or a random one ("random"); limit: most pairs per operator, those of random images; together: also report
    on all operators together.
    """

    seed: int = 0
    operators: tuple[str, ...] = ()
    pick: Pick = "first"
    table: str = "negatives"
    splits: tuple[str, ...] = ()
    limit: int = LIMIT
    together: bool = False


def measure_run(run: Path, config: BlindConfig | None = None) -> Blindness:
    """Measure the blind baselines on a run's negatives, operator by operator.

    config: None for the defaults. Operators with negatives of fewer than 5 images are `unmeasured`. Raises
    FileNotFoundError if the run lacks the table, ValueError for an operator or split without rows, or if no operator
    can be measured, ImportError if scikit-learn is missing.
    """
    config = config or BlindConfig()
    table, splits, operators = config.table, config.splits, config.operators
    pairs = read_all(run, table, splits, config.seed, config.pick, config.limit)
    for name in operators:
        if name not in pairs:
            made = ", ".join(pairs or operators_of(run, table=table))
            raise ValueError(f"operator must be one of {made} in {run / table}, was: {name}")
    if not pairs:
        raise ValueError(f"{run / table} has no negatives{' of ' + ', '.join(splits) if splits else ''}")
    wanted: dict[str, Sequence[Pair]] = {name: pairs[name] for name in operators or pairs}
    corpus = read_corpus(run)

    def one(name: str, some: Sequence[Pair]) -> BlindReport:
        return blind(name, limit_pairs(some, config.limit, config.seed), config.seed, corpus)

    found = measure_each(with_all(wanted) if config.together else wanted, one)
    if not found.reports:
        why = "; ".join(f"{name}: {left.reason}" for name, left in found.unmeasured.items())
        raise ValueError(f"{run / table} cannot be measured: {why}")
    return found
