"""Checks before publishing: negatives that can be guessed without the image, and what is in the train split too."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pyarrow.compute as pc
from rich.table import Table

from ...augment.reproducible import record_rng
from ...schemas.captions import TRAIN_SPLITS
from ..engine.tables import read_table
from ..quality.accuracy import with_interval
from ..quality.bias.baselines import BlindReport, Pair, blind, most_telling
from ..quality.bias.measure import ALL, Measure, Unmeasured, measure_each, with_all
from ..report.summary import plain_table
from ..tables.examples import Row, negatives_of

CUES = 3
LEAST_PAIRS = 100
REFUSED = "refused"
TOO_FEW = f"fewer than {LEAST_PAIRS} pairs"
PASSED = "passed"
WORDS = re.compile(r"\w+|[^\w\s]")


class Verdict(NamedTuple):
    """The accuracy allowed, in %, and what was measured of each operator's negatives, then of all together."""

    limit: float
    results: Mapping[str, BlindReport | Unmeasured] = {}

    def outcome(self, name: str) -> str:
        """REFUSED if the most telling baseline's lower 95 % bound is above `limit`, or nothing can be measured although
        there are enough pairs; TOO_FEW for fewer than 100 pairs; else PASSED. So few pairs of an operator are not
        REFUSED if all operators together have PASSED: `refine --per-caption 1` leaves some operators a handful.
        """
        found = self.results[name]
        few = found.pairs < LEAST_PAIRS
        if isinstance(found, BlindReport) and most_telling(found.baselines)[1].low > self.limit:
            part = few and name != ALL and ALL in self.results and self.outcome(ALL) == PASSED
            return TOO_FEW if part else REFUSED
        return TOO_FEW if few else REFUSED if isinstance(found, Unmeasured) else PASSED

    @property
    def reports(self) -> list[BlindReport]:
        """The blind reports of those that could be measured."""
        return [one for one in self.results.values() if isinstance(one, BlindReport)]

    @property
    def refused(self) -> list[str]:
        """The operators that must not be published: guessed too often without the images, or not measurable."""
        return [name for name in self.results if self.outcome(name) == REFUSED]

    @property
    def unmeasured(self) -> dict[str, str]:
        """By operator with enough pairs, why it could not be measured."""
        found = ((name, self.results[name]) for name in self.refused)
        return {name: one.reason for name, one in found if isinstance(one, Unmeasured)}

    @property
    def doubtful(self) -> dict[str, int]:
        """By operator, the number of pairs if it is too small to be held to the limit."""
        return {name: one.pairs for name, one in self.results.items() if self.outcome(name) == TOO_FEW}


def judge_negatives(pairs: Mapping[str, Sequence[Pair]], limit: float, measure: Measure = blind) -> Verdict:
    """Measure each operator's pairs by `measure`, then all together, against `limit` (%). Needs scikit-learn."""
    measured = measure_each(with_all(pairs), measure)
    left = sorted(measured.unmeasured.items(), key=lambda one: one[1].pairs >= LEAST_PAIRS)
    return Verdict(limit, {**measured.reports, **dict(left)})


def verdict_table(verdict: Verdict) -> Table:
    """A table with one row per operator: the baseline that separates best, its 95 % interval, and the outcome."""
    table = plain_table("operator", "pairs", "most telling baseline", "right, % (95 % interval)", "outcome")
    for column in (2, 4):
        table.columns[column].justify = "left"
    for name, one in verdict.results.items():
        pairs = f"{one.pairs:,}"
        outcome = verdict.outcome(name)
        told = ("–", "–")
        if isinstance(one, BlindReport):
            baseline, accuracy = most_telling(one.baselines)
            told = baseline, with_interval(accuracy)
        elif outcome == REFUSED:
            pairs = "–"
            outcome = f"{outcome}: cannot be measured"
        table.add_row(name, pairs, *told, outcome)
    return table


def cues_table(verdict: Verdict) -> Table:
    """The words (`three 812:3`: in 812 true texts, 3 negatives) or n-grams that tell negatives of refused operators."""
    table = plain_table("operator", "strongest words (true : negative)")
    table.columns[1].justify = "left"
    for report in verdict.reports:
        if report.name in verdict.refused:
            said = [f"{cue.word} {cue.true:,}:{cue.negative:,}" for cue in report.words[:CUES]]
            sides = (("true", report.true_cues), ("negative", report.false_cues))
            grams = [f"{gram!r} ({side})" for side, cues in sides for gram, _ in cues[:CUES]]
            others = "n-grams " + ", ".join(grams) if grams else "no single word"
            table.add_row(report.name, ", ".join(said) or others)
    return table


def pairs_of(rows: Iterable[Row], seed: int) -> Iterator[tuple[str, Pair]]:
    """(operator, pair) for every caption and operator with negatives; the negative is a random published one."""
    for (_, operator), some in groupby(rows, key=lambda row: (row.text_id, row.operator)):
        drawn = negatives_of(some)
        if drawn:
            chosen = record_rng(seed, "blind", drawn[0].negative_id.rpartition(":")[0]).choice(drawn)
            yield operator, Pair(chosen.text, chosen.negative, chosen.image_id)


@dataclass(frozen=True)
class TrainSplit:
    """The captions (as hashes by `text_hash`) and the image_ids of the train split."""

    texts: frozenset[bytes] = frozenset()
    images: frozenset[str] = frozenset()

    def leaks(self, row: Row, siblings: bool = False) -> Iterator[tuple[str, str, str]]:
        """Yield caption_id, "image" or "caption", and the image's path or the text, of what a row of another split
        (and, with `siblings`, of its image's other captions) has in the train split, too.
        """
        if row.split in TRAIN_SPLITS:
            return
        others = zip(row.sibling_ids, row.siblings, strict=True) if siblings else ()
        for caption_id, text in [(row.caption_id, row.text), *others]:
            if row.image_id in self.images:
                yield caption_id, "image", row.image
            elif self.texts and text_hash(text) in self.texts:
                yield caption_id, "caption", text


def text_hash(text: str) -> bytes:
    """A hash of a text's words and punctuation that ignores case and spacing."""
    return blake2b(" ".join(WORDS.findall(text.casefold())).encode(), digest_size=12).digest()


def read_train_split(run: Path) -> TrainSplit:
    """Read the train split (`train` and `restval`) of a run's captions. Raises as `read_table`."""
    texts: set[bytes] = set()
    images: set[str] = set()
    for rows in read_table(run, "captions", ["image_id", "split", "text"]):
        train = rows.filter(pc.field("split").isin(TRAIN_SPLITS))
        texts.update(map(text_hash, train["text"].to_pylist()))
        images.update(train["image_id"].to_pylist())
    return TrainSplit(frozenset(texts), frozenset(images))
