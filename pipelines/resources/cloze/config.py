"""The settings of a cloze model and its training. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from ....augment.settings import AboveZero, AtLeastOne, BelowOne, NotNegative, NotNegativeNumber, Settings


class Sizes(Settings):
    """The sizes of a network; keys and values of the attention have the width of the states."""

    words: AtLeastOne = Field(160, description="width of the word vectors of a new network")
    states: AtLeastOne = Field(256, description="width of the states of each GRU of a new network")
    hidden: AtLeastOne = Field(384, description="width of the layer before the word vectors of a new network")
    heads: AtLeastOne = Field(4, description="heads of the attention of a new network")

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Check that the states can be cut into heads of one size."""
        if self.states % self.heads:
            raise ValueError(f"states must be a multiple of heads, was: {self.states} states, {self.heads} heads")
        return self


class ClozeTrainingConfig(Settings):
    """The schedule of one training run of a cloze model."""

    seed: int = Field(1, description="seed of weights, order and dropout")
    epochs: AtLeastOne = Field(14, description="passes over the captions; 4 with --continue")
    batch: AtLeastOne = Field(256, description="captions of usual length in a batch")
    learning_rate: AboveZero = Field(2e-3, description="rises for warm_up steps, then falls to 0; 5e-4 with --continue")
    min_count: AtLeastOne = Field(4, description="occurrences from which a word is a unit")
    warm_up: AtLeastOne = Field(500, description="steps, at most a tenth of all")
    weight_decay: float = Field(0.02, description="of AdamW")
    dropout: float = Field(0.15, description="dropout of vectors and states")
    forget: float = Field(0.03, description="share of the words read that are replaced by UNKNOWN")
    samples: AtLeastOne = Field(2000, description="words that targets are told from, drawn by count^0.75")
    normalise: float = Field(
        0.05, description="weight of the squared log of the sum of probabilities, which it draws to 0"
    )
    average: float = Field(0.999, description="decay of the moving average of the weights")
    fixed_point: NotNegative = Field(1, description="last epochs with the file's rounding in the loop")
    threads: AtLeastOne = Field(1, description="threads of PyTorch; one is the fastest on shared cores")


class SurrogateConfig(Settings):
    """How a surrogate is fitted."""

    seed: int = Field(1, description="seed of captions, replacements, weights and order")
    captions: AtLeastOne = Field(90_000, description="captions that are read, at most, drawn at random")
    epochs: AtLeastOne = Field(8, description="passes over the replacements")
    batch: AtLeastOne = Field(400, description="places in a batch")
    learning_rate: AboveZero = Field(3e-3, description="rises, then falls: one cycle")
    width: AtLeastOne = Field(256, description="width of the hidden layer")
    shares: Annotated[int, Field(ge=1, le=64)] = Field(64, description="width of a(i, s), whose product is the loss")


class JudgementConfig(Settings):
    """How the network that judges negatives is fitted."""

    seed: NotNegative = Field(0, description="seed of weights, order and folds")
    hidden: AtLeastOne = Field(256, description="hidden units")
    products: NotNegative = Field(128, description="products of a number of the place and one of the new unit")
    epochs: AtLeastOne = Field(10, description="passes over the labels")
    batch: AtLeastOne = Field(256, description="labels a step")
    learning_rate: AboveZero = Field(2e-3, description="rises, then falls: one cycle")
    weight_decay: NotNegativeNumber = Field(0.1, description="weight decay")
    dropout: BelowOne = Field(0.2, description="share of the numbers of vectors that are dropped; of hidden units half")
    without_vectors: BelowOne = Field(0.05, description="share of the labels whose vectors are dropped wholly")
    pair_weight: AboveZero = Field(2.0, description="weight of what readers of pairs said; that of lists has 1")
