"""The configuration of a captioner: its training, and how it writes captions. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, SkipValidation

from ...engine.bounds import at_least, one_of
from ...engine.settings import (
    AboveZero,
    AtLeastOne,
    AtLeastTwo,
    BelowOne,
    NotNegative,
    NotNegativeNumber,
    Settings,
)
from ..config import Device, Transform, cores

RESUMABLE = ("run", "output", "gan_epochs", "threads")  # may change when a training is resumed
DECODINGS = ("sample", "greedy", "beam")


class CaptionerConfig(Settings):
    """All settings of the training of a captioner. Raises ValueError for a value out of its range.

    Data
        run: the folder with captions and features. output: the captioner's folder. train_splits, validation_split,
        validation_images, transform, min_count: see TrainConfig.
    Phases, in this order
        mle_epochs of maximum likelihood; the generator with the least validation loss enters the next phase.
        discriminator_epochs of training only the discriminator.
        gan_epochs of `stages` stages each; a stage is `generator_steps` steps of policy gradient, then one step of the
        discriminator. Training stops when distinct-2 (the share of distinct 2-grams) of sampled captions falls
        below `collapse` times its value at the end of the first phase.
    Rewards
        A prefix is valued by the mean reward of `rollouts` sampled completions; this is done for prefixes whose length
        is a multiple of `rollout_every` words.
    Discriminator's loss
        alpha, beta: the weights of generated and of mismatched captions; equation 4 of Chen et al. (2019) has 1 and 1.
    Optimization
        learning_rate: of the policy gradient; supervised_rate: of likelihood and of the discriminator; both for Adam.
        batch_size: in captions. clip: the maximum norm of the gradients. dropout: of the generator's word vectors and
        states, in the first phase only. device: auto, cpu or cuda. threads: of the CPU.
    Sizes
        words: the maximum length of a caption, <end> included. word_dim: of word vectors; hidden: of the generator's
        state; joint: of the discriminator's space of images and sentences; noise: of the generator's random input z.
    """

    run: SkipValidation[Path]
    output: Path
    seed: int = 0
    mle_epochs: AtLeastOne = 20
    discriminator_epochs: NotNegative = 5
    gan_epochs: NotNegative = 20
    stages: AtLeastOne = 20
    generator_steps: AtLeastOne = 5
    batch_size: AtLeastTwo = 64
    rollout_every: AtLeastOne = 3
    rollouts: NotNegative = 2
    alpha: NotNegativeNumber = 1.0
    beta: NotNegativeNumber = 1.0
    train_splits: Annotated[tuple[str, ...], Field(min_length=1)] = ("train", "restval")
    validation_split: str = "val"
    validation_images: NotNegative = 500
    words: Annotated[int, Field(ge=6)] = 20
    word_dim: AtLeastOne = 256
    hidden: AtLeastOne = 256
    joint: AtLeastOne = 256
    noise: AtLeastOne = 64
    dropout: BelowOne = 0.3
    transform: Transform = "root"
    min_count: AtLeastOne = 4
    learning_rate: AboveZero = 1e-4
    supervised_rate: AboveZero = 1e-4
    clip: AboveZero = 5.0
    collapse: BelowOne = 0.5
    device: Device = "auto"
    threads: AtLeastOne = Field(default_factory=cores)


@dataclass(frozen=True)
class WritingConfig:
    """How captions are written. Raises ValueError for a value out of its range.

    n: captions per image. seed: of the noise; each caption has its own. decoding: sample, greedy, or beam. width: of
    the beam. tries: the maximum number of rounds, the first included, in which captions replace rejected ones.
    """

    n: int = 3
    seed: int = 0
    decoding: str = "sample"
    width: int = 3
    tries: int = 4

    def __post_init__(self) -> None:
        at_least(self, 1, ("n", "width", "tries"))
        one_of(self, {"decoding": DECODINGS})


class CaptionerEvaluateConfig(Settings):
    """How a captioner is evaluated. Raises ValueError for a value out of its range.

    split: of the run. limit: use only this many first images of it; None: all. judge: the folder of an embedding model
    that retrieves images by generated captions; None: no such metrics. n: captions per image, for self-BLEU. width: of
    the beam. seed: of the noise. images: the folder of the images, the first `shown` of which are drawn with their
    captions; None: no drawing.
    """

    split: str = "test"
    judge: Path | None = None
    n: AtLeastOne = 3
    width: AtLeastOne = 3
    seed: int = 0
    limit: AtLeastOne | None = None
    images: Path | None = None
    shown: AtLeastOne = 6
    device: Device = "auto"
    threads: AtLeastOne = Field(default_factory=cores)
