"""A scorecard of a set of negatives that others made: what can be told of it without looking at the images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TypedDict

import pandas as pd
import pyarrow as pa

from ...augment.plausibility import WORD
from ...augment.recovery import count_faults
from ..engine.tables import read_table
from ..report.tables import text_table
from .accuracy import Accuracy, accuracy
from .bias.baselines import BlindReport, CorpusText, TextPair, blind
from .bias.measure import ALL, Blindness, read_corpus
from .bias.measure import to_text as to_text_of_blind

# On fewer images the baselines are not measured.
LEAST_IMAGES = 10
SAME = frozenset({"unchanged", "repeated"})  # reasons of rejection


class Scorecard(TypedDict):
    """What can be told of a group of pairs without looking at the images.

    Attributes:
        name: the kind of negatives as the set labels it, or `all`.
        pairs, images: how many there are.
        same: the share of negatives, in % with a 95 % Wilson interval as all shares, that equal their caption or an
            earlier negative.
        faulty: the share that have more grammatical faults (a/an, a doubled word) than their caption.
        bag: the share that have the words of the caption in another order.
        true, undecidable: the shares with these verdicts of the checks.
        p_true, plausibility (nats), longer (words that the negative has more): means, None if unknown.
        reasons, operators: numbers of pairs, the most frequent first.
        blind: the baselines; None for fewer than 10 images or without scikit-learn.
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
    reasons: dict[str, int]
    operators: dict[str, int]
    blind: BlindReport | None


def scorecards(run: Path) -> list[Scorecard]:
    """The scorecards of a run's judged proposals: one for each kind of negatives, then, of several, one of all.

    Raises FileNotFoundError without judged proposals.
    """
    rows = pa.concat_tables(read_table(run, "judged")).to_pandas()
    captions = pa.concat_tables(read_table(run, "captions", ("caption_id", "text"))).to_pandas()
    rows = rows[rows["operator"] != ""]
    rows["caption"] = rows["caption_id"].map(captions.set_index("caption_id")["text"])
    groups = [(str(kind) or ALL, pairs) for kind, pairs in rows.groupby("asked")]
    if len(groups) != 1:
        groups.append((ALL, rows))
    corpus = read_corpus(run)
    return [_scorecard(name, pairs, corpus) for name, pairs in groups if len(pairs)]


def _scorecard(name: str, rows: pd.DataFrame, corpus: Sequence[CorpusText]) -> Scorecard:
    """The figures of one group of pairs of a caption and its negative.

    Args:
        name: of the group.
        rows: one for each pair, with the judgement of both texts.
        corpus: true captions that the blind baselines learn from.
    """

    def share(is_so: Iterable[bool]) -> Accuracy:
        """The share of pairs for which something is so."""
        return accuracy(sum(is_so), len(rows))

    captions = rows["caption"]
    texts = rows["text"]
    same = captions.str.lower() == texts.str.lower()
    same_words = captions.map(_sorted_words) == texts.map(_sorted_words)
    images = rows["image_id"].nunique()
    return {
        "name": name,
        "pairs": len(rows),
        "images": images,
        "same": share(rows["reason"].isin(SAME)),
        "faulty": share(count_faults(new) > count_faults(old) for new, old in zip(texts, captions, strict=True)),
        "bag": share(same_words & ~same),
        "true": share(rows["verdict"] == "true"),
        "undecidable": share(rows["verdict"] == "undecidable"),
        "p_true": _mean(rows["p_true"]),
        "plausibility": _mean(rows["plausibility"]),
        "longer": fmean(texts.str.split().map(len) - captions.str.split().map(len)),
        "reasons": dict(Counter(rows["reason"].dropna()).most_common()),
        "operators": dict(Counter(rows["operator"]).most_common()),
        "blind": _blind_report(name, rows[~same], corpus) if images >= LEAST_IMAGES else None,
    }


def _sorted_words(text: str) -> str:
    """The words of a text in alphabetical order, "A dog bites a man" -> "a a bites dog man"."""
    return " ".join(sorted(WORD.findall(text.lower())))


def _mean(values: pd.Series) -> float | None:
    """The mean of the values that are not null; None if all are."""
    known = values.dropna().tolist()
    return fmean(known) if known else None


def _blind_report(name: str, rows: pd.DataFrame, corpus: Sequence[CorpusText]) -> BlindReport | None:
    """The blind baselines on the first pair of each caption; None if they cannot be measured.

    Args:
        name: of the group of pairs, for the report.
        rows: one for each pair, see `_scorecard`.
        corpus: true captions that the baselines learn from.
    """
    first = rows.drop_duplicates(["image_id", "caption"])[["caption", "text", "image_id"]]
    try:
        return blind(name, [TextPair(*pair) for pair in first.itertuples(index=False)], corpus=corpus)
    except (ValueError, ImportError):
        return None


HEAD = (
    "%", "pairs", "images", "same", "faulty", "same words", "true", "undecidable", "p(true)", "plausibility", "longer",
)  # fmt: skip


def to_text(cards: Sequence[Scorecard]) -> str:
    """The scorecards as plain-text tables, then the rejections and operators of the last one, which has all pairs."""
    lines = text_table([HEAD, *map(_cells, cards)])
    measured = Blindness({card["name"]: card["blind"] for card in cards if card["blind"] is not None})
    if measured.reports:
        lines += ["", *to_text_of_blind(measured).splitlines()]
    if cards:
        lines += ["", f"rejected: {_list_counts(cards[-1]['reasons'])}"]
        lines += ["", f"operators: {_list_counts(cards[-1]['operators'])}"]
    return "\n".join(lines)


def _cells(card: Scorecard) -> list[str]:
    """The cells of a card below HEAD."""
    shares = [card["same"], card["faulty"], card["bag"], card["true"], card["undecidable"]]
    return [
        card["name"],
        f"{card['pairs']:,}",
        f"{card['images']:,}",
        *(f"{share.percent:.1f}" for share in shares),
        "–" if card["p_true"] is None else f"{card['p_true']:.3f}",
        "–" if card["plausibility"] is None else f"{card['plausibility']:+.1f}",
        f"{card['longer']:+.1f}",
    ]


def _list_counts(counts: Mapping[str, int]) -> str:
    """ "noun 1,200, verb 80" """
    return ", ".join(f"{name} {number:,}" for name, number in counts.items()) or "none"
