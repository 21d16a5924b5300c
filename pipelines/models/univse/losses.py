"""UniVSE's losses of components: one value per component, to be averaged over the components of a caption.

s is the inner product of unit vectors; v is an image and v_i its region i; w is an object or attributed object, t a
triple, with ⁺ for true and ⁻ for false ones; α is the margin. Here each loss takes the hardest negative; the paper's
supplement (A.1) takes all negatives of attributed objects and triples.
"""

from __future__ import annotations

import torch
from torch import Tensor


def relevance_hinges(true: Tensor, false: Tensor, present: Tensor, margin: float, temperature: float = 1.0) -> Tensor:
    """ℓ_obj and ℓ_attr: hinges of regions weighted by relevance, for the hardest negative (eq. 2 and 3).

    max_n Σ_i r_i [α + s(v_i, w⁻_n) - s(v_i, w⁺)]₊, where the relevances r are a softmax over the regions i of s(v_i,
    w⁺) / τ and τ is `temperature`. true: (m, R) scores of m components with the R regions of their images. false: (m,
    N, R) scores of the N negatives of each. present: (m, N) bool, False where a component has fewer negatives. Returns
    (m,), 0 for a component without negatives.
    """
    relevance = (true / temperature).softmax(-1)[:, None]
    costs = (relevance * (margin + false - true[:, None]).clamp(min=0)).sum(-1)
    return (costs * present).amax(1)


def replaced_triple_hinges(true: Tensor, false: Tensor, present: Tensor, margin: float) -> Tensor:
    """ℓ_rel, first part: the hardest negative made of a triple by replacing a word, max_n [α + s(v, t⁻_n) - s(v, t⁺)]₊.

    true: (m,) scores of m triples with their images. false: (m, N) scores of their negatives. present: (m, N) bool,
    False where a triple has fewer negatives. Returns (m,), 0 for a triple without negatives.
    """
    return ((margin + false - true[:, None]).clamp(min=0) * present).amax(1)


def other_triple_hinges(scores: Tensor, different_images: Tensor, margin: float) -> Tensor:
    """ℓ_rel, second part: the hardest triple of another image in the batch, max_j [α + s(v_i, t_j) - s(v_i, t_i)]₊.

    scores: (m, m), of the image v_i of triple i with triple j. different_images: (m, m) bool, True where their images
    differ. Returns (m,).
    """
    costs = (margin + scores - scores.diagonal()[:, None]).clamp(min=0) * different_images
    return costs.amax(1) if len(costs) else costs.sum(1)


def sum_of_caption_means(values: Tensor, owner: Tensor, captions: int) -> Tensor:
    """The sum over captions of the mean of their components' values, a scalar.

    values: (m,). owner: (m,) the caption of each component, 0 … captions - 1.
    """
    counts = torch.bincount(owner, minlength=captions).clamp(min=1)
    return (values / counts[owner]).sum()
