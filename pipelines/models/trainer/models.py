"""Models of one joint space for images and sentences that differ in the loss: VSE, VSE++ and VSE-C."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn

from negcap.pipelines.models.encoders import encoders, word_embedding
from negcap.pipelines.models.losses import intra_pair_hinges, max_of_hinges, sum_of_hinges
from negcap.pipelines.models.sampling import Drawn, Pool, draw, make_pool, to
from negcap.pipelines.models.texts import Texts
from negcap.pipelines.models.trainer.config import TrainConfig
from negcap.pipelines.models.trainer.objective import Batch, Objective, Tables, mixed
from negcap.pipelines.models.trainer.unified import Phrase
from negcap.pipelines.models.vocabulary import Vocabulary


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


class EmbeddingModel(nn.Module):
    """Two encoders into one space of unit vectors; the similarity is their inner product.

    features: size of an image's features; words: size of the vocabulary; vectors: see word_embedding.
    """

    def __init__(self, config: TrainConfig, features: int, words: int, vectors: Tensor | None = None) -> None:
        super().__init__()

        def embed(generator: Generator) -> nn.Module:
            return word_embedding(words, config.word_dim, generator, vectors, config.tune_vectors)

        self.image, self.text = encoders(config, features, embed, config.word_dim)

    def sentences(self, texts: Texts, rows: Tensor) -> Tensor:
        """Sentences `rows` (B,) to unit vectors (B, joint)."""
        return self.text(texts.tokens, texts.offsets, rows)

    def queries(self, vocabulary: Vocabulary, phrases: Sequence[Phrase]) -> Tensor:
        """Phrases as sentences: (Q, joint)."""
        tokens, offsets = map(torch.from_numpy, vocabulary.encode([phrase.text for phrase in phrases]))
        with torch.inference_mode():
            return self.text(tokens.to(self.image.linear.weight.device), offsets, torch.arange(len(phrases)))


def negative_pool(config: TrainConfig, tables: Tables) -> Pool:
    """The negatives of train captions that VSE-C draws from. Raises ValueError when there are none."""
    corpus = tables.corpus
    wanted = corpus.of_families(config.negative_families) & corpus.made_by(config.negative_operators)
    trained = torch.zeros(corpus.captions, dtype=torch.bool)
    trained[tables.train] = True
    pool = make_pool(corpus.negative_caption, corpus.family, wanted & trained[corpus.negative_caption], corpus.captions)
    if not len(pool.rows):
        there = ", ".join(corpus.families) or "none: run negcap negatives first"
        raise ValueError(
            "negative_families must have negatives of train captions, have none: "
            f"{', '.join(config.negative_families)} by {', '.join(config.negative_operators)} "
            f"(families in {config.run}: {there})"
        )
    return pool


def losses(
    loss: Callable[[Embedded, float, bool], Tensor],
    model: EmbeddingModel,
    batch: Batch,
    drawn: Drawn | None,
    config: TrainConfig,
    epoch: int,
) -> dict[str, Tensor]:
    """A loss of the batch's captions and images in the joint space, with the negatives drawn."""
    device = batch.features.device
    nothing = torch.empty(0, dtype=torch.long)
    rows, owner = (nothing, nothing) if drawn is None else (drawn.rows, drawn.owner)
    with mixed(config, device):
        images = model.image(batch.features)
        sentences = model.sentences(batch.texts, torch.cat([batch.captions, batch.texts.captions + rows]))
    true, false = sentences[: len(batch.captions)], sentences[len(batch.captions) :]
    embedded = Embedded(images, true, false, to(owner, device), batch.same)
    return {"sent": loss(embedded, config.margin, epoch <= config.warm_up)}


VSE = Objective(EmbeddingModel, partial(losses, among_all))
VSE_PP = Objective(EmbeddingModel, partial(losses, between_pairs))
VSE_C = Objective(
    EmbeddingModel,
    partial(losses, within_pairs),
    source=negative_pool,
    draw=lambda pool, captions, config, generator: draw(pool, captions, config.negatives, generator),
    says=lambda pool: f"{len(pool.rows):,} negatives",
)
