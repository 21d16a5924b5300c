"""The tables of a run that a captioner is trained on, as tensors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ..captions import read_captions, split_captions
from ..device import choose_device
from ..features import read_features
from ..vocabulary import PAD_ID, UNKNOWN_ID, WordVocabulary, build_vocabulary
from .config import CaptionerConfig
from .generator import PaddedSentences
from .model import transform_features

DISTINCT_IMAGES = 512  # images that distinct-2 is measured on


@dataclass(frozen=True)
class TrainingData:
    """C captions of I images. features (I, D), tokens and offsets are on the device, all other tensors on the CPU.

    tokens, offsets: the captions as EncodedTexts. image: (C,) the image index of each caption. train, validation: (n,)
    indices of captions. known: the train captions without <unk>, on which the discriminator is trained, as it would
    otherwise learn that only people write <unk> (all train captions if fewer than two remain). distinct_images: indices
    of the first validation images, for distinct-2. words: the maximum length of a caption.
    """

    vocabulary: WordVocabulary
    features: Tensor
    backbone: str
    tokens: Tensor
    offsets: Tensor
    image: Tensor
    train: Tensor
    known: Tensor
    validation: Tensor
    distinct_images: Tensor
    words: int
    device: torch.device

    def sentences(self, captions: Tensor) -> PaddedSentences:
        """The first `words` words of captions (B,), without <start>."""
        captions = captions.to(self.device)
        starts = self.offsets[captions] + 1
        lengths = (self.offsets[captions + 1] - starts).clamp(max=self.words)
        at = torch.arange(int(lengths.max()), device=self.device)[None, :]
        words = self.tokens[(starts[:, None] + at).clamp(max=len(self.tokens) - 1)].long()
        return PaddedSentences(words.where(at < lengths[:, None], PAD_ID), lengths)

    def features_of(self, captions: Tensor) -> Tensor:
        """The features (B, D) of the images of captions (B,)."""
        return self.features[self.image[captions].to(self.device)]


def read_training_data(config: CaptionerConfig) -> TrainingData:
    """Read the tables of a run. Raises FileNotFoundError or ValueError if any is missing or unfit for training."""
    device = choose_device(config.device)
    captions = read_captions(config.run)
    features = read_features(config.run, captions.image_ids)
    train, validation = split_captions(
        captions, config.train_splits, config.validation_split, config.validation_images, features.available
    )
    train = captions.for_metrics(train)
    if len(train) < 2:
        raise ValueError(f"train_splits must have 2 captions of images with features, have: {len(train)}")
    vocabulary = build_vocabulary(captions.texts.take(pa.array(train.numpy())).to_pylist(), config.min_count)
    encoded = vocabulary.encode(captions.texts)
    has_unknown = torch.from_numpy(np.add.reduceat(encoded.tokens == UNKNOWN_ID, encoded.offsets[:-1]) > 0)
    known = train[~has_unknown[train]]
    return TrainingData(
        vocabulary,
        transform_features(features.values, config.transform).to(device),
        features.backbone,
        torch.from_numpy(encoded.tokens).to(device),
        torch.from_numpy(encoded.offsets).to(device),
        captions.image,
        train,
        known if len(known) > 1 else train,
        validation,
        captions.image[validation].unique()[:DISTINCT_IMAGES],
        config.words,
        device,
    )
