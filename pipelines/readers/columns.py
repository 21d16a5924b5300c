"""Find the columns of a table with image, caption and split: those the user gives, or those with a usual name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .record import OWN, ReadOptions, Record, Rejected, reject

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

    image: None: no column names it, and each row is of an image of its own. id: what identifies the image. status:
    whether img2dataset has downloaded it. kept: those that the user wants kept. field: of an image column of structs,
    the field with the image's path; empty: the column itself names the image.
    """

    image: str | None
    caption: str
    split: str | None
    language: str | None = None
    id: str | None = None
    status: str | None = None
    kept: tuple[str, ...] = ()
    field: str = ""

    @property
    def names(self) -> list[str]:
        """The names of all these columns, each once."""
        return list(dict.fromkeys(name for name in (*self.others, self.caption, *self.kept) if name))

    @property
    def others(self) -> tuple[str | None, ...]:
        """The names of the columns of image, split, language, id and status, in this order; None: there is none."""
        return self.image, self.split, self.language, self.id, self.status


@dataclass(frozen=True)
class Nested:
    """The columns of a file that are no plain values.

    images: those in which images are embedded, each with the field that has the image's path; empty: none has. unread:
    the others, each with the reason why it cannot be read.
    """

    images: Mapping[str, str]
    unread: Mapping[str, str]


FLAT = Nested({}, {})


def choose(found: Sequence[str], options: ReadOptions, where: str, nested: Nested = FLAT) -> Columns:
    """The columns to read, among the names `found` of columns of plain values, and the `nested` ones, in a file.

    In a table of nothing but captions (and columns of split or language, or to keep) each row is of an image of its
    own. Raises ValueError, which lists the columns of the file `where`, when there is no column to choose.
    """
    names = [*found, *nested.images]
    image = None if options.image_column else guess(IMAGE, found) or guess(IMAGE, [*nested.images])
    if image is None and (options.image_column or not _has_only_captions([*names, *nested.unread], options)):
        image = _column("image", options.image_column, (), names, where, nested)
    caption = _column("caption", options.caption_column, CAPTION, found, where, nested)
    given = options.split_column
    split = _column("split", given, SPLIT, found, where, nested) if given else guess(SPLIT, found)
    given = options.language_column
    language = _column("language", given, (), found, where, nested) if given else None
    values = Nested({}, {**dict.fromkeys(nested.images, "images"), **nested.unread})
    kept = tuple(_column("keep", name, (), found, where, values) for name in options.keep_columns)
    id = status = None
    if options.id_column:
        id = _column("id", options.id_column, ID, found, where, nested)
    elif image is not None and image == guess(URL, found):
        id = guess(ID, found)
        status = "status" if id == "key" and "status" in found else None
    field = "" if image is None or image in found else nested.images[image]
    named = image in found or field
    return Columns(image if named else None, caption, split, language, id, status, kept, field)


def record_of(
    chosen: Columns, where: tuple[str, int], text: Any, others: Sequence[Any], kept: tuple[Any, ...], usual: str
) -> Record | Rejected:
    """The record of one row of a table; a row without an id, or whose image was not downloaded, becomes a Rejected.

    chosen: the columns of the table. where: file and line. text: the caption. others, kept: the values of the columns
    `chosen.others` and `chosen.kept`. usual: the language of captions if no column has it.
    """
    image, split, language, id, status = others
    if chosen.image is None:
        image = OWN
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


def _has_only_captions(found: Sequence[str], options: ReadOptions) -> bool:
    """Whether a table has a column of captions and no other, but of splits and those that options name."""
    caption = guess([_plain(options.caption_column)] if options.caption_column else CAPTION, found)
    given = (options.split_column, options.language_column, *options.keep_columns)
    others = (guess([_plain(name)], found) for name in given if name)
    return caption is not None and not {*found} - {"", caption, guess(SPLIT, found), *others}


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


def _column(role: str, wanted: str, usual: Sequence[str], found: Sequence[str], where: str, nested: Nested) -> str:
    if wanted:
        name = wanted if wanted in found else guess([_plain(wanted)], found)
    else:
        name = guess(usual, found)
    if name is not None:
        return name
    listed = ", ".join(dict.fromkeys([*found, *nested.images])) or "none"
    if nested.unread:
        listed += f"; not readable: {', '.join(f'{name} ({why})' for name, why in nested.unread.items())}"
    if wanted:
        raise ValueError(f"{where}: {role} column must be one of the columns found, was: {wanted}; found: {listed}")
    raise ValueError(
        f"{where}: no column has a usual name of {role} columns, give it with --{role}-column; found: {listed}"
    )
