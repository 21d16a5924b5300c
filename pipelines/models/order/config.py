"""The settings of hypernym prediction, of entailment, and of lengths. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field

from ...engine.settings import AboveZero, AtLeastOne, NotNegativeNumber, Settings
from ..config import Device, Similarities, cores

# The concepts of the picture: Figure 2 of the paper has some 20 concepts, which it does not list.
CONCEPTS = tuple(
    f"{name}.n.01"
    for name in (
        "entity physical_entity object artifact vehicle wheeled_vehicle bicycle car train organism person child girl "
        "athlete animal dog puppy cat bird horse"
    ).split()
)


class HypernymConfig(Settings):
    """How the rows of Table 1 of Vendrov et al. (2016) are made. Raises ValueError for a value out of its range.

    seeds: trainings per row, with seeds 0, 1, …, which also choose the pairs. wordnet: a taxonomy in Parquet; None: the
    shipped one. held_out: the number of true pairs to stop training by, of those to set the threshold by, and of those
    to test. dim: of the vectors. epochs, batch_size: of true pairs, each with a false one. learning_rate: of Adagrad.
    margin: α; None: 7 for word2gauss, else 1. root, absolute: see `energies.Order`. concepts: names of the concepts in
    the picture.
    """

    rows: tuple[Literal["transitive", "word2gauss", "symmetric", "bilinear", "order"], ...] = (
        *("transitive", "word2gauss", "symmetric", "bilinear", "order"),
    )
    seeds: AtLeastOne = 1
    wordnet: Path | None = None
    held_out: AtLeastOne = 4000
    dim: AtLeastOne = 50
    epochs: AtLeastOne = 12
    batch_size: AtLeastOne = 500
    learning_rate: AboveZero = 0.3
    margin: NotNegativeNumber | None = None
    root: bool = False
    absolute: bool = False
    concepts: tuple[str, ...] = CONCEPTS
    threads: AtLeastOne = Field(default_factory=cores)


# Margins of entailment, of which that with the highest accuracy on the validation pairs is kept
MARGINS: Mapping[str, tuple[float, ...]] = {
    "order": (0.02, 0.05, 0.1, 0.2),
    "order-signed": (0.05, 0.1, 0.2, 0.4),
    "order-reversed": (0.02, 0.05, 0.1, 0.2),
    "cosine": (0.05, 0.1, 0.2, 0.4),
}


class EntailConfig(Settings):
    """How entailment is trained (Vendrov et al. 2016, section 4.5). Raises ValueError for a value out of its range.

    similarities: those compared; cosine is the paper's symmetric model, with 1 - cosine as the penalty. seeds: the
    number of trainings of each, with seeds 0, 1, …. margin: α; None: that of MARGINS with the highest accuracy on the
    validation pairs, by trainings with seed 0. batch_size: of pairs. learning_rate: of Adam. clip: the maximum norm of
    the gradients. joint: the dimension of a sentence's vector; word_dim: of the word vectors; vectors: a file of
    initial ones, or None. min_count: how often a word of the vocabulary must occur in the train pairs.
    """

    similarities: tuple[Similarities, ...] = ("order", "cosine")
    seeds: AtLeastOne = 1
    margin: AboveZero | None = None
    epochs: AtLeastOne = 10
    batch_size: AtLeastOne = 128
    learning_rate: AboveZero = 1e-3
    clip: AboveZero = 2.0
    joint: AtLeastOne = 1024
    word_dim: AtLeastOne = 300
    min_count: AtLeastOne = 1
    vectors: Path | None = None
    device: Device = "auto"
    threads: AtLeastOne = Field(default_factory=cores)


class LengthConfig(Settings):
    """How lengths and compositions are measured. Raises ValueError for a value out of its range.

    split: of the run; limit: only this many first images of it. pairs: the number of pairs of captions that differ most
    in length. min_images: images whose captions must name both objects of a composition.
    """

    split: str = "test"
    limit: AtLeastOne = 1000
    pairs: AtLeastOne = 100
    min_images: AtLeastOne = 5
    device: Device = "auto"
    threads: AtLeastOne = Field(default_factory=cores)
