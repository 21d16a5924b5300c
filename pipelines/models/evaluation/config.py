"""The configuration of an evaluation. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...engine.bounds import at_least, one_of
from ..config import DEVICES, cores


@dataclass(frozen=True)
class EvaluateConfig:
    """How a model is evaluated. Raises ValueError for a value out of its range.

    split: of the run. limit: evaluate only this many first images of it; None: all. captions_per_image: use only this
    many first captions of an image, 5 in the papers' protocols; None: all. per_family: the maximum number of
    negatives per caption and family in VSE-C's attacks. per_attack: the same per caption and operator in UniVSE's
    attacks. complete: evaluate only images all of whose captions have at least this many negatives of each family of
    VSE-C's attacks, as the 1,000 images of its Tables 2 and 3, which have 20; None: all images. components, alpha: see
    TrainConfig; used instead of the values of the training unless None (UniVSE only). drop_components: the share of the
    attributes and of the relations of captions and negatives that is left out (UniVSE only). spacy_model: the pipeline
    that parsed the run, needed if the run's manifest names none that can be loaded. instances: COCO's instance
    annotations, whose categories become queries, too; None: none. seed: of the bootstrap.
    """

    split: str = "test"
    per_family: int = 20
    per_attack: int = 5
    limit: int | None = None
    captions_per_image: int | None = None
    complete: int | None = None
    components: tuple[str, ...] | None = None
    alpha: float | None = None
    drop_components: float = 0.0
    spacy_model: str | None = None
    instances: Path | None = None
    seed: int = 0
    device: str = "auto"
    threads: int = field(default_factory=cores)

    def __post_init__(self) -> None:
        one_of(self, {"device": DEVICES})
        at_least(self, 1, ("per_family", "per_attack", "threads", "limit", "captions_per_image", "complete"))

    @property
    def changes(self) -> dict[str, Any]:
        """The fields of TrainConfig to use instead of those of the training, by name."""
        return {name: getattr(self, name) for name in ("components", "alpha") if getattr(self, name) is not None}
