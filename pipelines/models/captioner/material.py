"""What a captioner is trained on: captions as padded sentences, and the features of their images."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from negcap.pipelines.models.captioner.config import CaptionerConfig
from negcap.pipelines.models.captioner.generator import PAD_ID, UNKNOWN_ID, Sentences
from negcap.pipelines.models.data import read_captions, read_features, split_captions
from negcap.pipelines.models.encoders import TRANSFORMS
from negcap.pipelines.models.trainer.material import device_of
from negcap.pipelines.models.vocabulary import Vocabulary, build_vocabulary

CHECKED = 512  # images that distinct-2 is measured on
SHOWN = 4


@dataclass(frozen=True)
class Material:
    """C captions of I images. features (I, D), tokens and offsets are on the device; image, train, validation are not.

    known: the train captions of words that the policy writes, all where there are too few: of others the discriminator
    would learn that an unknown word is a person's. checked: the first images of validation.
    """

    vocabulary: Vocabulary
    features: Tensor
    backbone: str
    tokens: Tensor
    offsets: Tensor
    image: Tensor
    train: Tensor
    known: Tensor
    validation: Tensor
    checked: Tensor
    words: int
    device: torch.device

    def sentences(self, rows: Tensor) -> Sentences:
        """Captions `rows` (B,), their first `words` words, <start> left out."""
        rows = rows.to(self.device)
        starts = self.offsets[rows] + 1
        lengths = (self.offsets[rows + 1] - starts).clamp(max=self.words)
        at = torch.arange(int(lengths.max()), device=self.device)[None, :]
        words = self.tokens[(starts[:, None] + at).clamp(max=len(self.tokens) - 1)].long()
        return Sentences(words.where(at < lengths[:, None], PAD_ID), lengths)

    def of(self, rows: Tensor) -> Tensor:
        """The features (B, D) of the images of captions `rows`."""
        return self.features[self.image[rows].to(self.device)]


def gather(config: CaptionerConfig) -> Material:
    """Read a run. Raises FileNotFoundError and ValueError for tables that are missing or cannot be trained on."""
    device = device_of(config.device)
    captions = read_captions(config.run)
    features = read_features(config.run, captions.image_ids)
    train, validation = split_captions(
        captions, config.train_splits, config.validation_split, config.validation_images, features.there
    )
    train = captions.to_measure(train)
    if len(train) < 2:
        raise ValueError(f"train_splits must have 2 captions of images with features, have: {len(train)}")
    vocabulary = build_vocabulary(captions.texts.take(pa.array(train.numpy())).to_pylist(), config.min_count)
    sentences = vocabulary.encode(captions.texts)
    unknown = torch.from_numpy(np.add.reduceat(sentences.tokens == UNKNOWN_ID, sentences.offsets[:-1]) > 0)
    known = train[~unknown[train]]
    return Material(
        vocabulary,
        transformed(features.values, config.transform).to(device),
        features.backbone,
        torch.from_numpy(sentences.tokens).to(device),
        torch.from_numpy(sentences.offsets).to(device),
        captions.image,
        train,
        known if len(known) > 1 else train,
        validation,
        captions.image[validation].unique()[:CHECKED],
        config.words,
        device,
    )


def transformed(features: Tensor, transform: str) -> Tensor:
    """Features (I, D), or the mean of a grid's (I, R, D), as both nets see them: (I, D) float32."""
    features = features.float()
    return TRANSFORMS[transform](features.mean(1) if features.dim() == 3 else features)
