"""What a model brings to the loop that trains all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch
from torch import Generator, Tensor

from negcap.pipelines.models.data import Captions, Corpus
from negcap.pipelines.models.encoders import ImageEncoder
from negcap.pipelines.models.texts import Texts
from negcap.pipelines.models.trainer.config import TrainConfig
from negcap.pipelines.models.trainer.unified import Phrase
from negcap.pipelines.models.vocabulary import Vocabulary

if TYPE_CHECKING:
    from negcap.pipelines.models.trainer.protocols import Attacks, Split
    from negcap.pipelines.models.trainer.unified import Said


class Model(Protocol):
    """Images and sentences to unit vectors of one space; their similarity is the inner product."""

    @property
    def image(self) -> ImageEncoder:
        """Features (B, …) to (B, d)."""

    def sentences(self, texts: Texts, rows: Tensor) -> Tensor:
        """Sentences `rows` (B,) of the texts to (B, d)."""

    def queries(self, vocabulary: Vocabulary, phrases: Sequence[Phrase]) -> Tensor:
        """Phrases of one kind to (Q, d)."""


class Tables(NamedTuple):
    """What a model may draw from: a run's captions with their negatives, words, components, and who is trained on."""

    captions: Captions
    corpus: Corpus
    vocabulary: Vocabulary
    texts: Texts
    train: Tensor


class Batch(NamedTuple):
    """B captions (their numbers, on the CPU), features (B, …) of their images, and same: (B, B), j is of image i."""

    captions: Tensor
    features: Tensor
    same: Tensor
    texts: Texts


@dataclass(frozen=True)
class Objective:
    """A model and how it is trained.

    build: of a config, the size of the features, the number of words, and vectors of them. losses: of the model, a
    batch, what was drawn for it, the config and the epoch: the loss by its terms, each summed over the batch. source:
    what is drawn from, once a training; draw: from it for captions (B,); says: what it holds, in words. components:
    whether the texts must have theirs; tasks: what an evaluation measures beyond retrieval, by name.
    """

    build: Callable[[TrainConfig, int, int, Tensor | None], Any]
    losses: Callable[[Any, Batch, Any, TrainConfig, int], dict[str, Tensor]]
    source: Callable[[TrainConfig, Tables], Any] = lambda config, tables: None
    draw: Callable[[Any, Tensor, TrainConfig, Generator], Any] = lambda source, captions, config, generator: None
    says: Callable[[Any], str] = lambda source: ""
    components: bool = False
    tasks: Callable[[Any, Split, Attacks, Said], dict[str, Any]] = lambda model, split, attacks, said: {}


def mixed(config: TrainConfig, device: torch.device) -> AbstractContextManager:
    """bf16 for the encoders on a GPU, where the config wants it."""
    return torch.autocast("cuda", torch.bfloat16) if config.amp and device.type == "cuda" else nullcontext()
