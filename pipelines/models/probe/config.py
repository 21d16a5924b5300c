"""What models are probed with: their settings. Imports no torch."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from ....augment.settings import AtLeastOne, Operators, Seed, Settings
from ....schemas.features import TABLE
from ..config import Threads, cores


class ProbeConfig(Settings):
    """A word-level task: what it is trained and tested on."""

    vectors: Path = Field(description="words, blanks: word vectors, GloVe's text form or npz")
    models: tuple[Path, ...] = ()
    split: str = Field("test", description="split to look at")
    train_splits: tuple[str, ...] = Field(("train", "restval"), description="words, blanks: split to train on")
    features: str = Field(TABLE, description="words, blanks: table of features: features, or NAME for features_NAME")
    min_count: AtLeastOne | None = Field(
        None, description="occurrences that an object (words) or a word (blanks) needs; none: by corpus size, and 4"
    )
    epochs: AtLeastOne | None = Field(None, description="epochs of training; none: 15 (words), 10 (blanks)")
    hidden: AtLeastOne | None = Field(None, description="blanks: units of each GRU; none: 512")
    seed: Seed = 0
    threads: Threads = Field(default_factory=cores)


class SaliencyConfig(Settings):
    """Which negatives are looked at: the first of each caption and operator of a split."""

    split: str = Field("test", description="split to look at")
    limit: AtLeastOne | None = Field(500, description="use only the first N images of the split; none: all")
    operators: Operators = ()
    seed: Seed = 0
    threads: Threads = Field(default_factory=cores)
