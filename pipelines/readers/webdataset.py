"""WebDataset tars, as img2dataset and others write them: members `key.jpg`, `key.txt`, `key.json` make a sample.

The caption is the text of `key.txt` or a field of `key.json`: the one that the options name, or one with a usual name.
An image is identified by its key. Pictures are not read, only skipped.
"""

from __future__ import annotations

import hashlib
import re
import tarfile
from collections.abc import Iterator
from typing import Any

from . import columns
from .files import filesystem, name_in, name_of, open_bytes, reading, split_in
from .record import ReadOptions, Record, Rejected, is_image_name
from .table import captions_of, parse_json

FILES = re.compile(r".+\.tar(?:\.(?:gz|bz2|xz))?", re.IGNORECASE)
TEXTS = ("txt", "text", "caption")
MAX_BYTES = 1 << 20  # of a text or JSON member


def records(source: str, url: str, options: ReadOptions) -> Iterator[Record | Rejected]:
    """The captions of one tar archive, one record each; `line` is the number of the sample in the archive, from 1.

    source: the folder or pattern that the archive `url` belongs to, for the names of records. Raises ValueError when it
    is broken or has no captions.
    """
    name, split = name_in(source, url), split_in(url)
    asked = options.changed(image_column="image", id_column="", keep_columns=())
    chosen = None
    for line, (key, image, fields) in enumerate(_samples(url), 1):
        if isinstance(fields, str):
            yield Rejected(name, line, "not_a_record", fields, "")
            continue
        if chosen is None and len(fields) > 2:
            chosen = columns.choose([*fields], asked, url)
        text = fields.get(chosen.caption) if chosen else None
        its_split = fields.get(chosen.split, "") if chosen and chosen.split else split
        language = fields.get(chosen.language) if chosen and chosen.language else options.language
        kept = tuple(fields.get(column) for column in options.keep_columns)
        yield from captions_of(Record(name, line, image or key, text, its_split, language, None, key, kept))


def content(url: str) -> dict[str, Any]:
    """What identifies the captions of an archive: its name (`file`), its size in `bytes`, and `sha256`, a hash of the
    names of its members and of the texts read.
    """
    digest = hashlib.sha256()
    for member, read in _members(url):
        digest.update(repr((member, read)).encode())
    fs, path = filesystem(url)
    return {"file": name_of(url), "bytes": fs.size(path), "sha256 of its texts": digest.hexdigest()}


def _samples(url: str) -> Iterator[tuple[str, str, dict[str, Any] | str]]:
    """Key, image ("" if there is none) and fields of each sample; instead of the fields, what is wrong with them."""
    key, image, wrong = "", "", ""
    fields: dict[str, Any] = {}
    for member, content in _members(url):
        folder, _, name = member.rpartition("/")
        stem, _, suffix = name.partition(".")
        found = f"{folder}/{stem}" if folder else stem
        if found != key:
            if key:
                yield key, image, wrong or {**fields, "image": image, "key": key}
            key, image, fields, wrong = found, "", {}, ""
        if content is None:
            image = image or (member if is_image_name(member) else "")
        elif isinstance(content, str):
            wrong = content
        elif suffix.lower() in TEXTS:
            fields = {"caption": content.decode("utf-8", "surrogateescape"), **fields}
        elif isinstance(value := parse_json(content.decode("utf-8", "surrogateescape")), dict):
            fields = {**value, **fields}
        else:
            wrong = f"{name} must be one JSON object"
    if key:
        yield key, image, wrong or {**fields, "image": image, "key": key}


def _members(url: str) -> Iterator[tuple[str, bytes | str | None]]:
    """Name and content of each file in an archive; None for what is neither text nor JSON; str: why it is not read."""
    with (
        reading(url, "a complete tar archive of samples", tarfile.TarError),
        open_bytes(url) as file,
        tarfile.open(fileobj=file, mode="r:") as tar,
    ):
        for member in tar:
            tar.members = []  # type: ignore[attr-defined]  # it would keep them all
            suffix = member.name.rpartition("/")[2].partition(".")[2].lower()
            if not member.isfile():
                continue
            if suffix not in (*TEXTS, "json"):
                yield member.name, None
            elif member.size > MAX_BYTES:
                yield member.name, f"{member.name} must have <= {MAX_BYTES:,} bytes, has {member.size:,}"
            else:
                content = tar.extractfile(member)
                yield member.name, content.read() if content else b""
        if file.tell() != tar.offset + tarfile.BLOCKSIZE:  # no block of zeros ends it
            raise tarfile.ReadError("cut short")
