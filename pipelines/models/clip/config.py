"""The settings of training a CLIP on pictures. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ....augment.operators import PRESETS
from ...engine.bounds import above_zero, at_least, one_of
from ..config import CONTRASTIVE, DEVICES, WITH_NEGATIVES, cores

TRIPLET = "triplet-clip"
OBJECTIVES = (*CONTRASTIVE, TRIPLET)
KINDS = ("hf", "open_clip")
NEED_NEGATIVES = (*WITH_NEGATIVES, TRIPLET)


@dataclass(frozen=True)
class ClipConfig:
    """How a CLIP is trained. Raises ValueError for a value out of its range.

    run: the folder with the tables captions and negatives. images: the folder with the image files. output: the
    model's folder. model: the CLIP to fine-tune, `hf:FOLDER` of transformers (weights, tokenizer and image processor),
    or `open_clip:FOLDER` or `open_clip:ARCHITECTURE:WEIGHTS` of OpenCLIP; empty: a tiny one of transformers with random
    weights, whose words are those of the train captions and their negatives. objective: the loss, one of `OBJECTIVES`;
    triplet-clip also needs the table counterparts, pictures in which negatives are true.
    train_splits, validation_split: of the captions. epochs; batch_size: images, each with one of its captions, another
    one in every epoch. negatives: of a caption, new ones in every epoch, of the families and operators named;
    refined: of those that `negcap refine` kept. concreteness_margin: see `negcap.pipelines.models.losses.compare`.
    learning_rate: of AdamW after a warm-up of 5 % of the steps; it falls to 0 by a cosine. weight_decay: of AdamW.
    Of a tiny CLIP: size, patch: the side of a picture and of its patches in pixels; width: of the image transformer and
    of the joint vectors, that of the text transformer is half; layers, heads: of both. amp: compute in bf16 on a GPU.
    """

    run: Path
    images: Path
    output: Path
    model: str = ""
    objective: str = "negclip"
    seed: int = 0
    epochs: int = 20
    batch_size: int = 64
    train_splits: tuple[str, ...] = ("train", "restval")
    validation_split: str = "val"
    negatives: int = 4
    refined: bool = False
    concreteness_margin: float = 0.0
    negative_families: tuple[str, ...] = ("noun", "numeral", "relation", "attribute")
    negative_operators: tuple[str, ...] = (*PRESETS["vse-c"], "verb", "attribute", "swap_attribute")
    learning_rate: float = 5e-4
    weight_decay: float = 0.1
    size: int = 96
    patch: int = 24
    width: int = 128
    layers: int = 2
    heads: int = 4
    device: str = "auto"
    amp: bool = True
    threads: int = field(default_factory=cores)

    def __post_init__(self) -> None:
        one_of(self, {"objective": OBJECTIVES, "device": DEVICES})
        at_least(self, 1, ("epochs", "negatives", "size", "patch", "width", "layers", "heads", "threads"))
        at_least(self, 2, ["batch_size"])
        at_least(self, 0, ("seed", "weight_decay", "concreteness_margin"))
        above_zero(self, ["learning_rate"])
        kind, _, rest = self.model.partition(":")
        if self.model and (kind not in KINDS or not rest):
            raise ValueError(f"model must be hf:FOLDER or open_clip:FOLDER, was: {self.model}")
        if self.concreteness_margin and self.objective not in NEED_NEGATIVES:
            raise ValueError(f"concreteness_margin is for objectives with negatives, objective was: {self.objective}")
        if self.size % self.patch:
            raise ValueError(f"size must be a multiple of patch, {self.patch}, was: {self.size}")
        if self.width % (2 * self.heads):
            raise ValueError(f"width must be a multiple of 2 x heads, {2 * self.heads}, was: {self.width}")
        if self.objective in NEED_NEGATIVES and not (self.negative_families and self.negative_operators):
            raise ValueError("negative_families and negative_operators must not be empty")
