"""The options of `negcap publish`."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ...augment.settings import AtLeastOne, Operators, Photos, Refined, Seed, Settings, Splits, Vetted
from ..tables.pairs import Pick
from .formats import format_named


class PublishConfig(Settings):
    """What is published, and how."""

    format: str = Field(description="format to write")
    license: str = Field(description="terms for captions and images: an SPDX id, a URL or a name")
    split: Splits = ()
    operators: Operators = ()
    refined: Refined = False
    vetted: Vetted = False
    per_caption: AtLeastOne | None = Field(
        None, description="negatives per caption and operator; none: as usual in the format"
    )
    pick: Pick = Field("first", description="which of the negatives: the first drawn or random ones")
    seed: Seed = 0
    images: Photos = None
    boxes: Path | None = Field(None, description="CSV of image_id,x,y,width,height instead of whole images")
    copy_images: bool = Field(False, description="publish the image files too, in images/")
    skip_missing: bool = Field(False, description="leave out captions whose image file is missing")
    skip_leaks: bool = Field(False, description="leave out captions that are in the train split, too")
    max_blind: Annotated[float, Field(ge=50, le=100)] = Field(
        60.0,
        description="highest allowed accuracy, in %, of models that never see the images: the limit is exceeded if "
        "the 95 % interval lies above it",
    )
    allow_blind: bool = Field(False, description="publish even what can be guessed; the card says so")
    allow_unchecked: bool = Field(
        False,
        description="publish negatives of presets vse-c-paper and univse-paper, which may be true; the card says so",
    )
    image_root: str = Field(
        "", description="written before image paths that readers open as they are, e.g. an absolute folder"
    )
    names: Literal["negcap", "sugarcrepe"] = Field(
        "negcap", description="of sugarcrepe's files: operators (negcap), or SugarCrepe's parts (sugarcrepe)"
    )
    votes: tuple[Path, ...] = Field(
        (), description="annotation sheets, between commas, for valse; none: the verdicts in the run"
    )
    name: str = Field("", description="of the data set; by default negcap-FORMAT")
    url: str = Field("", description="of the data set, for the Croissant metadata")
    creator: str = Field("", description="who publishes the data set, for the Croissant metadata")
    date: str = Field("", description="of publication, YYYY-MM-DD, for the Croissant metadata")
    cite: str = Field("", description="how to cite the data set, for the Croissant metadata")

    @model_validator(mode="after")
    def _check(self) -> Self:
        kind = format_named(self.format)
        if not self.license.strip():
            raise ValueError("license must be given: the terms under which captions and images may be passed on")
        if self.names != "negcap" and not self.format.startswith("sugarcrepe"):
            raise ValueError(f"names {self.names} are those of format sugarcrepe, format was: {self.format}")
        if self.votes and not kind.votes:
            raise ValueError(f"votes are published in format valse, format was: {self.format}")
        try:
            date.fromisoformat(self.date or "2000-01-01")
        except ValueError:
            raise ValueError(f"date must be YYYY-MM-DD, was: {self.date}") from None
        if self.images is None and (kind.images == "files" or self.copy_images or self.skip_missing):
            what = f"format {self.format}" if kind.images == "files" else "copying or skipping images"
            raise ValueError(f"{what} needs the image files: --images FOLDER")
        if self.images is None and self.boxes is None and kind.images == "sizes":
            raise ValueError(f"format {self.format} needs the images' sizes: --images FOLDER, or --set boxes=FILE")
        return self
