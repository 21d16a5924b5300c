"""Checks before publishing: negatives that can be guessed without the image, and what is in the train split too."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow.compute as pc

from ...augment.reproducible import record_rng
from ...schemas.captions import TRAIN_SPLITS
from ..engine.tables import read_table
from ..quality.accuracy import with_interval
from ..quality.bias.baselines import BlindReport, TextPair, blind, most_telling
from ..quality.bias.measure import ALL, Measure, Unmeasured, measure_each, with_all
from ..report.tables import terminal_table
from ..tables.examples import Row, negatives_of

if TYPE_CHECKING:
    from rich.table import Table

# The number of words or n-grams that the table shows of an operator.
CUES = 3
# Fewer pairs of an operator are not held to the limit: their interval is wider than 19 points.
LEAST_PAIRS = 100
REFUSED = "refused"
TOO_FEW = f"fewer than {LEAST_PAIRS} pairs"
PASSED = "passed"
WORDS = re.compile(r"\w+|[^\w\s]")


class GateVerdict(NamedTuple):
    """The accuracy allowed, in %, and what was measured of each operator's negatives, then of all together."""

    limit: float
    results: Mapping[str, BlindReport | Unmeasured] = {}

    def outcome(self, name: str) -> str:
        """Whether the negatives of an operator, or of `all`, may be published.

        REFUSED if the most telling baseline's lower 95 % bound is above `limit`, or nothing can be measured although
        there are enough pairs; TOO_FEW for fewer than 100 pairs; else PASSED. A few pairs of an operator are not
        REFUSED if all operators together have PASSED: `refine --per-caption 1` leaves some operators a handful.
        """
        result = self.results[name]
        has_few = result.pairs < LEAST_PAIRS
        if isinstance(result, Unmeasured):
            return TOO_FEW if has_few else REFUSED
        if most_telling(result.baselines).cue.low <= self.limit:
            return TOO_FEW if has_few else PASSED
        # A handful of pairs can be above the limit by chance, and has been measured with all the others, too.
        is_part_of_passed = name != ALL and ALL in self.results and self.outcome(ALL) == PASSED
        return TOO_FEW if has_few and is_part_of_passed else REFUSED

    @property
    def reports(self) -> list[BlindReport]:
        """The blind reports of those that could be measured."""
        return [result for result in self.results.values() if isinstance(result, BlindReport)]

    @property
    def refused(self) -> list[str]:
        """The operators that must not be published: guessed too often without the images, or not measurable."""
        return [name for name in self.results if self.outcome(name) == REFUSED]

    @property
    def unmeasured(self) -> dict[str, str]:
        """By operator with enough pairs, why it could not be measured."""
        reasons = {}
        for name in self.refused:
            result = self.results[name]
            if isinstance(result, Unmeasured):
                reasons[name] = result.reason
        return reasons

    @property
    def doubtful(self) -> dict[str, int]:
        """By operator, the number of pairs if it is too small to be held to the limit."""
        return {name: result.pairs for name, result in self.results.items() if self.outcome(name) == TOO_FEW}


def judge_negatives(pairs: Mapping[str, Sequence[TextPair]], limit: float, measure: Measure = blind) -> GateVerdict:
    """Judge whether negatives can be told from captions by the text alone, of each operator and of all together.

    Needs scikit-learn.

    Args:
        pairs: of caption and negative, by operator.
        limit: the accuracy (%) of a guesser without images that is still allowed.
        measure: makes the report of an operator from its name and pairs.
    """
    blindness = measure_each(with_all(pairs), measure)
    unmeasured = blindness.unmeasured
    with_too_few = {name: result for name, result in unmeasured.items() if result.pairs < LEAST_PAIRS}
    # In this order: those that were measured, those with too few pairs, then those that should have been measured.
    # `unmeasured` has all of the last two; a name that is there already keeps its position.
    return GateVerdict(limit, {**blindness.reports, **with_too_few, **unmeasured})


def verdict_table(verdict: GateVerdict) -> Table:
    """A table with one row per operator: the baseline that separates best, its 95 % interval, and the outcome."""
    table = terminal_table("operator", "pairs", "most telling baseline", "right, % (95 % interval)", "outcome")
    for column in (2, 4):
        table.columns[column].justify = "left"
    for name, result in verdict.results.items():
        outcome = verdict.outcome(name)
        if isinstance(result, BlindReport):
            telling = most_telling(result.baselines)
            table.add_row(name, f"{result.pairs:,}", telling.baseline, with_interval(telling.cue), outcome)
        elif outcome == REFUSED:
            table.add_row(name, "–", "–", "–", f"{outcome}: cannot be measured")
        else:
            table.add_row(name, f"{result.pairs:,}", "–", "–", outcome)
    return table


def cues_table(verdict: GateVerdict) -> Table:
    """The words (`three 812:3`: in 812 true texts, 3 negatives) or n-grams that tell negatives of refused operators."""
    table = terminal_table("operator", "strongest words (true : negative)")
    table.columns[1].justify = "left"
    for report in verdict.reports:
        if report.name in verdict.refused:
            table.add_row(report.name, _strongest_cues(report))
    return table


def _strongest_cues(report: BlindReport) -> str:
    """What tells an operator's negatives most, as text: words with their counts, or else n-grams."""
    # Words first: their counts show at once what is out of balance.
    if report.words:
        return ", ".join(f"{cue.word} {cue.true:,}:{cue.negative:,}" for cue in report.words[:CUES])
    ngrams = [f"{ngram!r} (true)" for ngram, _ in report.true_cues[:CUES]]
    ngrams += [f"{ngram!r} (negative)" for ngram, _ in report.false_cues[:CUES]]
    return "n-grams " + ", ".join(ngrams) if ngrams else "no single word"


class OperatorPair(NamedTuple):
    """A pair, and the operator that made its negative."""

    operator: str
    pair: TextPair


def pairs_of(rows: Iterable[Row], seed: int) -> Iterator[OperatorPair]:
    """A pair for every caption and operator with negatives; its negative is a random published one."""
    for (_, operator), group in groupby(rows, key=lambda row: (row.text_id, row.operator)):
        negatives = negatives_of(group)
        # Only one negative: several pairs of a caption are not independent, and would make intervals too narrow.
        if negatives:
            caption_and_operator = negatives[0].negative_id.rpartition(":")[0]  # "coco:7#noun" of "coco:7#noun:0"
            chosen = record_rng(seed, "blind", caption_and_operator).choice(negatives)
            yield OperatorPair(operator, TextPair(chosen.text, chosen.negative, chosen.image_id))


class Leak(NamedTuple):
    """A caption outside the train split that is also in it, or whose image is.

    what: "image" or "caption". name: the path of the image, or the text.
    """

    caption_id: str
    what: str
    name: str


@dataclass(frozen=True)
class TrainSplit:
    """The captions (as hashes by `text_hash`) and the image_ids of the train split."""

    texts: frozenset[bytes] = frozenset()
    images: frozenset[str] = frozenset()

    def leaks(self, row: Row, siblings: bool = False) -> Iterator[Leak]:
        """Whether a row's image or caption is also in the train split: a leak for each that is.

        Args:
            row: to look at; one of the train split itself has no leaks.
            siblings: whether the image's other captions are looked at, too.
        """
        if row.split in TRAIN_SPLITS:
            return
        captions = [(row.caption_id, row.text)]
        if siblings:
            captions += zip(row.sibling_ids, row.siblings, strict=True)
        for caption_id, text in captions:
            if row.image_id in self.images:
                yield Leak(caption_id, "image", row.image)
            elif self.texts and text_hash(text) in self.texts:
                # without a train split, the first condition spares the hash
                yield Leak(caption_id, "caption", text)


def text_hash(text: str) -> bytes:
    """A hash of a text's words and punctuation that ignores case and spacing."""
    return blake2b(" ".join(WORDS.findall(text.casefold())).encode(), digest_size=12).digest()


def read_train_split(run: Path) -> TrainSplit:
    """Read the train split (`train` and `restval`) of a run's captions. Raises FileNotFoundError without captions."""
    texts: set[bytes] = set()
    images: set[str] = set()
    for rows in read_table(run, "captions", ["image_id", "split", "text"]):
        train = rows.filter(pc.field("split").isin(TRAIN_SPLITS))
        texts.update(map(text_hash, train["text"].to_pylist()))
        images.update(train["image_id"].to_pylist())
    return TrainSplit(frozenset(texts), frozenset(images))
