"""The diversity loss of MHA-D, which keeps attention heads from looking at the same thing (Huang et al. 2019)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations_with_replacement

import torch
from torch import Tensor

from ..similarities import unit

# The hinge of a pair of heads, from their cosine s and the margin α_D, in three readings. The paper's equation has the
# hinge of `printed`, which is 0 for heads that are similar, and so contradicts its text, "push apart up to a margin".
HINGES: Mapping[str, Callable[[Tensor, float], Tensor]] = {
    "distance": lambda cosine, margin: (margin - (1 - cosine)).clamp(min=0),
    "similarity": lambda cosine, margin: (cosine - margin).clamp(min=0),
    "printed": lambda cosine, margin: (margin - cosine).clamp(min=0),
}


def head_cosines(heads: Tensor) -> Tensor:
    """The cosines (B, K · (K - 1)) of all pairs of different heads of the same instance; heads: (B, K, H)."""
    units = unit(heads)
    different = ~torch.eye(heads.shape[1], dtype=torch.bool, device=heads.device)
    return (units @ units.transpose(1, 2))[:, different]


def diversity_loss(views: Sequence[Tensor], margin: float, reading: str) -> Tensor:
    """The sum of the hinges of all pairs of different heads of the same instance, in all pairs of views; a scalar.

    views: each (B, K, H), the heads' vectors of the images, and of their captions in each language. Pairs of views are
    unordered and include a view with itself; pairs of heads (k, r), k ≠ r, are ordered. margin: α_D. reading: a key of
    HINGES.
    """
    units = [unit(view) for view in views]
    different = ~torch.eye(units[0].shape[1], dtype=torch.bool, device=units[0].device)
    total = units[0].new_zeros(())
    for one, other in combinations_with_replacement(units, 2):
        total = total + HINGES[reading](one @ other.transpose(1, 2), margin)[:, different].sum()
    return total
