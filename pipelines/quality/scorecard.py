"""A scorecard of a set of negatives that others made: what can be told of it without looking at the images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

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


def scorecards(run: Path) -> list[dict[str, Any]]:
    """The scorecards of a run's judged proposals (FileNotFoundError without): one for each kind as the set labels it
    (`name`), then one of all. In %, with 95 % Wilson intervals: same: the negative is its caption or an earlier one;
    faulty: it has a grammatical fault (a/an, a doubled word) more; bag: the same words in another order; true,
    undecidable: by `verdict`. Means, None if unknown: p_true, plausibility (nats), longer (words more). Numbers of
    reasons and operators. blind: a BlindReport; None for fewer than 10 images or without scikit-learn.
    """
    rows = pa.concat_tables(read_table(run, "judged")).to_pandas()
    captions = pa.concat_tables(read_table(run, "captions", ("caption_id", "text"))).to_pandas()
    rows = rows[rows["operator"] != ""]
    rows["caption"] = rows["caption_id"].map(captions.set_index("caption_id")["text"])
    groups = [(str(name) or ALL, some) for name, some in rows.groupby("asked")]
    groups += [] if len(groups) == 1 else [(ALL, pd.concat([some for _, some in groups]))]
    corpus = read_corpus(run)
    return [_scorecard(name, some, corpus) for name, some in groups if len(some)]


def _scorecard(name: str, rows: pd.DataFrame, corpus: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The figures of one group of pairs; corpus: (text, image_id) of true captions, for the baselines."""

    def share(holds: Iterable[bool]) -> Accuracy:
        return accuracy(sum(holds), len(rows))

    def mean(values: pd.Series) -> float | None:
        known = values.dropna().tolist()
        return fmean(known) if known else None

    caption = rows["caption"]
    text = rows["text"]
    same = caption.str.lower() == text.str.lower()
    bags = [
        sorted(WORD.findall(one)) == sorted(WORD.findall(other))
        for one, other in zip(caption.str.lower(), text.str.lower(), strict=True)
    ]
    images = rows["image_id"].nunique()
    return {
        "name": name,
        "pairs": len(rows),
        "images": images,
        "same": share(rows["reason"].isin(SAME)),
        "faulty": share(faults(one) > faults(other) for one, other in zip(text, caption, strict=True)),
        "bag": share(pd.Series(bags, rows.index) & ~same),
        "true": share(rows["verdict"] == "true"),
        "undecidable": share(rows["verdict"] == "undecidable"),
        "p_true": mean(rows["p_true"]),
        "plausibility": mean(rows["plausibility"]),
        "longer": fmean(text.str.split().map(len) - caption.str.split().map(len)),
        "reasons": dict(Counter(rows["reason"].dropna()).most_common()),
        "operators": dict(Counter(rows["operator"]).most_common()),
        "blind": _blind(name, rows[~same], corpus) if images >= LEAST_IMAGES else None,
    }


def _blind(name: str, rows: pd.DataFrame, corpus: Sequence[tuple[str, str]]) -> BlindReport | None:
    """The blind baselines on one pair a caption, the first; None if they cannot be measured."""
    first = rows.drop_duplicates(["image_id", "caption"])[["caption", "text", "image_id"]]
    try:
        return blind(name, [Pair(*pair) for pair in first.itertuples(index=False)], corpus=corpus)
    except (ValueError, ImportError):
        return None


def to_text(cards: Sequence[Mapping[str, Any]]) -> str:
    """The scorecards as plain-text tables, then refusals, operators and cues of the last, which has all pairs."""
    shares = {"same": "same", "faulty": "faulty", "bag": "same words", "true": "true", "undecidable": "undecidable"}
    rows = [["%", "pairs", "images", *shares.values(), "p(true)", "plausibility", "longer"]]
    for card in cards:
        cells = [card["name"], f"{card['pairs']:,}", f"{card['images']:,}", *(f"{card[s].percent:.1f}" for s in shares)]
        for name, form in (("p_true", ".3f"), ("plausibility", "+.1f"), ("longer", "+.1f")):
            cells.append("–" if card[name] is None else format(card[name], form))
        rows.append(cells)
    lines = aligned(rows)
    measured = Blindness({card["name"]: card["blind"] for card in cards if card["blind"] is not None})
    if measured.reports:
        lines += ["", *to_text_of_blind(measured).splitlines()]
    for what, name in (("rejected", "reasons"), ("operators", "operators")) if cards else ():
        listed = ", ".join(f"{name} {n:,}" for name, n in cards[-1][name].items())
        lines += ["", f"{what}: {listed or 'none'}"]
    return "\n".join(lines)
