"""Triplet losses of visual-semantic embeddings, as functions of similarity scores.

B images and their B captions are a batch; `scores[i, j]` is the similarity of image i and caption j, so that the
diagonal holds the true pairs. A loss is summed over the batch.
"""

from __future__ import annotations

import torch
from torch import Tensor


def _hinges(scores: Tensor, margin: float, same: Tensor | None) -> tuple[Tensor, Tensor]:
    """The hinge of each false caption of an image, and of each false image of a caption, both (B, B).

    0 on the diagonal and where `same` says that the caption is of the image too.
    """
    true = scores.diagonal()
    apart = ~torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    if same is not None:
        apart = apart & ~same
    captions = (margin + scores - true[:, None]).clamp(min=0) * apart
    images = (margin + scores - true[None, :]).clamp(min=0) * apart
    return captions, images


def sum_of_hinges(scores: Tensor, margin: float, same: Tensor | None = None) -> Tensor:
    """VSE: every false caption of an image and every false image of a caption within the margin costs (eq. 1).

    Σ_c' [α + s(i, c') - s(i, c)]₊ + Σ_i' [α + s(i', c) - s(i, c)]₊. scores: (B, B); same: (B, B) bool, True where the
    caption is of the image and therefore no negative; the result is a scalar. Kiros et al. 2014.
    """
    captions, images = _hinges(scores, margin, same)
    return captions.sum() + images.sum()


def max_of_hinges(scores: Tensor, margin: float, same: Tensor | None = None) -> Tensor:
    """VSE++: only the hardest false caption of an image and the hardest false image of a caption cost (eq. 2).

    max_c' [α + s(i, c') - s(i, c)]₊ + max_i' [α + s(i', c) - s(i, c)]₊. Shapes as `sum_of_hinges`. Faghri et al. 2018.
    """
    captions, images = _hinges(scores, margin, same)
    return captions.amax(1).sum() + images.amax(0).sum()


def intra_pair_hinges(true: Tensor, false: Tensor, owner: Tensor, margin: float) -> Tensor:
    """VSE-C: the hardest of the negatives made of a caption, added to VSE++'s loss (eq. 3).

    max_{c'' made of c} [α + s(i, c'') - s(i, c)]₊. true: (B,) scores of the pairs; false: (P,) scores of the image with
    each negative; owner: (P,) the pair that each was made of. A pair without negatives costs nothing. Shi et al. 2018.
    """
    costs = (margin + false - true[owner]).clamp(min=0)
    hardest = torch.zeros_like(true).scatter_reduce(0, owner, costs, "amax", include_self=True)
    return hardest.sum()
