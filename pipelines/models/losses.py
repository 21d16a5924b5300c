"""Losses of visual-semantic embeddings on a batch of B images with one caption each, as functions; summed over it.

s is the similarity, and `scores[i, j]` that of image i and caption j, so that the diagonal holds the true pairs.
Triplet losses: [x]₊ = max(0, x); α is the margin. Contrastive losses, of CLIP and its successors (InfoNCE, SigLIP,
NegCLIP and CE-CLIP): s is the cosine, there are P negatives made of the captions, and logits are scores times a learned
scale, 1/τ. Other captions of an image are neither true nor false for it and are left out.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from .batches import SampledNegatives, Terms
from .device import to_device

# factors of CE-CLIP's terms imc (inside the texts) and cmr (ranking), as in its released code
TEXT_WEIGHT = 0.2
RANK_WEIGHT = 0.2
# CLIP's scale of logits when training begins, and the highest that it may learn
SCALE = 1 / 0.07
MOST = 100.0
# SigLIP's scale and bias of logits when training begins (Zhai et al. 2023, section 3.2)
SIGLIP_SCALE = 10.0
SIGLIP_BIAS = -10.0


class Hinges(NamedTuple):
    """The hinges (B, B) of false captions for each image, and of false images for each caption; 0 of true ones."""

    captions: Tensor
    images: Tensor


def _hinges(scores: Tensor, margin: float, same_image: Tensor | None) -> Hinges:
    """The hinges [α + s(false) - s(true)]₊ of all false captions and images. scores: (B, B) s, images by captions.
    margin: α. same_image: (B, B) bool, True for pairs that are true, too.
    """
    true = scores.diagonal()
    is_false = ~torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    if same_image is not None:
        is_false = is_false & ~same_image
    captions = (margin + scores - true[:, None]).clamp(min=0) * is_false
    images = (margin + scores - true[None, :]).clamp(min=0) * is_false
    return Hinges(captions, images)


def sum_of_hinges(scores: Tensor, margin: float, same_image: Tensor | None = None) -> Tensor:
    """VSE's loss, over all false captions c' and images i' of the batch (Kiros et al. 2014; VSE-C, eq. 1), a scalar:

    Σ_c' [α + s(i, c') - s(i, c)]₊ + Σ_i' [α + s(i', c) - s(i, c)]₊. scores: (B, B), images by captions. margin: α.
    same_image: (B, B) bool, True where caption j describes image i, so that it is not false; None: only the diagonal.
    """
    hinges = _hinges(scores, margin, same_image)
    return hinges.captions.sum() + hinges.images.sum()


def max_of_hinges(scores: Tensor, margin: float, same_image: Tensor | None = None) -> Tensor:
    """VSE++'s loss, as `sum_of_hinges` with only the hardest caption and image (Faghri et al. 2018; VSE-C, eq. 2):

    max_c' [α + s(i, c') - s(i, c)]₊ + max_i' [α + s(i', c) - s(i, c)]₊. scores: (B, B), images by captions. margin: α.
    same_image: (B, B) bool, True where caption j describes image i; None: only the diagonal.
    """
    hinges = _hinges(scores, margin, same_image)
    return hinges.captions.amax(1).sum() + hinges.images.amax(0).sum()


def intra_pair_hinges(true: Tensor, false: Tensor, owner: Tensor, margin: float) -> Tensor:
    """The hinges of captions against their own hardest negatives, which VSE-C adds (Shi et al. 2018, eq. 3): a scalar.

    The sum, over pairs of an image i and its caption c, of max_c'' [α + s(i, c'') - s(i, c)]₊ over the negatives c'' of
    c; a pair without negatives adds 0.

    Args:
        true: (B,) s(i, c), the scores of the true pairs.
        false: (P,) s(i, c''), the score of each negative with the image of its caption.
        owner: (P,) the pair that each negative belongs to.
        margin: α.
    """
    # a cost is never below 0, so that the zeros of pairs without negatives change no other maximum
    costs = (margin + false - true[owner]).clamp(min=0)
    return torch.zeros_like(true).scatter_reduce(0, owner, costs, "amax").sum()


def shared_hinges(true: Tensor, false: Tensor, margin: float) -> Tensor:
    """The hinges that VSE-C's released code adds, a scalar: the sum over pairs of max_c'' [α + s(i, c'') - s(i, c)]₊
    over the negatives c'' of all captions of the batch, not only of the image's own caption.

    Args:
        true: (B,) s(i, c), the scores of the true pairs.
        false: (B, P) s(i, c''), the scores of all images with all negatives.
        margin: α.
    """
    costs = (margin + false - true[:, None]).clamp(min=0)
    # torch refuses the maximum of nothing; the sum of nothing is 0, and has a gradient
    return costs.amax(1).sum() if costs.shape[1] else costs.sum()


def info_nce(logits: Tensor, same_image: Tensor, negatives: Tensor | None = None) -> Tensor:
    """CLIP's loss (Radford et al. 2021), and NegCLIP's with `negatives` (Yuksekgonul et al. 2023): a scalar.

    ½ Σ_i [-log p(caption i | image i) - log p(image i | caption i)], each p a softmax: over the captions of the batch
    and all its negatives, and over the images of the batch. logits: (B, B), images by captions. same_image: (B, B)
    bool, True where caption j describes image i. negatives: (B, P) logits of each image with every negative.
    """
    is_other_caption = same_image & ~torch.eye(len(logits), dtype=torch.bool, device=logits.device)
    # another caption of the image is no wrong answer: it takes no part in the softmax
    logits = logits.masked_fill(is_other_caption, -math.inf)
    candidates = logits if negatives is None else torch.cat([logits, negatives], 1)
    true = torch.arange(len(logits), device=logits.device)
    captions_by_image = functional.cross_entropy(candidates, true, reduction="sum")
    images_by_caption = functional.cross_entropy(logits.T, true, reduction="sum")
    return (captions_by_image + images_by_caption) / 2


def sigmoid_loss(logits: Tensor, same_image: Tensor) -> Tensor:
    """SigLIP's loss (Zhai et al. 2023, eq. 1): a scalar.

    -Σ_ij log σ(z_ij l_ij), z_ij = 1 for a true pair, -1 otherwise. logits: (B, B), images by captions, with the bias.
    same_image: (B, B) bool, True where caption j describes image i, which is a true pair as well.
    """
    return -functional.logsigmoid(torch.where(same_image, logits, -logits)).sum()


def intra_modal_loss(true: Tensor, between: Tensor) -> Tensor:
    """CE-CLIP's contrast inside the texts (Zhang et al. 2024): a caption is to be nearer to its image than to any of
    the negatives. The sum over captions of -log [exp l_ii / (exp l_ii + Σ_k exp m_ik)].

    Args:
        true: (B,) l_ii, the logit of each caption with its image.
        between: (B, P) m_ik, the logits of each caption with P negatives.
    """
    return (torch.cat([true[:, None], between], 1).logsumexp(1) - true).sum()


def rank_loss(true: Tensor, false: Tensor, owner: Tensor, thresholds: Tensor) -> Tensor:
    """CE-CLIP's ranking of an image's captions above their negatives (Zhang et al. 2024), a scalar.

    B times the mean over negatives c'' of [l(i, c'') - l(i, c) + Th]₊.

    Args:
        true: (B,) l(i, c), the logits of the true pairs.
        false: (P,) l(i, c''), the logit of each negative with the image of its caption.
        owner: (P,) the pair that each negative belongs to.
        thresholds: (P,) Th, the threshold of each negative's family.
    """
    # a loss of 0 that still has a gradient, as the mean of nothing would be NaN
    if not len(false):
        return true.sum() * 0
    # times B, as the other terms are sums over the captions of the batch
    return (false - true[owner] + thresholds).clamp(min=0).mean() * len(true)


def next_thresholds(thresholds: Tensor, true: Tensor, false: Tensor, owner: Tensor, family: Tensor) -> Tensor:
    """CE-CLIP's thresholds after a batch, (families,): for each family of operators, the mean over its negatives c'' of
    l(i, c) - l(i, c''), how far the caption's logit is above the negative's.

    A family without negatives in the batch keeps its threshold.

    Args:
        thresholds: (families,) those before the batch.
        true: (B,) l(i, c), the logits of the true pairs.
        false: (P,) l(i, c''), the logit of each negative with the image of its caption.
        owner: (P,) the pair that each negative belongs to.
        family: (P,) the index of each negative's family.
    """
    # the thresholds follow the model; no gradient is to move the model towards them
    gaps = (true[owner] - false).detach().to(thresholds.dtype)
    counts = torch.bincount(family, minlength=len(thresholds))
    # the mean by family, in one pass over the batch
    means = torch.zeros_like(thresholds).index_add(0, family, gaps) / counts.clamp(min=1)
    return torch.where(counts > 0, means, thresholds)


class ContrastiveHead(nn.Module):
    """A model with the parameters of contrastive losses: `log_scale`, log(1/τ), a bias, and CE-CLIP's thresholds."""

    log_scale: Tensor

    def add_loss_parameters(self, kind: str, families: int) -> None:
        """Add `bias`, which SigLIP learns, and `thresholds`, which CE-CLIP updates, as parameters of this model.

        kind: of the loss, such as siglip. families: how many families of operators there are; each has a threshold.
        """
        siglip = kind == "siglip"
        self.bias = nn.Parameter(torch.tensor(SIGLIP_BIAS if siglip else 0.0), requires_grad=siglip)
        # a parameter without gradient, so that it is saved, loaded and averaged as the weights are
        self.thresholds = nn.Parameter(torch.zeros(families), requires_grad=False)

    @property
    def scale(self) -> Tensor:
        """1/τ, at most 100 as in CLIP."""
        return self.log_scale.exp().clamp(max=MOST)


class NegativeScores(NamedTuple):
    """Scores of P negatives: with_every_image (B, P), each image with every negative; with_own_image (P,), each
    negative with the image of its own caption.
    """

    with_every_image: Tensor
    with_own_image: Tensor


def negative_scores(
    images: Tensor, negatives: Tensor, sampled: SampledNegatives, margin: float = 0.0
) -> NegativeScores:
    """The cosines of images with negatives.

    Args:
        images: (B, d) unit vectors.
        negatives: (P, d) unit vectors.
        sampled: which negatives these are, with the caption and the concreteness of each.
        margin: times a negative's concreteness, it is added to its score with its own image, in both results: what a
            concrete noun names can be seen to be missing (after the concreteness-scaled margin of ConcretePlant, Im et
            al. 2026; its form is negcap's own).
    """
    owner = to_device(sampled.owner, images.device)
    with_every_image = images @ negatives.T
    with_own_image = (images[owner] * negatives).sum(1)
    if margin:
        margins = margin * to_device(sampled.concreteness, images.device)
        every_negative = torch.arange(len(owner), device=images.device)
        # of the column of a negative, only the row of its own image changes
        with_every_image = with_every_image.index_put((owner, every_negative), margins, accumulate=True)
        with_own_image = with_own_image + margins
    return NegativeScores(with_every_image, with_own_image)


class EmbeddedBatch(NamedTuple):
    """The vectors of a batch: images (B, d), their captions (B, d), negatives (P, d), and which negatives these are."""

    images: Tensor
    captions: Tensor
    negatives: Tensor
    sampled: SampledNegatives


def contrastive_terms(
    kind: str,
    model: ContrastiveHead,
    images: Tensor,
    captions: Tensor,
    negatives: Tensor,
    sampled: SampledNegatives,
    same_image: Tensor,
    margin: float,
) -> Terms:
    """The terms of a contrastive loss by name, each a scalar, on unit vectors.

    Args:
        kind: infonce, siglip, negclip or ce-clip; ce-clip also updates the model's thresholds, in training mode.
        model: has the scale of the logits, SigLIP's bias and CE-CLIP's thresholds.
        images: (B, d) vectors.
        captions: (B, d) vectors; caption i describes image i.
        negatives: (P, d) vectors of the captions' negatives; infonce and siglip do not use them.
        sampled: the caption that each negative belongs to, its family of operators and its concreteness.
        same_image: (B, B) bool, True where caption j describes image i.
        margin: a margin for negatives, which grows with their concreteness, see `negative_scores`; 0: none.

    Returns:
        `itc`, of images with texts; for CE-CLIP also `imc`, inside the texts, and `cmr`, the ranking of a caption above
        its negatives.
    """
    scale = model.scale
    logits = scale * images @ captions.T  # (B, B), images by captions
    if kind == "siglip":
        return {"itc": sigmoid_loss(logits + model.bias, same_image)}
    if kind == "infonce":
        return {"itc": info_nce(logits, same_image)}
    cosines = negative_scores(images, negatives, sampled, margin)
    terms = {"itc": info_nce(logits, same_image, scale * cosines.with_every_image)}
    if kind == "ce-clip":
        true_logits = logits.diagonal()  # (B,)
        false_logits = scale * cosines.with_own_image  # (P,)
        owner = to_device(sampled.owner, images.device)
        family = to_device(sampled.family, images.device)  # (P,) of operators; each family has a threshold
        terms["imc"] = TEXT_WEIGHT * intra_modal_loss(true_logits, scale * captions @ negatives.T)
        terms["cmr"] = RANK_WEIGHT * rank_loss(true_logits, false_logits, owner, model.thresholds[family])
        # evaluation must not change the model
        if model.training and len(negatives):
            model.thresholds.copy_(next_thresholds(model.thresholds, true_logits, false_logits, owner, family))
    return terms
