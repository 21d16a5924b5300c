"""Sampling: in which order an operator's candidates are taken, so that the more likely ones come first more often.

Candidates of a caption are sampled by weight without replacement: each gets the key E / weight, where E is an
exponential random number, and the smallest keys are taken (Efraimidis and Spirakis 2006). E comes from a counter-based
hash of seed, operator, caption_id, slot and replacement. So no other operator, candidate, order, batch or process can
change it, and a refused candidate makes no difference to the order of the others.

The weight of a candidate has a factor that depends on its ratings (`RatingEstimates.preferences`), which are costly. As
that factor is at most what the candidate's best possible rating gives, the key is at least E / (weight * that factor):
a candidate is rated only when no better key can come before it. What is sampled is the same as if all had been rated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

import numpy as np

from .candidates import FREE, Batch
from .caption import cached
from .reproducible import hash_keys, log, mix_bits, stream_bits, uniform_from_bits

# How many candidates of a caption are rated in its first round, and how many times as many in each further one.
FIRST_TOGETHER = 4
GROWTH = 4
NAMES = 32  # number of lists of entries whose hashes are cached


@cached(NAMES)
def name_keys(names: tuple[str, ...]) -> np.ndarray:
    """A hash of each name, by which random numbers tell names apart: (names,)."""
    return hash_keys(names)


def uniforms(
    seed: int, operator: str, caption_ids: Sequence[str], positions: np.ndarray, names: np.ndarray
) -> np.ndarray:
    """Random numbers between 0 and 1, one for each candidate: (candidates,).

    Args:
        seed, operator: of the random stream.
        caption_ids: for each candidate, that of its caption.
        positions: for each candidate, the token where it stands, (candidates,).
        names: for each candidate, the `name_keys` of what it inserts, (candidates,).
    """
    # Text is hashed once for each caption; the rest is arithmetic on the 64 bits of all candidates at once.
    distinct = {caption_id: number for number, caption_id in enumerate(dict.fromkeys(caption_ids))}
    keys = hash_keys(f"{seed}\x1f{operator}\x1f{caption_id}" for caption_id in distinct)
    of_caption = keys[[distinct[caption_id] for caption_id in caption_ids]] if len(keys) else np.zeros(0, np.uint64)
    return uniform_from_bits(mix_bits(stream_bits(of_caption, np.asarray(positions)) ^ names))


def exponentials(
    seed: int, operator: str, caption_ids: Sequence[str], positions: np.ndarray, names: np.ndarray
) -> np.ndarray:
    """Exponential random numbers, one for each candidate: (candidates,).

    seed, operator: of the random stream. caption_ids, positions, names: of each candidate, as `uniforms` has them.
    """
    return -log(uniforms(seed, operator, caption_ids, positions, names))


def order_keys(seed: int, operator: str, caption_id: str, names: Sequence[str]) -> np.ndarray:
    """Random numbers by which an operator orders the rows that it lists for a caption, one for each name: (names,)."""
    positions = np.zeros(len(names), int)
    return exponentials(seed, operator, [caption_id] * len(names), positions, hash_keys(names))


class Sampler:
    """Gives the candidates of each caption of a batch in the order in which they are sampled."""

    def __init__(self, batch: Batch, candidates: np.ndarray, weights: np.ndarray, seed: int, operator: str) -> None:
        """Order some candidates of the batch by the lowest keys that they may have.

        candidates: their numbers, (candidates,). weights: their weights, before the ratings. seed, operator: of the
        random stream.
        """
        table = batch.candidates
        evidence = batch.evidence
        self._batch = batch
        usable = table.is_proposed[candidates] & (weights > 0)
        candidates = candidates[usable]
        weights = weights[usable]
        slot = table.slot[candidates]
        caption = table.caption[slot]
        names = np.zeros(len(candidates), np.uint64)
        for kind in dict.fromkeys(table.kind_of_slot[slot].tolist()):
            of_kind = table.kind_of_slot[slot] == kind
            names[of_kind] = name_keys(batch.lexicon.entries(kind).names)[table.entry[candidates[of_kind]]]
        starts = np.array([slot_of_word.start for slot_of_word in table.slots], int)
        caption_ids = [evidence[number].caption.caption_id for number in caption.tolist()]
        randoms = exponentials(seed, operator, caption_ids, starts[slot], names)
        # The lowest key that each may have, once it is rated; by it the candidates of a caption are ordered.
        lowest = randoms / (weights * batch.estimates.best_preferences(candidates))
        order = np.lexsort((lowest, caption))
        self._candidates = candidates[order]
        self._randoms_by_weight = (randoms / weights)[order]
        self._lowest = lowest[order].tolist()
        # For each caption, the positions, among the ordered candidates, of its first unrated one and of its end.
        bounds = np.searchsorted(caption[order], np.arange(len(evidence) + 1)).tolist()
        self._first_unrated = bounds[:-1]
        self._end = bounds[1:]
        # How many candidates of each caption to rate at once. It grows, so that a caption whose candidates are mostly
        # refused needs few rounds; all captions of a round are rated together.
        self._rated_at_once = [FIRST_TOGETHER] * len(evidence)
        # For each caption, a heap of the candidates that are rated, not refused and not yet taken: (key, its number).
        self._rated: list[list[tuple[float, int]]] = [[] for _ in evidence]

    def take(self, wanted: Mapping[int, int]) -> dict[int, list[int]]:
        """Sample the next candidates of some captions by weight, none that the raters' model refuses.

        Those with the lowest keys are sampled. A candidate's key is known once it is rated; before, only the lowest
        that it can be is known.

        wanted: how many candidates, by the number of the caption. The result has fewer where a caption has no more.
        """
        taken: dict[int, list[int]] = {caption: [] for caption in wanted}
        waiting = set(wanted)
        while waiting:
            for caption in sorted(waiting):
                rated = self._rated[caption]
                given = taken[caption]
                all_rated = self._first_unrated[caption] == self._end[caption]
                lowest_unrated = float("inf") if all_rated else self._lowest[self._first_unrated[caption]]
                # A rated candidate is given once no unrated one can have a lower key.
                while len(given) < wanted[caption] and rated and rated[0][0] <= lowest_unrated:
                    given.append(heappop(rated)[1])
                if len(given) == wanted[caption] or all_rated:
                    waiting.remove(caption)
            self._rate_next({caption: wanted[caption] - len(taken[caption]) for caption in waiting})
        return taken

    def _rate_next(self, lacking: Mapping[int, int]) -> None:
        """Rate the next candidates of some captions: at least as many as each lacks, GROWTH times more each time."""
        places: list[int] = []  # positions among the ordered candidates
        captions: list[int] = []
        for caption, number in lacking.items():
            end = min(self._first_unrated[caption] + max(number, self._rated_at_once[caption]), self._end[caption])
            self._rated_at_once[caption] *= GROWTH
            places += range(self._first_unrated[caption], end)
            captions += [caption] * (end - self._first_unrated[caption])
            self._first_unrated[caption] = end
        if not places:
            return
        table = self._batch.candidates
        candidates = self._candidates[places]
        self._batch.estimates.rate(candidates)
        keys = (self._randoms_by_weight[places] / self._batch.estimates.preferences(candidates)).tolist()
        free = (table.reason[candidates] == FREE).tolist()
        for caption, key, candidate, is_free in zip(captions, keys, candidates.tolist(), free, strict=True):
            if is_free:
                heappush(self._rated[caption], (key, candidate))
