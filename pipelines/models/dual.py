"""The models with one vector for each image and text: VSE, VSE++, VSE-C, order-embeddings and the contrastive ones."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Generator, Tensor, nn

from . import losses
from .batches import NO_NEGATIVES, CaptionBatch, Objective, SampledNegatives, Terms, autocast, negative_sampler
from .config import ContrastiveConfig, DualConfig, VseConfig
from .data import RunTexts
from .device import to_device
from .encoders import TwoPartEmbedding, build_encoders, word_embedding
from .similarities import SIMILARITIES

SUMMED = ("vse", "order")  # models that are trained with the sum of all hinges


class DualEncoder(nn.Module):
    """Encoders of images and texts into one space, whose similarity is that of the config. features: the size of an
    image's feature vector. words: the size of the vocabulary. vectors: see `word_embedding`.
    """

    def __init__(self, config: DualConfig, features: int, words: int, vectors: Tensor | None = None) -> None:
        super().__init__()
        self.similarity = SIMILARITIES[getattr(config, "similarity", "cosine")]

        def embedding(generator: Generator) -> nn.Module:
            if config.grounded_dim:
                return TwoPartEmbedding(words, config.word_dim, config.grounded_dim, generator, vectors)
            return word_embedding(words, config.word_dim, generator, vectors, config.tune_vectors)

        word_dim = config.word_dim + config.grounded_dim
        self.image, self.text = build_encoders(config, features, embedding, word_dim, self.similarity)

    def sentences(self, texts: RunTexts, rows: Tensor) -> Tensor:
        """Vectors (B, joint) of texts `rows` (B,)."""
        return self.text(texts.tokens, texts.offsets, rows)


class ContrastiveEncoder(DualEncoder, losses.ContrastiveHead):
    """Encoders of images and texts with a learned scale of their cosine."""

    def __init__(self, config: ContrastiveConfig, features: int, words: int, vectors: Tensor | None = None) -> None:
        super().__init__(config, features, words, vectors)
        scale = losses.SIGLIP_SCALE if config.model == "siglip" else losses.SCALE
        self.log_scale = nn.Parameter(torch.tensor(math.log(scale)))
        self.learn(config.model, len(config.negative_families))


def embed(
    model: DualEncoder, batch: CaptionBatch, drawn: SampledNegatives | None, config: DualConfig, epoch: int
) -> tuple[Tensor, Tensor, Tensor, SampledNegatives]:
    """The images (B, d) of a batch, its captions (B, d), the negatives (P, d) drawn for it, and which these are. epoch:
    from 1; the first config.negatives_after do without negatives.
    """
    drawn = NO_NEGATIVES if drawn is None or epoch <= config.negatives_after else drawn
    rows = torch.cat([batch.captions, batch.texts.captions + drawn.rows])
    with autocast(config, batch.features.device):
        images = model.image(batch.features)
        texts = model.sentences(batch.texts, rows)
    return images, texts[: len(batch.captions)], texts[len(batch.captions) :], drawn


def vse_losses(
    model: DualEncoder, batch: CaptionBatch, drawn: SampledNegatives | None, config: VseConfig, epoch: int
) -> Terms:
    """The loss on a batch, as its only term `sent`: the hardest hinges (VSE++), or their sum (VSE, order, warm-up).
    drawn: VSE-C's negatives, of which the hardest ones' hinges are added, see `intra_pair_hinges`, and `shared_hinges`
    where the batch shares them. epoch: from 1; the first config.warm_up epochs warm up.
    """
    images, true, false, drawn = embed(model, batch, drawn, config, epoch)
    summed = config.model in SUMMED or epoch <= config.warm_up
    hinges = losses.sum_of_hinges if summed else losses.max_of_hinges
    loss = hinges(model.similarity.matrix(images, true), config.margin, batch.same_image)
    if len(false):
        true_scores = model.similarity.pairs(images, true)
        owner = to_device(drawn.owner, images.device)
        if config.share_negatives:
            loss = loss + losses.shared_hinges(true_scores, model.similarity.matrix(images, false), config.margin)
        else:
            own = model.similarity.pairs(images[owner], false)
            loss = loss + losses.intra_pair_hinges(true_scores, own, owner, config.margin)
    return {"sent": loss}


def contrastive_losses(
    model: ContrastiveEncoder,
    batch: CaptionBatch,
    drawn: SampledNegatives | None,
    config: ContrastiveConfig,
    epoch: int,
) -> Terms:
    """The terms of a contrastive loss on a batch, by name; arguments as those of `vse_losses`."""
    embedded = embed(model, batch, drawn, config, epoch)
    return losses.contrastive_terms(config.model, model, *embedded, batch.same_image, config.concreteness_margin)


VSE = Objective(DualEncoder, vse_losses)  # also of VSE++ and order-embeddings (Vendrov et al. 2016, eq. 4)
INFO_NCE = Objective(ContrastiveEncoder, contrastive_losses)  # also of SigLIP
VSE_C = replace(VSE, sampler=negative_sampler)
NEGCLIP = replace(INFO_NCE, sampler=negative_sampler)  # also of CE-CLIP
