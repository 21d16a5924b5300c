"""The models with one vector for each image and text: VSE, VSE++, VSE-C, order-embeddings and the contrastive ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor, nn

from .config import ContrastiveConfig, DualConfig, NegativesConfig, VseConfig
from .corpus import NegativePool, build_pool, sample_negatives
from .device import to_device
from .encoders import TwoPartEmbedding, build_encoders, word_embedding
from .losses import NONE, TERMS, Drawn, compare, intra_pair_hinges, max_of_hinges, shared_hinges, sum_of_hinges
from .objective import Batch, Objective, RunTables, autocast
from .similarities import SIMILARITIES
from .vectors import Phrase, Texts
from .vocabulary import WordVocabulary

SCALE, MOST = 1 / 0.07, 100.0  # the first scale of CLIP, and the highest
SIGLIP_SCALE, SIGLIP_BIAS = 10.0, -10.0  # the first scale and bias of SigLIP (Zhai et al. 2023, section 3.2)


class DualEncoder(nn.Module):
    """Encoders of images and texts into one space, whose similarity is that of the config.

    features: the size of an image's feature vector. words: the size of the vocabulary. vectors: see `word_embedding`.
    """

    def __init__(self, config: DualConfig, features: int, words: int, vectors: Tensor | None = None) -> None:
        super().__init__()
        self.similarity = SIMILARITIES[getattr(config, "similarity", "cosine")]

        def embedding(generator: Generator) -> nn.Module:
            if config.grounded_dim:
                return TwoPartEmbedding(words, config.word_dim, config.grounded_dim, generator, vectors)
            return word_embedding(words, config.word_dim, generator, vectors, config.tune_vectors)

        self.image, self.text = build_encoders(
            config, features, embedding, config.word_dim + config.grounded_dim, self.similarity
        )

    def sentences(self, texts: Texts, rows: Tensor) -> Tensor:
        """Vectors (B, joint) of texts `rows` (B,)."""
        return self.text(texts.tokens, texts.offsets, rows)

    def queries(self, vocabulary: WordVocabulary, phrases: Sequence[Phrase]) -> Tensor:
        """Vectors (Q, joint) of Q phrases, each encoded as a sentence."""
        tokens, offsets = map(torch.from_numpy, vocabulary.encode([phrase.text for phrase in phrases]))
        with torch.inference_mode():
            return self.text(tokens.to(self.image.linear.weight.device), offsets, torch.arange(len(phrases)))


class ContrastiveEncoder(DualEncoder):
    """Encoders of images and texts with a learned scale of their cosine.

    log_scale: log(1/τ). bias: SigLIP's, which the other losses leave as it is. thresholds: (families,) CE-CLIP's
    thresholds, one for each family of negatives; 0 before the first batch.
    """

    def __init__(self, config: ContrastiveConfig, features: int, words: int, vectors: Tensor | None = None) -> None:
        super().__init__(config, features, words, vectors)
        siglip = config.model == "siglip"
        self.log_scale = nn.Parameter(torch.tensor(math.log(SIGLIP_SCALE if siglip else SCALE)))
        self.bias = nn.Parameter(torch.tensor(SIGLIP_BIAS if siglip else 0.0), requires_grad=siglip)
        self.thresholds = nn.Parameter(torch.zeros(len(config.negative_families)), requires_grad=False)

    @property
    def scale(self) -> Tensor:
        """1/τ, at most 100 as in CLIP."""
        return self.log_scale.exp().clamp(max=MOST)


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


def negative_pool(config: NegativesConfig, tables: RunTables) -> NegativePool:
    """The negatives of train captions from which a model samples. Raises ValueError if there are none."""
    corpus = tables.corpus
    wanted = corpus.of_families(config.negative_families) & corpus.made_by(config.negative_operators)
    trained = torch.zeros(corpus.captions, dtype=torch.bool)
    trained[tables.train] = True
    pool = build_pool(
        corpus.negative_caption, corpus.family, wanted & trained[corpus.negative_caption], corpus.captions
    )
    if not len(pool.rows):
        there = ", ".join(corpus.families) or "none: run negcap build first"
        raise ValueError(
            "negative_families must have negatives of train captions, have none: "
            f"{', '.join(config.negative_families)} by {', '.join(config.negative_operators)} "
            f"(families in {config.run}: {there})"
        )
    return pool


def embed(model: DualEncoder, batch: Batch, drawn: Drawn, config: DualConfig) -> tuple[Tensor, Tensor, Tensor]:
    """The images (B, d) of a batch, its captions (B, d), and the negatives (P, d) drawn for it."""
    rows = torch.cat([batch.captions, batch.texts.captions + drawn.negatives.rows])
    with autocast(config, batch.features.device):
        images, texts = model.image(batch.features), model.sentences(batch.texts, rows)
    return images, texts[: len(batch.captions)], texts[len(batch.captions) :]


def vse_losses(
    model: DualEncoder, batch: Batch, drawn: Drawn | None, config: VseConfig, epoch: int
) -> dict[str, Tensor]:
    """The loss on a batch, as its only term `sent`: the hardest hinges (VSE++), or their sum (VSE, order, warm-up).

    drawn: VSE-C's negatives, of which the hardest ones' hinges are added, see `intra_pair_hinges`, and `shared_hinges`
    where the batch shares them. epoch: from 1; the first config.warm_up epochs warm up, and the first
    config.negatives_after do without negatives.
    """
    drawn = NONE if drawn is None or epoch <= config.negatives_after else drawn
    images, true, false = embed(model, batch, drawn, config)
    every = config.model in ("vse", "order") or epoch <= config.warm_up
    hinges = sum_of_hinges if every else max_of_hinges
    loss = hinges(model.similarity.matrix(images, true), config.margin, batch.same_image)
    if len(false):
        own, owner = model.similarity.pairs(images, true), to_device(drawn.negatives.owner, images.device)
        if config.share_negatives:
            loss = loss + shared_hinges(own, model.similarity.matrix(images, false), config.margin)
        else:
            loss = loss + intra_pair_hinges(own, model.similarity.pairs(images[owner], false), owner, config.margin)
    return {"sent": loss}


def contrastive_losses(
    model: ContrastiveEncoder, batch: Batch, drawn: Drawn | None, config: ContrastiveConfig, epoch: int
) -> dict[str, Tensor]:
    """The terms of a contrastive loss on a batch, by name; arguments as those of `vse_losses`."""
    drawn = NONE if drawn is None or epoch <= config.negatives_after else drawn
    embedded = embed(model, batch, drawn, config)
    logits = compare(*embedded, drawn, model.scale, batch.same_image, config.concreteness_margin)
    return TERMS[config.model](model, logits)


def negatives_of(config: NegativesConfig, tables: RunTables) -> Negatives:
    """The negatives of train captions. Raises ValueError as `negative_pool`."""
    pool, corpus = negative_pool(config, tables), tables.corpus
    places = {name: at for at, name in enumerate(config.negative_families)}
    of_family = torch.tensor([places.get(name, 0) for name in corpus.families])
    return Negatives(pool, of_family[corpus.family], corpus.concreteness)


VSE = Objective(DualEncoder, vse_losses)  # also of VSE++ and order-embeddings (Vendrov et al. 2016, eq. 4)
INFO_NCE = Objective(ContrastiveEncoder, contrastive_losses)  # also of SigLIP
DRAWN: dict[str, Any] = {
    "sampler": negatives_of,
    "sample": lambda found, captions, config, generator: found.draw(captions, config.negatives, generator),
    "describe": lambda found: f"{len(found.pool.rows):,} negatives",
}
VSE_C = replace(VSE, **DRAWN)
NEGCLIP = replace(INFO_NCE, **DRAWN)  # also of CE-CLIP
