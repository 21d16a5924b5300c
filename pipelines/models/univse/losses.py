"""The losses of components. A loss has a value a component; the model averages them over a caption's."""

from __future__ import annotations

import torch
from torch import Tensor


def relevance_hinges(true: Tensor, false: Tensor, there: Tensor, margin: float, temperature: float = 1.0) -> Tensor:
    """ℓ_obj and ℓ_attr: each region costs as far as it is relevant; of the negatives the hardest counts (eq. 2, 3).

    max_n Σ_i r_i [α + s(v_i, w⁻_n) - s(v_i, w⁺)]₊ with r = softmax_i s(v_i, w⁺) / τ. true: (m, R) scores of m
    components with the R regions of their images; false: (m, N, R) of their negatives; there: (m, N) bool, which
    negatives there are; (m,), 0 for a component without any.
    """
    relevance = (true / temperature).softmax(-1)[:, None]
    costs = (relevance * (margin + false - true[:, None]).clamp(min=0)).sum(-1)
    return (costs * there).amax(1)


def made_hinges(true: Tensor, false: Tensor, there: Tensor, margin: float) -> Tensor:
    """ℓ_rel, first part: the hardest of the negatives made of a triple, max_n [α + s(v, t⁻_n) - s(v, t⁺)]₊.

    true: (m,); false, there: (m, N); (m,), 0 for a triple without negatives.
    """
    return ((margin + false - true[:, None]).clamp(min=0) * there).amax(1)


def batch_hinges(scores: Tensor, apart: Tensor, margin: float) -> Tensor:
    """ℓ_rel, second part: the hardest of the other captions' triples, max_j [α + s(v_i, t_j) - s(v_i, t_i)]₊.

    scores: (m, m) of image i with triple j, the true ones on the diagonal; apart: (m, m) bool, j is of another image
    than i; (m,).
    """
    costs = (margin + scores - scores.diagonal()[:, None]).clamp(min=0) * apart
    return costs.amax(1) if len(costs) else costs.sum(1)


def averaged(values: Tensor, owner: Tensor, captions: int) -> Tensor:
    """The sum over captions of the mean of their components' values (m,); owner: (m,) the caption of each."""
    counts = torch.bincount(owner, minlength=captions).clamp(min=1)
    return (values / counts[owner]).sum()
