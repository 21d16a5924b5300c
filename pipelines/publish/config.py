"""The options of `negcap publish`, checked."""

from __future__ import annotations

from datetime import date
from typing import Self

from pydantic import model_validator

from .formats import format_named
from .layout import PublishOptions


class PublishConfig(PublishOptions):
    """What is published, and how."""

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
