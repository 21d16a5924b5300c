"""The models with one vector for each image and text: VSE, VSE++, VSE-C, order-embeddings and the contrastive ones."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Generator, Tensor, nn

from . import losses
from .batches import NO_NEGATIVES, Objective, SampledNegatives, Terms, TrainingBatch, autocast, negative_sampler
from .config import ContrastiveConfig, DualConfig, VseConfig
from .data import RunTexts
from .device import to_device
from .encoders import EmbeddingModel, TwoPartEmbedding, build_encoders, word_embedding
from .similarities import SIMILARITIES

SUMMED = ("vse", "order")  # models that are trained with the sum of all hinges


class DualEncoder(EmbeddingModel):
    """Encoders of images and texts into one space, whose similarity is that of the config.

    Args:
        config: of the model.
        features: the size of an image's feature vector.
        words: the size of the vocabulary.
        vectors: the initial word vectors, see `word_embedding`; None: random ones.
    """

    def __init__(self, config: DualConfig, features: int, words: int, vectors: Tensor | None = None) -> None:
        """Make the encoders; features, words: the sizes of an image's features and of the vocabulary."""
        super().__init__()
        self.feature_size = features
        self.similarity = SIMILARITIES[config.similarity if isinstance(config, VseConfig) else "cosine"]

        def embedding(generator: Generator) -> nn.Module:
            """New word vectors as the config asks for: learned ones, or a fixed part and a learned part joined."""
            # the fixed part comes from a file, the learned one from the images (VSE-C, section 3.1)
            if config.grounded_dim:
                return TwoPartEmbedding(words, config.word_dim, config.grounded_dim, generator, vectors)
            return word_embedding(words, config.word_dim, generator, vectors, config.tune_vectors)

        word_dim = config.word_dim + config.grounded_dim
        encoders = build_encoders(config, features, embedding, word_dim, self.similarity)
        self.image = encoders.image
        self.text = encoders.text

    def sentences(self, texts: RunTexts, rows: Tensor) -> Tensor:
        """Vectors (B, joint) of texts `rows` (B,)."""
        return self.text(texts.tokens, texts.offsets, rows)


class ContrastiveEncoder(DualEncoder, losses.ContrastiveHead):
    """Encoders of images and texts with a learned scale of their cosine."""

    def __init__(self, config: ContrastiveConfig, features: int, words: int, vectors: Tensor | None = None) -> None:
        """Make the encoders, and the parameters of the loss that the config names."""
        super().__init__(config, features, words, vectors)
        scale = losses.SIGLIP_SCALE if config.model == "siglip" else losses.SCALE
        # learned as a logarithm, so that the scale itself stays above 0
        self.log_scale = nn.Parameter(torch.tensor(math.log(scale)))
        self.add_loss_parameters(config.model, len(config.negative_families))


def embed_batch(
    model: DualEncoder, batch: TrainingBatch, sampled: SampledNegatives | None, config: DualConfig, epoch: int
) -> losses.EmbeddedBatch:
    """The vectors of a batch, and those of the negatives that were sampled for it.

    Args:
        model: the encoders.
        batch: of pairs of an image and a caption.
        sampled: the negatives; None: there are none.
        config: of the training.
        epoch: from 1; the first config.negatives_after do without negatives.
    """
    if sampled is None or epoch <= config.negatives_after:
        sampled = NO_NEGATIVES
    # captions and negatives in one pass, which shares the states after their common prefixes
    rows = torch.cat([batch.captions, batch.texts.captions + sampled.rows])
    with autocast(config.amp, batch.features.device):
        images = model.image(batch.features)
        texts = model.sentences(batch.texts, rows)
    captions = len(batch.captions)
    return losses.EmbeddedBatch(images, texts[:captions], texts[captions:], sampled)


def vse_losses(
    model: DualEncoder, batch: TrainingBatch, sampled: SampledNegatives | None, config: VseConfig, epoch: int
) -> Terms:
    """The loss on a batch, as its only term `sent`: the hardest hinges (VSE++), or their sum (VSE, order, warm-up).

    Args:
        model: the encoders.
        batch: of pairs of an image and a caption.
        sampled: VSE-C's negatives. The hinges of the hardest ones are added, see `intra_pair_hinges`, and
            `shared_hinges` where the batch shares its negatives.
        config: of the training.
        epoch: from 1; the first config.warm_up epochs warm up.
    """
    embedded = embed_batch(model, batch, sampled, config, epoch)
    images = embedded.images
    captions = embedded.captions
    negatives = embedded.negatives
    # VSE++ begins with the sum: the hardest negatives of random vectors teach little
    summed = config.model in SUMMED or epoch <= config.warm_up
    hinges = losses.sum_of_hinges if summed else losses.max_of_hinges
    loss = hinges(model.similarity.matrix(images, captions), config.margin, batch.same_image)
    if len(negatives):
        true = model.similarity.pairs(images, captions)
        owner = to_device(embedded.sampled.owner, images.device)
        if config.share_negatives:
            loss = loss + losses.shared_hinges(true, model.similarity.matrix(images, negatives), config.margin)
        else:
            false = model.similarity.pairs(images[owner], negatives)
            loss = loss + losses.intra_pair_hinges(true, false, owner, config.margin)
    return {"sent": loss}


def contrastive_losses(
    model: ContrastiveEncoder,
    batch: TrainingBatch,
    sampled: SampledNegatives | None,
    config: ContrastiveConfig,
    epoch: int,
) -> Terms:
    """The terms of a contrastive loss on a batch, by name.

    Args:
        model: the encoders, with the learned scale of the loss.
        batch: of pairs of an image and a caption.
        sampled: the negatives of the captions; None: the loss has none.
        config: of the training; names the loss.
        epoch: from 1.
    """
    embedded = embed_batch(model, batch, sampled, config, epoch)
    # fields in the order of EmbeddedBatch
    return losses.contrastive_terms(config.model, model, *embedded, batch.same_image, config.concreteness_margin)


VSE = Objective(DualEncoder, vse_losses)  # also of VSE++ and order-embeddings (Vendrov et al. 2016, eq. 4)
INFO_NCE = Objective(ContrastiveEncoder, contrastive_losses)  # also of SigLIP
VSE_C = replace(VSE, sampler=negative_sampler)
NEGCLIP = replace(INFO_NCE, sampler=negative_sampler)  # also of CE-CLIP
