"""Losses of visual-semantic embeddings on a batch of B images with one caption each, as functions; summed over it.

s is the similarity, and `scores[i, j]` that of image i and caption j, so that the diagonal holds the true pairs.
Triplet losses: [x]₊ = max(0, x); α is the margin. Contrastive losses, of CLIP and its successors (InfoNCE, SigLIP,
NegCLIP and CE-CLIP): s is the cosine, there are P negatives made of the captions, and logits are scores times a learned
scale, 1/τ. Other captions of an image are neither true nor false for it and are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from .corpus import SampledNegatives
from .device import to_device

TEXT_WEIGHT, RANK_WEIGHT = 0.2, 0.2  # factors of CE-CLIP's two terms, as in its released code


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


class Drawn(NamedTuple):
    """P negatives sampled for a batch, the family (P,) of each, and how concrete the noun is that it puts in (P,).

    family: a position in the config's `negative_families`. concreteness: from 0 to 1; 0 if no noun is put in.
    """

    negatives: SampledNegatives
    family: Tensor
    concreteness: Tensor


_EMPTY = torch.empty(0, dtype=torch.long)
NONE = Drawn(SampledNegatives(_EMPTY, _EMPTY), _EMPTY, torch.empty(0))


def info_nce(logits: Tensor, same_image: Tensor, negatives: Tensor | None = None) -> Tensor:
    """CLIP's loss (Radford et al. 2021), and NegCLIP's with `negatives` (Yuksekgonul et al. 2023): a scalar.

    ½ Σ_i [-log p(caption i | image i) - log p(image i | caption i)], each p a softmax: over the captions of the batch
    and all its negatives, and over the images of the batch. logits: (B, B), images by captions. same_image: (B, B)
    bool, True where caption j describes image i. negatives: (B, P) logits of each image with every negative.
    """
    others = same_image & ~torch.eye(len(logits), dtype=torch.bool, device=logits.device)
    logits = logits.masked_fill(others, -math.inf)
    captions = logits if negatives is None else torch.cat([logits, negatives], 1)
    true = torch.arange(len(logits), device=logits.device)
    of_images = functional.cross_entropy(captions, true, reduction="sum")
    return (of_images + functional.cross_entropy(logits.T, true, reduction="sum")) / 2


def sigmoid_loss(logits: Tensor, same_image: Tensor) -> Tensor:
    """SigLIP's loss (Zhai et al. 2023, eq. 1): a scalar.

    -Σ_ij log σ(z_ij l_ij), z_ij = 1 for a true pair, -1 otherwise. logits: (B, B), images by captions, with the bias.
    same_image: (B, B) bool, True where caption j describes image i, which is a true pair as well.
    """
    return -functional.logsigmoid(torch.where(same_image, logits, -logits)).sum()


def intra_modal_loss(true: Tensor, between: Tensor) -> Tensor:
    """CE-CLIP's contrast inside the texts (Zhang et al. 2024): a scalar.

    -Σ_i log [exp l_ii / (exp l_ii + Σ_k exp m_ik)]: a caption is nearer to its image than to any negative. true: (B,)
    logits of the true pairs. between: (B, P) logits of each caption with every negative.
    """
    logits = torch.cat([true[:, None], between], 1)
    return functional.cross_entropy(
        logits, torch.zeros(len(true), dtype=torch.long, device=true.device), reduction="sum"
    )


def rank_loss(true: Tensor, false: Tensor, owner: Tensor, thresholds: Tensor) -> Tensor:
    """CE-CLIP's ranking of an image's negatives below its caption (Zhang et al. 2024): a scalar.

    The mean over the negatives of [l(i, c'') - l(i, c) + Th]₊, times B. true: (B,) logits of the true pairs. false:
    (P,) logits of each negative with the image of its caption. owner: (P,) the pair of each. thresholds: (P,) Th.
    """
    if not len(false):
        return true.sum() * 0
    return (false - true[owner] + thresholds).clamp(min=0).mean() * len(true)


def next_thresholds(thresholds: Tensor, true: Tensor, false: Tensor, owner: Tensor, family: Tensor) -> Tensor:
    """CE-CLIP's thresholds after a batch, (families,): by family, the mean of l(i, c) - l(i, c'') over its negatives.

    A family without negatives in the batch keeps its threshold. family: (P,) that of each negative; the other
    arguments as in `rank_loss`.
    """
    gaps = (true[owner] - false).detach()
    counts = torch.bincount(family, minlength=len(thresholds))
    sums = torch.zeros_like(thresholds).index_add(0, family, gaps.to(thresholds.dtype))
    return torch.where(counts > 0, sums / counts.clamp(min=1), thresholds)


class Logits(NamedTuple):
    """A batch of B images and captions and P negatives as logits.

    pairs: (B, B) images by captions. same_image: (B, B) bool, True where caption j describes image i. every: (B, P)
    images by negatives. own: (P,) each negative with the image of its caption. between: (B, P) captions by negatives.
    owner: (P,) the pair of each negative. family: (P,) its family.
    """

    pairs: Tensor
    same_image: Tensor
    every: Tensor
    own: Tensor
    between: Tensor
    owner: Tensor
    family: Tensor


class Learned(Protocol):
    """What a model learns beside its encoders: SigLIP's bias, and CE-CLIP's thresholds (families,)."""

    bias: nn.Parameter
    thresholds: nn.Parameter
    training: bool


def compare(
    images: Tensor, captions: Tensor, negatives: Tensor, drawn: Drawn, scale: Tensor, same_image: Tensor,
    margin: float = 0.0,
) -> Logits:  # fmt: skip
    """The logits of a batch of unit vectors: images and captions (B, d), negatives (P, d).

    margin: added to the cosine of each negative with the image of its caption, times its concreteness. A caption then
    has to be nearer to its image than a negative by that much: what a concrete noun names can be seen to be missing
    (after the concreteness-scaled margin of ConcretePlant, Im et al. 2026; the form of the margin is negcap's own).
    """
    device = images.device
    owner = to_device(drawn.negatives.owner, device)
    every, own = images @ negatives.T, (images[owner] * negatives).sum(1)
    if margin:
        margins = margin * to_device(drawn.concreteness, device)
        every = every.index_put((owner, torch.arange(len(owner), device=device)), margins, accumulate=True)
        own = own + margins
    return Logits(
        scale * images @ captions.T,
        same_image,
        scale * every,
        scale * own,
        scale * captions @ negatives.T,
        owner,
        to_device(drawn.family, device),
    )


def _clip(model: Learned, batch: Logits) -> dict[str, Tensor]:
    return {"itc": info_nce(batch.pairs, batch.same_image)}


def _siglip(model: Learned, batch: Logits) -> dict[str, Tensor]:
    return {"itc": sigmoid_loss(batch.pairs + model.bias, batch.same_image)}


def _negclip(model: Learned, batch: Logits) -> dict[str, Tensor]:
    return {"itc": info_nce(batch.pairs, batch.same_image, batch.every)}


def _ce_clip(model: Learned, batch: Logits) -> dict[str, Tensor]:
    true = batch.pairs.diagonal()
    terms = {
        **_negclip(model, batch),
        "imc": TEXT_WEIGHT * intra_modal_loss(true, batch.between),
        "cmr": RANK_WEIGHT * rank_loss(true, batch.own, batch.owner, model.thresholds[batch.family]),
    }
    if model.training and len(batch.own):
        model.thresholds.copy_(next_thresholds(model.thresholds, true, batch.own, batch.owner, batch.family))
    return terms


Terms = Callable[[Learned, Logits], dict[str, Tensor]]  # the terms of a loss on a batch, by name
TERMS: Mapping[str, Terms] = {"infonce": _clip, "siglip": _siglip, "negclip": _negclip, "ce-clip": _ce_clip}
