"""Batches of a training: captions in random order, negatives sampled for them, and what a model makes of both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Generator, Tensor

from ..engine.tables import has_table
from ..tables.columns import kinds_of
from .config import TrainWithNegativesConfig
from .data import Corpus, RunTexts
from .encoders import EmbeddingModel
from .sampling import NegativePool

Terms = dict[str, Tensor]  # of a loss, by name: scalars


# a batch holds indices of captions, not their words: the encoders read those of captions and negatives in one pass
class TrainingBatch(NamedTuple):
    """B pairs of an image and a caption: captions (B,), indices into `texts`, all texts of the run, on the CPU; on the
    device features (B, …) of the images, and same_image (B, B) bool, True where caption j describes image i.
    """

    captions: Tensor
    features: Tensor
    same_image: Tensor
    texts: RunTexts


class BatchSampler(Protocol):
    """Samples what a loss needs beside the captions of a batch, such as negatives. str() of it says how many it has."""

    def sample(self, captions: Tensor, generator: Generator) -> object:
        """What is sampled for captions (B,). Its type is known to the losses of the same objective."""


@dataclass(frozen=True)
class Objective:
    """How a kind of model is built and trained. The configs are of the kind's class in `config.CONFIGS`.

    Attributes:
        build: (config, features, words, vectors) -> a new model, given the size of an image's features and of the
            vocabulary, and initial word vectors (words, word_dim) or None; words and vectors once more, as a pair, for
            each further language.
        losses: (model, batch, sampled, config, epoch) -> the terms of the loss, each a scalar summed over the batch.
        sampler: (config, corpus, train) -> a sampler for the captions train (n,), or None; None: nothing is sampled.
        needs_components: whether the model reads scene graphs.
    """

    build: Callable[..., EmbeddingModel]
    losses: Callable[..., Terms]
    sampler: Callable[..., BatchSampler | None] | None = None
    needs_components: bool = False


def autocast(amp: bool, device: torch.device) -> AbstractContextManager[object]:
    """A context in which a GPU computes in bf16 if `amp` says so; on a CPU it does nothing."""
    return torch.autocast("cuda", torch.bfloat16) if amp and device.type == "cuda" else nullcontext()


def shuffled_batches(captions: Tensor, batch_size: int, generator: Generator) -> Iterator[Tensor]:
    """Batches of the captions (n,), given by number, in random order; a last batch of one, which would have no other
    caption to compare with, is left out.
    """
    # by the generator of the epoch, so that a resumed training sees the same batches
    order = captions[torch.randperm(len(captions), generator=generator)]
    return (batch for batch in order.split(batch_size) if len(batch) > 1)


class SampledNegatives(NamedTuple):
    """P negatives sampled for a batch.

    rows: (P,) indices among all negatives of the corpus. owner: (P,) the caption of each, as an index in the batch.
    family: (P,) the operator family of each, as a position in the config's `negative_families`. concreteness: (P,) how
    concrete the noun is that a negative inserts, from 0 to 1; 0 if it inserts none.
    """

    rows: Tensor
    owner: Tensor
    family: Tensor
    concreteness: Tensor


_EMPTY = torch.empty(0, dtype=torch.long)
NO_NEGATIVES = SampledNegatives(_EMPTY, _EMPTY, _EMPTY, torch.empty(0))


@dataclass(frozen=True)
class NegativeSampler:
    """What samples negatives for the batches of a training.

    Attributes:
        pool: the negatives to sample from.
        family: (M,) the family of each negative, as the corpus numbers families.
        positions: (families,) for each of these numbers, the position in the config's `negative_families`.
        concreteness: (M,), see `SampledNegatives`.
        size: how many negatives the train captions have.
    """

    pool: NegativePool
    family: Tensor
    positions: Tensor
    concreteness: Tensor
    size: int

    def __str__(self) -> str:
        return f"{self.size:,} negatives"

    def sample(self, captions: Tensor, generator: Generator) -> SampledNegatives:
        """Sample negatives for the captions of a batch (B,)."""
        sampled = self.pool.sample(captions, generator)  # (B, k), of which the mask leaves P
        rows = sampled.which[sampled.mask]
        owner = sampled.mask.nonzero()[:, 0]
        family = self.positions[self.family[rows].long()]
        return SampledNegatives(rows, owner, family, self.concreteness[rows])


def negative_sampler(config: TrainWithNegativesConfig, corpus: Corpus, train: Tensor) -> NegativeSampler:
    """The sampler of negatives of the captions train (n,), of those that the corpus has. Raises ValueError if there are
    none.
    """
    pool = NegativePool(corpus.starts, config.negatives, corpus.family if config.balance_families else None)
    size = int(pool.sizes(train).sum())
    if not size:
        raise ValueError(_why_no_negatives(config, corpus))
    # the corpus numbers families as they first occur in its table; CE-CLIP's thresholds are in the config's order
    positions = torch.tensor([config.negative_families.index(name) for name in corpus.families])
    return NegativeSampler(pool, corpus.family, positions, corpus.concreteness, size)


def _why_no_negatives(config: TrainWithNegativesConfig, corpus: Corpus) -> str:
    """The message of a training that has no negatives: what was asked for, and what the run has instead."""
    kinds = kinds_of(config.run) if has_table(config.run, "negatives") else ()
    families = ", ".join(sorted({kind.family for kind in kinds})) or "none: run negcap build first"
    unknown = sum(counts.unknown for counts in corpus.unknown_words.values())
    why = f"; {unknown:,} insert a word that train captions lack" if unknown else ""
    wanted = f"{', '.join(config.negative_families)} by {', '.join(config.negative_operators)}"
    rule = "negative_families must have negatives of train captions"
    return f"{rule}, have none: {wanted} (families in {config.run}: {families}{why})"
