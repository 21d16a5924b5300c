"""Sample replacements for all slots of a caption together, in proportion to their weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from random import Random

import numpy as np


def sample(slot_weights: Sequence[np.ndarray], rng: Random, limit: int) -> Iterator[tuple[int, int]]:
    """Yield at most `limit` distinct (slot, entry) index pairs, sampled by weight without replacement.

    slot_weights: for each slot, non-negative weights of shape (entries,). They are not normalised per slot: a slot is
    chosen in proportion to the sum of its weights, so a word that is nearly certain in its place is replaced less
    often. Exchanges of x for y are then about as frequent as exchanges of y for x (detailed balance),
    which gives a text-only model few cues; negcap.augment.lexicon.balance corrects for rejections.

    Uses exponential keys (Efraimidis and Spirakis 2006).
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
