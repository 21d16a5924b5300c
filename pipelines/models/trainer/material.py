"""What a model is trained on: a run's tables, put where the training wants them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from negcap.pipelines.models.components import component_words, read_graphs
from negcap.pipelines.models.data import encode_run, read_captions, read_features, split_captions
from negcap.pipelines.models.texts import Texts
from negcap.pipelines.models.trainer.config import TrainConfig
from negcap.pipelines.models.trainer.objective import Tables
from negcap.pipelines.models.trainer.objectives import OBJECTIVES
from negcap.pipelines.models.vocabulary import Vocabulary, build_vocabulary


@dataclass(frozen=True)
class Material:
    """What is trained on. features, and the words of texts, are on the device; what lays out a batch is not.

    image: (C,) of each caption; source: what the model draws from, see Objective.
    """

    texts: Texts
    vocabulary: Vocabulary
    features: Tensor
    backbone: str
    image: Tensor
    train: Tensor
    validation: Tensor
    source: Any
    left_out: int
    device: torch.device


def device_of(name: str) -> torch.device:
    """The device of a name; auto: a GPU where there is one. Raises ValueError for cuda where there is none."""
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("device must be auto or cpu: this torch sees no GPU")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def gather(config: TrainConfig) -> Material:
    """Read a run. Raises FileNotFoundError and ValueError for tables that are missing or cannot be trained on."""
    device, objective = device_of(config.device), OBJECTIVES[config.model]
    captions = read_captions(config.run, config.extra)
    features = read_features(config.run, captions.image_ids, config.table)
    train, validation = split_captions(
        captions, config.train_splits, config.validation_split, config.validation_images, features.there
    )
    if len(train) < 2:
        raise ValueError(f"train_splits must have 2 captions of images with features, have: {len(train)}")
    vocabulary = build_vocabulary(
        (captions.texts[int(n)].as_py() for n in train),
        config.min_count,
        component_words(config.run) if objective.components else (),
    )
    corpus = encode_run(config.run, captions, vocabulary, config.extra)
    graphs = read_graphs(config.run, captions, vocabulary, device) if objective.components else None
    texts = Texts(corpus.tokens.to(device), corpus.offsets, corpus.captions, graphs)
    return Material(
        texts,
        vocabulary,
        features.values.to(device),
        features.backbone,
        captions.image,
        train,
        validation,
        objective.source(config, Tables(captions, corpus, vocabulary, texts, train)),
        int((~features.there).sum()),
        device,
    )
