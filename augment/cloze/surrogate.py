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
from .fixed_point import GELU, HIDDEN, STATE, buffer, rounded
from .model import CaptionEncoding, ClozeModel
from .network import Network, single_threaded
from .states import TOGETHER, transposed

# Bits after the point of a and of F (h' - h), and the largest number of units of the second: of 64 products, none of
# more than 2^18 units, the sum is exact.
SHARE = 7
CHANGE = 7
LARGEST_CHANGE = 2**8
TOGETHER_ESTIMATED = 4000  # replacements, whose arrays take some 60 MB


class Estimates(NamedTuple):
    """For replacements of a unit, each (replacements,), in nats: the log-odds of the new unit to what it replaces, and
    `loss`, `lowest` and `whole` of `negcap.augment.plausibility.Change`.
    """

    log_odds: np.ndarray
    loss: np.ndarray
    lowest: np.ndarray
    whole: np.ndarray


class SlotShares(NamedTuple):
    """What the estimates for replacements at some slots have in common. A pair is a slot and another place of its text.

    encodings, places: of the slots, as they were given. vectors: of the slots' places, (slots, width). starts, counts:
    the first pair of each slot, and how many it has, (slots,). distance: of each pair, from the slot to the place,
    negative before it, (pairs,). shares: a(i, s) of each pair, (pairs, shares). scores: log p of the unit at the place
    of each pair in the old text, (pairs,). replaced: the sum of log p of what is replaced, (slots,).
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
        """Scale the weights to the units of what they are multiplied with."""
        self._network = network
        self._embedding = arrays["embedding.weight"]
        words = self._embedding.shape[1]
        context, distance, share, *changes = (arrays[f"{PREFIX}{name}.weight"] for name in NAMES)
        context = transposed(context) * np.float32(GELU.scale)
        self._place, self._unit, self._slot, self._old = (context[i * words : (i + 1) * words] for i in range(4))
        self._distance = distance * np.float32(GELU.scale) + np.float32(GELU.offset)
        self._share = transposed(share) * np.float32(2.0 ** (SHARE - HIDDEN))
        self._bias = arrays[f"{PREFIX}share.bias"] * np.float32(2.0**SHARE)
        self._changes = [transposed(of_side) * np.float32(2.0 ** (CHANGE - STATE + 1)) for of_side in changes]

    @single_threaded()
    def at_slots(self, encodings: Sequence[CaptionEncoding], places: np.ndarray) -> SlotShares:
        """What estimates for replacements at some slots have in common: a(i, s) of each slot s and place i of its text.

        encodings: for each slot, how the model has read its text; all made by one call of `ClozeModel.read`. places:
        for each slot, the positions in the text of the units before and after it, (slots, 2).
        """
        row: dict[int, int] = {}
        text = np.array([row.setdefault(encoding.number, len(row)) for encoding in encodings], int)
        texts = list({encoding.number: encoding for encoding in encodings}.values())
        lengths = np.array([len(its.units) for its in texts], int)
        firsts = np.cumsum(lengths) - lengths
        flat = np.fromiter(chain.from_iterable(its.units for its in texts), np.int64, lengths.sum())
        inner = np.ones(len(flat), bool)  # of units but START and END; those have neither a vector nor a score
        inner[firsts] = inner[firsts + lengths - 1] = False
        scores = np.zeros(len(flat))
        at_unit = np.zeros((len(flat), self._distance.shape[1]), np.float32)
        scores[inner] = np.fromiter(chain.from_iterable(its.scores for its in texts), np.float64, inner.sum())
        vectors = np.concatenate([its.vectors[: len(its.scores)] for its in texts])
        at_unit[inner] = vectors @ self._place + self._embedding[flat[inner]] @ self._unit
        before, after = places.T
        own = np.stack([encoding.at((b, a)) for encoding, (b, a) in zip(encodings, places.tolist(), strict=True)])
        at_slot = own @ self._slot + self._embedding[flat[firsts[text] + after - 1]] @ self._old

        # Each slot with each other place of its text.
        counts = before + lengths[text] - 1 - after
        starts = np.cumsum(counts) - counts
        slot = np.repeat(np.arange(len(text)), counts)
        place = np.arange(len(slot)) - starts[slot]
        distance = place - before[slot]
        distance[distance >= 0] += 1
        unit = (firsts[text] + 1)[slot] + place + np.where(distance > 0, (after - before - 1)[slot], 0)
        points = at_unit[unit]
        points += at_slot[slot]
        points += self._distance[np.clip(distance, -FARTHEST, FARTHEST) + FARTHEST]
        shares = GELU.take(points, out=points) @ self._share
        shares += self._bias
        cumulated = np.concatenate([[0.0], np.cumsum(scores)])
        return SlotShares(
            encodings=encodings,
            places=places,
            vectors=own,
            starts=starts,
            counts=counts,
            distance=distance,
            shares=rounded(shares),
            scores=scores[unit],
            replaced=cumulated[firsts[text] + after] - cumulated[firsts[text] + before + 1],
        )

    @single_threaded()
    def estimate(self, slots: SlotShares, of: np.ndarray, units: np.ndarray, window: int) -> Estimates:
        """Estimate what each replacement does to its text.

        slots: of the texts. of: for each replacement, the number of its slot, ascending; units: and the number of the
        new unit, both (replacements,). window: `lowest` looks at this number of places on either side.
        """
        parts = []
        for start in range(0, len(units), TOGETHER_ESTIMATED):
            block = slice(start, start + TOGETHER_ESTIMATED)
            parts.append(self._estimate(slots, of[block], units[block], window))
        return Estimates(*map(np.concatenate, zip(*parts, strict=True)))

    def _estimate(self, slots: SlotShares, of: np.ndarray, units: np.ndarray, window: int) -> Estimates:
        # Each replacement with each other place of its text: `sums` has one part for each replacement.
        moved = state_changes(self._network, slots.encodings, slots.places, of, units)
        behind, ahead = (
            rounded(its @ by, largest=LARGEST_CHANGE) for its, by in zip(moved, self._changes, strict=True)
        )
        used, first = np.unique(of, return_index=True)
        ends = [*first[1:].tolist(), len(of)]
        size = slots.counts[of]
        sums = np.empty(int(size.sum()), np.float32)
        filled = 0
        for slot, begin, end in zip(used.tolist(), first.tolist(), ends, strict=True):
            start = int(slots.starts[slot])
            count = int(slots.counts[slot])
            left = int(slots.places[slot, 0])
            block = sums[filled : filled + (end - begin) * count].reshape(end - begin, count)
            block[:, :left] = behind[begin:end] @ slots.shares[start : start + left].T
            block[:, left:] = ahead[begin:end] @ slots.shares[start + left : start + count].T
            filled += block.size
        replacement = np.repeat(np.arange(len(units)), size)
        pair = np.arange(len(sums)) + np.repeat(slots.starts[of] - np.cumsum(size) + size, size)
        old = slots.scores[pair]
        lost = np.maximum(sums.astype(np.float64) * 2.0 ** -(SHARE + CHANGE), old)  # no log p is above 0

        new = slots.encodings[0].model.scores(slots.vectors[of], units).astype(np.float64)
        lowest = new.copy()
        near = (np.abs(slots.distance) <= window)[pair]
        np.minimum.at(lowest, replacement[near], (old - lost)[near])
        odds = new - slots.replaced[of]
        total = np.bincount(replacement, lost, len(units))
        return Estimates(
            log_odds=odds,
            loss=np.bincount(replacement, np.maximum(lost, 0.0), len(units)),
            lowest=lowest,
            whole=odds - total,
        )


def state_changes(
    network: Network, encodings: Sequence[CaptionEncoding], places: np.ndarray, of: np.ndarray, units: np.ndarray
) -> np.ndarray:
    """How replacements change the states of the two GRUs, h' - h: (2, replacements, states), of the backward GRU first.

    In multiples of 2^-(STATE - 1), see `fixed_point`; 0 where the text has no further unit in that direction. network:
    of the model that has made the encodings; the other arguments are those of `Surrogate.estimate`. Raises ValueError
    for a encoding that `ClozeModel.read` has not made.
    """
    read = encodings[0].states
    if read is None:
        raise ValueError("encodings must be made by `read`, was one of an edited text")
    numbers = np.array([encoding.number for encoding in encodings])
    lengths = np.array([len(encoding.units) for encoding in encodings])
    before, after = places.T
    changes = np.zeros((2, len(units), read.states.state.shape[1]), np.float32)
    sides = (
        (read.behind, lengths - 1 - after, lengths - 2 - before, before > 0),
        (read.ahead, before, after - 1, after < lengths - 1),
    )
    for side, new, (trie, parent, old, seen) in zip(network.sides[::-1], changes, sides, strict=True):
        # Where a text ends, no other unit sees the state.
        parents, olds = (trie.rows[numbers[seen], at[seen]] for at in (parent, old))
        rows = np.flatnonzero(seen[of])
        slot = (np.cumsum(seen) - 1)[of[rows]]
        for at in range(0, len(rows), TOGETHER):
            row = rows[at : at + TOGETHER]
            its = slot[at : at + TOGETHER]
            first = its[0]
            last = its[-1] + 1
            changed = buffer("changed", (len(row), new.shape[1]))
            side.step(read.states.state[parents[first:last]], units[row], changed, its - first)
            changed -= read.states.state[olds[its]]
            changed *= np.float32(0.5)
            new[row] = rounded(changed)
    return changes


@cached(8)
def surrogate_of(model: ClozeModel) -> Surrogate | None:
    """The surrogate in a model's file; None if it has none: all texts have to be read then."""
    arrays = model.network.arrays
    return Surrogate(arrays, model.network) if f"{PREFIX}share.weight" in arrays else None
