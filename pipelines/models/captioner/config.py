"""The configuration of a captioner: its training, and how it writes captions. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ...engine.bounds import above_zero, at_least, below_one, one_of
from ..config import DEVICES, TRANSFORMS, cores

RESUMABLE = ("run", "output", "gan_epochs", "threads")  # may change when a training is resumed
DECODINGS = ("sample", "greedy", "beam")


@dataclass(frozen=True)
class CaptionerConfig:
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

    run: Path
    output: Path
    seed: int = 0
    mle_epochs: int = 20
    discriminator_epochs: int = 5
    gan_epochs: int = 20
    stages: int = 20
    generator_steps: int = 5
    batch_size: int = 64
    rollout_every: int = 3
    rollouts: int = 2
    alpha: float = 1.0
    beta: float = 1.0
    train_splits: tuple[str, ...] = ("train", "restval")
    validation_split: str = "val"
    validation_images: int = 500
    words: int = 20
    word_dim: int = 256
    hidden: int = 256
    joint: int = 256
    noise: int = 64
    dropout: float = 0.3
    transform: str = "root"
    min_count: int = 4
    learning_rate: float = 1e-4
    supervised_rate: float = 1e-4
    clip: float = 5.0
    collapse: float = 0.5
    device: str = "auto"
    threads: int = field(default_factory=cores)

    def __post_init__(self) -> None:
        one_of(self, {"transform": TRANSFORMS, "device": DEVICES})
        at_least(self, 0, ("discriminator_epochs", "gan_epochs", "rollouts", "validation_images", "alpha", "beta"))
        at_least(self, 1, ("mle_epochs", "generator_steps", "stages", "rollout_every", "threads", "min_count"))
        at_least(self, 1, ("word_dim", "hidden", "joint", "noise"))
        at_least(self, 2, ["batch_size"])
        at_least(self, 6, ["words"])
        above_zero(self, ("learning_rate", "supervised_rate", "clip"))
        below_one(self, ("dropout", "collapse"))
        if not self.train_splits:
            raise ValueError("train_splits must not be empty")


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
