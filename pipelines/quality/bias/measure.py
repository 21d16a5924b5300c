"""The text-only ("blind") baselines on pairs of a caption and its negative, by operator and of all; and as text."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple, TypeVar

import pyarrow.compute as pc
from pydantic import Field, TypeAdapter

from ....augment.reproducible import shuffle_key
from ....augment.settings import AtLeastOne, Operators, Seed, Settings, Splits
from ...engine.manifest import code_of, hash_value
from ...engine.progress import Progress
from ...engine.storage import scratch_folder, write_atomically
from ...engine.tables import has_table, shards_of
from ...report.tables import text_list, text_table
from ...tables.columns import check_operators, check_splits, kinds_of
from ...tables.pairs import pair_tables
from ..accuracy import Accuracy
from .baselines import BlindReport, CorpusText, TextPair, blind, check_libraries

ALL = "all"  # the name of the report on all operators together
LIMIT = 100_000  # pairs of an operator that are measured, at most
# The language model is trained on at most so many captions.
CORPUS = 1_000_000
# (name, pairs) -> the report on these pairs, as `blind` makes it.
Measure = Callable[[str, Sequence[TextPair]], BlindReport]
Row = TypeVar("Row", TextPair, CorpusText)


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
        return {name: result for name, result in self.results.items() if isinstance(result, BlindReport)}

    @property
    def unmeasured(self) -> dict[str, Unmeasured]:
        """The operators that could not be measured, and why."""
        return {name: result for name, result in self.results.items() if isinstance(result, Unmeasured)}

    def plain(self) -> dict[str, dict[str, object]]:
        """The reports as JSON has them, by name; then of those that could not be measured, the reason and the pairs."""
        measured: dict[str, dict[str, object]] = {name: asdict(report) for name, report in self.reports.items()}
        for name, result in self.unmeasured.items():
            measured[name] = {"not_measured": result.reason, "pairs": result.pairs}
        return measured


class BlindConfig(Settings):
    """Which negatives of a run are measured. together: also report on all operators together."""

    seed: Seed = 0
    operators: Operators = ()
    table: str = "negatives"
    splits: Splits = ()
    max_pairs: AtLeastOne = Field(LIMIT, description="pairs measured per operator, at most, of random images")
    together: bool = False


def measure_run(run: Path, config: BlindConfig | None = None) -> Blindness:
    """Measure how well text alone tells a run's negatives from their captions, operator by operator.

    config: None for the defaults. Raises FileNotFoundError without the table, ValueError for an operator or split
    without rows, or if no operator can be measured.
    """
    config = config or BlindConfig.of({})
    blindness = measure_table(run, config)
    if not blindness.reports:
        why = "; ".join(f"{name}: {result.reason}" for name, result in blindness.unmeasured.items())
        raise ValueError(f"{run / config.table} cannot be measured: {why}; build a run of more images")
    return blindness


def measure_table(run: Path, config: BlindConfig, progress: Progress | None = None) -> Blindness:
    """Measure a run's negatives operator by operator, in their configured order.

    Operators with pairs of fewer than 5 images are `unmeasured`. Raises FileNotFoundError without the table, ValueError
    for an operator or split without rows.
    """
    table = run / config.table
    pairs: Mapping[str, Sequence[TextPair]]  # by operator
    pairs = read_all(run, config.table, config.splits, config.seed, config.max_pairs)
    check_operators(config.operators, pairs or (kind.operator for kind in kinds_of(run, config.table)), table)
    if not pairs:
        of_splits = f" of {', '.join(config.splits)}" if config.splits else ""
        raise ValueError(f"{table} has no negatives{of_splits}")
    if config.operators:
        pairs = {name: pairs[name] for name in config.operators}
    if config.together:
        pairs = with_all(pairs)
    cached = cached_reports(run, config.seed, read_corpus(run), config.max_pairs)
    progress = progress or Progress()

    def measure(name: str, pairs_of_operator: Sequence[TextPair]) -> BlindReport:
        """The report of an operator, from the cache if it is there; shows the progress."""
        try:
            return cached(name, pairs_of_operator)
        finally:
            # Those that cannot be measured count, too; the pairs of `all` were counted with their operators.
            progress.advance(0 if name == ALL else len(pairs_of_operator))

    with progress.stage(f"blind {config.table}", len(pairs), unit="pairs"):
        return measure_each(pairs, measure)


def measure_each(pairs: Mapping[str, Sequence[TextPair]], measure: Measure) -> Blindness:
    """Measure how well negatives are told from their captions by the text alone. Needs scikit-learn.

    Args:
        pairs: of caption and negative, by operator.
        measure: makes the report of an operator from its name and pairs, see `blind`. Where it raises ValueError, as
            for too few pairs, the result is Unmeasured.
    """
    check_libraries()
    results: dict[str, BlindReport | Unmeasured] = {}
    for name, pairs_of_operator in pairs.items():
        try:
            results[name] = measure(name, pairs_of_operator)
        except ValueError as error:
            results[name] = Unmeasured(str(error).removeprefix(f"{name}: "), len(pairs_of_operator))
    return Blindness(results)


def with_all(pairs: Mapping[str, Sequence[TextPair]]) -> dict[str, Sequence[TextPair]]:
    """The pairs by operator, and if there are several operators, also those of all together under the key `all`."""
    if len(pairs) < 2:
        return dict(pairs)
    return {**pairs, ALL: [pair for pairs_of_operator in pairs.values() for pair in pairs_of_operator]}


def read_all(
    run: Path, table: str = "negatives", splits: Sequence[str] = (), seed: int = 0, limit: int = LIMIT
) -> dict[str, list[TextPair]]:
    """The pairs of a run by operator, one per caption, ordered by caption_id in each shard.

    Each pair has the first negative that the operator drew for the caption, a fair sample: later draws exclude earlier
    ones, and so over-represent unlikely negatives.

    Args:
        run: the folder of the run.
        table: of negatives.
        splits: only these; all if empty.
        seed: of the random images that stay within the limit.
        limit: the most pairs per operator (see `of_random_images`), which bounds memory.

    Raises:
        FileNotFoundError: without the table.
        ValueError: for a missing column or a split without rows.
    """
    check_splits(splits, (kind.split for kind in kinds_of(run, table)) if splits else (), run / table)
    pairs: dict[str, list[TextPair]] = {}
    columns = ("operator", "caption_id", "caption", "negative", "image_id")
    for rows in pair_tables(run, (), splits, table=table, columns=columns, per_operator=1):
        ordered = rows.sort_by([("operator", "ascending"), ("caption_id", "ascending")]).to_pydict()
        for operator, _, caption, negative, image_id in zip(*ordered.values(), strict=True):
            pairs.setdefault(operator, []).append(TextPair(caption, negative, image_id))
        for operator, read_so_far in pairs.items():
            # Only at twice the limit, since each time all images are sorted.
            if len(read_so_far) > 2 * limit:
                pairs[operator] = of_random_images(read_so_far, limit, seed)
    return {operator: of_random_images(pairs[operator], limit, seed) for operator in sorted(pairs)}


def read_corpus(run: Path, shards: slice = slice(None)) -> list[CorpusText]:
    """The English captions of a run, or of some shards of it; of random images if there are more than CORPUS."""
    corpus: list[CorpusText] = []
    if not has_table(run, "captions"):
        return corpus
    for shard in shards_of(run, "captions")[shards]:
        rows = shard.read(("text", "image_id", "language")).filter(pc.field("language") == "en")
        corpus += map(CorpusText, rows["text"].to_pylist(), rows["image_id"].to_pylist())
        if len(corpus) > 2 * CORPUS:
            corpus = of_random_images(corpus, CORPUS)
    return of_random_images(corpus, CORPUS)


def of_random_images(rows: Sequence[Row], limit: int, seed: int = 0) -> list[Row]:
    """All rows if they are at most `limit`; else those of random images, as many whole images as fit into it.

    The order in which images are taken depends only on the seed and their ids, so that this may be called again and
    again while rows are read. Raises ValueError for a limit below 1.
    """
    if limit < 1:
        raise ValueError(f"limit must be >= 1, was: {limit}")
    if len(rows) <= limit:
        return list(rows)
    sizes = Counter(row.image_id for row in rows)
    images = sorted(sizes, key=lambda image: (shuffle_key(image, seed), image))
    totals = accumulate(sizes[image] for image in images)
    kept = {image for image, total in zip(images, totals, strict=True) if total <= limit}
    return [row for row in rows if row.image_id in kept]


FOLDER = ".cache/blind"
LIBRARIES = ("numpy", "scipy", "scikit-learn")


def cached_reports(run: Path, seed: int = 0, corpus: Sequence[CorpusText] = (), limit: int = LIMIT) -> Measure:
    """A function that measures the pairs of an operator by `blind`, and keeps its reports in `run`/.cache/blind.

    Of more pairs than `limit`, those of random images are measured. The file of a report is named by the hash of all
    that determines it: code, libraries, seed, corpus and pairs. If the file is damaged, the report is made again; in a
    run that cannot be written to, none is kept. corpus: true captions that the baselines learn from.
    """
    check_libraries()
    folder = scratch_folder(run, FOLDER)
    # Other versions of the code or of the libraries may give other numbers.
    settings_hash = hash_value([code_of(), *map(version, LIBRARIES), seed, corpus])

    def measure(name: str, pairs: Sequence[TextPair]) -> BlindReport:
        """The report of an operator, read from its file in the cache if that is whole, else made and written there."""
        measured_pairs = of_random_images(pairs, limit, seed)
        file = folder / f"{hash_value([settings_hash, name, measured_pairs])}.json"
        with suppress(OSError, ValueError):  # no file, or a damaged one: its first line is the hash of the rest
            sha256, _, value = file.read_text("utf-8").partition("\n")
            if sha256 == hash_value(value):
                return TypeAdapter(BlindReport).validate_json(value)
        report = blind(name, measured_pairs, seed, corpus)
        value = json.dumps(asdict(report))
        with suppress(OSError):  # the run cannot be written to
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, f"{hash_value(value)}\n{value}".encode())
        return report

    return measure


def to_text(blindness: Blindness) -> str:
    """A table of the accuracies, why others were not measured, then the words and n-grams that tell which text is true.

    These are listed by operator: words with two numbers, of the pairs that have them only in the true text and only in
    the negative; n-grams with their weights, if the regression is above chance.
    """
    if not blindness.reports:
        return ""
    baselines = next(iter(blindness.reports.values())).baselines
    rows = [["blind accuracy, %", "pairs", *baselines]]
    for name, result in blindness.results.items():
        cells = ["–" for _ in baselines]
        if isinstance(result, BlindReport):
            cells = [_with_margin(accuracy) for accuracy in result.baselines.values()]
        rows.append([name, f"{result.pairs:,}", *cells])
    lines = text_table(rows)
    for name, unmeasured in blindness.unmeasured.items():
        lines += ["", f"{name}: not measured, {unmeasured.reason}"]
    for report in blindness.reports.values():
        lines += ["", *_lines_of_words(report), *_lines_of_ngrams(report)]
    return "\n".join(lines)


def _with_margin(accuracy: Accuracy) -> str:
    """An accuracy as a cue: "62.5 ±4.1", "78.0 ±5.2 reversed"."""
    cue = accuracy.cue
    margin = (cue.high - cue.low) / 2
    return f"{cue.percent:.1f} ±{margin:.1f}{' reversed' if accuracy.reversed else ''}"


def _lines_of_words(report: BlindReport) -> list[str]:
    """The words of a report as wrapped lines: "noun: words only in the true text : only in the negative: cat 12:3"."""
    words = [f"{cue.word} {cue.true:,}:{cue.negative:,}" for cue in report.words]
    label = f"{report.name}: words only in the true text : only in the negative:"
    return text_list(label, words or ["none significantly"])


def _lines_of_ngrams(report: BlindReport) -> list[str]:
    """The n-grams of a report with their weights as wrapped lines, first those for the true text, then the others."""
    # If the regression does not guess better than a coin, its weights mean nothing.
    if report.ngrams.low <= 50:
        return [f"{report.name}: n-grams that speak for either text: none, the regression is not above chance"]
    lines = []
    for side, cues in (("true", report.true_cues), ("false", report.false_cues)):
        ngrams = [f"{ngram!r} {weight:+.1f}" for ngram, weight in cues]
        lines += text_list(f"{report.name}: n-grams that speak for the {side} text:", ngrams or ["none"])
    return lines
