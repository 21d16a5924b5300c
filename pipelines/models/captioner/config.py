"""What the training of a captioner is told."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path

from negcap.pipelines.engine.bounds import above_zero, at_least, below_one, one_of
from negcap.pipelines.models.trainer.config import DEVICES, TRANSFORMS, cores

COUNTS = ("generator_steps", "stages", "batch_size", "words", "word_dim", "hidden", "joint", "noise", "min_count")
RATES = ("learning_rate", "supervised_rate", "clip")


@dataclass(frozen=True)
class CaptionerConfig:
    """All that decides a trained captioner. Raises ValueError for a value that breaks its rule.

    run: the folder with captions and features; output: the model's folder. The splits are as a TrainConfig's.
    Three phases: `mle_epochs` of likelihood, of which the one likeliest on validation is kept; `discriminator_epochs`;
    `gan_epochs`, each of `stages` stages: `generator_steps` of the policy gradient, then one of the discriminator.
    A prefix of every `rollout_every` words is worth the mean reward of `rollouts` ways to go on from it.
    learning_rate: of the policy gradient; supervised_rate: of likelihood and of the discriminator.
    alpha, beta: weights of generated and of mismatched captions in the discriminator's loss. words: the most a caption
    has, its end counted. hidden: the generator's state; joint: the discriminator's space; noise: size of z. dropout: of
    the generator's words and states, for likelihood only. collapse: training stops when distinct-2 of what is sampled
    falls below this share of what it was after the first phase. threads: of the CPU.
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
    alpha: float = 0.5
    beta: float = 0.5
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
        at_least(self, 1, (*COUNTS, "mle_epochs", "rollout_every", "threads"))
        at_least(self, 0, ("discriminator_epochs", "gan_epochs", "rollouts", "validation_images", "alpha", "beta"))
        above_zero(self, RATES)
        below_one(self, ("dropout", "collapse"))
        at_least(self, 2, ["batch_size"])
        at_least(self, 6, ["words"])
        if not self.train_splits:
            raise ValueError("train_splits must not be empty")

    @property
    def positions(self) -> tuple[int, ...]:
        """The prefixes that are gone on from, in words."""
        return tuple(range(self.rollout_every, self.words, self.rollout_every))


NOT_IDENTITY = ("run", "output", "gan_epochs", "threads")  # what may change when a training goes on


def identity_fields() -> tuple[str, ...]:
    """The names of the fields that make a captioner another one."""
    return tuple(item.name for item in fields(CaptionerConfig) if item.name not in NOT_IDENTITY)
