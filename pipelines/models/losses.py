"""Triplet losses of visual-semantic embeddings, as functions of similarity scores.

A batch is B images i with one caption c each. s is the similarity, and `scores[i, j]` that of image i and caption j, so
that the diagonal holds the true pairs. Losses are summed over the batch. [x]₊ = max(0, x); α is the margin.
"""

from __future__ import annotations

import torch
from torch import Tensor


def _hinges(scores: Tensor, margin: float, same_image: Tensor | None) -> tuple[Tensor, Tensor]:
    """The hinge of every false caption for each image, and of every false image for each caption; both (B, B).

    They are 0 on the diagonal and where `same_image` is True.
    """
    true = scores.diagonal()
    is_false = ~torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    if same_image is not None:
        is_false = is_false & ~same_image
    captions = (margin + scores - true[:, None]).clamp(min=0) * is_false
    images = (margin + scores - true[None, :]).clamp(min=0) * is_false
    return captions, images


def sum_of_hinges(scores: Tensor, margin: float, same_image: Tensor | None = None) -> Tensor:
    """VSE's loss: over all false captions c' and images i' of the batch (Kiros et al. 2014; VSE-C, eq. 1).

    Σ_c' [α + s(i, c') - s(i, c)]₊ + Σ_i' [α + s(i', c) - s(i, c)]₊. scores: (B, B), images by captions. same_image: (B,
    B) bool, True where caption j describes image i and is therefore no negative; None: only on the diagonal. Returns a
    scalar.
    """
    captions, images = _hinges(scores, margin, same_image)
    return captions.sum() + images.sum()


def max_of_hinges(scores: Tensor, margin: float, same_image: Tensor | None = None) -> Tensor:
    """VSE++'s loss: only the hardest false caption and image of the batch (Faghri et al. 2018; VSE-C, eq. 2).

    max_c' [α + s(i, c') - s(i, c)]₊ + max_i' [α + s(i', c) - s(i, c)]₊. Arguments and result as those of
    `sum_of_hinges`.
    """
    captions, images = _hinges(scores, margin, same_image)
    return captions.amax(1).sum() + images.amax(0).sum()


def intra_pair_hinges(true: Tensor, false: Tensor, owner: Tensor, margin: float) -> Tensor:
    """What VSE-C adds to VSE++'s loss: the hardest negative c'' made of each caption (Shi et al. 2018, eq. 3).

    max_c'' [α + s(i, c'') - s(i, c)]₊. true: (B,) scores of the true pairs. false: (P,) scores of the negatives with
    the image of their caption. owner: (P,) the index of the pair that each negative belongs to. A pair without
    negatives adds 0. Returns a scalar.
    """
    costs = (margin + false - true[owner]).clamp(min=0)
    hardest = torch.zeros_like(true).scatter_reduce(0, owner, costs, "amax", include_self=True)
    return hardest.sum()


def shared_hinges(true: Tensor, false: Tensor, margin: float) -> Tensor:
    """The loss in VSE-C's released code: for each image, the hardest negative made of any caption of the batch.

    max_c'' [α + s(i, c'') - s(i, c)]₊. true: (B,) scores of the true pairs. false: (B, P) scores of all images with all
    negatives. Returns a scalar, 0 without negatives.
    """
    costs = (margin + false - true[:, None]).clamp(min=0)
    return costs.amax(1).sum() if costs.shape[1] else costs.sum()
