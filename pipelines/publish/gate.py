"""What keeps a set from being published: negatives guessable without the image, and train captions in a test set."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from negcap.pipelines.engine.shards import list_shards
from negcap.pipelines.publish.selection import Example
from negcap.pipelines.quality.bias import BlindReport, Pair, measure, one_per_caption
from negcap.pipelines.tables.columns import read_columns

TRAIN = ("train", "restval")
WORDS = re.compile(r"\w+|[^\w\s]")
CUES = 5
FIXED = ("format rule", "shorter is true", "language model")  # as telling when they are turned round
ALL = "all"
LEAST_PAIRS = 100  # of fewer, too little is learnt to call them unguessable


class RefusedError(Exception):
    """A check that failed: `lines` say of what, one a line."""

    def __init__(self, lines: Sequence[str]) -> None:
        """Keep the lines."""
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)


class Finding(NamedTuple):
    """A measure that tells an operator's negatives more often than is allowed, by these cues."""

    operator: str
    measure: str
    percent: float
    cue: str


@dataclass(frozen=True)
class Verdict:
    """The blind baselines of what is published; `unmeasured` says why an operator has none."""

    limit: float
    reports: tuple[BlindReport, ...] = ()
    unmeasured: tuple[tuple[str, str], ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def lines(self) -> list[str]:
        """What speaks against publishing, a line each."""
        return [
            f"{operator}: {measure} tells {percent:.1f} % of the pairs without the image, limit {self.limit:g} %; {cue}"
            for operator, measure, percent, cue in self.findings
        ] + [f"{operator}: cannot be measured, {reason}" for operator, reason in self.unmeasured]

    @property
    def doubts(self) -> list[str]:
        """Operators that no baseline tells, of too few pairs to say that none can, a line each."""
        told = {finding.operator for finding in self.findings}
        return [
            f"{report.name}: {report.ngrams.pairs:,} pairs are too few to call it unguessable, fewer than {LEAST_PAIRS}"
            for report in self.reports
            if report.ngrams.pairs < LEAST_PAIRS and report.name not in told
        ]


def pairs_of(example: Example, seed: int) -> Iterable[tuple[str, Pair]]:
    """An operator and a pair for every operator with negatives of this caption: a random one of those published."""
    by_operator: dict[str, list[tuple[str, Pair]]] = {}
    for negative in example.negatives:
        pair = Pair(example.text, negative.text, example.image_id)
        by_operator.setdefault(negative.operator, []).append((negative.negative_id, pair))
    for operator, rows in by_operator.items():
        yield operator, one_per_caption(rows, seed, "random")[0]


def judge(
    pairs: Mapping[str, Sequence[Pair]], limit: float, seed: int = 0, corpus: Sequence[tuple[str, str]] = ()
) -> Verdict:
    """The blind baselines of every operator's pairs, then of all together, and where they pass the limit (%).

    A rule that has learned from no negative counts with its reverse: 30 % for "the shorter is true" is 70 % for "the
    longer is true". corpus: (text, image_id) of true captions for the language model. Raises ImportError.
    """
    reports, unmeasured, findings = [], [], []
    together = {ALL: [pair for rows in pairs.values() for pair in rows]} if len(pairs) > 1 else {}
    for operator, rows in {**pairs, **together}.items():
        try:
            report = measure({operator: rows}, seed, corpus)[operator]
        except ValueError as error:
            unmeasured.append((operator, str(error).removeprefix(f"{operator}: ")))
            continue
        reports.append(report)
        for name, accuracy in report.baselines.items():
            turned = name in FIXED and accuracy.percent < 50
            percent = 100 - accuracy.percent if turned else accuracy.percent
            if percent > limit:
                findings.append(Finding(operator, f"{name}, reversed," if turned else name, percent, cue(report)))
    return Verdict(limit, tuple(reports), tuple(unmeasured), tuple(findings))


def cue(report: BlindReport) -> str:
    """The strongest words of a report, else its n-grams: `strongest words: 'a' (812 true, 3 negative), …`."""
    words = [f"{cue.word!r} ({cue.true:,} true, {cue.negative:,} negative)" for cue in report.words[:CUES]]
    if words:
        return "strongest words: " + ", ".join(words)
    sides = (("true", report.true_cues), ("negative", report.false_cues))
    grams = [f"{gram!r} ({side})" for side, cues in sides for gram, _ in cues[:CUES]]
    return "strongest n-grams: " + ", ".join(grams) if grams else "no single word gives them away"


@dataclass(frozen=True)
class Trained:
    """The captions (folded, hashed) and images of the train split."""

    texts: frozenset[bytes]
    images: frozenset[str]

    def leaks(self, example: Example, siblings: bool = False) -> Iterator[tuple[str, str, str]]:
        """What of an example of another split (with its siblings, if so asked) is in the train split.

        For each: its caption_id, whether the `image` or the `caption` is, and its path or text.
        """
        if example.split in TRAIN:
            return
        for caption_id, text in [(example.caption_id, example.text), *(example.siblings if siblings else ())]:
            if example.image_id in self.images:
                yield caption_id, "image", example.image
            elif folded(text) in self.texts:
                yield caption_id, "caption", text


def folded(text: str) -> bytes:
    """A hash of a text's words and signs, whatever their case and the space between them."""
    return blake2b(" ".join(WORDS.findall(text.casefold())).encode(), digest_size=12).digest()


def trained(run: Path) -> Trained:
    """The train split of a run. Raises as `read_columns`."""
    texts: set[bytes] = set()
    images: set[str] = set()
    for shard in list_shards(run / "captions"):
        rows: dict[str, list[Any]] = read_columns(shard, ["image_id", "split", "text"]).to_pydict()
        for image_id, split, text in zip(rows["image_id"], rows["split"], rows["text"], strict=True):
            if split in TRAIN:
                texts.add(folded(text))
                images.add(image_id)
    return Trained(frozenset(texts), frozenset(images))
