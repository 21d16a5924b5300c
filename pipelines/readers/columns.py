"""Find the columns of a table with image, caption and split: those the user gives, or those with a usual name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from negcap.pipelines.readers.record import ReadOptions, Record, Rejected, reject

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
URL = ("image_url", "url")
ID = ("uid", "key")  # of DataComp, of img2dataset
SUCCESS = "success"  # the status of an image that img2dataset has downloaded


@dataclass(frozen=True)
class Columns:
    """The names of the columns of one file that hold the image, the caption, and others; None where there is none.

    id: what identifies the image. status: whether img2dataset has downloaded it. kept: those that the user wants kept.
    """

    image: str
    caption: str
    split: str | None
    language: str | None = None
    id: str | None = None
    status: str | None = None
    kept: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """The names of all these columns, each once."""
        return list(dict.fromkeys(name for name in (*self.others, self.caption, *self.kept) if name))

    @property
    def others(self) -> tuple[str | None, ...]:
        """The names of the columns of image, split, language, id and status, in this order; None: there is none."""
        return self.image, self.split, self.language, self.id, self.status


def choose(found: Sequence[str], options: ReadOptions, where: str) -> Columns:
    """The columns to read, among the names `found` in the file `where`.

    Raises ValueError, which lists the names found, when there is no such column.
    """
    image = _column("image", options.image_column, IMAGE, found, where)
    caption = _column("caption", options.caption_column, CAPTION, found, where)
    split = _column("split", options.split_column, SPLIT, found, where) if options.split_column else guess(SPLIT, found)
    given = options.language_column
    language = _column("language", given, (), found, where) if given else None
    id = status = None
    if options.id_column:
        id = _column("id", options.id_column, ID, found, where)
    elif image == guess(URL, found):
        id = guess(ID, found)
        status = "status" if id == "key" and "status" in found else None
    kept = tuple(_column("keep", name, (), found, where) for name in options.keep_columns)
    return Columns(image, caption, split, language, id, status, kept)


def record_of(
    chosen: Columns, where: tuple[str, int], text: Any, others: Sequence[Any], kept: tuple[Any, ...], usual: str
) -> Record | Rejected:
    """The record of one row of a table; a row without an id, or whose image was not downloaded, becomes a Rejected.

    chosen: the columns of the table. where: file and line. text: the caption. others, kept: the values of the columns
    `chosen.others` and `chosen.kept`. usual: the language of captions if no column has it.
    """
    image, split, language, id, status = others
    record = Record(*where, image, text, split, language if chosen.language else usual, None, id, kept)
    if id is None and chosen.id:
        return reject(record, "no_image", f"image id must be a name, URL or whole number, is missing in {chosen.id}")
    if chosen.status and status != SUCCESS:
        return reject(record, "no_image", f"image must have been downloaded, its status was: {status!r:.80}")
    return record


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
    given += filter(None, [options.split_column, options.language_column, options.id_column, *options.keep_columns])
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
