"""The random choice of k negatives of a caption, for all trainings with negatives.

Random numbers are PyTorch's. Indices are computed by NumPy: for the few thousand numbers of a batch, PyTorch takes
several times as long to start an operation as to compute it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor


class SampledMembers(NamedTuple):
    """Up to k random members of each of B groups, in random order. which: (B, k) their numbers in the group. mask: (B,
    k) bool, False in the last columns of a group that has fewer than k members.
    """

    which: Tensor
    mask: Tensor


def sample_of_each(
    sizes: Tensor, k: int, generator: Generator | None = None, weights: Tensor | None = None
) -> SampledMembers:
    """Sample k members of each group without replacement; all, if it has at most k.

    The members with the k smallest random numbers are sampled. These are uniform if all members are equally likely;
    with weights they are exponential, with the weights as rates (Efraimidis and Spirakis 2006).

    Args:
        sizes: (B,) the number of each group's members, which are numbered from 0.
        k: how many are sampled of each.
        generator: of random numbers; None: torch's own.
        weights: (B, w) of the members, w the largest of `sizes`; None: all are equally likely.
    """
    counts = sizes.numpy()
    width = int(counts.max(initial=0))
    # each member arrives at a random time, and those that come first are sampled
    arrival = torch.rand((len(counts), width), generator=generator)
    if weights is not None:
        # exponential times: the higher the weight, the sooner a member arrives
        arrival = -torch.log1p(-arrival) / weights
    arrival.numpy()[np.arange(width) >= counts[:, None]] = np.inf  # columns beyond a group's members are no members
    which = arrival.topk(min(k, width), dim=1, largest=False).indices
    if width < k:
        which = torch.nn.functional.pad(which, (0, k - width))
    return SampledMembers(which, torch.from_numpy(np.arange(k) < counts[:, None]))


class NegativePool:
    """Negatives to sample from, which stand together by caption.

    Args:
        starts: (C + 1,) where the negatives of each caption begin among all M, and where the last ones end.
        k: how many are sampled of each caption.
        family: (M,) whole numbers, if families are to be equally likely; None: negatives are.
        wanted: (M,) bool, those to sample from; None: all.
    """

    def __init__(self, starts: Tensor, k: int, family: Tensor | None = None, wanted: Tensor | None = None) -> None:
        """Number the wanted negatives as places of the pool, those of a caption side by side."""
        self.k = k
        self.family = family
        self.rows = None if wanted is None else wanted.nonzero()[:, 0]  # the negative at each place of the pool
        if wanted is not None:
            # where a caption's negatives begin in the pool: after the wanted ones of all captions before it
            wanted_before = torch.nn.functional.pad(wanted.cumsum(0), (1, 0))  # (M + 1,) before each negative
            starts = wanted_before[starts]
        self.starts = starts
        self._size = int(starts[-1])

    def __len__(self) -> int:
        return self._size

    def sizes(self, captions: Tensor) -> Tensor:
        """How many negatives each of the captions (B,) has."""
        return self.starts[captions + 1] - self.starts[captions]

    def sample(self, captions: Tensor, generator: Generator | None = None) -> SampledMembers:
        """Up to k random negatives of each caption (B,), as indices among the M; see `sample_of_each`."""
        starts = self.starts.numpy()
        rows = captions.numpy()
        first = starts[rows]  # (B,) the place in the pool of each caption's first negative
        sizes = torch.from_numpy(starts[rows + 1] - first)
        weights = None if self.family is None else self._family_weights(torch.from_numpy(first), sizes)
        sampled = sample_of_each(sizes, self.k, generator, weights)
        places = torch.from_numpy(first[:, None] + sampled.which.numpy())
        return SampledMembers(self._rows_at(places), sampled.mask)

    def _family_weights(self, first: Tensor, sizes: Tensor) -> Tensor:
        """Weights (B, w) of each caption's negatives by which all families are equally likely.

        A negative has the weight 1 / n if its caption has n of its family.

        Args:
            first: (B,) the place of each caption's first negative in the pool.
            sizes: (B,) how many negatives each caption has; w is the largest.
        """
        assert self.family is not None
        columns = torch.arange(int(sizes.max()) if len(sizes) else 0)
        family = self.family[self._rows_at(first[:, None] + columns)].long()
        families = int(family.max()) + 1 if family.numel() else 1
        # each caption and family gets its own number, so that one bincount counts all
        group = family.clamp(min=0) + families * torch.arange(len(sizes))[:, None]
        present = columns < sizes[:, None]
        counts = torch.bincount(group[present], minlength=len(sizes) * families)
        return 1.0 / counts[group].clamp(min=1).float()

    def _rows_at(self, places: Tensor) -> Tensor:
        """The negatives, as indices among the M, at some places of the pool; any of them for a place past its end."""
        # groups are padded to the width of the largest; the mask hides what the padding points to
        places = torch.from_numpy(np.minimum(places.numpy(), max(0, len(self) - 1)))
        return places if self.rows is None or not len(self) else self.rows[places]
