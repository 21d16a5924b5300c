"""What readers that never see an image get of the same pairs: printed beside every score."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..quality.bias import CachedReports, Pair, format_rule, most_telling, read_corpus, shorter
from .items import is_run
from .test_set import TestSet


class Baseline(NamedTuple):
    """The baseline that best tells captions from negatives without an image.

    value, low, high: its accuracy in %, with 95 % bounds. reversed: the baseline is wrong more often
    than right, and the accuracy is that of its opposite.
    """

    name: str
    value: float
    low: float
    high: float
    reversed: bool


def baselines(tests: TestSet, source: Path, seed: int) -> dict[tuple[str, str], Baseline]:
    """By protocol (`pairs`, `half-truth`) and group of operators, the most telling of the blind baselines.

    For pairs it is one of those of `negcap blind`; of groups that are too small to train one, and for half-truths,
    where the shorter text is the true one by construction, only rules are tried. Reports are cached in `source`.
    """
    corpus = read_corpus(source) if is_run(source) else []
    measured = CachedReports(source if source.is_dir() else source.parent, seed, corpus)
    found: dict[tuple[str, str], Baseline] = {}
    for group, wanted in tests.groups.items():
        inside = wanted[tests.operator] & tests.first
        if not inside.any():
            continue
        pairs = _pairs(tests, inside)
        try:
            name, best, turned = most_telling(measured(group, pairs))
            found["pairs", group] = Baseline(name, best.percent, best.low, best.high, turned)
        except ValueError:  # too few
            found["pairs", group] = _by_rules(pairs)
        half = inside & tests.adds
        if half.any():
            found["half-truth", group] = _by_rules(_pairs(tests, half))
    return found


def _pairs(tests: TestSet, rows: np.ndarray) -> list[Pair]:
    return [
        Pair(tests.texts[true], tests.texts[false], tests.image_ids[image])
        for image, true, false, _ in tests.pairs[rows].tolist()
    ]


def _by_rules(pairs: list[Pair]) -> Baseline:
    """The better of two rules that need no training, or of their opposites."""
    tried = []
    for name, found in (("format rule", format_rule(pairs)), ("shorter is true", shorter(pairs))):
        turned = found.percent < 50
        low, high = (100 - found.high, 100 - found.low) if turned else (found.low, found.high)
        tried.append(Baseline(name, 100 - found.percent if turned else found.percent, low, high, turned))
    return max(tried, key=lambda one: (one.low, one.value))
