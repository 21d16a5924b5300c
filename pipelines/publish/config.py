"""What is published and how: the options of `negcap publish`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import get_args

from negcap.pipelines.publish.formats import format_named
from negcap.pipelines.quality.bias import Pick


@dataclass(frozen=True)
class PublishConfig:
    """What is published, and how. Raises ValueError for an unknown format, no license, or a number out of bounds.

    split, operators: only these, all if empty; refined: of what `negcap refine` kept; per_caption: negatives a caption
    and operator, by default as the format has it; pick: the first draws of a caption, or random ones.
    images: the folder with the image files; boxes: a CSV of image parts; copy_images: publish the image files too.
    skip_missing, skip_leaks: leave out what has no image file, or stands in the train split, instead of refusing.
    max_blind: the accuracy (%) that no model without the images may be above, by the lower bound of its 95 % interval;
    allow_blind publishes all the same, and the data card says so. name, url, creator, date, cite: of the set, for card
    and metadata.
    """

    format: str
    license: str
    split: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    refined: bool = False
    per_caption: int | None = None
    pick: Pick = "first"
    seed: int = 0
    images: Path | None = None
    boxes: Path | None = None
    copy_images: bool = False
    skip_missing: bool = False
    skip_leaks: bool = False
    max_blind: float = 60.0
    allow_blind: bool = False
    name: str = ""
    url: str = ""
    creator: str = ""
    date: str = ""
    cite: str = ""

    def __post_init__(self) -> None:
        kind = format_named(self.format)
        if not self.license.strip():
            raise ValueError("license must be given: the terms under which captions and images may be passed on")
        if self.per_caption is not None and self.per_caption < 1:
            raise ValueError(f"per_caption must be >= 1, was: {self.per_caption}")
        if self.pick not in get_args(Pick):
            raise ValueError(f"pick must be one of {', '.join(get_args(Pick))}, was: {self.pick}")
        if not 50 <= self.max_blind <= 100:
            raise ValueError(f"max_blind must be from 50 to 100, was: {self.max_blind:g}")
        if self.date:
            _check_date(self.date)
        if self.images is None and (kind.images == "files" or self.copy_images or self.skip_missing):
            what = f"format {self.format}" if kind.images == "files" else "copying or skipping images"
            raise ValueError(f"{what} needs the image files: --images FOLDER")
        if self.images is None and self.boxes is None and kind.images == "sizes":
            raise ValueError(f"format {self.format} needs the images' sizes: --images FOLDER, or --boxes FILE")


def _check_date(text: str) -> None:
    try:
        date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"date must be YYYY-MM-DD, was: {text}") from None
