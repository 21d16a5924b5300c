"""Contrastive objectives of CLIP and its successors over the encoders of VSE++: InfoNCE, SigLIP, NegCLIP and CE-CLIP.

A batch is B images and captions, with P negatives made of the captions. s is the cosine, `scores[i, j]` that of image i
and caption j; logits are scores times a learned scale, 1/τ. Other captions of an image are neither true nor false for
it and are left out. Losses are sums over the batch, like those of `negcap.pipelines.models.losses`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple, Protocol

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from .config import WITH_NEGATIVES, TrainConfig
from .corpus import NegativePool, SampledNegatives, sample_negatives
from .device import to_device
from .losses import DualEncoder, vse_c_pool
from .objective import Batch, Objective, RunTables, autocast

SCALE, MOST = 1 / 0.07, 100.0  # the first scale of CLIP, and the highest
SIGLIP_SCALE, SIGLIP_BIAS = 10.0, -10.0  # the first scale and bias of SigLIP (Zhai et al. 2023, section 3.2)
TEXT_WEIGHT, RANK_WEIGHT = 0.2, 0.2  # factors of CE-CLIP's two terms, as in its released code


class Drawn(NamedTuple):
    """P negatives sampled for a batch, the family (P,) of each, and how concrete the noun is that it puts in (P,).

    family: a position in the config's `negative_families`. concreteness: from 0 to 1; 0 if no noun is put in.
    """

    negatives: SampledNegatives
    family: Tensor
    concreteness: Tensor


_EMPTY = torch.empty(0, dtype=torch.long)
NONE = Drawn(SampledNegatives(_EMPTY, _EMPTY), _EMPTY, torch.empty(0))


class ContrastiveEncoder(DualEncoder):
    """Encoders of images and texts with a learned scale of their cosine.

    log_scale: log(1/τ). bias: SigLIP's, which the other losses leave as it is. thresholds: (families,) CE-CLIP's
    thresholds, one for each family of negatives; 0 before the first batch.
    """

    def __init__(self, config: TrainConfig, features: int, words: int, vectors: Tensor | None = None) -> None:
        super().__init__(config, features, words, vectors)
        siglip = config.model == "siglip"
        self.log_scale = nn.Parameter(torch.tensor(math.log(SIGLIP_SCALE if siglip else SCALE)))
        self.bias = nn.Parameter(torch.tensor(SIGLIP_BIAS if siglip else 0.0), requires_grad=siglip)
        self.thresholds = nn.Parameter(torch.zeros(len(config.negative_families)), requires_grad=False)

    @property
    def scale(self) -> Tensor:
        """1/τ, at most 100 as in CLIP."""
        return self.log_scale.exp().clamp(max=MOST)


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


class Negatives(NamedTuple):
    """The negatives that can be sampled, and family and concreteness (M,) of every negative of the run; see `Drawn`."""

    pool: NegativePool
    family: Tensor
    concreteness: Tensor

    def draw(self, captions: Tensor, n: int, generator: Generator) -> Drawn:
        """n random negatives of each caption of a batch, or all of a caption that has fewer, flat, with their families
        and concreteness. captions: (B,) the row of each caption among those of the pool.
        """
        found = sample_negatives(self.pool, captions, n, generator)
        return Drawn(found, self.family[found.rows], self.concreteness[found.rows])


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


def contrastive_losses(
    terms: Terms,
    model: ContrastiveEncoder,
    batch: Batch,
    sampled: Drawn | None,
    config: TrainConfig,
    epoch: int,
) -> dict[str, Tensor]:
    """The terms of a contrastive loss on a batch, by name.

    sampled: the negatives sampled for the batch; None: none. epoch: from 1; the first config.negatives_after do without
    negatives.
    """
    device = batch.features.device
    drawn = NONE if sampled is None or epoch <= config.negatives_after else sampled
    with autocast(config, device):
        images = model.image(batch.features)
        texts = model.sentences(batch.texts, torch.cat([batch.captions, batch.texts.captions + drawn.negatives.rows]))
    true, false = texts[: len(batch.captions)], texts[len(batch.captions) :]
    logits = compare(images, true, false, drawn, model.scale, batch.same_image, config.concreteness_margin)
    return terms(model, logits)


def _negatives(config: TrainConfig, tables: RunTables) -> Negatives:
    """The negatives of train captions. Raises ValueError as `vse_c_pool`."""
    pool, corpus = vse_c_pool(config, tables), tables.corpus
    places = {name: at for at, name in enumerate(config.negative_families)}
    of_family = torch.tensor([places.get(name, 0) for name in corpus.families])
    return Negatives(pool, of_family[corpus.family], corpus.concreteness)


def _objective(terms: Terms, *, negatives: bool) -> Objective:
    losses = partial(contrastive_losses, terms)
    if not negatives:
        return Objective(ContrastiveEncoder, losses)
    return Objective(
        ContrastiveEncoder,
        losses,
        sampler=_negatives,
        sample=lambda found, captions, config, generator: found.draw(captions, config.negatives, generator),
        describe=lambda found: f"{len(found.pool.rows):,} negatives",
    )


CONTRASTIVE_OBJECTIVES = {name: _objective(terms, negatives=name in WITH_NEGATIVES) for name, terms in TERMS.items()}
