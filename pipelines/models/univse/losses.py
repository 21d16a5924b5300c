"""UniVSE's losses of components: a value for each component, to be averaged over those of a caption.

s is the inner product of unit vectors, v an image, v_i its region i, w or t a component, ⁺ true and ⁻ false; α is the
margin.
"""

from __future__ import annotations

import torch
from torch import Tensor


def relevance_hinges(true: Tensor, false: Tensor, present: Tensor, margin: float, temperature: float = 1.0) -> Tensor:
    """ℓ_obj and ℓ_attr: regions weighted by their relevance, the hardest negative of each component (eq. 2 and 3).

    max_n Σ_i r_i [α + s(v_i, w⁻_n) - s(v_i, w⁺)]₊ with r = softmax_i s(v_i, w⁺) / τ. true: (m, R) scores of m
    components with the R regions of their images; false: (m, N, R) scores of their negatives; present: (m, N) bool,
    which negatives there are. Returns (m,), 0 for a component without negatives.
    """
    relevance = (true / temperature).softmax(-1)[:, None]
    costs = (relevance * (margin + false - true[:, None]).clamp(min=0)).sum(-1)
    return (costs * present).amax(1)


def replaced_triple_hinges(true: Tensor, false: Tensor, present: Tensor, margin: float) -> Tensor:
    """ℓ_rel, first part: the hardest negative made of a triple, max_n [α + s(v, t⁻_n) - s(v, t⁺)]₊.

    true: (m,); false, present: (m, N). Returns (m,), 0 for a triple without negatives.
    """
    return ((margin + false - true[:, None]).clamp(min=0) * present).amax(1)


def other_triple_hinges(scores: Tensor, apart: Tensor, margin: float) -> Tensor:
    """ℓ_rel, second part: the hardest triple of another image in the batch, max_j [α + s(v_i, t_j) - s(v_i, t_i)]₊.

    scores: (m, m) of the image of triple i with triple j; apart: (m, m) bool, whether their images differ. (m,).
    """
    costs = (margin + scores - scores.diagonal()[:, None]).clamp(min=0) * apart
    return costs.amax(1) if len(costs) else costs.sum(1)


def sum_of_caption_means(values: Tensor, owner: Tensor, captions: int) -> Tensor:
    """Σ over captions of the mean of their components' values (m,); owner: (m,) the caption of each. A scalar."""
    counts = torch.bincount(owner, minlength=captions).clamp(min=1)
    return (values / counts[owner]).sum()
