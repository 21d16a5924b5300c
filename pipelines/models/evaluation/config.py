"""The settings of an evaluation. Imports no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from ...engine.settings import AtLeastOne, BelowOne, NotNegative, Settings, Share
from ..config import Device, Kind, cores

PER_FAMILY = 20


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
    per_attack: AtLeastOne = Field(5, description="negatives per caption and operator in UniVSE's attack")
    components: tuple[Kind, ...] | None = Field(
        None, description="UniVSE: kinds of components in a caption's vector; none: its sentence only; as trained"
    )
    alpha: Share | None = Field(None, description="UniVSE: weight of the sentence in that vector; as trained")
    drop_components: BelowOne = Field(
        0.0, description="UniVSE: share of the attributes and of the relations that is left out, at random"
    )
    spacy_model: str | None = Field(
        None, description="parser of negatives for UniVSE; needed if the run was parsed with one in a folder"
    )
    instances: Path | None = Field(
        None, description="COCO's instances_*.json: retrieve images also by the objects with a box (UniVSE's Table 3)"
    )
    seed: NotNegative = Field(0, description="seed of the bootstrap")
    device: Device = Field("auto", description="where to compute; auto: a GPU where there is one")
    threads: AtLeastOne = Field(default_factory=cores, description="CPU threads; one per core if not given")

    @property
    def changes(self) -> dict[str, Any]:
        """The settings of a UniVSE model to use instead of those of the training, by name."""
        return {name: getattr(self, name) for name in ("components", "alpha") if getattr(self, name) is not None}
