"""A scorecard of a set of negatives that others made: what can be told of it without looking at the images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import pandas as pd
import pyarrow as pa

from ...augment.plausibility import WORD
from ...augment.recovery import faults
from ..engine.tables import read_table
from .accuracy import Accuracy, accuracy, aligned
from .bias.baselines import BlindReport, Pair, blind
from .bias.measure import ALL, Blindness, read_corpus
from .bias.measure import to_text as to_text_of_blind

LEAST_IMAGES = 10
SAME = frozenset({"unchanged", "repeated"})


@dataclass(frozen=True)
class Scorecard:
    """What is measured of some pairs of a caption and a negative. name: what the set calls their kind, or `all`. In %,
    with 95 % Wilson intervals: same: the negative is its caption or an earlier one; faulty: it has a grammatical fault
    (a/an, a doubled word) more; bag: the same words in another order; true, undecidable: by `verdict`. Means, None if
    unknown: p_true, plausibility (nats), longer (words more). Numbers of reasons and operators. blind: None for fewer
    than 10 images or without scikit-learn.
    """

    name: str
    pairs: int
    images: int
    same: Accuracy
    faulty: Accuracy
    bag: Accuracy
    true: Accuracy
    undecidable: Accuracy
    p_true: float | None
    plausibility: float | None
    longer: float
    reasons: Mapping[str, int]
    operators: Mapping[str, int]
    blind: BlindReport | None


def scorecards(run: Path, seed: int = 0) -> list[Scorecard]:
    """The scorecards of a run's judged proposals (FileNotFoundError without): one for each label, then one of all."""
    rows = pa.concat_tables(read_table(run, "judged")).to_pandas()
    captions = pa.concat_tables(read_table(run, "captions", ("caption_id", "text"))).to_pandas()
    rows = rows[rows["operator"] != ""]
    rows["caption"] = rows["caption_id"].map(captions.set_index("caption_id")["text"])
    groups = [(str(name) or ALL, some) for name, some in rows.groupby("asked")]
    groups += [] if len(groups) == 1 else [(ALL, pd.concat([some for _, some in groups]))]
    corpus = read_corpus(run)
    return [_scorecard(name, some, corpus, seed) for name, some in groups if len(some)]


def _scorecard(name: str, rows: pd.DataFrame, corpus: Sequence[tuple[str, str]], seed: int) -> Scorecard:
    """The figures of one group of pairs; corpus: (text, image_id) of true captions, for the baselines."""

    def share(holds: Iterable[bool]) -> Accuracy:
        return accuracy(sum(holds), len(rows))

    def mean(values: pd.Series) -> float | None:
        known = values.dropna().tolist()
        return fmean(known) if known else None

    caption, text = rows["caption"], rows["text"]
    same = caption.str.lower() == text.str.lower()
    bags = [
        sorted(WORD.findall(one.lower())) == sorted(WORD.findall(other.lower()))
        for one, other in zip(caption, text, strict=True)
    ]
    images = rows["image_id"].nunique()
    return Scorecard(
        name,
        len(rows),
        images,
        share(rows["reason"].isin(SAME)),
        share(faults(one) > faults(other) for one, other in zip(text, caption, strict=True)),
        share(pd.Series(bags, rows.index) & ~same),
        share(rows["verdict"] == "true"),
        share(rows["verdict"] == "undecidable"),
        mean(rows["p_true"]),
        mean(rows["plausibility"]),
        fmean(text.str.split().map(len) - caption.str.split().map(len)),
        dict(Counter(rows["reason"].dropna()).most_common()),
        dict(Counter(rows["operator"]).most_common()),
        _blind(name, rows[~same], corpus, seed) if images >= LEAST_IMAGES else None,
    )


def _blind(name: str, rows: pd.DataFrame, corpus: Sequence[tuple[str, str]], seed: int) -> BlindReport | None:
    """The blind baselines on one pair a caption, the first; None if they cannot be measured."""
    first = rows.drop_duplicates(["image_id", "caption"])[["caption", "text", "image_id"]]
    try:
        return blind(name, [Pair(*pair) for pair in first.itertuples(index=False)], seed, corpus)
    except (ValueError, ImportError):
        return None


def to_text(cards: Sequence[Scorecard]) -> str:
    """The scorecards as plain-text tables, then refusals, operators and cues of the last, which has all pairs."""
    shares = ["same", "faulty", "same words", "true", "undecidable"]
    rows = [["%", "pairs", "images", *shares, "p(true)", "plausibility", "longer"]]
    for card in cards:
        cells = [f"{share.percent:.1f}" for share in (card.same, card.faulty, card.bag, card.true, card.undecidable)]
        cells.append("–" if card.p_true is None else f"{card.p_true:.3f}")
        cells.append("–" if card.plausibility is None else f"{card.plausibility:+.1f}")
        rows.append([card.name, f"{card.pairs:,}", f"{card.images:,}", *cells, f"{card.longer:+.1f}"])
    lines = aligned(rows)
    measured = Blindness({card.name: card.blind for card in cards if card.blind is not None})
    if measured.reports:
        lines += ["", *to_text_of_blind(measured).splitlines()]
    for what, counts in (("rejected", cards[-1].reasons), ("operators", cards[-1].operators)) if cards else ():
        listed = ", ".join(f"{name} {n:,}" for name, n in counts.items())
        lines += ["", f"{what}: {listed or 'none'}"]
    return "\n".join(lines)
