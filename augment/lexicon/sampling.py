"""Draw replacements for all the slots of a caption at once, in proportion to the corpus' own use of them there."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate
from random import Random

import numpy as np


def draw(masses: Sequence[np.ndarray], rng: Random, limit: int) -> Iterator[tuple[int, int]]:
    """At most `limit` distinct (slot, entry) pairs, drawn one after another without replacement.

    `masses` holds an array of non-negative weights a slot. They are not normalised slot by slot: a slot is chosen as
    often as its weights sum to, so a word that the corpus makes nearly certain in its place is replaced less often. In
    this way an exchange of x for y is about as frequent as one of y for x (detailed balance), which leaves a reader of
    the text alone little to go by; what refusals disturb, negcap.augment.lexicon.balance repairs.

    Weighted sampling without replacement by exponential keys (Efraimidis and Spirakis 2006).
    """
    if not masses:
        return
    weights = np.concatenate(masses)
    (open,) = weights.nonzero()
    if not len(open):
        return
    noise = np.random.Generator(np.random.PCG64(rng.getrandbits(64))).standard_exponential(len(open))
    keys = noise / weights[open]
    if limit < len(open):
        first = keys.argpartition(limit)[:limit]
        order = first[keys[first].argsort()]
    else:
        order = keys.argsort()
    starts = np.array([0, *accumulate(map(len, masses))])
    flat = open[order]
    slots = starts.searchsorted(flat, side="right") - 1
    yield from zip(slots.tolist(), (flat - starts[slots]).tolist(), strict=True)


def accepts(gain: float, rng: Random) -> bool:
    """Whether to make an exchange that adds `gain` to a log likelihood: with probability min(1, e^gain)."""
    return rng.random() < math.exp(min(gain, 0.0))
