"""UniVSE's losses of components: hinges against each negative, reduced to one value per component (supplement A.1).

s is the inner product of unit vectors; v is an image and v_i its region i; w is an object or attributed object, t a
triple, with ⁺ for true and ⁻ for false ones; α is the margin. A component has several kinds of negatives, such as those
with another noun and those with another attribute. Each kind is reduced on its own, and the kinds are added; a
caption's value is the mean over its components.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor


def relevance_hinges(true: Tensor, false: Tensor, margin: float, temperature: float = 1.0) -> Tensor:
    """The hinges of ℓ_obj and ℓ_attr: those of the regions, weighted by their relevance (eq. 2 and 3).

    Σ_i r_i [α + s(v_i, w⁻_n) - s(v_i, w⁺)]₊, where the relevances r are a softmax over the regions i of s(v_i, w⁺) / τ
    and τ is `temperature`. true: (m, R) scores of m components with the R regions of their images. false: (m, N, R)
    scores of the N negatives of each. Returns (m, N).
    """
    relevance = (true / temperature).softmax(-1)[:, None]
    return (relevance * (margin + false - true[:, None]).clamp(min=0)).sum(-1)


def triple_hinges(true: Tensor, false: Tensor, margin: float) -> Tensor:
    """The hinges of ℓ_rel, [α + s(v, t⁻_n) - s(v, t⁺)]₊.

    true: (m,) scores of m triples with their images. false: (m, N) scores of N false triples with the same images.
    Returns (m, N).
    """
    return (margin + false - true[:, None]).clamp(min=0)


def hardest(costs: Tensor, present: Tensor) -> Tensor:
    """The cost (m,) of the hardest of N negatives, max_n; 0 without any. costs: (m, N) >= 0. present: (m, N) bool."""
    return (costs * present).amax(1) if costs.shape[1] else costs.sum(1)


def mean(costs: Tensor, present: Tensor) -> Tensor:
    """The mean cost (m,) of the negatives that are present; 0 without any. Arguments as those of `hardest`."""
    return total(costs, present) / present.sum(1).clamp(min=1)


def total(costs: Tensor, present: Tensor) -> Tensor:
    """The sum (m,) of the costs of the negatives that are present. Arguments as those of `hardest`."""
    return (costs * present).sum(1)


Reduce = Callable[[Tensor, Tensor], Tensor]  # costs (m, N), present (m, N) -> (m,)
REDUCTIONS: Mapping[str, Reduce] = {"hardest": hardest, "mean": mean, "sum": total}


def sum_over_kinds(costs: Tensor, present: Tensor, kinds: tuple[int, ...], reduce: Reduce) -> Tensor:
    """The sum (m,) over the kinds of negatives of what `reduce` makes of the costs of a kind.

    costs, present: (m, N), as those of `hardest`. kinds: how many consecutive columns belong to each kind.
    """
    parts = zip(costs.split(kinds, 1), present.split(kinds, 1), strict=True)
    return torch.stack([reduce(*part) for part in parts]).sum(0)


def sum_of_caption_means(values: Tensor, owner: Tensor, captions: int) -> Tensor:
    """The sum over captions of the mean of their components' values, a scalar.

    values: (m,). owner: (m,) the caption of each component, 0 … captions - 1.
    """
    counts = torch.bincount(owner, minlength=captions).clamp(min=1)
    return (values / counts[owner]).sum()
