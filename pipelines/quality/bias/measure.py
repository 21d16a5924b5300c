"""The blind baselines on many pairs: operator by operator and all together, of a mapping or of a run; as text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from ....augment.settings import AtLeastOne, Operators, Seed, Settings, Splits
from ...engine.manifest import code_of
from ...engine.storage import scratch_folder, write_atomically
from ...tables.columns import check_operators, kinds_of
from ..aligned import aligned, wrapped
from .pairs import Accuracy, Pair, Pick, limit_pairs, read_all, read_corpus
from .report import BlindReport, Cue, blind, check_libraries

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


class BlindConfig(Settings):
    """Which negatives of a run are measured. together: also report on all operators together."""

    seed: Seed = 0
    operators: Operators = ()
    pick: Pick = Field("first", description="negative per caption and operator: the first drawn or a random one")
    table: str = "negatives"
    splits: Splits = ()
    limit: AtLeastOne = Field(LIMIT, description="pairs per operator, at most, of random images")
    together: bool = False


def measure_run(run: Path, config: BlindConfig | None = None) -> Blindness:
    """Measure the blind baselines on a run's negatives, operator by operator.

    config: None for the defaults. Operators with negatives of fewer than 5 images are `unmeasured`. Raises
    FileNotFoundError if the run lacks the table, ValueError for an operator or split without rows, or if no operator
    can be measured, ImportError if scikit-learn is missing.
    """
    config = config or BlindConfig.of({})
    table, splits, operators = config.table, config.splits, config.operators
    pairs = read_all(run, table, splits, config.seed, config.pick, config.limit)
    check_operators(operators, pairs or (kind.operator for kind in kinds_of(run, table)), run / table)
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


def to_markdown(reports: Sequence[BlindReport]) -> str:
    """A Markdown table of the accuracies (%) with their 95 % intervals, one row per report; "" for no reports."""
    if not reports:
        return ""
    names = list(reports[0].baselines)
    lines = [f"| operator | pairs | {' | '.join(names)} |", "|---" * (len(names) + 2) + "|"]
    for report in reports:
        cells = [f"{a.percent:.1f} ({a.low:.1f}–{a.high:.1f})" for a in report.baselines.values()]
        lines.append(f"| {report.name} | {report.ngrams.pairs:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def to_text(found: Blindness) -> str:
    """A table of the accuracies, then for every operator the words and n-grams that identify its negatives.

    Words have counts (only in the true text : only in the negative), n-grams have regression weights; n-grams are named
    only where the interval of the regression lies above 50 %. Operators without a report have dashes in the table, and
    a line that says why.
    """
    if not found.reports:
        return ""
    first = next(iter(found.reports.values()))
    rows = [["blind accuracy, %", "pairs", *first.baselines]]
    for name, one in found.results.items():
        if isinstance(one, Unmeasured):
            rows.append([name, f"{one.pairs:,}", *("–" for _ in first.baselines)])
        else:
            cells = [f"{a.percent:.1f} ±{(a.high - a.low) / 2:.1f}" for a in one.baselines.values()]
            rows.append([name, f"{one.ngrams.pairs:,}", *cells])
    lines = aligned(rows)
    for name, left in found.unmeasured.items():
        lines += ["", f"{name}: not measured, {left.reason}"]
    for report in found.reports.values():
        lines += ["", *_cues(report)]
    return "\n".join(lines)


def _cues(report: BlindReport) -> Iterator[str]:
    """Lines with the words and n-grams that identify an operator's negatives."""
    words = [f"{cue.word} {cue.true:,}:{cue.negative:,}" for cue in report.words]
    label = f"{report.name}: words only in the true text : only in the negative:"
    yield from wrapped(label, words or ["none significantly"])
    if report.ngrams.low <= 50:
        yield f"{report.name}: n-grams that speak for either text: none, the regression is not above chance"
        return
    for side, cues in (("true", report.true_cues), ("false", report.false_cues)):
        grams = [f"{gram!r} {weight:+.1f}" for gram, weight in cues]
        yield from wrapped(f"{report.name}: n-grams that speak for the {side} text:", grams or ["none"])


def to_json(found: Blindness) -> str:
    """The reports as a JSON object by their name; of those that could not be measured, the reason and the pairs."""
    said = {name: asdict(report) for name, report in found.reports.items()}
    said |= {name: {"not_measured": left.reason, "pairs": left.pairs} for name, left in found.unmeasured.items()}
    return json.dumps(said, indent=1, ensure_ascii=False)
