"""The settings of hypernym prediction, of entailment, and of lengths. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, get_args

from pydantic import Field

from ....augment.settings import AboveZero, AtLeastOne, Device, NotNegativeNumber, Settings
from ..config import Similarities, Threads, cores

Row = Literal["transitive", "word2gauss", "symmetric", "bilinear", "order"]
FalsePairs = Literal["as-drawn", "clean"]
ROWS: tuple[Row, ...] = get_args(Row)
# The concepts of the picture: Figure 2 of the paper has some 20 concepts, which it does not list.
CONCEPTS = tuple(
    f"{name}.n.01"
    for name in (
        "entity physical_entity object artifact vehicle wheeled_vehicle bicycle car train organism person child girl "
        "athlete animal dog puppy cat bird horse"
    ).split()
)


class HypernymConfig(Settings):
    """How the rows of Table 1 of Vendrov et al. (2016) are made, with seeds 0, 1, …, which also choose the pairs."""

    rows: tuple[Row, ...] = Field(ROWS, description="row of the table to make")
    false_pairs: tuple[FalsePairs, ...] = Field(
        get_args(FalsePairs),
        description="column of the table to make; as-drawn, as the paper: false pairs are not checked, so that some "
        "are true, and a true pair counts once for each chain that connects it; clean: false ones are false, true ones "
        "differ",
    )
    seeds: AtLeastOne = Field(1, description="trainings of each, with seeds 0, 1, …")
    wordnet: Path | None = Field(None, description="taxonomy in Parquet; none: the shipped WordNet 3.0")
    held_out: AtLeastOne = Field(4000, description="true pairs in each of the held-out parts")
    dim: AtLeastOne = Field(50, description="dimensions of a concept's vector")
    epochs: AtLeastOne = Field(15, description="passes over the true pairs")
    batch_size: AtLeastOne = Field(500, description="true pairs per batch, each with a false one")
    learning_rate: AboveZero = Field(0.01, description="learning rate of Adam")
    margin: NotNegativeNumber | None = Field(
        None, description="margin α of false pairs; none: 7 for word2gauss, else 1"
    )
    concepts: tuple[str, ...] = Field(CONCEPTS, description="concept in the picture, such as dog.n.01")
    threads: Threads = Field(default_factory=cores)


# Margins of entailment, of which that with the highest accuracy on the validation pairs is kept
MARGINS: Mapping[str, tuple[float, ...]] = {
    "order": (0.02, 0.05, 0.1, 0.2),
    "order-signed": (0.05, 0.1, 0.2, 0.4),
    "order-reversed": (0.02, 0.05, 0.1, 0.2),
    "cosine": (0.05, 0.1, 0.2, 0.4),
}


class EntailConfig(Settings):
    """How entailment is trained (Vendrov et al. 2016, section 4.5); cosine is the paper's symmetric model."""

    similarities: tuple[Similarities, ...] = Field(("order", "cosine"), description="how sentences are compared")
    seeds: AtLeastOne = Field(1, description="trainings of each, with seeds 0, 1, …")
    margin: AboveZero | None = Field(
        None, description="margin α of pairs that are not entailed; none: the best of four on the validation pairs"
    )
    epochs: AtLeastOne = Field(10, description="passes over the pairs")
    batch_size: AtLeastOne = Field(128, description="pairs per batch")
    learning_rate: AboveZero = Field(1e-3, description="learning rate of Adam")
    clip: AboveZero = Field(2.0, description="maximum norm of the gradients")
    joint: AtLeastOne = Field(1024, description="dimensions of a sentence's vector")
    word_dim: AtLeastOne = Field(300, description="dimensions of the word vectors")
    min_count: AtLeastOne = Field(1, description="occurrences in the train pairs that a word of the vocabulary needs")
    vectors: Path | None = Field(None, description="word vectors to start from, GloVe's text form or npz; none: random")
    device: Device = "auto"
    threads: Threads = Field(default_factory=cores)

    def margins(self, similarity: str) -> tuple[float, ...]:
        """The margins to choose from."""
        return MARGINS[similarity] if self.margin is None else (self.margin,)


class LengthConfig(Settings):
    """How lengths and compositions are measured."""

    split: str = Field("test", description="split on which to measure")
    limit: AtLeastOne = Field(1000, description="use only the first N images of the split")
    pairs: AtLeastOne = Field(100, description="lengths: pairs of captions that differ most in length")
    min_images: AtLeastOne = Field(5, description="lengths: images that must have both objects of a composition")
    device: Device = "auto"
    threads: Threads = Field(default_factory=cores)
