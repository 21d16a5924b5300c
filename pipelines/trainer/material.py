"""What a model is trained on: a run's tables, put where the training wants them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from augment.vocabulary import Vocabulary, build_vocabulary
from pipelines.trainer.config import TrainConfig
from pipelines.trainer.data import Corpus, encode_run, read_captions, read_features, split_captions
from pipelines.trainer.models import OBJECTIVES
from pipelines.trainer.sampling import Pool, make_pool


@dataclass(frozen=True)
class Material:
    """What is trained on. tokens and features are on the device; what decides the layout of a batch is not."""

    corpus: Corpus
    tokens: Tensor
    vocabulary: Vocabulary
    features: Tensor
    backbone: str
    image: Tensor
    train: Tensor
    validation: Tensor
    pool: Pool | None
    left_out: int
    device: torch.device


def device_of(name: str) -> torch.device:
    """The device of a name; auto: a GPU where there is one. Raises ValueError for cuda where there is none."""
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("device must be auto or cpu: this torch sees no GPU")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def gather(config: TrainConfig) -> Material:
    """Read a run. Raises FileNotFoundError and ValueError for tables that are missing or cannot be trained on."""
    device = device_of(config.device)
    captions = read_captions(config.run, config.extra)
    features = read_features(config.run, captions.image_ids)
    train, validation = split_captions(
        captions, config.train_splits, config.validation_split, config.validation_images, features.there
    )
    if len(train) < 2:
        raise ValueError(f"train_splits must have 2 captions of images with features, have: {len(train)}")
    vocabulary = build_vocabulary((captions.texts[int(n)].as_py() for n in train), config.min_count)
    corpus = encode_run(config.run, captions, vocabulary, config.extra)
    pool = None
    if OBJECTIVES[config.model].negatives:
        wanted = corpus.of_families(config.negative_families) & corpus.made_by(config.negative_operators)
        trained = torch.zeros(corpus.captions, dtype=torch.bool)
        trained[train] = True
        pool = make_pool(
            corpus.negative_caption, corpus.family, wanted & trained[corpus.negative_caption], corpus.captions
        )
        if not len(pool.rows):
            there = ", ".join(corpus.families) or "none: run negcap negatives first"
            raise ValueError(
                "negative_families must have negatives of train captions, have none: "
                f"{', '.join(config.negative_families)} by {', '.join(config.negative_operators)} "
                f"(families in {config.run}: {there})"
            )
    return Material(
        corpus,
        corpus.tokens.to(device),
        vocabulary,
        features.values.to(device),
        features.backbone,
        captions.image,
        train,
        validation,
        pool,
        int((~features.there).sum()),
        device,
    )
