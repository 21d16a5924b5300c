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
NONE: Mapping[str, str] = {}
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
        given = (self.image, self.split, self.language, self.id, self.status, self.caption, *self.kept)
        return list(dict.fromkeys(name for name in given if name))


def choose(
    found: Sequence[str],
    options: ReadOptions,
    where: str,
    images: Mapping[str, str] = NONE,
    unread: Mapping[str, str] = NONE,
) -> Columns:
    """The columns to read, among the names `found` of columns of plain values in a file, and `images`.

    images: columns with embedded images, each with the field that has the image's path; empty: none has. unread: other
    columns, each with the reason why it cannot be read. In a table of nothing but captions (and columns of split or
    language, or to keep) each row is of an image of its own. Raises ValueError, which lists the columns of the file
    `where`, when there is no column to choose.
    """
    every = [*found, *images]
    listed = ", ".join(dict.fromkeys(every)) or "none"
    if unread:
        listed += f"; not readable: {', '.join(f'{name} ({why})' for name, why in unread.items())}"

    def column(role: str, wanted: str, usual: Sequence[str] = (), among: Sequence[str] = found) -> str:
        name = (wanted if wanted in among else guess([_plain(wanted)], among)) if wanted else guess(usual, among)
        if name is not None:
            return name
        if wanted:
            raise ValueError(f"{where}: {role} column must be one of the columns found, was: {wanted}; found: {listed}")
        raise ValueError(
            f"{where}: no column has a usual name of {role} columns, give it with --{role}-column; found: {listed}"
        )

    image = None if options.image_column else guess(IMAGE, found) or guess(IMAGE, [*images])
    if image is None and (options.image_column or not _has_only_captions([*every, *unread], options)):
        image = column("image", options.image_column, (), every)
    caption = column("caption", options.caption_column, CAPTION)
    split = column("split", options.split_column) if options.split_column else guess(SPLIT, found)
    language = column("language", options.language_column) if options.language_column else None
    kept = tuple(column("keep", name) for name in options.keep_columns)
    id = status = None
    if options.id_column:
        id = column("id", options.id_column)
    elif image is not None and image == guess(URL, found):
        id = guess(ID, found)
        status = "status" if id == "key" and "status" in found else None
    field = "" if image is None or image in found else images[image]
    return Columns(image if image in found or field else None, caption, split, language, id, status, kept, field)


def record_of(chosen: Columns, source: str, line: int, row: Mapping[str, Any], language: str) -> Record | Rejected:
    """The record of one row of a table; a row without an id, or whose image was not downloaded, becomes a Rejected.

    row: the values of the columns `chosen`. language: that of captions if no column has it.
    """
    image = OWN if chosen.image is None else row.get(chosen.image)
    split = row.get(chosen.split) if chosen.split else None
    language = row.get(chosen.language) if chosen.language else language  # type: ignore[assignment]
    id = row.get(chosen.id) if chosen.id else None
    kept = tuple(map(row.get, chosen.kept)) if chosen.kept else ()
    record = Record(source, line, image, row.get(chosen.caption), split, language, None, id, kept)
    if id is None and chosen.id:
        return reject(record, "no_image", f"image id must be a name, URL or whole number, is missing in {chosen.id}")
    if chosen.status and (status := row.get(chosen.status)) != SUCCESS:
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


def numbered(options: ReadOptions) -> bool:
    """Whether all columns that the user gave are numbers from 1, as for a file without a header."""
    given = (options.image_column, options.caption_column)
    more = (options.split_column, options.language_column, options.id_column, *options.keep_columns)
    return all(re.fullmatch(r"[1-9][0-9]*", value) for value in (*given, *filter(None, more)))


def _plain(name: str) -> str:
    return re.sub(r"[\s-]+", "_", name.strip().lower())
