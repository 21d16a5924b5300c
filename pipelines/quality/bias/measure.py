"""The blind baselines on many pairs: operator by operator and all together, of a mapping or of a run; as text."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow.compute as pc
from pydantic import Field, TypeAdapter

from ....augment.reproducible import shuffle_key
from ....augment.settings import AtLeastOne, Operators, Seed, Settings, Splits
from ...engine.manifest import code_of, hash_value
from ...engine.progress import Progress
from ...engine.storage import scratch_folder, write_atomically
from ...engine.tables import has_table, shards_of
from ...tables.columns import check_operators, check_splits, kinds_of
from ...tables.pairs import pair_tables
from ..accuracy import aligned, wrapped
from .baselines import BlindReport, Pair, blind, check_libraries

ALL = "all"
LIMIT = 100_000
CORPUS = 1_000_000  # captions that the language model is trained on, at most
Measure = Callable[[str, Sequence[Pair]], BlindReport]
Row = TypeVar("Row", bound=tuple)


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

    def plain(self) -> dict[str, Any]:
        """The reports as JSON has them, by name; of those that could not be measured, the reason and the pairs."""
        left = {name: {"not_measured": one.reason, "pairs": one.pairs} for name, one in self.unmeasured.items()}
        return {name: asdict(one) for name, one in self.reports.items()} | left


class BlindConfig(Settings):
    """Which negatives of a run are measured. together: also report on all operators together."""

    seed: Seed = 0
    operators: Operators = ()
    table: str = "negatives"
    splits: Splits = ()
    max_pairs: AtLeastOne = Field(LIMIT, description="pairs measured per operator, at most, of random images")
    together: bool = False


def measure_run(run: Path, config: BlindConfig | None = None) -> Blindness:
    """As `measure_table`; config: None for the defaults. Raises ValueError, too, if no operator can be measured."""
    config = config or BlindConfig.of({})
    found = measure_table(run, config)
    if not found.reports:
        why = "; ".join(f"{name}: {left.reason}" for name, left in found.unmeasured.items())
        raise ValueError(f"{run / config.table} cannot be measured: {why}; build a run of more images")
    return found


def measure_table(run: Path, config: BlindConfig, progress: Progress | None = None) -> Blindness:
    """Measure a run's negatives operator by operator, in their configured order; those of fewer than 5 images are
    `unmeasured`. Raises FileNotFoundError without the table, ValueError for an operator or split without rows.
    """
    table = config.table
    splits = config.splits
    operators = config.operators
    pairs: Mapping[str, Sequence[Pair]] = read_all(run, table, splits, config.seed, config.max_pairs)
    check_operators(operators, pairs or (kind.operator for kind in kinds_of(run, table)), run / table)
    if not pairs:
        raise ValueError(f"{run / table} has no negatives{' of ' + ', '.join(splits) if splits else ''}")
    pairs = {name: pairs[name] for name in operators or pairs}
    pairs = with_all(pairs) if config.together else pairs
    measured = cached_reports(run, config.seed, read_corpus(run), config.max_pairs)
    progress = progress or Progress()

    def one(name: str, some: Sequence[Pair]) -> BlindReport:
        try:
            return measured(name, some)
        finally:
            progress.advance(0 if name == ALL else len(some))

    with progress.stage(f"blind {table}", len(pairs), unit="pairs"):
        return measure_each(pairs, one)


def measure_each(pairs: Mapping[str, Sequence[Pair]], one: Measure) -> Blindness:
    """Measure each list of pairs by `one` (like `blind`); too small ones are `unmeasured`. Needs scikit-learn."""
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


def read_all(
    run: Path, table: str = "negatives", splits: Sequence[str] = (), seed: int = 0, limit: int = LIMIT
) -> dict[str, list[Pair]]:
    """Pairs by operator, one per caption, of a run's table, ordered by caption_id in each shard; splits: only these.
    Each is the first draw, a fair sample: later draws exclude earlier ones, so that they over-represent unlikely
    negatives. limit: pairs per operator (see `of_random_images`), which bounds memory. Raises FileNotFoundError without
    the table, ValueError for a missing column or a split without rows, and as `pair_tables`.
    """
    check_splits(splits, (kind.split for kind in kinds_of(run, table)) if splits else (), run / table)
    made: dict[str, list[Pair]] = {}
    columns = ("operator", "caption_id", "caption", "negative", "image_id")
    for rows in pair_tables(run, (), splits, table=table, columns=columns, per_operator=1):
        ordered = rows.sort_by([("operator", "ascending"), ("caption_id", "ascending")]).to_pydict()
        for operator, _, *texts in zip(*ordered.values(), strict=True):
            made.setdefault(operator, []).append(Pair(*texts))
        for name, some in made.items():
            if len(some) > 2 * limit:
                made[name] = of_random_images(some, limit, seed)
    return {operator: of_random_images(made[operator], limit, seed) for operator in sorted(made)}


def read_corpus(run: Path, shards: slice = slice(None)) -> list[tuple[str, str]]:
    """(text, image_id) of the English captions of a run or some shards, of random images if above CORPUS."""
    corpus: list[tuple[str, str]] = []
    for shard in shards_of(run, "captions")[shards] if has_table(run, "captions") else ():
        rows = shard.read(("text", "image_id", "language")).filter(pc.field("language") == "en")
        corpus += zip(rows["text"].to_pylist(), rows["image_id"].to_pylist(), strict=True)
        if len(corpus) > 2 * CORPUS:
            corpus = of_random_images(corpus, CORPUS)
    return of_random_images(corpus, CORPUS)


def of_random_images(rows: Sequence[Row], limit: int, seed: int = 0) -> list[Row]:
    """All rows (image_id last) if at most `limit`; else those of random images within it. The order of images depends
    on the seed and their ids alone, so rows may be left out before all are read. Raises ValueError for a limit below 1.
    """
    if limit < 1:
        raise ValueError(f"limit must be >= 1, was: {limit}")
    if len(rows) <= limit:
        return list(rows)
    sizes = Counter(row[-1] for row in rows)
    images = sorted(sizes, key=lambda image: (shuffle_key(image, seed), image))
    totals = accumulate(sizes[image] for image in images)
    kept = {image for image, total in zip(images, totals, strict=True) if total <= limit}
    return [row for row in rows if row[-1] in kept]


FOLDER = ".cache/blind"
LIBRARIES = ("numpy", "scipy", "scikit-learn")


def cached_reports(run: Path, seed: int = 0, corpus: Sequence[tuple[str, str]] = (), limit: int = LIMIT) -> Measure:
    """`blind` on pairs of random images up to a limit, with reports kept in `run`/.cache/blind by the hash of all that
    determines them. A damaged one is measured again; nothing is kept where none can write. corpus: see `blind`.
    """
    check_libraries()
    folder = scratch_folder(run, FOLDER)
    base = hash_value([code_of(), *map(version, LIBRARIES), seed, corpus])

    def measure(name: str, pairs: Sequence[Pair]) -> BlindReport:
        some = of_random_images(pairs, limit, seed)
        file = folder / f"{hash_value([base, name, some])}.json"
        with suppress(OSError, ValueError):
            sha256, _, value = file.read_text("utf-8").partition("\n")
            if sha256 == hash_value(value):
                return TypeAdapter(BlindReport).validate_json(value)
        report = blind(name, some, seed, corpus)
        value = json.dumps(asdict(report))
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, f"{hash_value(value)}\n{value}".encode())
        return report

    return measure


def to_text(found: Blindness) -> str:
    """A table of the accuracies, then by operator the words (only in the true text : only in the negative) and, where
    the regression is above chance, the n-grams (weights) that identify negatives; why others were not measured.
    """
    if not found.reports:
        return ""
    names = next(iter(found.reports.values())).baselines
    rows = [["blind accuracy, %", "pairs", *names]]
    for name, one in found.results.items():
        cells = ["–" for _ in names]
        if isinstance(one, BlindReport):
            told = [(found.cue, " reversed" * found.reversed) for found in one.baselines.values()]
            cells = [f"{cue.percent:.1f} ±{(cue.high - cue.low) / 2:.1f}{turned}" for cue, turned in told]
        rows.append([name, f"{one.pairs:,}", *cells])
    lines = aligned(rows)
    for name, left in found.unmeasured.items():
        lines += ["", f"{name}: not measured, {left.reason}"]
    for report in found.reports.values():
        lines += ["", *_cues(report)]
    return "\n".join(lines)


def _cues(report: BlindReport) -> Iterator[str]:
    words = [f"{cue.word} {cue.true:,}:{cue.negative:,}" for cue in report.words]
    label = f"{report.name}: words only in the true text : only in the negative:"
    yield from wrapped(label, words or ["none significantly"])
    if report.ngrams.low <= 50:
        yield f"{report.name}: n-grams that speak for either text: none, the regression is not above chance"
        return
    for side, cues in (("true", report.true_cues), ("false", report.false_cues)):
        grams = [f"{gram!r} {weight:+.1f}" for gram, weight in cues]
        yield from wrapped(f"{report.name}: n-grams that speak for the {side} text:", grams or ["none"])
