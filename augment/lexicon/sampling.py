"""Sample replacements for all the slots of a caption at once, in proportion to the corpus' own use of them there."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate
from random import Random

import numpy as np


def sample(slot_weights: Sequence[np.ndarray], rng: Random, limit: int) -> Iterator[tuple[int, int]]:
    """At most `limit` distinct (slot, entry) pairs, sampled without replacement and in order.

    `slot_weights` holds, for each slot, non-negative weights of shape (entries,). They are not normalised slot by slot:
    a slot is chosen as often as its weights sum to, so a word that the corpus makes nearly certain in its context is
    replaced less often. In this way an exchange of x for y is about as frequent as one of y for x (detailed balance),
    which leaves a reader of the text alone little to go by; what refusals disturb, negcap.augment.lexicon.balance
    repairs.

    Weighted sampling without replacement by exponential keys (Efraimidis and Spirakis 2006).
    """
    if not slot_weights:
        return
    weights = np.concatenate(slot_weights)
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
    starts = np.array([0, *accumulate(map(len, slot_weights))])
    flat = open[order]
    slots = starts.searchsorted(flat, side="right") - 1
    yield from zip(slots.tolist(), (flat - starts[slots]).tolist(), strict=True)


def accepts(gain: float, rng: Random) -> bool:
    """Whether to make an exchange that adds `gain` to a log likelihood: with probability min(1, e^gain)."""
    return rng.random() < math.exp(min(gain, 0.0))
