"""Models of one joint space for images and sentences; they share their encoders and differ in the loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn

from pipelines.trainer.config import TrainConfig
from pipelines.trainer.encoders import ImageEncoder, TextEncoder
from pipelines.trainer.losses import intra_pair_hinges, max_of_hinges, sum_of_hinges


class Embedded(NamedTuple):
    """A batch in the joint space: B images and captions, P negatives and the caption each is of.

    images, captions: (B, d); negatives: (P, d); owner: (P,); same: (B, B) bool, caption j is of image i. Unit vectors.
    """

    images: Tensor
    captions: Tensor
    negatives: Tensor
    owner: Tensor
    same: Tensor


def between_pairs(batch: Embedded, margin: float, warming: bool) -> Tensor:
    """VSE++ (eq. 2); while warming up, VSE."""
    loss = sum_of_hinges if warming else max_of_hinges
    return loss(batch.images @ batch.captions.T, margin, batch.same)


def among_all(batch: Embedded, margin: float, warming: bool) -> Tensor:
    """VSE (eq. 1)."""
    return sum_of_hinges(batch.images @ batch.captions.T, margin, batch.same)


def within_pairs(batch: Embedded, margin: float, warming: bool) -> Tensor:
    """VSE-C (eq. 3): VSE++ and the hardest negative made of each caption."""
    true = (batch.images * batch.captions).sum(1)
    false = (batch.images[batch.owner] * batch.negatives).sum(1)
    return between_pairs(batch, margin, warming) + intra_pair_hinges(true, false, batch.owner, margin)


class Objective(NamedTuple):
    """What a model minimises, and whether it needs negatives of the captions."""

    loss: Callable[[Embedded, float, bool], Tensor]
    negatives: bool = False


OBJECTIVES = {
    "vse": Objective(among_all),
    "vse++": Objective(between_pairs),
    "vse-c": Objective(within_pairs, negatives=True),
}


class EmbeddingModel(nn.Module):
    """Two encoders into one space of unit vectors; the similarity is their inner product.

    features: size of an image's features; words: size of the vocabulary; vectors: see TextEncoder.
    """

    def __init__(self, config: TrainConfig, features: int, words: int, vectors: Tensor | None = None) -> None:
        super().__init__()
        generator = Generator().manual_seed(config.seed)
        with torch.random.fork_rng(devices=[]):  # what torch draws before the own draws replace it
            self.image = ImageEncoder(features, config.joint, config.transform, generator)
            self.text = TextEncoder(
                words,
                config.word_dim,
                config.joint,
                generator,
                bidirectional=config.bidirectional,
                pooling=config.pooling,
                vectors=vectors,
                tune=config.tune_vectors,
            )
