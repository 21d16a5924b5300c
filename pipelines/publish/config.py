"""The options of `negcap publish`."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ..engine.settings import AtLeastOne, Settings
from ..tables.pairs import Pick
from .formats import format_named


class PublishConfig(Settings):
    """What is published, and how. Raises ValueError for an unknown format or no license, too.

    split, operators: only these, all if empty; refined: publish the negatives that `negcap refine` kept; vetted: only
    those that all readers accept (see negcap.pipelines.tables.pairs); per_caption: at most so many negatives per
    caption and operator, None for the format's default; pick: the first negatives drawn for a caption ("first") or a
    random choice of them ("random").
    images: the folder with the image files; boxes: a CSV of image regions; copy_images: publish the image files too.
    skip_missing, skip_leaks: leave out captions whose image file is missing, or that are in the train split too,
    instead of raising. max_blind: the limit (%) for the accuracy of models that never see the images: it is exceeded
    if the lower bound of the 95 % interval is above it; allow_blind: publish all the same and say so in the data card.
    allow_unchecked: publish negatives of operators that do not check whether they are false (presets vse-c-paper and
    univse-paper), and say so in the data card.
    image_root: what precedes an image's path in formats whose readers open it as it is written; names: the names of
    files of operators, negcap's or those of SugarCrepe's seven parts. votes: filled annotation sheets, whose key is
    beside the first, for format valse; empty: the verdicts in the run.
    name, url, creator, date (YYYY-MM-DD), cite: describe the set in the card and metadata.
    """

    format: str
    license: str
    split: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    refined: bool = False
    vetted: bool = False
    per_caption: AtLeastOne | None = None
    pick: Pick = "first"
    seed: int = 0
    images: Path | None = None
    boxes: Path | None = None
    copy_images: bool = False
    skip_missing: bool = False
    skip_leaks: bool = False
    max_blind: Annotated[float, Field(ge=50, le=100)] = 60.0
    allow_blind: bool = False
    allow_unchecked: bool = False
    image_root: str = ""
    names: Literal["negcap", "sugarcrepe"] = "negcap"
    votes: tuple[Path, ...] = ()
    name: str = ""
    url: str = ""
    creator: str = ""
    date: str = ""
    cite: str = ""

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
