"""Triplet losses of visual-semantic embeddings, as functions of similarity scores.

A batch is B images i with one caption c each. s is the similarity, and `scores[i, j]` that of image i and caption j, so
that the diagonal holds the true pairs. Losses are summed over the batch. [x]₊ = max(0, x); α is the margin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn

from .config import TrainConfig
from .corpus import NegativePool, SampledNegatives, build_pool, sample_negatives
from .device import to_device
from .encoders import TwoPartEmbedding, build_encoders, word_embedding
from .objective import Batch, Objective, RunTables, autocast
from .similarities import SIMILARITIES, Similarity
from .vectors import Phrase, Texts
from .vocabulary import WordVocabulary


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


class EmbeddedBatch(NamedTuple):
    """A batch as vectors of the joint space: B images and captions, and P negatives of the captions.

    images, captions: (B, d). negatives: (P, d). owner: (P,) the index of the pair that each negative belongs to.
    same_image: (B, B) bool, True where caption j describes image i. similarity: what compares the vectors. share:
    whether an image is compared with the negatives of all captions, not only of its own.
    """

    images: Tensor
    captions: Tensor
    negatives: Tensor
    owner: Tensor
    same_image: Tensor
    similarity: Similarity
    share: bool = False


Loss = Callable[[EmbeddedBatch, float, bool], Tensor]  # batch, margin, still warming up -> scalar


def vse_loss(batch: EmbeddedBatch, margin: float, warming_up: bool) -> Tensor:
    """VSE's loss over all negatives in the batch, a scalar (`sum_of_hinges`); warming_up has no effect."""
    return sum_of_hinges(batch.similarity.matrix(batch.images, batch.captions), margin, batch.same_image)


def vse_pp_loss(batch: EmbeddedBatch, margin: float, warming_up: bool) -> Tensor:
    """VSE++'s loss of the hardest negatives in the batch, a scalar (`max_of_hinges`); VSE's loss while warming up."""
    loss = sum_of_hinges if warming_up else max_of_hinges
    return loss(batch.similarity.matrix(batch.images, batch.captions), margin, batch.same_image)


def vse_c_loss(batch: EmbeddedBatch, margin: float, warming_up: bool) -> Tensor:
    """VSE-C's loss: VSE++'s plus that of the hardest negative made of each caption, a scalar.

    See `intra_pair_hinges`, and `shared_hinges` for a batch that shares its negatives.
    """
    true = batch.similarity.pairs(batch.images, batch.captions)
    if batch.share:
        hardest = shared_hinges(true, batch.similarity.matrix(batch.images, batch.negatives), margin)
    else:
        false = batch.similarity.pairs(batch.images[batch.owner], batch.negatives)
        hardest = intra_pair_hinges(true, false, batch.owner, margin)
    return vse_pp_loss(batch, margin, warming_up) + hardest


class DualEncoder(nn.Module):
    """Encoders of images and texts into one space, whose similarity is that of the config.

    features: the size of an image's feature vector. words: the size of the vocabulary. vectors: see `word_embedding`.
    """

    def __init__(self, config: TrainConfig, features: int, words: int, vectors: Tensor | None = None) -> None:
        super().__init__()
        self.similarity = SIMILARITIES[config.similarity]

        def embedding(generator: Generator) -> nn.Module:
            if config.grounded_dim:
                return TwoPartEmbedding(words, config.word_dim, config.grounded_dim, generator, vectors)
            return word_embedding(words, config.word_dim, generator, vectors, config.tune_vectors)

        self.image, self.text = build_encoders(config, features, embedding, config.word_dim + config.grounded_dim)

    def sentences(self, texts: Texts, rows: Tensor) -> Tensor:
        """Vectors (B, joint) of texts `rows` (B,)."""
        return self.text(texts.tokens, texts.offsets, rows)

    def queries(self, vocabulary: WordVocabulary, phrases: Sequence[Phrase]) -> Tensor:
        """Vectors (Q, joint) of Q phrases, each encoded as a sentence."""
        tokens, offsets = map(torch.from_numpy, vocabulary.encode([phrase.text for phrase in phrases]))
        with torch.inference_mode():
            return self.text(tokens.to(self.image.linear.weight.device), offsets, torch.arange(len(phrases)))


def vse_c_pool(config: TrainConfig, tables: RunTables) -> NegativePool:
    """The negatives of train captions from which VSE-C samples. Raises ValueError if there are none."""
    corpus = tables.corpus
    wanted = corpus.of_families(config.negative_families) & corpus.made_by(config.negative_operators)
    trained = torch.zeros(corpus.captions, dtype=torch.bool)
    trained[tables.train] = True
    pool = build_pool(
        corpus.negative_caption, corpus.family, wanted & trained[corpus.negative_caption], corpus.captions
    )
    if not len(pool.rows):
        there = ", ".join(corpus.families) or "none: run negcap negatives first"
        raise ValueError(
            "negative_families must have negatives of train captions, have none: "
            f"{', '.join(config.negative_families)} by {', '.join(config.negative_operators)} "
            f"(families in {config.run}: {there})"
        )
    return pool


def sentence_losses(
    loss: Loss, model: DualEncoder, batch: Batch, negatives: SampledNegatives | None, config: TrainConfig, epoch: int
) -> dict[str, Tensor]:
    """The loss on a batch, as its only term `sent`: `loss` applied to its embedded images, captions and negatives.

    negatives: those sampled for the batch, or None. epoch: from 1; the first config.warm_up epochs warm up, and the
    first config.negatives_after do without negatives.
    """
    device = batch.features.device
    empty = torch.empty(0, dtype=torch.long)
    rows, owner = (empty, empty) if negatives is None or epoch <= config.negatives_after else negatives
    with autocast(config, device):
        images = model.image(batch.features)
        sentences = model.sentences(batch.texts, torch.cat([batch.captions, batch.texts.captions + rows]))
    true, false = sentences[: len(batch.captions)], sentences[len(batch.captions) :]
    owner = to_device(owner, device)
    embedded = EmbeddedBatch(images, true, false, owner, batch.same_image, model.similarity, config.share_negatives)
    return {"sent": loss(embedded, config.margin, epoch <= config.warm_up)}


VSE = Objective(DualEncoder, partial(sentence_losses, vse_loss))
ORDER = VSE  # the loss of Vendrov et al. (2016), eq. 4; its similarity is in the config
VSE_PP = Objective(DualEncoder, partial(sentence_losses, vse_pp_loss))
VSE_C = Objective(
    DualEncoder,
    partial(sentence_losses, vse_c_loss),
    sampler=vse_c_pool,
    sample=lambda pool, captions, config, generator: sample_negatives(pool, captions, config.negatives, generator),
    describe=lambda pool: f"{len(pool.rows):,} negatives",
)
