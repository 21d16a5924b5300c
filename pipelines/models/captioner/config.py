"""The configuration of a captioner: its training, and how it writes captions. Imports no torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SkipValidation

from ....augment.settings import (
    AboveZero,
    AtLeastOne,
    AtLeastTwo,
    BelowOne,
    Device,
    NotNegative,
    NotNegativeNumber,
    Seed,
    Settings,
)
from ..config import Threads, Transform, cores

RESUMABLE = ("run", "output", "gan_epochs", "threads")  # may change when a training is resumed


class CaptionerConfig(Settings):
    """All settings of the training of a captioner, in phases, in this order.

    `mle_epochs` of maximum likelihood; the generator with the least validation loss enters the next phase.
    `discriminator_epochs` of training only the discriminator. `gan_epochs` of `stages` stages each; a stage is
    `generator_steps` steps of policy gradient, then one step of the discriminator. A prefix is valued by the mean
    reward of `rollouts` sampled completions. alpha, beta: equation 4 of Chen et al. (2019) has 1 and 1.
    """

    run: SkipValidation[Path]
    output: Path
    seed: Seed = 0
    mle_epochs: AtLeastOne = Field(20, description="epochs of maximum likelihood training")
    discriminator_epochs: NotNegative = Field(5, description="epochs of the discriminator alone")
    gan_epochs: NotNegative = Field(20, description="epochs of policy gradient training in all, finished ones included")
    stages: AtLeastOne = Field(20, description="stages per such epoch, each with one discriminator step")
    generator_steps: AtLeastOne = Field(5, description="generator steps per stage")
    batch_size: AtLeastTwo = Field(64, description="captions per batch")
    rollout_every: AtLeastOne = Field(3, description="distance between rollout positions, in words")
    rollouts: NotNegative = Field(2, description="rollouts from each position")
    alpha: NotNegativeNumber = Field(1.0, description="weight of generated captions in the discriminator's loss")
    beta: NotNegativeNumber = Field(1.0, description="weight of mismatched captions in the discriminator's loss")
    train_splits: Annotated[tuple[str, ...], Field(min_length=1)] = Field(
        ("train", "restval"), description="split to train on"
    )
    validation_split: str = Field("val", description="split whose likelihood selects the generator")
    validation_images: NotNegative | None = Field(
        None,
        description="train images held out where the run lacks the validation split; by default a tenth, at most 500",
    )
    words: Annotated[int, Field(ge=6)] = Field(20, description="words per caption, at most, end token included")
    word_dim: AtLeastOne = Field(256, description="dimensions of the word vectors")
    hidden: AtLeastOne = Field(256, description="dimensions of the generator's state")
    joint: AtLeastOne = Field(256, description="dimensions of the discriminator's joint space")
    noise: AtLeastOne = Field(64, description="dimensions of the noise vector")
    dropout: BelowOne = Field(0.3, description="dropout of words and states in maximum likelihood")
    transform: Transform = Field("root", description="applied to image features")
    min_count: AtLeastOne = Field(
        4, description="occurrences in the train captions that a word of the vocabulary needs"
    )
    learning_rate: AboveZero = Field(1e-4, description="learning rate of the policy gradient (Adam)")
    supervised_rate: AboveZero = Field(1e-4, description="learning rate of likelihood and discriminator")
    clip: AboveZero = Field(5.0, description="maximum norm of the gradients")
    collapse: BelowOne = Field(
        0.5,
        description="stop when distinct-2 (the share of distinct 2-grams) falls below this share of its first value",
    )
    device: Device = "auto"
    threads: Threads = Field(default_factory=cores)


class WritingConfig(Settings):
    """How captions are written; each caption has its own noise."""

    n: AtLeastOne = Field(3, description="captions per image")
    seed: Seed = 0
    decoding: Literal["sample", "greedy", "beam"] = Field("sample", description="how words are chosen")
    width: AtLeastOne = Field(3, description="width of the beam")
    tries: AtLeastOne = Field(4, description="how often a refused caption is sampled again, at most")


class CaptionerEvaluateConfig(Settings):
    """How a captioner is evaluated."""

    split: str = Field("test", description="split on which to evaluate")
    ranker: Path | None = Field(
        None, description="captioner: model made by negcap train, which ranks the images for each caption"
    )
    n: AtLeastOne = Field(3, description="captioner: captions per image, for self-BLEU")
    width: AtLeastOne = Field(3, description="captioner: width of the beam")
    seed: Seed = 0
    limit: AtLeastOne | None = Field(None, description="use only the first N images of the split; none: all")
    device: Device = "auto"
    threads: Threads = Field(default_factory=cores)


def is_captioner(folder: Path) -> bool:
    """Whether the folder of a model has a captioner's."""
    try:
        return "mle_epochs" in json.loads((folder / "config.json").read_bytes())["config"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
