"""Estimate how much less likely the other words of a text become when one of its units (a word or phrase) is replaced.

The network could read the new text and tell; the estimate takes a twentieth of that time. If the unit at place s is
replaced, the log-probability of the unit at another place i decreases by about

    d_i = a(i, s) · F (h' - h),    a(i, s) = A gelu(B [v_i; e_i; v_s; e_s] + t_(i-s)) + c

h, h': the state of a GRU that has just read the old or the new unit, of the forward GRU if i is behind s, of the
backward one if i is before s; each GRU has a matrix F of its own. v: the vector of a place. e: the word vector of the
unit that stands there in the old text. a(i, s) is the same for all replacements at s, and h' takes one step of a GRU.
The parameters A, B, c, F and t are fitted to texts that the network has read (see
`negcap.pipelines.resources.cloze.surrogate`). Like the network, this computes with whole numbers (`fixed_point`), so
that it is the same on every processor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from ..caption import cached
from .file import FARTHEST, NAMES, PREFIX
from .fixed_point import GELU, HIDDEN, STATE, round_units, scratch_array
from .model import CaptionEncoding, ClozeModel
from .network import Network, single_threaded
from .states import TOGETHER, transposed

# Bits after the point of a and of F (h' - h), and the largest number of units of the second. So none of the 64 products
# that are summed has more than 2^18 units, and the sum is exact.
SHARE = 7
CHANGE = 7
LARGEST_CHANGE = 2**8
TOGETHER_ESTIMATED = 4000  # replacements, whose arrays take some 60 MB


class SurrogateEstimates(NamedTuple):
    """What replacements of a unit do to their texts, in nats, each (replacements,).

    log_odds: of the new unit to what it replaces.
    loss, lowest, whole: as in `negcap.augment.plausibility.Comparison`.
    """

    log_odds: np.ndarray
    loss: np.ndarray
    lowest: np.ndarray
    whole: np.ndarray


class SlotShares(NamedTuple):
    """What the estimates for replacements at some slots have in common.

    A pair is a slot and another place of its text. The pairs of a slot stand together, by place.

    encodings, places: of the slots, as they were given.
    vectors: of the slots' places, (slots, width).
    starts: the first pair of each slot, (slots,).
    counts: how many pairs each slot has, (slots,).
    distance: of each pair, from the slot to the place, negative before it, (pairs,).
    shares: a(i, s) of each pair, (pairs, shares).
    scores: log p of the unit at the place of each pair in the old text, (pairs,).
    replaced: the sum of log p of what is replaced, (slots,).
    """

    encodings: Sequence[CaptionEncoding]
    places: np.ndarray
    vectors: np.ndarray
    starts: np.ndarray
    counts: np.ndarray
    distance: np.ndarray
    shares: np.ndarray
    scores: np.ndarray
    replaced: np.ndarray


class Surrogate:
    """The fitted estimate. arrays: of the cloze model's file; those of the surrogate are named `surrogate.NAME.weight`
    (B, t, A and F, see `negcap.augment.cloze.file`) and `surrogate.share.bias` (c).
    """

    def __init__(self, arrays: Mapping[str, np.ndarray], network: Network) -> None:
        """Scale the weights to the units of what they are multiplied with, as powers of two: without error."""
        self._network = network
        self._embedding = arrays["embedding.weight"]
        words = self._embedding.shape[1]
        # In the equation of the module: B, t, A, and the two matrices F.
        context, distance, share, *changes = (arrays[f"{PREFIX}{name}.weight"] for name in NAMES)
        # B, cut into what it multiplies: v_i, e_i, v_s and e_s. With t, it gives points of the table of gelu.
        context = transposed(context) * np.float32(GELU.scale)
        self._place, self._unit, self._slot, self._old = (context[i * words : (i + 1) * words] for i in range(4))
        self._distance = distance * np.float32(GELU.scale) + np.float32(GELU.offset)
        self._share = transposed(share) * np.float32(2.0 ** (SHARE - HIDDEN))
        self._bias = arrays[f"{PREFIX}share.bias"] * np.float32(2.0**SHARE)
        # `state_changes` gives h' - h in units of 2^-(STATE - 1).
        self._changes = [transposed(of_side) * np.float32(2.0 ** (CHANGE - STATE + 1)) for of_side in changes]

    @single_threaded()
    def at_slots(self, encodings: Sequence[CaptionEncoding], places: np.ndarray) -> SlotShares:
        """What estimates for replacements at some slots have in common: a(i, s) of each slot s and place i of its text.

        encodings: for each slot, how the model has read its text; all made by one call of `ClozeModel.read`. places:
        for each slot, the positions in the text of the units before and after it, (slots, 2).
        """
        # The units of all texts, one after the other; `text_of_slot` is the number of each slot's text, (slots,).
        text_number: dict[int, int] = {}
        text_of_slot = np.array(
            [text_number.setdefault(encoding.number, len(text_number)) for encoding in encodings], int
        )
        texts = list({encoding.number: encoding for encoding in encodings}.values())
        lengths = np.array([len(text.units) for text in texts], int)
        firsts = np.cumsum(lengths) - lengths
        units = np.fromiter(chain.from_iterable(text.units for text in texts), np.int64, lengths.sum())
        is_inner = np.ones(len(units), bool)  # START and END have neither a vector nor a score
        is_inner[firsts] = False
        is_inner[firsts + lengths - 1] = False
        scores = np.zeros(len(units))
        scores[is_inner] = np.fromiter(chain.from_iterable(text.scores for text in texts), np.float64, is_inner.sum())

        # B [v_i; e_i; v_s; e_s] is the sum of what belongs to the place i and what belongs to the slot s.
        vectors = np.concatenate([text.vectors[: len(text.scores)] for text in texts])
        at_unit = np.zeros((len(units), self._distance.shape[1]), np.float32)
        at_unit[is_inner] = vectors @ self._place + self._embedding[units[is_inner]] @ self._unit
        before, after = places.T
        slot_vectors = np.stack(
            [
                encoding.vector_at((first, last))
                for encoding, (first, last) in zip(encodings, places.tolist(), strict=True)
            ]
        )
        old_unit = units[firsts[text_of_slot] + after - 1]
        at_slot = slot_vectors @ self._slot + self._embedding[old_unit] @ self._old

        # The pairs: each slot with each other place of its text. With `old` as the slot's units (one, or several of a
        # phrase), the places of a text are numbered   0 1 … before-1 [old] before … , and their distances to the slot
        # are                                      -before …   -1     [old]   1   …
        counts = before + lengths[text_of_slot] - 1 - after
        starts = np.cumsum(counts) - counts
        slot = np.repeat(np.arange(len(text_of_slot)), counts)
        place = np.arange(len(slot)) - starts[slot]
        distance = place - before[slot]
        distance[distance >= 0] += 1
        old_length = (after - before - 1)[slot]
        unit = (firsts[text_of_slot] + 1)[slot] + place + np.where(distance > 0, old_length, 0)
        points = at_unit[unit]
        points += at_slot[slot]
        points += self._distance[np.clip(distance, -FARTHEST, FARTHEST) + FARTHEST]
        shares = GELU.take(points, out=points) @ self._share
        shares += self._bias
        cumulated = np.concatenate([[0.0], np.cumsum(scores)])  # at u: the sum of the scores of the units before u
        return SlotShares(
            encodings=encodings,
            places=places,
            vectors=slot_vectors,
            starts=starts,
            counts=counts,
            distance=distance,
            shares=round_units(shares),
            scores=scores[unit],
            replaced=cumulated[firsts[text_of_slot] + after] - cumulated[firsts[text_of_slot] + before + 1],
        )

    @single_threaded()
    def estimate(self, slots: SlotShares, slot_of: np.ndarray, units: np.ndarray, window: int) -> SurrogateEstimates:
        """Estimate what each replacement does to its text.

        Args:
            slots: what `at_slots` says of the slots.
            slot_of: the number of each replacement's slot, ascending, (replacements,).
            units: the number of each new unit, (replacements,).
            window: `lowest` looks at this number of places on either side.
        """
        parts = []
        for start in range(0, len(units), TOGETHER_ESTIMATED):
            block = slice(start, start + TOGETHER_ESTIMATED)
            parts.append(self._estimate(slots, slot_of[block], units[block], window))
        return SurrogateEstimates(*map(np.concatenate, zip(*parts, strict=True)))

    def _estimate(self, slots: SlotShares, slot_of: np.ndarray, units: np.ndarray, window: int) -> SurrogateEstimates:
        """Do what `estimate` does for replacements that are so few that their arrays fit into memory."""
        state_change = state_changes(self._network, slots.encodings, slots.places, slot_of, units)
        # F (h' - h) of each replacement: what the places before the slot see, and those behind it.
        seen_before, seen_behind = (
            round_units(change @ weights, largest=LARGEST_CHANGE)
            for change, weights in zip(state_change, self._changes, strict=True)
        )
        # `sums` has the d_i of each replacement and each other place of its text, those of a replacement together.
        size = slots.counts[slot_of]
        sums = np.empty(int(size.sum()), np.float32)
        used_slots, first = np.unique(slot_of, return_index=True)
        ends = [*first[1:].tolist(), len(slot_of)]
        filled = 0
        for slot, begin, end in zip(used_slots.tolist(), first.tolist(), ends, strict=True):
            start = int(slots.starts[slot])
            count = int(slots.counts[slot])
            left = int(slots.places[slot, 0])
            block = sums[filled : filled + (end - begin) * count].reshape(end - begin, count)
            block[:, :left] = seen_before[begin:end] @ slots.shares[start : start + left].T
            block[:, left:] = seen_behind[begin:end] @ slots.shares[start + left : start + count].T
            filled += block.size
        # Back from what is lost to the scores of the new texts. Each number in `sums` belongs to a replacement, and to
        # a pair of slot and place.
        replacement = np.repeat(np.arange(len(units)), size)
        first_sum = np.cumsum(size) - size
        pair = np.arange(len(sums)) + np.repeat(slots.starts[slot_of] - first_sum, size)
        old = slots.scores[pair]
        lost = np.maximum(sums.astype(np.float64) * 2.0 ** -(SHARE + CHANGE), old)  # no log p is above 0

        new = slots.encodings[0].model.scores(slots.vectors[slot_of], units).astype(np.float64)
        lowest = new.copy()
        is_near = (np.abs(slots.distance) <= window)[pair]
        np.minimum.at(lowest, replacement[is_near], (old - lost)[is_near])
        log_odds = new - slots.replaced[slot_of]
        return SurrogateEstimates(
            log_odds=log_odds,
            loss=np.bincount(replacement, np.maximum(lost, 0.0), len(units)),
            lowest=lowest,
            whole=log_odds - np.bincount(replacement, lost, len(units)),
        )


def state_changes(
    network: Network, encodings: Sequence[CaptionEncoding], places: np.ndarray, slot_of: np.ndarray, units: np.ndarray
) -> np.ndarray:
    """How replacements change the states of the two GRUs, h' - h: (2, replacements, states), the backward GRU first.

    In multiples of 2^-(STATE - 1), see `fixed_point`; 0 where the text has no further unit in that direction.

    Args:
        network: that of the model that has made the encodings.
        encodings, places: how the model has read the text of each slot, and the units before and after it, (slots, 2).
        slot_of, units: the number of each replacement's slot, ascending, and of its new unit, (replacements,).

    Raises:
        ValueError: an encoding was not made by `ClozeModel.read`.
    """
    read = encodings[0].states
    if read is None:
        raise ValueError("encodings must be made by `read`, was one of an edited text")
    numbers = np.array([encoding.number for encoding in encodings])
    lengths = np.array([len(encoding.units) for encoding in encodings])
    before, after = places.T
    changes = np.zeros((2, len(units), read.states.state.shape[1]), np.float32)
    # For each direction: the states, the step before the slot, the step that has read its last old unit, and whether
    # another unit of the text sees the state after that. The backward GRU counts its steps from the end of the text.
    sides = (
        (read.behind, lengths - 1 - after, lengths - 2 - before, before > 0),
        (read.ahead, before, after - 1, after < lengths - 1),
    )
    for side, change, (trie, parent_step, old_step, is_seen) in zip(network.sides[::-1], changes, sides, strict=True):
        # Rows of `read.states`: before the slot, and behind its old unit. One GRU step from the first, with the new
        # unit, gives the new state h'; the second is the old state h.
        parents = trie.rows[numbers[is_seen], parent_step[is_seen]]
        old_states = trie.rows[numbers[is_seen], old_step[is_seen]]
        seen_replacements = np.flatnonzero(is_seen[slot_of])
        seen_slot = (np.cumsum(is_seen) - 1)[slot_of[seen_replacements]]  # its number among the slots that are seen
        for start in range(0, len(seen_replacements), TOGETHER):
            rows = seen_replacements[start : start + TOGETHER]
            slots = seen_slot[start : start + TOGETHER]
            first = slots[0]
            end = slots[-1] + 1
            changed = scratch_array("changed", (len(rows), change.shape[1]))
            side.step(read.states.state[parents[first:end]], units[rows], changed, slots - first)
            changed -= read.states.state[old_states[slots]]
            changed *= np.float32(0.5)
            change[rows] = round_units(changed)
    return changes


@cached(8)
def surrogate_of(model: ClozeModel) -> Surrogate | None:
    """The surrogate in a model's file; None if it has none: all texts have to be read then."""
    arrays = model.network.arrays
    return Surrogate(arrays, model.network) if f"{PREFIX}share.weight" in arrays else None
