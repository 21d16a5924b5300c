"""The settings of hypernym prediction and of entailment. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...engine.bounds import above_zero, at_least, one_of, word
from ..config import DEVICES, SIMILARITIES, cores

ROWS = ("transitive", "word2gauss", "symmetric", "bilinear", "order")
# The concepts of the picture: Figure 2 of the paper has some 20 concepts, which it does not list.
CONCEPTS = tuple(
    f"{name}.n.01"
    for name in (
        "entity physical_entity object artifact vehicle wheeled_vehicle bicycle car train organism person child girl "
        "athlete animal dog puppy cat bird horse"
    ).split()
)


@dataclass(frozen=True)
class HypernymConfig:
    """How the rows of Table 1 of Vendrov et al. (2016) are made. Raises ValueError for a value out of its range.

    rows: of ROWS. seeds: trainings per row, with seeds 0, 1, …, which also choose the pairs. wordnet: a taxonomy in
    Parquet; None: the shipped one. held_out: the number of true pairs to stop training by, of those to set the
    threshold by, and of those to test. dim: of the vectors. epochs, batch_size: of true pairs, each with a false one.
    learning_rate: of Adagrad. margin: α; None: 7 for word2gauss, else 1. root, absolute: see `energies.Order`.
    concepts: names of the concepts in the picture.
    """

    rows: tuple[str, ...] = ROWS
    seeds: int = 1
    wordnet: Path | None = None
    held_out: int = 4000
    dim: int = 50
    epochs: int = 12
    batch_size: int = 500
    learning_rate: float = 0.3
    margin: float | None = None
    root: bool = False
    absolute: bool = False
    concepts: tuple[str, ...] = CONCEPTS
    threads: int = field(default_factory=cores)

    def __post_init__(self) -> None:
        for row in self.rows:
            word("rows", row, ROWS)
        at_least(self, 1, ("seeds", "held_out", "dim", "epochs", "batch_size", "threads"))
        at_least(self, 0, ("margin",))
        above_zero(self, ("learning_rate",))


# Margins of entailment, of which that with the highest accuracy on the validation pairs is kept
MARGINS: Mapping[str, tuple[float, ...]] = {
    "order": (0.02, 0.05, 0.1, 0.2),
    "order-signed": (0.05, 0.1, 0.2, 0.4),
    "order-reversed": (0.02, 0.05, 0.1, 0.2),
    "cosine": (0.05, 0.1, 0.2, 0.4),
}


@dataclass(frozen=True)
class EntailConfig:
    """How entailment is trained (Vendrov et al. 2016, section 4.5). Raises ValueError for a value out of its range.

    similarities: those compared; cosine is the paper's symmetric model, with 1 - cosine as the penalty. seeds: the
    number of trainings of each, with seeds 0, 1, …. margin: α; None: that of MARGINS with the highest accuracy on the
    validation pairs, by trainings with seed 0. epochs; batch_size: of pairs; learning_rate: of Adam; clip: the maximum
    norm of the gradients. joint: the dimension of a sentence's vector; word_dim: of the word vectors; vectors: a file
    of initial ones, or None. min_count: how often a word of the vocabulary must occur in the train pairs.
    """

    similarities: tuple[str, ...] = ("order", "cosine")
    seeds: int = 1
    margin: float | None = None
    epochs: int = 10
    batch_size: int = 128
    learning_rate: float = 1e-3
    clip: float = 2.0
    joint: int = 1024
    word_dim: int = 300
    min_count: int = 1
    vectors: Path | None = None
    device: str = "auto"
    threads: int = field(default_factory=cores)

    def __post_init__(self) -> None:
        for similarity in self.similarities:
            word("similarities", similarity, SIMILARITIES)
        one_of(self, {"device": DEVICES})
        at_least(self, 1, ("seeds", "epochs", "batch_size", "joint", "word_dim", "min_count", "threads"))
        above_zero(self, ("learning_rate", "clip", *(() if self.margin is None else ("margin",))))

    def margins(self, similarity: str) -> tuple[float, ...]:
        """The margins to choose from."""
        return MARGINS[similarity] if self.margin is None else (self.margin,)


@dataclass(frozen=True)
class LengthConfig:
    """How lengths and compositions are measured. Raises ValueError for a value out of its range.

    split: of the run; limit: only this many first images of it. pairs: the number of pairs of captions that differ most
    in length. min_images: images whose captions must name both objects of a composition.
    """

    split: str = "test"
    limit: int = 1000
    pairs: int = 100
    min_images: int = 5
    device: str = "auto"
    threads: int = field(default_factory=cores)

    def __post_init__(self) -> None:
        one_of(self, {"device": DEVICES})
        at_least(self, 1, ("limit", "pairs", "min_images", "threads"))
