"""What a training run is told."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from negcap.augment.operators import PRESETS
from negcap.pipelines.engine.bounds import above_zero, at_least, below_one, one_of
from negcap.schemas.features import TABLE

MODELS = ("vse", "vse++", "vse-c", "univse")
POOLINGS = ("max", "last")
TRANSFORMS = ("root", "none")
IMAGE_POOLINGS = ("average", "max", "max-k")
COMPOSITIONS = ("average", "sum", "max")
COMPONENTS = ("obj", "attr", "rel")
DEVICES = ("auto", "cpu", "cuda")
POSITIVE = (
    *("epochs", "batch_size", "negatives", "joint", "word_dim", "modifier_dim"),
    *("min_count", "decay_every", "threads"),
)
SHARES = ("average", "dropout")
# What a model is told where nothing else is said, beside the defaults below.
DEFAULTS: dict[str, dict[str, Any]] = {
    "univse": {
        "epochs": 13,
        "bidirectional": False,
        "pooling": "last",
        "image_pooling": "max-k",
        "constant": 6,
        "decay": 0.5,
        "decay_every": 1,
        "least_rate": 1e-5,
    }
}
ABOVE_ZERO = ("learning_rate", "margin", "clip", "decay", "temperature")
AT_LEAST_ZERO = ("warm_up", "validation_images", "constant", "least_rate", "relations_after")
ONE_OF = {
    "model": MODELS,
    "pooling": POOLINGS,
    "transform": TRANSFORMS,
    "image_pooling": IMAGE_POOLINGS,
    "composition": COMPOSITIONS,
    "device": DEVICES,
}


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class TrainConfig:
    """All that decides a trained model. Raises ValueError for a value that breaks its rule.

    run: the folder with captions, features and (vse-c) negatives; output: the model's folder.
    train_splits: their captions are trained on. validation_split: rsum on it selects the epoch; where the run lacks it,
    `validation_images` images are taken out of the train splits, the same for every seed.
    extra: a table of captions that are trained on too, as negcap caption writes; nothing is measured on them.
    negatives: N, drawn of each caption each time it comes up, among the rows of `negative_families` that
    `negative_operators` made; each family a caption has is as likely, however many rows it has.
    joint: size of the joint space; bidirectional: half of it for each direction. word_dim: size of the word vectors;
    vectors: a file of them in GloVe's text form or npz, `tune_vectors`: trained on, else kept as they are.
    pooling: of the text encoder's states. transform: of the image features, root: signed square root, then length 1.
    The learning rate falls by `decay` after every `decay_every` epochs; `warm_up` epochs take the sum of hinges first.
    dropout: share of an image's features that is 0, others each time.
    average: validated and kept is an exponential mean of the weights, of which this share stays at each step; 0: the
    weights themselves. amp: bf16 on a GPU. threads: of the CPU.

    Of UniVSE: modifier_dim: size of the modifier vectors; components: which make up a caption's components, none: the
    sentence alone; contrast: which of ℓ_obj, ℓ_attr and ℓ_rel are trained; weights: of ℓ_comp, ℓ_obj, ℓ_attr and
    ℓ_rel, the last for epochs after `relations_after`; temperature: of the relevance of
    regions; composition: of a caption's components; alpha: share of the sentence in a caption.
    """

    run: Path
    output: Path
    model: str = "vse++"
    seed: int = 0
    epochs: int = 30
    batch_size: int = 128
    train_splits: tuple[str, ...] = ("train", "restval")
    validation_split: str = "val"
    validation_images: int = 500
    extra: str = ""
    negatives: int = 8
    negative_families: tuple[str, ...] = ("noun", "numeral", "relation")
    negative_operators: tuple[str, ...] = PRESETS["vse-c"]
    joint: int = 1024
    word_dim: int = 300
    bidirectional: bool = True
    pooling: str = "max"
    transform: str = "root"
    features: str = TABLE
    image_pooling: str = "average"
    vectors: Path | None = None
    tune_vectors: bool = True
    min_count: int = 4
    learning_rate: float = 1e-3
    constant: int | None = None
    decay: float = 0.1
    decay_every: int = 15
    least_rate: float = 0.0
    warm_up: int = 1
    margin: float = 0.2
    clip: float = 2.0
    average: float = 0.998
    dropout: float = 0.2
    modifier_dim: int = 100
    components: tuple[str, ...] = COMPONENTS
    contrast: tuple[str, ...] = COMPONENTS
    weights: tuple[float, float, float, float] = (0.5, 0.5, 0.5, 1.0)
    relations_after: int = 2
    temperature: float = 1.0
    composition: str = "average"
    alpha: float = 0.75
    device: str = "auto"
    amp: bool = True
    threads: int = field(default_factory=cores)

    def __post_init__(self) -> None:
        one_of(self, ONE_OF)
        for name in ("components", "contrast"):
            if set(getattr(self, name)) - set(COMPONENTS):
                raise ValueError(f"{name} must be of {', '.join(COMPONENTS)}, was: {', '.join(getattr(self, name))}")
        at_least(self, 1, POSITIVE)
        above_zero(self, ABOVE_ZERO)
        at_least(self, 2, ["batch_size"])
        at_least(self, 0, AT_LEAST_ZERO)
        if len(self.weights) != 4 or min(self.weights) < 0:
            raise ValueError(f"weights must be 4 numbers >= 0, were: {self.weights}")
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"alpha must be in [0, 1], was: {self.alpha}")
        below_one(self, SHARES)
        if self.bidirectional and self.joint % 2:
            raise ValueError(f"joint must be even for two directions, was: {self.joint}")
        if not self.train_splits or (self.model == "vse-c" and not self.negative_families):
            raise ValueError("train_splits and negative_families must not be empty")

    @property
    def table(self) -> str:
        """The table of features."""
        return self.features if self.features.startswith(TABLE) else f"{TABLE}_{self.features}"

    def rate(self, epoch: int) -> float:
        """The learning rate of an epoch, counted from 1."""
        constant = self.decay_every if self.constant is None else self.constant
        falls = -(-max(0, epoch - constant) // self.decay_every)
        return max(self.least_rate, self.learning_rate * self.decay**falls)


def configure(run: Path, output: Path, model: str = "vse++", **given: Any) -> TrainConfig:
    """A config with the defaults of its model. Raises as `TrainConfig`."""
    return TrainConfig(run=run, output=output, model=model, **{**DEFAULTS.get(model, {}), **given})


NOT_IDENTITY = ("run", "output", "epochs", "threads")  # what may change when a training goes on


def identity_fields() -> tuple[str, ...]:
    """The names of the fields that make a model another one."""
    return tuple(item.name for item in fields(TrainConfig) if item.name not in NOT_IDENTITY)


@dataclass(frozen=True)
class EvaluateConfig:
    """What is evaluated. split: of the run; limit: only its first images; seed: of the bootstrap.

    per_family, per_attack: negatives a caption in VSE-C's and in UniVSE's protocol. components, alpha: of UniVSE, where
    they shall differ from what the model was told. spacy_model: the pipeline that parsed the run, where it is a folder.
    Raises ValueError.
    """

    split: str = "test"
    per_family: int = 20
    per_attack: int = 5
    limit: int | None = None
    components: tuple[str, ...] | None = None
    alpha: float | None = None
    spacy_model: str | None = None
    seed: int = 0
    device: str = "auto"
    threads: int = field(default_factory=cores)

    def __post_init__(self) -> None:
        one_of(self, {"device": DEVICES})
        at_least(self, 1, ("per_family", "per_attack", "threads", "limit"))

    @property
    def changes(self) -> dict[str, Any]:
        """What a model is told otherwise than in its training."""
        return {name: getattr(self, name) for name in ("components", "alpha") if getattr(self, name) is not None}
