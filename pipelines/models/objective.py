"""The functions that a model supplies to the training loop of all embedding models."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor

from .captions import Captions
from .config import TrainConfig
from .corpus import Corpus
from .vectors import Texts
from .vocabulary import WordVocabulary


class RunTables(NamedTuple):
    """The tables of a run as tensors, from which an Objective's sampler is built.

    train: (n,) the indices of the captions to train on.
    """

    captions: Captions
    corpus: Corpus
    vocabulary: WordVocabulary
    texts: Texts
    train: Tensor


class Batch(NamedTuple):
    """B pairs of an image and a caption.

    captions: (B,) indices into `texts`, on the CPU. features: (B, …) of the images, on the device. same_image: (B, B)
    bool, on the device, True where caption j describes image i. texts: all captions and negatives of the run.
    """

    captions: Tensor
    features: Tensor
    same_image: Tensor
    texts: Texts


@dataclass(frozen=True)
class Objective:
    """How a model is built and trained.

    build(config, features, words, vectors): a new model; features: the size of an image's feature vector; words: the
        size of the vocabulary; vectors: (words, word_dim) initial word vectors, or None for random ones. A model of
        several languages gets those of the first one here, and in a fifth argument, a list, those of the others.
    losses(model, batch, sample, config, epoch): the terms of the loss by name, each a scalar summed over the batch;
        sample: what the function `sample` returned; epoch: from 1.
    sampler(config, tables): the data that negatives are sampled from; called once per training.
    sample(sampler, captions, config, generator): negatives for a batch of captions (B,).
    describe(sampler): a phrase on its size, for the first line of progress.
    needs_components: whether the model reads the captions' scene graphs.
    """

    build: Callable[..., Any]
    losses: Callable[[Any, Batch, Any, Any, int], dict[str, Tensor]]
    sampler: Callable[[Any, RunTables], Any] = lambda config, tables: None
    sample: Callable[[Any, Tensor, Any, Generator], Any] = lambda sampler, captions, config, generator: None
    describe: Callable[[Any], str] = lambda sampler: ""
    needs_components: bool = False


def autocast(config: TrainConfig, device: torch.device) -> AbstractContextManager:
    """A context in which a GPU computes in bf16 if the config has `amp`; on a CPU it does nothing."""
    return torch.autocast("cuda", torch.bfloat16) if config.amp and device.type == "cuda" else nullcontext()
