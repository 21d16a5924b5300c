"""Triplet losses of visual-semantic embeddings, as functions of similarity scores.

A batch is B images with a caption each; `scores[i, j]` is the similarity of image i and caption j, so that the diagonal
holds the true pairs. A loss is summed over the batch; [x]₊ = max(0, x); α is the margin.
"""

from __future__ import annotations

import torch
from torch import Tensor


def _hinges(scores: Tensor, margin: float, same_image: Tensor | None) -> tuple[Tensor, Tensor]:
    """The hinges of all false captions of each image, and of all false images of each caption; both (B, B).

    0 on the diagonal and where `same_image` says that caption j is of image i too.
    """
    true = scores.diagonal()
    apart = ~torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    if same_image is not None:
        apart = apart & ~same_image
    captions = (margin + scores - true[:, None]).clamp(min=0) * apart
    images = (margin + scores - true[None, :]).clamp(min=0) * apart
    return captions, images


def sum_of_hinges(scores: Tensor, margin: float, same_image: Tensor | None = None) -> Tensor:
    """VSE's loss, over all false captions c' and images i' in the batch (Kiros et al. 2014; eq. 1 of VSE-C).

    Σ_c' [α + s(i, c') - s(i, c)]₊ + Σ_i' [α + s(i', c) - s(i, c)]₊. scores: (B, B); same_image: (B, B) bool, where
    caption j is of image i and therefore no negative. Returns a scalar.
    """
    captions, images = _hinges(scores, margin, same_image)
    return captions.sum() + images.sum()


def max_of_hinges(scores: Tensor, margin: float, same_image: Tensor | None = None) -> Tensor:
    """VSE++'s loss, of the hardest false caption and image in the batch (Faghri et al. 2018; eq. 2 of VSE-C).

    max_c' [α + s(i, c') - s(i, c)]₊ + max_i' [α + s(i', c) - s(i, c)]₊. Shapes as of `sum_of_hinges`.
    """
    captions, images = _hinges(scores, margin, same_image)
    return captions.amax(1).sum() + images.amax(0).sum()


def intra_pair_hinges(true: Tensor, false: Tensor, owner: Tensor, margin: float) -> Tensor:
    """What VSE-C adds to VSE++'s loss: the hardest of the negatives c'' made of each caption (Shi et al. 2018, eq. 3).

    max_c'' [α + s(i, c'') - s(i, c)]₊. true: (B,) scores of the pairs; false: (P,) scores of negatives with the images
    of their captions; owner: (P,) the pair of each negative. A pair without negatives adds 0. Returns a scalar.
    """
    costs = (margin + false - true[owner]).clamp(min=0)
    hardest = torch.zeros_like(true).scatter_reduce(0, owner, costs, "amax", include_self=True)
    return hardest.sum()
