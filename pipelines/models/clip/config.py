"""The settings of training a CLIP on pictures. Imports no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SkipValidation, model_validator

from ....augment.operators import PRESETS
from ....augment.settings import AboveZero, AtLeastOne, AtLeastTwo, Device, NotNegativeNumber, Refined, Seed, Settings
from ..config import WITH_NEGATIVES, Threads, cores

TRIPLET = "triplet-clip"
KINDS = ("hf", "open_clip")
NEED_NEGATIVES = (*WITH_NEGATIVES, TRIPLET)


class ClipConfig(Settings):
    """How a CLIP is trained. The learning rate rises for 5 % of the steps, then falls to 0 by a cosine.

    model: see KINDS; empty: a tiny one of transformers with random weights, whose words are those of the train captions
    and their negatives. The objective triplet-clip also needs the table counterparts, pictures in which negatives are
    true. concreteness_margin: see `negcap.pipelines.models.losses.compare`.
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
