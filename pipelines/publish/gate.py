"""The gate: negatives that can be guessed without the image are not published."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from negcap.pipelines.publish.selection import Example
from negcap.pipelines.quality.bias import Accuracy, BlindReport, Pair, blind, one_per_caption, with_all
from negcap.pipelines.report.summary import plain_table

if TYPE_CHECKING:
    from rich.table import Table

CUES = 3
FIXED = ("format rule", "shorter is true", "language model")  # none learns from negatives: reversed, they tell as much
LEAST_PAIRS = 100
REFUSED, TOO_FEW, PASSED = "refused", "too few pairs to tell", "passed"
Measure = Callable[[str, Sequence[Pair]], BlindReport]


class Finding(NamedTuple):
    """The baseline that tells most of an operator's captions from their negatives, and what follows from it.

    reversed: it takes the other text for the true one, so that its accuracy is 100 % minus the baseline's.
    """

    operator: str
    baseline: str
    accuracy: Accuracy
    reversed: bool
    outcome: str


@dataclass(frozen=True)
class Verdict:
    """The accuracies of the blind baselines on what is published, and the highest that is allowed, in %.

    reports: by operator, then of all together; unmeasured: why an operator of enough pairs has no report; few: the
    number of pairs of operators that have no report because they have too few.
    """

    limit: float
    reports: tuple[BlindReport, ...] = ()
    unmeasured: Mapping[str, str] = field(default_factory=dict)
    few: Mapping[str, int] = field(default_factory=dict)

    @property
    def findings(self) -> list[Finding]:
        """Each operator's most telling baseline, as `finding` judges it."""
        return [finding(report, self.limit) for report in self.reports]

    @property
    def refused(self) -> list[str]:
        """The operators that may not be published: those told too often, and those that cannot be measured."""
        return [found.operator for found in self.findings if found.outcome == REFUSED] + list(self.unmeasured)

    @property
    def doubtful(self) -> dict[str, int]:
        """The operators of too few pairs to tell whether their negatives can be guessed, with their pairs."""
        found = {f.operator: f.accuracy.pairs for f in self.findings if f.outcome == TOO_FEW}
        return {**found, **self.few}


def finding(report: BlindReport, limit: float) -> Finding:
    """Judge the baseline with the highest lower bound of its 95 % interval.

    Refused where that bound is above the limit (%): the accuracy is then above it with some certainty. Of fewer than
    100 pairs that are not refused, it is said that they are too few to tell.
    """
    name, accuracy, turned = max(_both_ways(report), key=lambda found: (found[1].low, found[1].percent))
    few = TOO_FEW if accuracy.pairs < LEAST_PAIRS else PASSED
    return Finding(report.name, name, accuracy, turned, REFUSED if accuracy.low > limit else few)


def _both_ways(report: BlindReport) -> Iterator[tuple[str, Accuracy, bool]]:
    """The baselines; those that learn from no negative reversed where they are wrong more often than right.

    30 % for "the shorter is true" is 70 % for "the longer is true".
    """
    for name, found in report.baselines.items():
        turned = name in FIXED and found.percent < 50
        if turned:
            found = Accuracy(100 - found.percent, 100 - found.high, 100 - found.low, found.pairs)
        yield name, found, turned


def pairs_of(example: Example, seed: int) -> Iterable[tuple[str, Pair]]:
    """An operator and a pair for every operator with negatives of this caption: a random one of those published."""
    by_operator: dict[str, list[tuple[str, Pair]]] = {}
    for negative in example.negatives:
        pair = Pair(example.text, negative.text, example.image_id)
        by_operator.setdefault(negative.operator, []).append((negative.negative_id, pair))
    for operator, rows in by_operator.items():
        yield operator, one_per_caption(rows, seed, "random")[0]


def judge_negatives(pairs: Mapping[str, Sequence[Pair]], limit: float, measure: Measure = blind) -> Verdict:
    """Measure the blind baselines on every operator's pairs, then on all together, against the limit (%).

    measure: from a name and its pairs to a report, as `blind`. Raises ImportError without scikit-learn.
    """
    reports, unmeasured, few = [], {}, {}
    for operator, rows in with_all(pairs).items():
        try:
            reports.append(measure(operator, rows))
        except ValueError as error:
            if len(rows) < LEAST_PAIRS:
                few[operator] = len(rows)
            else:
                unmeasured[operator] = str(error).removeprefix(f"{operator}: ")
    return Verdict(limit, tuple(reports), unmeasured, few)


def verdict_table(verdict: Verdict) -> Table:
    """What was measured, a row an operator: its most telling baseline with the 95 % interval, and the outcome."""
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
    """The words that give the refused operators away, with the pairs where one text alone has them."""
    table = plain_table("operator", "strongest words (true : negative)")
    table.columns[1].justify = "left"
    for report in verdict.reports:
        if report.name in verdict.refused:
            table.add_row(report.name, cue(report))
    return table


def cue(report: BlindReport) -> str:
    """The strongest words of a report, else its n-grams: `three 812:3, a 40:55`."""
    if report.words:
        return ", ".join(f"{cue.word} {cue.true:,}:{cue.negative:,}" for cue in report.words[:CUES])
    sides = (("true", report.true_cues), ("negative", report.false_cues))
    grams = [f"{gram!r} ({side})" for side, cues in sides for gram, _ in cues[:CUES]]
    return "n-grams " + ", ".join(grams) if grams else "no single word"
