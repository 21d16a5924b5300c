"""The settings of training a CLIP on pictures. Imports no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from ....augment.operators import PRESETS
from ...engine.settings import AboveZero, AtLeastOne, AtLeastTwo, NotNegative, NotNegativeNumber, Settings
from ..config import WITH_NEGATIVES, Device, cores

TRIPLET = "triplet-clip"
NEED_NEGATIVES = (*WITH_NEGATIVES, TRIPLET)


class ClipConfig(Settings):
    """How a CLIP is trained. Raises ValueError for a value out of its range."""

    run: Path = Field(description="folder with the tables captions and negatives; counterparts for triplet-clip")
    images: Path = Field(description="folder with the image files")
    output: Path = Field(description="the model's folder")
    model: str = Field(
        "",
        description="the CLIP to fine-tune: hf:FOLDER of transformers (weights, tokenizer and image processor), or "
        "open_clip:FOLDER or open_clip:ARCHITECTURE:WEIGHTS; empty: a tiny one of transformers with random weights, "
        "whose words are those of the train captions and their negatives",
    )
    objective: Literal["infonce", "siglip", "negclip", "ce-clip", "triplet-clip"] = Field(
        "negclip", description="the loss; triplet-clip also needs pictures in which negatives are true"
    )
    seed: NotNegative = Field(0, description="seed of all random choices")
    epochs: AtLeastOne = Field(20, description="passes over the images")
    batch_size: AtLeastTwo = Field(64, description="images, each with one of its captions, another one in every epoch")
    train_splits: tuple[str, ...] = Field(("train", "restval"), description="splits to train on")
    validation_split: str = Field("val", description="split that selects the epoch to keep")
    negatives: AtLeastOne = Field(4, description="negatives per caption, new in every epoch")
    refined: bool = Field(False, description="only negatives that `negcap refine` kept")
    concreteness_margin: NotNegativeNumber = Field(0.0, description="see `negcap.pipelines.models.losses`")
    negative_families: tuple[str, ...] = Field(
        ("noun", "numeral", "relation", "attribute"), description="negatives of these families"
    )
    negative_operators: tuple[str, ...] = Field(
        (*PRESETS["vse-c"], "verb", "attribute", "swap_attribute"), description="negatives made by these operators"
    )
    learning_rate: AboveZero = Field(
        5e-4, description="of AdamW after a warm-up of 5 % of the steps; it falls to 0 by a cosine"
    )
    weight_decay: NotNegativeNumber = Field(0.1, description="of AdamW")
    size: AtLeastOne = Field(96, description="tiny CLIP: side of a picture in pixels")
    patch: AtLeastOne = Field(24, description="tiny CLIP: side of a patch in pixels")
    width: AtLeastOne = Field(
        128, description="tiny CLIP: of the image transformer and the joint vectors; that of the text's is half"
    )
    layers: AtLeastOne = Field(2, description="tiny CLIP: layers of each transformer")
    heads: AtLeastOne = Field(4, description="tiny CLIP: attention heads of each transformer")
    device: Device = Field("auto", description="where to compute; auto: a GPU where there is one")
    amp: bool = Field(True, description="compute in bf16 on a GPU")
    threads: AtLeastOne = Field(default_factory=cores, description="CPU threads; one per core if not given")

    @model_validator(mode="after")
    def _check(self) -> Self:
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
