"""The configuration of the embedding models: how they are trained and evaluated. Imports no torch."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...augment.operators import PRESETS
from ...schemas.features import TABLE
from ..engine.bounds import above_zero, at_least, below_one, one_of

CONTRASTIVE = ("infonce", "siglip", "negclip", "ce-clip")
MODELS = ("vse", "vse++", "vse-c", "univse", "order", "mha-d", *CONTRASTIVE)
WITH_NEGATIVES = ("vse-c", "negclip", "ce-clip")  # models that cannot train without negatives
POOLINGS = ("max", "last")
TRANSFORMS = ("root", "l2", "none")
SELECTIONS = ("rsum", "attacked")
IMAGE_POOLINGS = ("average", "max", "max-k", "crop")
COMPOSITIONS = ("average", "sum", "max", "self-attention", "gru")
COMPONENTS = ("obj", "attr", "rel")
SIMILARITIES = ("cosine", "order", "order-signed", "order-reversed")
FALSE_WORDS = ("rivals", "any")
REDUCTIONS = ("hardest", "mean", "sum")
TEXT_ENCODERS = ("gru", "lstm", "attention")
DIVERSITIES = ("none", "distance", "similarity", "printed")
DEVICES = ("auto", "cpu", "cuda")
POSITIVE = (
    *("epochs", "batch_size", "negatives", "joint", "word_dim", "modifier_dim", "train_captions", "judge_rank"),
    *("min_count", "decay_every", "threads", "heads"),
)
SHARES = ("average", "dropout", "drop_components")
ABOVE_ZERO = ("learning_rate", "margin", "clip", "decay", "temperature")
AT_LEAST_ZERO = (
    "warm_up",
    "grounded_dim",
    "negatives_after",
    "concreteness_margin",
    "validation_images",
    "constant",
    "least_rate",
    "relations_after",
    *("attention_dim", "gamma", "diversity_margin", "diversity_weight", "weight_decay"),
)
ONE_OF = {
    "model": MODELS,
    "select": SELECTIONS,
    "pooling": POOLINGS,
    "transform": TRANSFORMS,
    "text_encoder": TEXT_ENCODERS,
    "similarity": SIMILARITIES,
    "image_pooling": IMAGE_POOLINGS,
    "composition": COMPOSITIONS,
    "false_words": FALSE_WORDS,
    "reduce_obj": REDUCTIONS,
    "reduce_attr": REDUCTIONS,
    "reduce_rel": REDUCTIONS,
    "diversity": DIVERSITIES,
    "device": DEVICES,
}
RESUMABLE = ("run", "output", "epochs", "threads")  # may change when a training is resumed


def cores() -> int:
    """The number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class TrainConfig:
    """All settings of the training of an embedding model. Raises ValueError for a value out of its range.

    Data
        run: the folder with the tables captions, features and, if the model needs them, negatives or components.
        output: the model's folder.
        train_splits: the splits whose captions are trained on.
        validation_split: the split on which rsum (the sum of R@1, R@5 and R@10 of both directions) selects the epoch to
            keep; if the run lacks it, `validation_images` images are held out of the train splits, the same ones for
            every seed.
        train_captions: train on only this many first captions of each image, besides those of `extra`; None: all.
        extra: a table of further captions to train on, as `negcap caption` writes it; no metric is computed on them.
        extra_share: the share of them that an epoch visits, chosen at random anew in each.
        judges: folders of trained models; only those captions of `extra` are used whose image is among the `judge_rank`
            nearest to them, by a judge that was trained without it. leave_out: how such a judge is trained: "0/2"
            leaves out the first of two parts of the train images, divided by a hash of their ids; empty: none.
        features: the table of image features: `features`, or NAME for the table `features_NAME`.
        min_count: how often a word must occur in the train captions to enter the vocabulary.
        languages: of the captions, ISO 639 codes; one, or for mha-d one or more, of which every image then needs
            captions. Models with negatives or components are for English, of which these are.
    Negatives (vse-c, negclip, ce-clip; mha-d if it has negative_families)
        negatives: how many are sampled per caption of a batch, anew in every epoch, from those of the families
            `negative_families` made by `negative_operators`; all families that a caption has are equally likely.
        share_negatives: compare each image with the negatives of all captions of the batch, as VSE-C's released code
            does, not only of its own caption, as in the paper's equation 3. negatives_after: the number of first epochs
            without negatives; 1 in the released code. concreteness_margin: for negclip and ce-clip, see
            `negcap.pipelines.models.contrastive.compare`.
        select: what selects the epoch to keep: rsum, or, as in the released code, `attacked`: R@1 + R@5 + R@10 of
            image-to-text retrieval with the negatives of an image's captions among its candidates.
    Model
        joint: the dimension of the joint space of images and texts. word_dim: of the word vectors; modifier_dim: of
            UniVSE's modifier vectors. vectors: a file of initial word vectors (GloVe's text format or npz), or None;
            tune_vectors: whether vectors from a file are trained; those of words that the file lacks always are.
            grounded_dim: the size of a learned vector that is joined to each word's vector of the file, which then is
            fixed, or 0 for words that the file lacks (VSE-C, section 3.1; not univse or mha-d); 0: none.
            other_vectors: for mha-d, pairs of a further language and the file of its vectors.
        similarity: of images and texts: cosine, order (the penalty of Vendrov et al. 2016), order-signed (the same
            without absolute values, as in VSE++'s released code), or order-reversed (captions more specific than
            images); univse, mha-d and the contrastive models have cosine only.
        text_encoder: gru, lstm, or attention (heads over a bidirectional LSTM, as in MHA-D, which has no other).
        bidirectional: two recurrent nets of joint / 2 units, one per reading direction. pooling: of their states, max
            or last.
        transform: of image features; root: signed square root, then L2 norm; l2: L2 norm; none: none. image_pooling: of
            the regions of a grid, see ImageEncoder; crop: of several crops of an image, a random one in training and
            otherwise their mean.
    Optimization
        epochs; batch_size: pairs of image and caption; learning_rate: of Adam, kept for `constant` epochs (None:
            `decay_every`), then multiplied by `decay` before every `decay_every` epochs, but never below `least_rate`.
        margin: of the hinges. warm_up: the number of first epochs that sum the hinges of all negatives (VSE) instead of
            taking the hardest one (VSE++).
        weight_decay: the factor of the L2 penalty in Adam. clip: the maximum norm of the gradients. dropout: the share
            of image features set to 0.
        average: the decay of the exponential moving average of the weights, which is validated and kept; 0: none.
        amp: compute in bf16 on a GPU. device: auto, cpu or cuda. threads: of the CPU.
    UniVSE
        components: the kinds (obj, attr, rel) whose vectors are composed to u_comp, the caption's vector of components;
            none: only the sentence represents the caption.
        contrast: the kinds whose contrastive losses ℓ_obj, ℓ_attr, ℓ_rel are trained.
        weights: the factors η of ℓ_comp (u_comp with the image), ℓ_obj, ℓ_attr and ℓ_rel; ℓ_rel is trained only after
            the first `relations_after` epochs.
        reduce_obj, reduce_attr, reduce_rel: what ℓ_obj, ℓ_attr and ℓ_rel take of the hinges of a component's negatives
            of a kind: the hardest, their mean, or their sum. The kinds are added. "sum" is the letter of the paper's
            supplement for ℓ_attr and ℓ_rel, but needs other weights, as there are up to 127 negatives of a kind.
        false_words: which attributes and relations may replace true ones to make negatives: rivals, those that exclude
            the true one and that no caption of the image allows, or, as in the paper, any of its 37 attributes and any
            relation that the image's captions do not state.
        temperature: τ of the softmax that weights regions by relevance. composition: average, sum or max of a caption's
            component vectors, their mean weighted by self-attention, or the last state of a GRU that reads them (in
            training in random order).
        alpha: α, the sentence's weight in the caption's vector u_cap = Norm(α u_sent + (1 - α) u_comp), where u_sent is
            the sentence's vector. learn_alpha: begin with it, and train it with a loss of its own, of u_cap with the
            image.
        drop_components: the share of the attributes and of the relations of train captions that is left out, chosen at
            random (supplement, Table 1).
    MHA-D
        heads: K, the attention heads of each encoder. Here `joint` is the size of one head's vector; the vector of an
            image or a sentence has heads · joint numbers. (With text_encoder attention, other models' heads share
            `joint`.) attention_dim: the number of rows of a head's matrices; 0: the size of its vector. region_tanh:
            whether a tanh follows the linear layer of regions.
        gamma: γ, the factor of the loss between captions of two languages.
        diversity: the reading of the hinges that keep heads apart: distance, similarity or printed, see
            `diversity_loss`, or none. diversity_margin: their margin α_D. diversity_weight: β, their factor.
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
    train_captions: int | None = None
    extra: str = ""
    extra_share: float = 1.0
    judges: tuple[Path, ...] = ()
    judge_rank: int = 1
    leave_out: str = ""
    negatives: int = 8
    negative_families: tuple[str, ...] = ("noun", "numeral", "relation")
    negative_operators: tuple[str, ...] = (*PRESETS["vse-c"], *PRESETS["vse-c-paper"])
    share_negatives: bool = False
    negatives_after: int = 0
    concreteness_margin: float = 0.0
    select: str = "rsum"
    joint: int = 1024
    word_dim: int = 300
    similarity: str = "cosine"
    text_encoder: str = "gru"
    bidirectional: bool = True
    pooling: str = "max"
    transform: str = "root"
    features: str = TABLE
    image_pooling: str = "average"
    vectors: Path | None = None
    tune_vectors: bool = True
    grounded_dim: int = 0
    other_vectors: tuple[tuple[str, Path], ...] = ()
    min_count: int = 4
    languages: tuple[str, ...] = ("en",)
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
    reduce_obj: str = "hardest"
    reduce_attr: str = "mean"
    reduce_rel: str = "mean"
    false_words: str = "rivals"
    temperature: float = 1.0
    composition: str = "average"
    alpha: float = 0.75
    learn_alpha: bool = False
    drop_components: float = 0.0
    heads: int = 3
    attention_dim: int = 0
    region_tanh: bool = False
    gamma: float = 0.6
    diversity: str = "distance"
    diversity_margin: float = 0.1
    diversity_weight: float = 1.0
    weight_decay: float = 0.0
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
        if self.learn_alpha and (self.model != "univse" or not 0 < self.alpha < 1 or not self.components):
            raise ValueError("learn_alpha is for univse with components and an alpha between 0 and 1")
        below_one(self, SHARES)
        numbers = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", self.leave_out)
        if self.leave_out and not (numbers and int(numbers[1]) < int(numbers[2])):
            raise ValueError(
                f"leave_out must be a part, from 0, and how many there are, as in 0/2, was: {self.leave_out}"
            )
        if not 0 < self.extra_share <= 1:
            raise ValueError(f"extra_share must be above 0 and at most 1, was: {self.extra_share}")
        if self.grounded_dim and self.model in ("univse", "mha-d"):
            raise ValueError(f"grounded_dim is for models with one vector per word, the model was: {self.model}")
        if self.similarity != "cosine" and self.model in ("univse", "mha-d", *CONTRASTIVE):
            raise ValueError(f"similarity must be cosine for {self.model}, was: {self.similarity}")
        if self.concreteness_margin and self.model not in ("negclip", "ce-clip"):
            raise ValueError(f"concreteness_margin is for negclip and ce-clip, the model was: {self.model}")
        self._check_languages()
        if self.bidirectional and self.joint % 2:
            raise ValueError(f"joint must be even for two directions, was: {self.joint}")
        if self.text_encoder == "attention" and self.joint % (2 * self.heads):
            raise ValueError(f"joint must be a multiple of 2 * heads, {2 * self.heads}, was: {self.joint}")
        if self.model == "mha-d" and self.joint % 2:
            raise ValueError(f"joint must be even for two directions, was: {self.joint}")
        if not self.train_splits or (self.model in WITH_NEGATIVES and not self.negative_families):
            raise ValueError("train_splits and negative_families must not be empty")

    @property
    def left_out(self) -> tuple[int, int] | None:
        """The part of the train images that is left out, from 0, and the number of parts; None: no part."""
        part, slash, parts = self.leave_out.partition("/")
        return (int(part), int(parts)) if slash else None

    def _check_languages(self) -> None:
        known = [code for code in self.languages if re.fullmatch(r"[a-z]{2,3}", code)]
        if len(set(known)) != len(self.languages) or not known:
            raise ValueError(f"languages must be different ISO 639 codes such as en, were: {', '.join(self.languages)}")
        if len(known) > 1 and self.model != "mha-d":
            raise ValueError(f"languages must be one for {self.model}, were: {', '.join(known)}")
        english = self.model in (*WITH_NEGATIVES, "univse") or (self.model == "mha-d" and self.negative_families)
        if english and "en" not in known:
            what = "components" if self.model == "univse" else "negatives"
            raise ValueError(f"languages must have en, as {what} are English, were: {', '.join(known)}")
        if unknown := [code for code, _ in self.other_vectors if code not in known[1:]]:
            further = ", ".join(known[1:]) or "none"
            raise ValueError(f"other_vectors must be of the further languages, {further}, were: {', '.join(unknown)}")

    @property
    def table(self) -> str:
        """The name of the table of image features: `features`, or `features_NAME` for features = NAME."""
        return self.features if self.features.startswith(TABLE) else f"{TABLE}_{self.features}"

    def rate(self, epoch: int) -> float:
        """The learning rate of an epoch; epochs count from 1."""
        constant = self.decay_every if self.constant is None else self.constant
        decays = -(-max(0, epoch - constant) // self.decay_every)
        return max(self.least_rate, self.learning_rate * self.decay**decays)


RECIPES = ("house", "paper")
# Per model, the defaults that differ from those of TrainConfig.
DEFAULTS: dict[str, dict[str, Any]] = {
    "univse": {
        "epochs": 13,
        "bidirectional": False,
        "pooling": "last",
        "image_pooling": "max-k",
        "tune_vectors": False,
        "constant": 6,
        "decay": 0.5,
        "decay_every": 1,
        "least_rate": 1e-5,
    },
    # Vendrov et al. (2016), also with --recipe paper
    "order": {
        **{"transform": "l2", "dropout": 0.0, "average": 0.0, "warm_up": 0},
        **{"pooling": "last", "bidirectional": False, "similarity": "order"},
    },
    "mha-d": {"languages": ("en", "de"), "negative_families": (), "joint": 512, "epochs": 20},
}
# Per similarity, the defaults where the model has none of its own. While the hardest negative is mostly nearer than the
# true pair, VSE++'s loss falls by drawing all vectors together, down to E = 0, where the gradient is 0, too. The sum of
# hinges does not fall by that, and is trained for longer at first than with the cosine.
OF_SIMILARITY: dict[str, dict[str, Any]] = {
    "order": {"margin": 0.05, "warm_up": 3},
    "order-signed": {"warm_up": 3},
    "order-reversed": {"margin": 0.05, "warm_up": 3},
}
# The settings of the papers where they differ from the defaults: VSE++ (Faghri et al. 2018; also for VSE), VSE-C (Shi
# et al. 2018), UniVSE (Wu et al. 2019) and MHA-D (Huang et al. 2019). VSE-C and UniVSE begin with GloVe's vectors
# (`vectors`).
_PLAIN = {"transform": "l2", "dropout": 0.0, "average": 0.0, "warm_up": 0, "pooling": "last"}
_VSE_PP = {**_PLAIN, "bidirectional": False, "learning_rate": 2e-4}
_MHA_D = {**_PLAIN, "transform": "none", "learning_rate": 2e-4, "weight_decay": 1e-6}
PAPER: dict[str, dict[str, Any]] = {
    **{"vse": _VSE_PP, "vse++": _VSE_PP, "vse-c": _PLAIN},
    **{"univse": {**_PLAIN, "false_words": "any"}, "mha-d": _MHA_D},
    # CLIP's and its successors' (which fine-tune CLIP, see negcap finetune): the vector of the last word, no
    # regularisation beyond the loss, and for NegCLIP (Yuksekgonul et al. 2023) one random negative per caption
    **{"infonce": _PLAIN, "siglip": _PLAIN, "negclip": {**_PLAIN, "negatives": 1}, "ce-clip": _PLAIN},
}


def configure(run: Path, output: Path, model: str = "vse++", recipe: str = "house", **given: Any) -> TrainConfig:
    """A TrainConfig with the defaults of this model, or with recipe = "paper" the settings of its paper.

    given: other fields to set. Similarities other than the cosine have defaults of their own, too, see OF_SIMILARITY.
    Raises as TrainConfig, and ValueError for an unknown recipe.
    """
    if recipe not in RECIPES:
        raise ValueError(f"recipe must be one of {', '.join(RECIPES)}, was: {recipe}")
    settings = {**DEFAULTS.get(model, {}), **(PAPER.get(model, {}) if recipe == "paper" else {})}
    if recipe == "paper" and model == "vse-c" and given.get("vectors"):
        settings["grounded_dim"] = 100
    settings.update(given)
    of_similarity = OF_SIMILARITY.get(settings.get("similarity", TrainConfig.similarity), {})
    return TrainConfig(run=run, output=output, model=model, **{**of_similarity, **settings})
