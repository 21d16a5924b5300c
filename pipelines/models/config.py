"""The settings of the embedding models: those that all have, and those of each. Imports no torch."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, get_args

from pydantic import Field, SkipValidation, field_validator, model_validator

from ...augment.settings import (
    AboveZero,
    AtLeastOne,
    AtLeastTwo,
    BelowOne,
    Device,
    NotNegative,
    NotNegativeNumber,
    Settings,
    Share,
)
from ...schemas.captions import LANGUAGE
from ...schemas.features import TABLE
from ...schemas.messages import word
from .registry import MODELS, RECIPES, WITH_NEGATIVES

OPERATORS = (  # the presets vse-c and vse-c-paper of negcap.augment.operators
    "noun",
    "numeral",
    "shuffle",
    "preposition",
    "uniform_noun",
    "uniform_numeral",
    "uniform_shuffle",
    "uniform_preposition",
)
Kind = Literal["obj", "attr", "rel"]
Similarities = Literal["cosine", "order", "order-signed", "order-reversed"]
Transform = Literal["root", "l2", "none"]
Pooling = Literal["max", "last"]
ImagePooling = Literal["average", "max", "max-k", "crop"]
Reduction = Literal["hardest", "mean", "sum"]
Threads = Annotated[
    AtLeastOne,
    Field(description="CPU threads; one per core if not given, though 1 is faster for a small model (joint 128)"),
]
COMPONENTS = get_args(Kind)
SIMILARITIES = get_args(Similarities)
TRANSFORMS = get_args(Transform)
DEVICES = get_args(Device)
RESUMABLE = ("run", "output", "epochs", "threads")  # may change when a training is resumed


def cores() -> int:
    """The number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class LeftOutPart(NamedTuple):
    """A part of the train images, from 0, and the number of parts."""

    part: int
    parts: int


class TrainConfig(Settings):
    """The settings that the trainings of all models have. Raises ValueError for a value out of its range."""

    run: SkipValidation[Path] = Field(
        description="folder with the tables captions, features and, by model, negatives or components"
    )
    output: Path = Field(description="the model's folder")
    model: str = Field(description="kind of model")
    seed: NotNegative = Field(0, description="seed of all random choices")
    epochs: AtLeastOne = Field(30, description="epochs in all, finished ones included")
    batch_size: AtLeastTwo = Field(128, description="image-caption pairs per batch")
    joint: AtLeastOne = Field(1024, description="dimensions of the joint space; mha-d: of each of its heads")
    word_dim: AtLeastOne = Field(300, description="dimensions of the word vectors")
    learning_rate: AboveZero = Field(1e-3, description="learning rate of Adam, for the first `constant` epochs")
    constant: NotNegative | None = Field(None, description="epochs before the rate first falls; none: decay_every")
    decay: AboveZero = Field(0.1, description="factor by which the learning rate falls")
    decay_every: AtLeastOne = Field(15, description="epochs from one fall to the next")
    least_rate: NotNegativeNumber = Field(0.0, description="the learning rate below which it does not fall")
    warm_up: NotNegative = Field(1, description="first epochs with the sum of hinges (VSE), not the hardest (VSE++)")
    margin: AboveZero = Field(0.2, description="margin of the hinges")
    clip: AboveZero = Field(2.0, description="maximum norm of the gradients")
    weight_decay: NotNegativeNumber = Field(0.0, description="factor of the L2 penalty in Adam")
    dropout: BelowOne = Field(0.2, description="share of the image features that are set to 0 in training")
    average: BelowOne = Field(0.998, description="decay of the moving average of weights, which is kept; 0: none")
    languages: tuple[str, ...] = Field(("en",), description="ISO 639 code of the captions; mha-d: several")
    features: str = Field(TABLE, description="table of image features: features, or NAME for features_NAME")
    transform: Transform = Field("root", description="of image features; root: signed square root, then l2: length 1")
    vectors: Path | None = Field(None, description="file of initial word vectors, GloVe's text or npz; none: random")
    tune_vectors: bool = Field(True, description="train the vectors of that file, too")
    min_count: AtLeastOne = Field(4, description="occurrences in train captions that a word of the vocabulary needs")
    train_splits: tuple[str, ...] = Field(("train", "restval"), description="splits to train on")
    validation_split: str = Field("val", description="split whose rsum (the sum of the recalls) selects the epoch")
    validation_images: NotNegative | None = Field(
        None,
        description="train images held out where there is no such split, the same ones for every seed; by default a "
        "tenth, at most 500",
    )
    train_captions: AtLeastOne | None = Field(
        None, description="only the first N captions of each image, besides `extra`"
    )
    extra: str = Field("", description="table of more captions to train on, e.g. generated; no metric is of them")
    extra_share: Annotated[float, Field(gt=0, le=1)] = Field(
        1.0, description="share of the extra captions that an epoch visits, drawn anew in each"
    )
    judges: tuple[Path, ...] = Field(
        (),
        description="models trained with `leave_out`: only those extra captions are used whose image is, for the one "
        "trained without it, among the `judge_rank` nearest",
    )
    judge_rank: AtLeastOne = Field(1, description="see judges")
    leave_out: str = Field("", description="K/N: leave out part K, from 0, of N of the train images, by their ids")
    device: Device = "auto"
    amp: bool = Field(True, description="compute in bf16 on a GPU")
    threads: Threads = Field(default_factory=cores)

    english: ClassVar[str] = ""  # what makes a model need English captions

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Refuse settings that contradict each other. Raises ValueError, which names them."""
        if self.leave_out and (self.left_out is None or self.left_out.part >= self.left_out.parts):
            rule = "leave_out must be a part, from 0, and how many there are, as in 0/2"
            raise ValueError(f"{rule}, was: {self.leave_out}")
        if not self.train_splits or (self.model in WITH_NEGATIVES and not self.trained_families):
            raise ValueError("train_splits and negative_families must not be empty")
        self._check_languages()
        return self

    def _check_languages(self) -> None:
        """Raise ValueError if the languages are no codes, too many for the model, or lack the English it needs."""
        codes = ", ".join(self.languages)
        # two or three letters
        known = re.compile(r"[a-z]{2,3}(, [a-z]{2,3})*")
        if not known.fullmatch(codes) or len(set(self.languages)) != len(self.languages):
            raise ValueError(f"languages must be different ISO 639 codes such as en, were: {codes}")
        if len(self.languages) > 1 and self.model != "mha-d":
            raise ValueError(f"languages must be one for {self.model}, were: {codes}")
        what = "negatives" if self.trained_families else self.english
        if what and LANGUAGE not in self.languages:
            raise ValueError(f"languages must have en, as {what} are English, were: {codes}")

    @property
    def trained_families(self) -> tuple[str, ...]:
        """The families of negatives that the model is trained with."""
        return ()

    @property
    def reads_negatives(self) -> bool:
        """Whether the training reads negatives of the run."""
        return bool(self.trained_families)

    @property
    def selected_by(self) -> str:
        """The metric of the validation that selects the epoch."""
        return "rsum"

    @property
    def files_of_vectors(self) -> dict[str, Path]:
        """The files of initial word vectors, by language."""
        return {self.languages[0]: self.vectors} if self.vectors else {}

    @property
    def left_out(self) -> LeftOutPart | None:
        """The part of the train images that is left out; None: no part, or one that cannot be read."""
        numbers = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", self.leave_out)
        return LeftOutPart(int(numbers[1]), int(numbers[2])) if numbers else None

    @property
    def table(self) -> str:
        """The name of the table of image features: `features`, or `features_NAME` for features = NAME."""
        return self.features if self.features.startswith(TABLE) else f"{TABLE}_{self.features}"

    def rate(self, epoch: int) -> float:
        """The learning rate of an epoch; epochs count from 1."""
        # without `constant`, the rate falls first after as many epochs as between two falls
        constant = self.decay_every if self.constant is None else self.constant
        epochs_after = max(0, epoch - constant)
        decays = -(-epochs_after // self.decay_every)  # rounded up: the first of these epochs already has a lower rate
        return max(self.least_rate, self.learning_rate * self.decay**decays)


class RecurrentConfig(TrainConfig):
    """A model with one encoder of images and one of texts."""

    text_encoder: Literal["gru", "lstm", "attention"] = Field("gru", description="what reads a caption's words")
    bidirectional: bool = Field(True, description="two recurrent nets of joint / 2 units, one per reading direction")
    pooling: Pooling = Field("max", description="how the recurrent net's states become one vector")
    image_pooling: ImagePooling = Field(
        "average",
        description="how regions of a grid become one vector, see ImageEncoder; crop: of several crops of an image, a "
        "random one in training, else their mean",
    )
    heads: AtLeastOne = Field(3, description="of text_encoder attention, which share the joint space")
    attention_dim: NotNegative = Field(0, description="rows of the heads' matrices; 0: the size of a head's vector")

    @model_validator(mode="after")
    def _check_encoders(self) -> Self:
        """Refuse a joint space that cannot be shared equally by reading directions and heads. Raises ValueError."""
        if self.bidirectional and self.joint % 2:
            raise ValueError(f"joint must be even for two directions, was: {self.joint}")
        if self.text_encoder == "attention" and self.joint % (2 * self.heads):
            raise ValueError(f"joint must be a multiple of 2 * heads, {2 * self.heads}, was: {self.joint}")
        return self


class TrainWithNegativesConfig(TrainConfig):
    """A model that can be selected by, or be trained with, negative captions of the run."""

    negative_families: tuple[str, ...] = Field(
        ("noun", "numeral", "relation"), description="negatives of these families"
    )
    balance_families: bool = Field(
        True, description="draw all families equally likely; else all negatives (VSE-C's paper)"
    )
    negative_operators: tuple[str, ...] = Field(OPERATORS, description="negatives made by these operators")
    negatives: AtLeastOne = Field(8, description="negatives sampled per caption of a batch, anew in every epoch")
    negatives_after: NotNegative = Field(0, description="first epochs without negatives; 1 in VSE-C's released code")
    select: Literal["rsum", "attacked"] = Field(
        "rsum",
        description="what selects the epoch; attacked, as in VSE-C's released code: R@1 + R@5 + R@10 from image to "
        "text with the negatives of an image's captions among its candidates",
    )

    @property
    def trained_families(self) -> tuple[str, ...]:
        """The families of negatives that the model is trained with."""
        return self.negative_families if self.model in (*WITH_NEGATIVES, "mha-d") else ()

    @property
    def reads_negatives(self) -> bool:
        """Whether the training reads negatives of the run."""
        return bool(self.trained_families) or self.select == "attacked"

    @property
    def selected_by(self) -> str:
        """The metric of the validation that selects the epoch."""
        return self.select


class DualConfig(RecurrentConfig, TrainWithNegativesConfig):
    """A model with one vector for each image and text."""

    grounded_dim: NotNegative = Field(
        0, description="learned numbers joined to the vector of each word, then fixed, of the file (VSE-C, section 3.1)"
    )


class VseConfig(DualConfig):
    """VSE, VSE++, VSE-C and order-embeddings."""

    similarity: Similarities = Field(
        "cosine",
        description="of images and texts; order: the penalty of Vendrov et al. (2016); order-signed: without absolute "
        "values; order-reversed: captions are more specific than images",
    )
    share_negatives: bool = Field(False, description="compare an image with all negatives of the batch (VSE-C's code)")


class ContrastiveConfig(DualConfig):
    """InfoNCE, SigLIP, NegCLIP and CE-CLIP."""

    concreteness_margin: NotNegativeNumber = Field(
        0.0, description="negclip, ce-clip: margin of a cosine, times how concrete the noun is that a negative puts in"
    )

    @model_validator(mode="after")
    def _check_margin(self) -> Self:
        """Refuse a margin by concreteness for a model without negatives. Raises ValueError."""
        if self.concreteness_margin and self.model not in WITH_NEGATIVES:
            raise ValueError(f"concreteness_margin is for negclip and ce-clip, the model was: {self.model}")
        return self


class UniVseConfig(RecurrentConfig):
    """UniVSE (Wu et al. 2019)."""

    english: ClassVar[str] = "components"
    modifier_dim: AtLeastOne = Field(100, description="dimensions of the modifier vectors")
    components: tuple[Kind, ...] = Field(
        COMPONENTS, description="kinds composed to u_comp, a caption's vector of components; none: its sentence only"
    )
    contrast: tuple[Kind, ...] = Field(COMPONENTS, description="kinds with a contrastive loss: ℓ_obj, ℓ_attr, ℓ_rel")
    weights: tuple[NotNegativeNumber, NotNegativeNumber, NotNegativeNumber, NotNegativeNumber] = Field(
        (0.5, 0.5, 0.5, 1.0), description="factors η of ℓ_comp (u_comp with the image), ℓ_obj, ℓ_attr and ℓ_rel"
    )
    relations_after: NotNegative = Field(2, description="first epochs without ℓ_rel")
    reduce_obj: Reduction = Field("hardest", description="what ℓ_obj takes of the hinges of a component's negatives")
    reduce_attr: Reduction = Field("mean", description="the same for ℓ_attr, of each kind; kinds are added")
    reduce_rel: Reduction = Field("mean", description="the same for ℓ_rel; sum is the letter of the paper's supplement")
    false_words: Literal["rivals", "any"] = Field(
        "rivals",
        description="attributes and relations that make a negative: those that exclude the true one and that no "
        "caption of the image allows, or, as in the paper, any that its captions do not state",
    )
    temperature: AboveZero = Field(1.0, description="τ of the softmax that weights regions by relevance")
    composition: Literal["average", "sum", "max", "self-attention", "gru"] = Field(
        "average", description="how the vectors of a caption's components become one, see Composition"
    )
    alpha: Share = Field(0.75, description="α of u_cap = Norm(α u_sent + (1 - α) u_comp), the sentence's weight")
    learn_alpha: bool = Field(False, description="begin with α and train it, with a loss of u_cap with the image")
    drop_components: BelowOne = Field(0.0, description="share of train attributes and relations that is left out")

    @model_validator(mode="after")
    def _check_alpha(self) -> Self:
        """Refuse to train an α of 0 or 1, which has no logit, or without components, which it weights (ValueError)."""
        if self.learn_alpha and (not 0 < self.alpha < 1 or not self.components):
            raise ValueError("learn_alpha is for univse with components and an alpha between 0 and 1")
        return self


class MhadConfig(TrainWithNegativesConfig):
    """MHA-D (Huang et al. 2019); with negatives if it has negative_families."""

    other_vectors: tuple[tuple[str, Path], ...] = Field((), description="vectors of the further languages, CODE=FILE")
    heads: AtLeastOne = Field(3, description="K, the attention heads of each encoder, each with `joint` numbers")
    attention_dim: NotNegative = Field(0, description="rows of the heads' matrices; 0: the size of a head's vector")
    region_tanh: bool = Field(False, description="a tanh after the linear layer of regions")
    gamma: NotNegativeNumber = Field(0.6, description="γ, the factor of the loss between captions of two languages")
    diversity: Literal["none", "distance", "similarity", "printed"] = Field(
        "distance", description="the reading of the hinges that keep heads apart, see diversity_loss"
    )
    diversity_margin: NotNegativeNumber = Field(0.1, description="their margin α_D")
    diversity_weight: NotNegativeNumber = Field(1.0, description="β, their factor")

    @field_validator("other_vectors", mode="before")
    @classmethod
    def _split_codes_from_files(cls, files: object) -> object:
        """Texts CODE=FILE, as the command line gives them, as pairs: "de=v.txt" -> ("de", "v.txt")."""
        if not isinstance(files, (tuple, list)):
            return files  # no collection: the field's type refuses it with a message
        return tuple(tuple(file.split("=", 1)) if isinstance(file, str) else file for file in files)

    @property
    def files_of_vectors(self) -> dict[str, Path]:
        """The files of initial word vectors, by language."""
        return {**super().files_of_vectors, **dict(self.other_vectors)}

    @model_validator(mode="after")
    def _check_heads(self) -> Self:
        """Refuse an odd dimension, and word vectors of languages that the model does not have. Raises ValueError."""
        if self.joint % 2:
            raise ValueError(f"joint must be even for two directions, was: {self.joint}")
        if unknown := [code for code, _ in self.other_vectors if code not in self.languages[1:]]:
            further = ", ".join(self.languages[1:]) or "none"
            raise ValueError(f"other_vectors must be of the further languages, {further}, were: {', '.join(unknown)}")
        return self


_CLASSES: tuple[type[TrainConfig], ...] = (VseConfig, UniVseConfig, MhadConfig, ContrastiveConfig)
_BY_NAME = {kind.__name__: kind for kind in _CLASSES}
CONFIGS = {name: _BY_NAME[model.config] for name, model in MODELS.items()}
Changes = dict[str, Any]  # values of fields, by their names, in the place of a class's defaults

# Per model, the defaults that differ from those of TrainConfig.
DEFAULTS: dict[str, Changes] = {
    "univse": {
        "bidirectional": False,
        "pooling": "last",
        "image_pooling": "max-k",
        "tune_vectors": False,
        "epochs": 13,
        "constant": 6,
        "decay": 0.5,
        "decay_every": 1,
        "least_rate": 1e-5,
    },
    # Vendrov et al. (2016), also with --recipe paper
    "order": {
        "transform": "l2",
        "dropout": 0.0,
        "average": 0.0,
        "warm_up": 0,
        "pooling": "last",
        "bidirectional": False,
        "similarity": "order",
        "decay": 1.0,
    },
    "mha-d": {"languages": ("en", "de"), "negative_families": (), "joint": 512, "epochs": 20},
}

# By similarity, the defaults where the model has none of its own. While the hardest negative is mostly nearer than the
# true pair, VSE++'s loss falls by drawing all vectors together, down to E = 0, where the gradient is 0, too. The sum of
# hinges does not, so trainings begin with it (warm_up), and for more epochs than with the cosine.
_ORDER: Changes = {"margin": 0.05, "warm_up": 3}
OF_SIMILARITY: dict[str, Changes] = {"order": _ORDER, "order-signed": {"warm_up": 3}, "order-reversed": _ORDER}

# The settings of the papers where they differ from the defaults: VSE++ (Faghri et al. 2018; also for VSE), VSE-C (Shi
# et al. 2018), UniVSE (Wu et al. 2019) and MHA-D (Huang et al. 2019). VSE-C and UniVSE begin with GloVe's vectors
# (`vectors`).
_OPTIMIZED: Changes = {"transform": "l2", "dropout": 0.0, "average": 0.0, "warm_up": 0}
_PLAIN: Changes = {**_OPTIMIZED, "pooling": "last"}
_VSE_PP: Changes = {**_PLAIN, "bidirectional": False, "learning_rate": 2e-4}
PAPER: dict[str, Changes] = {
    "vse": _VSE_PP,
    "vse++": _VSE_PP,
    "vse-c": {**_PLAIN, "balance_families": False},
    "univse": {**_PLAIN, "false_words": "any"},
    "mha-d": {**_OPTIMIZED, "transform": "none", "learning_rate": 2e-4, "weight_decay": 1e-6},
    # CLIP's and its successors' (which fine-tune CLIP, see negcap finetune): the vector of the last word, no
    # regularisation beyond the loss, and for NegCLIP (Yuksekgonul et al. 2023) one random negative per caption
    "infonce": _PLAIN,
    "siglip": _PLAIN,
    "negclip": {**_PLAIN, "negatives": 1},
    "ce-clip": _PLAIN,
}


def configure(run: Path, output: Path, model: str = "vse++", recipe: str = "house", **given: Any) -> TrainConfig:
    """The settings of a training, of the class that CONFIGS has for the model.

    Later ones win: the class's defaults, those of the similarity (see OF_SIMILARITY), those of the model (DEFAULTS),
    those of its paper (PAPER, for the recipe paper), and `given`. Raises ValueError for what is unknown or out of
    range.
    """
    config_class = CONFIGS[word("model", model, MODELS)]
    of_recipe = PAPER.get(model, {}) if word("recipe", recipe, RECIPES) == "paper" else {}
    settings = {**DEFAULTS.get(model, {}), **of_recipe}
    # VSE-C joins 100 learned numbers to GloVe's vectors, of which there must be a file (section 3.1)
    if recipe == "paper" and model == "vse-c" and given.get("vectors"):
        settings["grounded_dim"] = 100
    settings.update(given)
    of_similarity = OF_SIMILARITY.get(settings.get("similarity", ""), {})
    return config_class(run=run, output=output, model=model, **{**of_similarity, **settings})


BEGIN_WITH_GLOVE = ("vse-c", "univse")  # models of papers that begin with GloVe's word vectors


def lacking_of_recipe(model: str, recipe: str, vectors: object) -> str:
    """A line that says that the recipe of a model's paper needs word vectors, if none are given; empty otherwise."""
    if recipe != "paper" or model not in BEGIN_WITH_GLOVE or vectors:
        return ""
    what = f"recipe paper of {model} begins with GloVe's word vectors, 300 numbers each"
    return f"{what}: without --vectors FILE words begin with random ones, and this is not the paper's recipe"


PER_FAMILY = 20  # as in VSE-C's Tables 2 and 3


class EvaluateConfig(Settings):
    """How a model is evaluated. Raises ValueError for a value out of its range."""

    split: str = Field("test", description="split on which to evaluate")
    limit: AtLeastOne | None = Field(None, description="use only this many first images of the split; none: all")
    captions_per_image: AtLeastOne | None = Field(
        None, description="use only this many first captions of an image, 5 in the papers; none: all"
    )
    complete: AtLeastOne | None = Field(
        None,
        description="only images all of whose captions have so many negatives of each of VSE-C's families, as the "
        "1,000 of its Tables 2 and 3, which have 20; none: all",
    )
    per_family: AtLeastOne = Field(PER_FAMILY, description="negatives per caption and family in VSE-C's attack")
    per_operator: AtLeastOne = Field(5, description="negatives per caption and operator in UniVSE's attack")
    components: tuple[Kind, ...] | None = Field(
        None, description="UniVSE: kinds of components in a caption's vector; none: its sentence only; as trained"
    )
    alpha: Share | None = Field(None, description="UniVSE: weight of the sentence in that vector; as trained")
    drop_components: BelowOne = Field(0.0, description="UniVSE: random share of attributes and of relations left out")
    spacy_model: str | None = Field(
        None, description="parser of negatives for UniVSE; needed if the run was parsed with one in a folder"
    )
    instances: Path | None = Field(
        None, description="COCO's instances_*.json: retrieve images also by the objects with a box (UniVSE's Table 3)"
    )
    seed: NotNegative = Field(0, description="seed of the bootstrap")
    device: Device = "auto"
    threads: Threads = Field(default_factory=cores)

    @property
    def changes(self) -> Changes:
        """The settings of a UniVSE model to use instead of those of the training, by name."""
        given: Changes = {"components": self.components, "alpha": self.alpha}
        return {name: value for name, value in given.items() if value is not None}


class SimilarityConfig(Settings):
    """How similarities are measured. Raises ValueError for a value out of its range."""

    language: str = Field("en", description="language of the sentences, one of the model's")
    seed: NotNegative = Field(0, description="seed of the bootstrap")
    device: Device = "auto"
    threads: Threads = Field(default_factory=cores)


class PictureConfig(Settings):
    """What is drawn. Raises ValueError for a value out of its range."""

    queries: tuple[str, ...] = Field((), description="phrases to look for; none: the photos' most frequent components")
    best: AtLeastOne = Field(6, description="photos per query, or images whose attention is drawn")
    spacy_model: str | None = Field(None, description="pipeline that parses the queries; none: the shipped one")
    seed: NotNegative = Field(0, description="seed of t-SNE")
    device: Device = "auto"
