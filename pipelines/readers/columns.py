"""Find the columns of a table with image, caption and split: those the user gives, or those with a usual name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from negcap.pipelines.readers.record import ReadOptions

# the usual names, the most likely first; a file name identifies the image better than a data set's own number does
IMAGE = (
    "image", "image_path", "image_file", "image_name", "filepath", "file_path", "filename", "file_name",
    "path", "img_path", "img_name", "img", "image_url", "url", "image_id", "imageid", "img_id", "imgid",
    "photo", "photo_id",
)  # fmt: skip
CAPTION = (
    "caption", "captions", "text", "sentence", "sentences", "title", "raw", "comment", "description",
    "alt_text",
)  # fmt: skip
SPLIT = ("split", "subset", "partition")


@dataclass(frozen=True)
class Columns:
    """The columns of a file that hold the image, the caption and, if there are such, the split and the language."""

    image: str
    caption: str
    split: str | None
    language: str | None = None

    @property
    def names(self) -> list[str]:
        """The columns to read."""
        return [name for name in (self.image, self.caption, self.split, self.language) if name]


def choose(found: Sequence[str], options: ReadOptions, where: str) -> Columns:
    """The columns to read, among the names `found` in the file `where`.

    Raises ValueError, which lists the names found, when there is no such column.
    """
    image = _column("image", options.image_column, IMAGE, found, where)
    caption = _column("caption", options.caption_column, CAPTION, found, where)
    given = options.split_column
    split = _column("split", given, SPLIT, found, where) if given else guess(SPLIT, found)
    given = options.language_column
    return Columns(image, caption, split, _column("language", given, (), found, where) if given else None)


def guess(usual: Sequence[str], found: Sequence[str]) -> str | None:
    """The first of the `usual` names that is in `found`, as spelt there; case, spaces, - and _ are ignored. Or None."""
    plain = {_plain(name): name for name in reversed(found)}
    return next((plain[name] for name in usual if name in plain), None)


def can_choose(found: Sequence[str], options: ReadOptions) -> bool:
    """Whether `choose` finds an image and a caption column among the names `found`."""
    try:
        choose(found, options, "")
    except ValueError:
        return False
    return True


def _plain(name: str) -> str:
    return re.sub(r"[\s-]+", "_", name.strip().lower())


def numbered(options: ReadOptions) -> bool:
    """Whether all columns that the user gave are numbers from 1, as for a file without a header."""
    given = [options.image_column, options.caption_column]
    given += filter(None, [options.split_column, options.language_column])
    return all(value.isascii() and value.isdigit() and int(value) >= 1 for value in given)


def _column(role: str, wanted: str, usual: Sequence[str], found: Sequence[str], where: str) -> str:
    if wanted:
        name = wanted if wanted in found else guess([_plain(wanted)], found)
    else:
        name = guess(usual, found)
    if name is not None:
        return name
    listed = ", ".join(found) if found else "none"
    if wanted:
        raise ValueError(f"{where}: {role} column must be one of the columns found, was: {wanted}; found: {listed}")
    raise ValueError(
        f"{where}: no column has a usual name of {role} columns, give it with --{role}-column; found: {listed}"
    )
