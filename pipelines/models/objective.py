"""What a model brings to the loop that trains all embedding models."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor

from negcap.pipelines.models.captions import Captions
from negcap.pipelines.models.config import TrainConfig
from negcap.pipelines.models.corpus import Corpus
from negcap.pipelines.models.texts import Texts
from negcap.pipelines.models.vocabulary import WordVocabulary


class RunTables(NamedTuple):
    """A run as tensors: what a model's sampler is made of. train: (n,) the captions that are trained on."""

    captions: Captions
    corpus: Corpus
    vocabulary: WordVocabulary
    texts: Texts
    train: Tensor


class Batch(NamedTuple):
    """B pairs of an image and a caption.

    captions: (B,) indices into texts, on the CPU; features: (B, …) of their images, on the device;
    same_image: (B, B) bool, on the device: caption j is of image i.
    """

    captions: Tensor
    features: Tensor
    same_image: Tensor
    texts: Texts


@dataclass(frozen=True)
class Objective:
    """A model and how it is trained.

    build(config, features, words, vectors): a new model for features of this size and a vocabulary of so many words;
        vectors: (words, word_dim) initial word vectors, or None.
    losses(model, batch, sample, config, epoch): the terms of the loss by name, each a scalar summed over the batch.
    sampler(config, tables): what negatives are sampled from; made once a training.
    sample(sampler, captions, config, generator): negatives for a batch of captions (B,), passed on to `losses`.
    describe(sampler): what it holds, for the log.
    needs_components: whether the texts must have scene graphs.
    """

    build: Callable[[TrainConfig, int, int, Tensor | None], Any]
    losses: Callable[[Any, Batch, Any, TrainConfig, int], dict[str, Tensor]]
    sampler: Callable[[TrainConfig, RunTables], Any] = lambda config, tables: None
    sample: Callable[[Any, Tensor, TrainConfig, Generator], Any] = lambda sampler, captions, config, generator: None
    describe: Callable[[Any], str] = lambda sampler: ""
    needs_components: bool = False


def autocast(config: TrainConfig, device: torch.device) -> AbstractContextManager:
    """bf16 for the encoders on a GPU if the config has `amp`; else nothing."""
    return torch.autocast("cuda", torch.bfloat16) if config.amp and device.type == "cuda" else nullcontext()
