"""The settings of what is not trained by `negcap train`: the captioner, CLIP, order-embeddings of concepts and of pairs
of sentences, and probes of words. Imports no torch.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal, Self, get_args

from pydantic import Field, SkipValidation, model_validator

from ...augment.operators import PRESETS
from ...augment.settings import (
    AboveZero,
    AtLeastOne,
    AtLeastTwo,
    BelowOne,
    Device,
    NotNegative,
    NotNegativeNumber,
    Operators,
    Refined,
    Seed,
    Settings,
)
from ...schemas.captions import TRAIN_SPLITS
from ...schemas.features import TABLE
from .config import Similarities, Threads, Transform, cores
from .registry import WITH_NEGATIVES

CAPTIONER_RESUMABLE = ("run", "output", "gan_epochs", "threads")  # may change when a training is resumed


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
    train_splits: Annotated[tuple[str, ...], Field(min_length=1)] = Field(TRAIN_SPLITS, description="split to train on")
    validation_split: str = Field("val", description="split whose likelihood selects the generator")
    validation_images: NotNegative | None = Field(
        None,
        description="train images held out where the run lacks the validation split; by default a tenth, at most 500",
    )
    train_captions: AtLeastOne | None = Field(None, description="train on the first N captions of each image")
    words: Annotated[int, Field(ge=6)] = Field(20, description="words per caption, at most, end token included")
    word_dim: AtLeastOne = Field(256, description="dimensions of the word vectors")
    hidden: AtLeastOne = Field(256, description="dimensions of the generator's state")
    joint: AtLeastOne = Field(256, description="dimensions of the discriminator's joint space")
    noise: AtLeastOne = Field(64, description="dimensions of the noise vector")
    dropout: BelowOne = Field(0.3, description="dropout of words and states in maximum likelihood")
    transform: Transform = Field("root", description="applied to image features")
    min_count: AtLeastOne = Field(4, description="occurrences in train captions that a word of the vocabulary needs")
    learning_rate: AboveZero = Field(1e-4, description="learning rate of the policy gradient (Adam)")
    supervised_rate: AboveZero = Field(1e-4, description="learning rate of likelihood and discriminator")
    clip: AboveZero = Field(5.0, description="maximum norm of the gradients")
    collapse: BelowOne = Field(0.5, description="stop when distinct-2 (of 2-grams) is below this share of its first")
    device: Device = "auto"
    threads: Threads = Field(default_factory=cores)


class WritingConfig(Settings):
    """How captions are written; each caption has its own noise."""

    per_image: AtLeastOne = Field(3, description="captions written per image")
    seed: Seed = 0
    decoding: Literal["sample", "greedy", "beam"] = Field("sample", description="how words are chosen")
    width: AtLeastOne = Field(3, description="width of the beam")
    tries: AtLeastOne = Field(4, description="times that a refused caption is sampled again, at most")


class CaptionerEvaluateConfig(Settings):
    """How a captioner is evaluated."""

    split: str = Field("test", description="split on which to evaluate")
    ranker: Path | None = Field(None, description="captioner: model of negcap train that ranks images for each caption")
    per_image: AtLeastOne = Field(3, description="captioner: captions written per image, for self-BLEU")
    width: AtLeastOne = Field(3, description="captioner: width of the beam")
    seed: Seed = 0
    limit: AtLeastOne | None = Field(None, description="use only the first N images of the split; none: all")
    device: Device = "auto"
    threads: Threads = Field(default_factory=cores)


def is_captioner(folder: Path) -> bool:
    """Whether a model's folder holds a captioner, and not an embedding model. False where no settings can be read."""
    # both write config.json; only a captioner has a phase of maximum likelihood (mle) before its adversarial one
    try:
        return "mle_epochs" in json.loads((folder / "config.json").read_bytes())["config"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


TRIPLET = "triplet-clip"
NEED_NEGATIVES = (*WITH_NEGATIVES, TRIPLET)


class ClipConfig(Settings):
    """How a CLIP is trained. The learning rate rises for 5 % of the steps, then falls to 0 by a cosine. model: hf:… or
    open_clip:…; empty: a tiny one of transformers with random weights, whose words are those of the train captions.
    The objective triplet-clip also needs the table counterparts, pictures in which negatives are true.
    """

    run: SkipValidation[Path]
    images: Path = Field(description="folder of the image files")
    output: Path
    model: str = Field("", description="CLIP to fine-tune, see above; by default a tiny random one")
    objective: Literal["infonce", "siglip", "negclip", "ce-clip", "triplet-clip"] = Field("negclip", description="loss")
    seed: Seed = 0
    epochs: AtLeastOne = Field(20, description="passes over the images")
    batch_size: AtLeastTwo = Field(64, description="images per batch, each with one caption")
    train_splits: tuple[str, ...] = Field(("train", "restval"), description="split to train on")
    validation_split: str = Field("val", description="split that selects the epoch to keep")
    negatives: AtLeastOne = Field(4, description="negatives per caption, new in every epoch")
    refined: Refined = False
    concreteness_margin: NotNegativeNumber = Field(
        0.0, description="negclip, ce-clip: margin of a cosine, times how concrete the new noun is"
    )
    negative_families: tuple[str, ...] = Field(
        ("noun", "numeral", "relation", "attribute"), description="train on negatives of this family"
    )
    negative_operators: tuple[str, ...] = Field(
        (*PRESETS["vse-c"], "verb", "attribute", "swap_attribute"), description="train on negatives of this operator"
    )
    learning_rate: AboveZero = Field(5e-4, description="highest learning rate of AdamW")
    weight_decay: NotNegativeNumber = Field(0.1, description="weight decay of AdamW")
    size: AtLeastOne = Field(96, description="tiny CLIP: side of a picture in pixels")
    patch: AtLeastOne = Field(24, description="tiny CLIP: side of a patch in pixels")
    width: AtLeastOne = Field(128, description="tiny CLIP: width of the image transformer; the text's is half")
    layers: AtLeastOne = Field(2, description="tiny CLIP: layers of each transformer")
    heads: AtLeastOne = Field(4, description="tiny CLIP: attention heads")
    device: Device = "auto"
    amp: bool = Field(True, description="compute in bf16 on a GPU")
    threads: Threads = Field(default_factory=cores)

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Refuse settings that contradict each other. Raises ValueError, which names them."""
        kind, _, rest = self.model.partition(":")
        if self.model and (kind not in ("hf", "open_clip") or not rest):
            raise ValueError(f"model must be hf:FOLDER or open_clip:FOLDER, was: {self.model}")
        if self.concreteness_margin and self.objective not in NEED_NEGATIVES:
            raise ValueError(f"concreteness_margin is for objectives with negatives, objective was: {self.objective}")
        if self.size % self.patch:
            raise ValueError(f"size must be a multiple of patch, {self.patch}, was: {self.size}")
        if self.width % (2 * self.heads):
            raise ValueError(f"width must be a multiple of 2 x heads, {2 * self.heads}, was: {self.width}")
        if self.objective in NEED_NEGATIVES and not (self.negative_families and self.negative_operators):
            raise ValueError("negative_families and negative_operators must not be empty")
        return self


Row = Literal["transitive", "word2gauss", "symmetric", "bilinear", "order"]
FalsePairs = Literal["as-drawn", "clean"]
ROWS: tuple[Row, ...] = get_args(Row)
# The concepts of the picture: Figure 2 of the paper has some 20 concepts, which it does not list.
_NAMES = """entity physical_entity object artifact vehicle wheeled_vehicle bicycle car train organism person child girl
athlete animal dog puppy cat bird horse"""
CONCEPTS = tuple(f"{name}.n.01" for name in _NAMES.split())


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
    margin: NotNegativeNumber | None = Field(None, description="margin α of false pairs; none: 1, word2gauss 7")
    concepts: tuple[str, ...] = Field(CONCEPTS, description="concept in the picture, such as dog.n.01")
    device: Device = "auto"
    threads: Threads = Field(default_factory=cores)


# Margins of entailment; the one with the highest accuracy on the validation pairs is kept.
SMALLER = (0.02, 0.05, 0.1, 0.2)
LARGER = (0.05, 0.1, 0.2, 0.4)
MARGINS = {"order": SMALLER, "order-signed": LARGER, "order-reversed": SMALLER, "cosine": LARGER}


class EntailConfig(Settings):
    """How entailment is trained (Vendrov et al. 2016, section 4.5); cosine is the paper's symmetric model."""

    similarities: tuple[Similarities, ...] = Field(("order", "cosine"), description="how sentences are compared")
    seeds: AtLeastOne = Field(1, description="trainings of each, with seeds 0, 1, …")
    margin: AboveZero | None = Field(None, description="margin α of pairs not entailed; none: the best of four")
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
    device: Device = "auto"
    threads: Threads = Field(default_factory=cores)


class SaliencyConfig(Settings):
    """Which negatives are looked at: the first of each caption and operator of a split."""

    split: str = Field("test", description="split to look at")
    limit: AtLeastOne | None = Field(500, description="use only the first N images of the split; none: all")
    operators: Operators = ()
    seed: Seed = 0
    device: Device = "auto"
    threads: Threads = Field(default_factory=cores)
