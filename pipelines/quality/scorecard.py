"""A scorecard of a set of negatives that others made: what can be told of it without looking at the images."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from ...augment.plausibility import WORD
from ...augment.recovery.judge import faults
from ..engine.tables import has_table, no_table, read_table
from ..tables.columns import columns_of
from .accuracy import Accuracy, accuracy, aligned
from .bias import ALL, Blindness, BlindReport, Pair, blind, read_corpus
from .bias import to_text as to_text_of_blind

LEAST_IMAGES = 10
Row = Mapping[str, Any]
# Reasons that speak for a negative being true of its image.
TRUE = frozenset(
    {
        *("related_in_caption", "related_in_sibling", "overlap_in_caption", "overlap_in_sibling", "same_quantity"),
        *("sibling_quantity", "preposition_overlap", "interchangeable", "caption_says_so", "sibling_says_so"),
        "likely_true",
    }
)
SAME = frozenset({"unchanged", "repeated"})


@dataclass(frozen=True)
class Scorecard:
    """What is measured of some pairs of a caption and a negative.

    name: what the set calls their kind, or `all`. Shares with 95 % Wilson intervals, in %: same: the negative is its
    caption, or an earlier one of it; faulty: it has a grammatical fault that its caption lacks (a/an, a doubled word);
    bag: it has the same words in another order; maybe_true: by its caption, the other captions of the image, WordNet or
    the estimates, it may be true (TRUE). p_true: mean of those that have an estimate, None if none has. plausibility:
    mean log-odds to the caption, in nats. longer: mean of the negative's words minus the caption's. reasons: of all
    refusals, with their number. operators: what the negatives do, with their number. blind: accuracies without the
    images; None with fewer than 10 images or without scikit-learn.
    """

    name: str
    pairs: int
    images: int
    same: Accuracy
    faulty: Accuracy
    bag: Accuracy
    maybe_true: Accuracy
    p_true: float | None
    plausibility: float | None
    longer: float
    reasons: Mapping[str, int]
    operators: Mapping[str, int]
    blind: BlindReport | None


def scorecards(run: Path, seed: int = 0) -> list[Scorecard]:
    """The scorecards of the proposals in a run: one for each kind that they are labelled with, then one of all.

    Raises FileNotFoundError if the run has no judged proposals.
    """
    if not has_table(run, "judged"):
        raise no_table(run, "judged")
    captions: dict[str, str] = {}
    for table in columns_of(run, "captions", ("caption_id", "text")):
        captions |= dict(zip(table["caption_id"].to_pylist(), table["text"].to_pylist(), strict=True))
    corpus = read_corpus(run)
    groups: dict[str, list[Row]] = {}
    for table in read_table(run, "judged"):
        for row in table.to_pylist():
            if row["operator"]:
                groups.setdefault(row["asked"], []).append({**row, "caption": captions[row["caption_id"]]})
    named = sorted(groups.items())
    if len(named) != 1:
        named.append((ALL, [row for some in groups.values() for row in some]))
    return [_scorecard(name or ALL, rows, corpus, seed) for name, rows in named if rows]


def _scorecard(name: str, rows: Sequence[Row], corpus: Sequence[tuple[str, str]], seed: int) -> Scorecard:
    n = len(rows)
    reasons = Counter(row["reason"] for row in rows if row["reason"] is not None)
    estimates = [row["p_true"] for row in rows if row["p_true"] is not None]
    odds = [row["plausibility"] for row in rows if row["plausibility"] is not None]
    texts = [(row["caption"], row["text"]) for row in rows]
    bags = [sorted(WORD.findall(one.lower())) == sorted(WORD.findall(other.lower())) for one, other in texts]
    same = [one.lower() == other.lower() for one, other in texts]
    images = len({row["image_id"] for row in rows})
    return Scorecard(
        name,
        n,
        images,
        accuracy(sum(reasons[reason] for reason in SAME), n),
        accuracy(sum(faults(text) > faults(caption) for caption, text in texts), n),
        accuracy(sum(bag and not equal for bag, equal in zip(bags, same, strict=True)), n),
        accuracy(sum(reasons[reason] for reason in TRUE), n),
        fmean(estimates) if estimates else None,
        fmean(odds) if odds else None,
        fmean(len(text.split()) - len(caption.split()) for caption, text in texts),
        dict(reasons.most_common()),
        dict(Counter(row["operator"] for row in rows).most_common()),
        _blind(name, rows, corpus, seed) if images >= LEAST_IMAGES else None,
    )


def _blind(name: str, rows: Sequence[Row], corpus: Sequence[tuple[str, str]], seed: int) -> BlindReport | None:
    """The blind baselines on one pair a caption, the first; None if they cannot be measured."""
    first: dict[tuple[str, str], Pair] = {}
    for row in rows:
        image, caption, text = row["image_id"], row["caption"], row["text"]
        if caption.lower() != text.lower():
            first.setdefault((image, caption), Pair(caption, text, image))
    try:
        return blind(name, list(first.values()), seed, corpus)
    except (ValueError, ImportError):
        return None


def to_text(cards: Sequence[Scorecard]) -> str:
    """The scorecards as plain-text tables, then refusals, operators and cues of the last, which has all pairs."""
    head = ["%", "pairs", "images", "same", "faulty", "same words", "may be true", "p(true)", "plausibility", "longer"]
    rows = [head]
    for card in cards:
        cells = [f"{share.percent:.1f}" for share in (card.same, card.faulty, card.bag, card.maybe_true)]
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


def to_json(cards: Sequence[Scorecard]) -> str:
    """The scorecards as a JSON object by their name."""
    return json.dumps({card.name: asdict(card) for card in cards}, indent=1, ensure_ascii=False)
