"""A check before publishing: negatives that can be guessed without the image are refused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...augment.reproducible import record_rng
from ..quality.bias import Accuracy, BlindReport, Pair, blind, measure_each, most_telling, with_all
from ..quality.bias.measure import Measure
from ..report.summary import plain_table
from ..tables.columns import columns_of
from ..tables.examples import Example

if TYPE_CHECKING:
    from rich.table import Table

CUES = 3
LEAST_PAIRS = 100
REFUSED, TOO_FEW, PASSED = "refused", "too few pairs to tell", "passed"


class Finding(NamedTuple):
    """The baseline that best separates an operator's captions from their negatives, and the decision it leads to.

    reversed: the baseline's predictions are inverted, so that `accuracy` is 100 % minus the baseline's own; outcome:
    REFUSED, TOO_FEW or PASSED.
    """

    operator: str
    baseline: str
    accuracy: Accuracy
    reversed: bool
    outcome: str


@dataclass(frozen=True)
class Verdict:
    """The accuracies of models without the images on the negatives to be published, and the accuracy allowed, in %.

    reports: one per operator, then one of all together; unmeasured: by operator with at least 100 pairs but no report,
    the reason; few: by operator with fewer than 100 pairs and no report, their number.
    """

    limit: float
    reports: tuple[BlindReport, ...] = ()
    unmeasured: Mapping[str, str] = field(default_factory=dict)
    few: Mapping[str, int] = field(default_factory=dict)

    @property
    def findings(self) -> list[Finding]:
        """For each report, the baseline that separates best, and the decision (see `finding`)."""
        return [finding(report, self.limit) for report in self.reports]

    @property
    def refused(self) -> list[str]:
        """The operators that must not be published: guessed too often without the images, or not measurable."""
        return [found.operator for found in self.findings if found.outcome == REFUSED] + list(self.unmeasured)

    @property
    def doubtful(self) -> dict[str, int]:
        """By operator, the number of pairs if it is too small to decide whether the negatives can be guessed."""
        found = {f.operator: f.accuracy.pairs for f in self.findings if f.outcome == TOO_FEW}
        return {**found, **self.few}


def finding(report: BlindReport, limit: float) -> Finding:
    """Judge the baseline whose 95 % interval has the highest lower bound.

    The outcome is REFUSED if that bound is above `limit` (%), else TOO_FEW for fewer than 100 pairs, else PASSED.
    """
    name, accuracy, turned = most_telling(report)
    few = TOO_FEW if accuracy.pairs < LEAST_PAIRS else PASSED
    return Finding(report.name, name, accuracy, turned, REFUSED if accuracy.low > limit else few)


def pairs_of(example: Example, seed: int) -> Iterable[tuple[str, Pair]]:
    """(operator, pair) for every operator with negatives of this caption; the negative is a random published one."""
    for operator, some in groupby(example.negatives, key=lambda negative: negative.operator):
        drawn = list(some)
        chosen = record_rng(seed, "blind", drawn[0].negative_id.rpartition(":")[0]).choice(drawn)
        yield operator, Pair(example.text, chosen.text, example.image_id)


def judge_negatives(pairs: Mapping[str, Sequence[Pair]], limit: float, measure: Measure = blind) -> Verdict:
    """Measure the blind baselines on every operator's pairs, then on all together, and compare with `limit` (%).

    measure: makes the report of a name and its pairs, like `blind`. Raises ImportError without scikit-learn.
    """
    found = measure_each(with_all(pairs), measure)
    few = {name: left.pairs for name, left in found.unmeasured.items() if left.pairs < LEAST_PAIRS}
    unmeasured = {name: left.reason for name, left in found.unmeasured.items() if name not in few}
    return Verdict(limit, tuple(found.reports.values()), unmeasured, few)


def verdict_table(verdict: Verdict) -> Table:
    """A table with one row per operator: the baseline that separates best, its 95 % interval, and the outcome."""
    table = plain_table("operator", "pairs", "most telling baseline", "right, %", "95 % interval", "outcome")
    for column in (2, 5):
        table.columns[column].justify = "left"
    for operator, baseline, accuracy, turned, outcome in verdict.findings:
        interval = f"{accuracy.low:.1f}–{accuracy.high:.1f}"
        name = f"{baseline}, reversed" if turned else baseline
        table.add_row(operator, f"{accuracy.pairs:,}", name, f"{accuracy.percent:.1f}", interval, outcome)
    for operator, number in verdict.few.items():
        table.add_row(operator, f"{number:,}", "–", "–", "–", TOO_FEW)
    for operator in verdict.unmeasured:
        table.add_row(operator, "–", "–", "–", "–", f"{REFUSED}: cannot be measured")
    return table


def cues_table(verdict: Verdict) -> Table:
    """The words that identify the negatives of refused operators, with the number of pairs where one text has them."""
    table = plain_table("operator", "strongest words (true : negative)")
    table.columns[1].justify = "left"
    for report in verdict.reports:
        if report.name in verdict.refused:
            table.add_row(report.name, cue(report))
    return table


def cue(report: BlindReport) -> str:
    """The strongest words of a report, or its n-grams if it has none.

    `three 812:3`: 812 pairs have "three" only in the true text, 3 only in the negative.
    """
    if report.words:
        return ", ".join(f"{cue.word} {cue.true:,}:{cue.negative:,}" for cue in report.words[:CUES])
    sides = (("true", report.true_cues), ("negative", report.false_cues))
    grams = [f"{gram!r} ({side})" for side, cues in sides for gram, _ in cues[:CUES]]
    return "n-grams " + ", ".join(grams) if grams else "no single word"


TRAIN = ("train", "restval")
WORDS = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class TrainSplit:
    """The captions (as hashes by `text_hash`) and the image_ids of the train split."""

    texts: frozenset[bytes]
    images: frozenset[str]

    def leaks(self, example: Example, siblings: bool = False) -> Iterator[tuple[str, str, str]]:
        """Which captions of an example are in the train split too; nothing for an example of the train split itself.

        siblings: check the other captions of its image too. Yields caption_id, "image" or "caption" (what of it is in
        the train split), and the image's path or the caption's text.
        """
        if example.split in TRAIN:
            return
        for caption_id, text in [(example.caption_id, example.text), *(example.siblings if siblings else ())]:
            if example.image_id in self.images:
                yield caption_id, "image", example.image
            elif text_hash(text) in self.texts:
                yield caption_id, "caption", text


def text_hash(text: str) -> bytes:
    """A hash of a text's words and punctuation that ignores case and spacing."""
    return blake2b(" ".join(WORDS.findall(text.casefold())).encode(), digest_size=12).digest()


def read_train_split(run: Path) -> TrainSplit:
    """Read the train split (`train` and `restval`) of a run's captions. Raises what `read_columns` raises."""
    texts: set[bytes] = set()
    images: set[str] = set()
    for rows in columns_of(run, "captions", ["image_id", "split", "text"]):
        for image_id, split, text in zip(*rows.to_pydict().values(), strict=True):
            if split in TRAIN:
                texts.add(text_hash(text))
                images.add(image_id)
    return TrainSplit(frozenset(texts), frozenset(images))
