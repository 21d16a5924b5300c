"""What a reader yields, and the rules that a record must meet to become a caption."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias

from pydantic import Field

from ...augment.settings import Settings
from ...schemas.images import image_fault
from .markup import mark_in, without_markup

Cell: TypeAlias = Any  # what a file has in one place: a text, number, list, object or nothing; `clean` checks it

# Characters; 1,000 words have 5,000 to 7,000.
MAX_TEXT = 10_000
MAX_IMAGE = 1000
MAX_NUMBER = 9999
# How many an image may have: they are compared with each other, and in one shard. Published data sets have 5 to 250.
MAX_CAPTIONS = 1000
EXCERPT = 200
NO_CAPTION = frozenset(["nan", "null", "none", "n/a", "<na>", "#n/a", "undefined"])  # as programs write an empty cell
OWN = object()  # in place of an image's name, where none is known: the record is of an image of its own

# Begins with a word, is no word for an empty cell, and has no sign of markup (`&`, `<`, `[`, b'…', startseq), as most
# captions. What it matches passes all rules of `_clean_text`; what it does not match may pass them, too.
_PLAIN_TEXT = re.compile(r"(?=[A-Za-z])(?!(?i:nan|null|none|n/a|undefined|startseq)|b['\"])[^&<\[]*[^ &<\[](?<!endseq)")
# Not \s, which has control characters as well (vertical tab, form feed, \x1c to \x1f): those are refused.
_SPACES = re.compile(r"[ \t\n\r\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
# Lone surrogates: bytes that are not UTF-8, see `lines`.
_UNDECODED = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
# Unicode's default-ignorable code points, the blank of Braille, spaces. They may stand in a caption (the parts of a
# composed emoji are joined by one), but a caption of nothing else would look empty.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff\\s]+"
)
_IMAGE_SUFFIXES = frozenset(["jpg", "jpeg", "png", "gif", "webp", "bmp", "tif", "tiff", "avif", "heic"])
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}")
_LANGUAGE = re.compile(r"([a-z]{2,3})(?:[-_][a-z0-9]+)*", re.IGNORECASE)


class Record(NamedTuple):
    """One caption as a source has it: any value may stand in `image` and `text`, and bytes that are not UTF-8 are lone
    surrogates. `clean` checks and normalises it. A named tuple, because millions are made.
    """

    source: str  # the file, relative to what the user named
    line: int  # line, row or record number, from 1
    image: Cell  # path, file name or id
    text: Cell
    split: Cell = ""
    language: Cell = "en"  # ISO 639 code
    number: int | None = None  # of the caption among those of its image, from 0; None where the format has none
    id: Cell = None  # what identifies the image; None: the name of `image` without folder and suffix does
    kept: tuple[Cell, ...] = ()  # the values of ReadOptions.keep_columns
    truth: Mapping[str, Cell] | None = None  # what columns say of whether the caption is true, see readers.truth


class Rejected(NamedTuple):
    """A record that cannot be kept: a row of the table `rejected_records`."""

    source: str
    line: int
    reason: str  # one of negcap.schemas.captions.RECORD_REASONS
    detail: str  # the rule and the value that breaks it
    text: str  # an excerpt of the caption


class ReadOptions(Settings):
    """How to read a source. Columns are names, or numbers from 1 without a header; empty: by their usual names. A name
    may be a path to a column inside another (`regions.phrase`), and several columns may have captions.
    `id_column` is by default `uid` or `key` of tables of URLs. `truth_column` says whether a caption is true of its
    image; `none`: all are. The language of a folder of Multi30K or VSE++ may be `all`.
    """

    image_column: str = ""
    caption_column: tuple[str, ...] = ()
    split_column: str = ""
    language: str = Field("en", description="ISO 639-1 code of the captions' language")
    language_column: str = ""
    truth_column: str = ""
    id_column: str = ""
    keep_columns: tuple[str, ...] = Field((), description="column to keep, in the table source_columns")


class _BadRecord(Exception):  # noqa: N818 - never leaves this module
    """Raised with the reason and the detail of a rejection."""


def reject(record: Record, reason: str, detail: str) -> Rejected:
    """`record` rejected for `reason` (one of RECORD_REASONS), with the broken rule and the value in `detail`."""
    return Rejected(record.source, record.line, reason, detail, excerpt(record.text))


def excerpt(value: object) -> str:
    """The first 200 characters of a value as text; empty for None. An undecodable byte ff becomes `\\xff`."""
    return "" if value is None else _UNDECODED.sub(_escape_surrogate, str(value)[:EXCERPT])


def _escape_surrogate(surrogate: re.Match[str]) -> str:
    r"""A lone surrogate as it is shown: a byte that is not UTF-8 as `\xff`, another one as `\ud800`."""
    code = ord(surrogate.group())
    # U+DC80 to U+DCFF is how Python's surrogateescape writes the bytes 80 to FF; others were in the file as such.
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"


def plain_name(name: str) -> str:
    """The name of a column as names are compared: `Image URL` and `image-url` are `image_url`."""
    return re.sub(r"[\s-]+", "_", name.strip().lower())


def image_id(image: str) -> str:
    """The image's name without folder and image suffix: `val2014/a.1.jpg` -> `a.1`; an id is returned as it is. The
    slash at the end of a URL is no part of a name.
    """
    if image.endswith("/") and "://" in image:
        image = image.rstrip("/")
    # Only suffixes of images are taken off: `a.1` is an id.
    name = image[max(image.rfind("/"), image.rfind("\\")) + 1 :]
    stem, dot, suffix = name.rpartition(".")
    return stem if dot and suffix.lower() in _IMAGE_SUFFIXES else name


def is_image_name(name: str) -> bool:
    """Whether a file name has the suffix of an image: `a/b.JPG`."""
    return name.rpartition(".")[2].lower() in _IMAGE_SUFFIXES


def clean(record: Record) -> Record | Rejected:
    """Normalise a record and give it an id; a Rejected, with the reason, if it cannot be kept.

    Its text then has single spaces, composed Unicode (NFC) and no markup (see `without_markup`); case and punctuation
    stay. Its language has no region: `de-AT` -> `de`.
    """
    # Unpacked and made anew by position: `_replace` takes three times as long, and millions of records pass here.
    source, line, image, text, split, language, number, id, kept, _ = record
    try:
        text = _clean_text(text)
        image = _clean_image(image) if type(image) is str else _name_from_number(image)
        split = "" if split is None else _clean_split(str(split))
        language = _clean_language(None if language is None else str(language))
        id = image_id(image) if id is None else _clean_id(id)
    except _BadRecord as bad:
        return reject(record, *bad.args)
    return Record(source, line, image, text, split, language, number, id, kept)


def _clean_text(value: object) -> str:
    """A caption without markup and with single spaces.

    Raises _BadRecord if it is no text, is empty or too long, or has no word in it.
    """
    # Nearly every English caption leaves here, in a seventh of the time that the rules below take.
    if type(value) is str and value.isascii() and value.isprintable() and 0 < len(value) <= MAX_TEXT:
        if "  " not in value and _PLAIN_TEXT.fullmatch(value):
            return value
    if not isinstance(value, str):
        was = "is missing" if value is None else f"was: {value!r:.80}"
        raise _BadRecord("no_text", f"caption must be text, {was}")
    text = _normalise_text(value)
    plain = without_markup(text)
    if plain != text:  # what stood behind `&nbsp;` or a tag must meet the same rules
        text = _normalise_text(plain)
    if not text:
        raise _BadRecord("no_text", f"caption must not be empty, was: {value[:20]!r}")
    if _INVISIBLE.fullmatch(text):
        raise _BadRecord("no_text", f"caption must have visible characters, was: {value[:20]!a}")
    # Programs write NaN, None or null for an empty cell. `None of the dogs run.` is a caption: only the whole counts.
    if text.lower() in NO_CAPTION or not any(map(str.isalpha, text)):
        raise _BadRecord("no_text", f"caption must have a word, was: {text[:20]!r}")
    if mark := mark_in(text):
        raise _BadRecord("no_text", f"caption must be plain text, has the mark {mark[:80]!r}")
    if len(text) > MAX_TEXT:
        raise _BadRecord("too_long", f"caption must be <= {MAX_TEXT} characters, was: {len(text)}")
    return text


def _normalise_text(value: str) -> str:
    """A text with single spaces, in composed Unicode. Raises _BadRecord for characters that no caption has."""
    spaced = _SPACES.sub(" ", value)
    _check_characters("caption", spaced)
    return unicodedata.normalize("NFC", spaced).strip(" ")


def _name_from_number(value: object) -> str:
    """The name of an image that is no text: the digits of a whole number. Raises _BadRecord for other values."""
    # True is an int for Python. A float may be an id that lost its digits: 1e15 and what else was near it.
    if value is None or isinstance(value, bool) or not isinstance(value, int):
        was = "is missing" if value is None else f"was: {value!r:.80}"
        raise _BadRecord("no_image", f"image must be a name, path or whole number, {was}")
    return str(value)


# An image has several captions, which mostly stand together; splits and languages are few.
@lru_cache(maxsize=1024)
def _clean_image(value: str) -> str:
    """The name of an image without spaces around it. Raises _BadRecord if it cannot be a file's name or an id."""
    if _PLAIN_NAME.fullmatch(value):
        return value
    image = value.strip()
    _check_characters("image", image)
    if len(image) > MAX_IMAGE:
        raise _BadRecord("too_long", f"image must be <= {MAX_IMAGE} characters, was: {len(image)}")
    if image and (fault := image_fault(image)) is not None:
        raise _BadRecord(*fault)
    if image_id(image) in ("", "."):
        raise _BadRecord("no_image", f"image must name a file or an id, was: {image[:200]!r}")
    return image


def _clean_id(value: object) -> str:
    """An id as part of a caption_id: a URL becomes a hash of it (16 hex digits), slashes become `_`."""
    # A URL's own colons and slashes would end the parts of `<source>:<image>:<n>`, and its query may be a secret.
    id = value.strip() if isinstance(value, str) else _name_from_number(value)
    if _PLAIN_NAME.fullmatch(id):
        return id
    _check_characters("image id", id)
    if not id or len(id) > MAX_IMAGE:
        raise _BadRecord("no_image", f"image id must have 1 to {MAX_IMAGE} characters, was: {id[:200]!r}")
    return blake2b(id.encode(), digest_size=8).hexdigest() if "://" in id else re.sub(r"[/\\]", "_", id)


@lru_cache(maxsize=1024)
def _clean_split(value: str) -> str:
    """The name of a split without spaces around it. Raises _BadRecord if it is too long or not printable."""
    split = value.strip()
    if not split.isprintable() or len(split) > 80:
        raise _BadRecord("not_a_record", f"split must be <= 80 printable characters, was: {excerpt(value)[:80]!r}")
    return split


@lru_cache(maxsize=1024)
def _clean_language(value: str | None) -> str:
    """The ISO 639 code of a language in lower case, such as en of `EN-us`. Raises _BadRecord if there is none."""
    code = _LANGUAGE.fullmatch(value.strip()) if value is not None else None
    if code is None:
        was = "is missing" if value is None else f"was: {excerpt(value)[:80]!r}"
        raise _BadRecord("no_language", f"language must be an ISO 639 code such as en, {was}")
    return code[1].lower()


def _check_characters(name: str, value: str) -> None:
    """Raise _BadRecord unless `value` was UTF-8 and has no control characters."""
    if value.isascii() and value.isprintable():
        return
    if bad := _UNDECODED.search(value):
        raise _BadRecord("not_utf8", f"{name} must be UTF-8, has {_escape_surrogate(bad)} at character {bad.start()}")
    lost = value.find("\ufffd")
    if lost >= 0:
        raise _BadRecord("not_utf8", f"{name} must be UTF-8, has U+FFFD, the mark of lost bytes, at character {lost}")
    if bad := _CONTROL.search(value):
        raise _BadRecord("control_characters", f"{name} must have no control characters, has U+{ord(bad.group()):04X}")
