"""WebDataset tars, as img2dataset and others write them: members `key.jpg`, `key.txt`, `key.json` make a sample. The
caption is that text, or the field of the JSON that is named or has a usual name. Pictures are skipped.
"""

from __future__ import annotations

import hashlib
import re
import tarfile
from collections.abc import Iterator
from itertools import chain, groupby
from typing import Any

from .files import filesystem, name_in, name_of, open_bytes, split_in
from .paths import value_at
from .record import ReadOptions, Record, Rejected, is_image_name
from .table import captions_of, choose, parse_json
from .truth import only_true

FILES = re.compile(r".+\.tar(?:\.(?:gz|bz2|xz))?", re.IGNORECASE)
TEXTS = ("txt", "text", "caption")
MAX_BYTES = 1 << 20  # of a text or JSON member


def records(source: str, url: str, options: ReadOptions) -> Iterator[Record | Rejected]:
    """The captions of a tar archive (of the folder or pattern `source`), one record each; `line`: of the sample, from
    1. Raises ValueError when it is broken or has no captions.
    """
    yield from only_true(chain.from_iterable(map(captions_of, _samples(source, url, options))), options, url)


def _samples(source: str, url: str, options: ReadOptions) -> Iterator[Record | Rejected]:
    """A record for each sample of a tar archive, maybe with a list of captions as its text."""
    name, file_split = name_in(source, url), split_in(url)
    asked = options.changed(image_column="image", id_column="", keep_columns=())
    chosen = None
    for line, (key, members) in enumerate(groupby(_members(url), _key), 1):
        fields: dict[str, Any] = {}
        image, wrong = "", ""
        for member, content in members:
            if content is None:
                image = image or (member if is_image_name(member) else "")
            elif isinstance(content, str):
                wrong = content
            elif _suffix(member) in TEXTS:
                fields = {"caption": content.decode("utf-8", "surrogateescape"), **fields}
            elif isinstance(value := parse_json(content.decode("utf-8", "surrogateescape")), dict):
                fields = {**value, **fields}
            else:
                wrong = f"{name_of(member)} must be one JSON object"
        if wrong:
            yield Rejected(name, line, "not_a_record", wrong, "")
            continue
        fields |= {"image": image, "key": key}
        if chosen is None and len(fields) > 2:
            chosen = choose([*fields], asked, url)
        text = value_at(fields, chosen.captions[0]) if chosen else None
        split = fields.get(chosen.split, "") if chosen and chosen.split else file_split
        language = fields.get(chosen.language) if chosen and chosen.language else options.language
        kept = tuple(map(fields.get, options.keep_columns))
        truth = {name: fields.get(name) for name in chosen.truth} if chosen and chosen.truth else None
        yield Record(name, line, image or key, text, split, language, None, key, kept, truth)


def content(url: str) -> dict[str, Any]:
    """What identifies an archive's captions: its name (`file`), `bytes`, and a hash of its members' names and texts."""
    digest = hashlib.sha256()
    for member, read in _members(url):
        digest.update(repr((member, read)).encode())
    fs, path = filesystem(url)
    return {"file": name_of(url), "bytes": fs.size(path), "sha256 of its texts": digest.hexdigest()}


def _key(member: tuple[str, object]) -> str:
    """The key of the sample that a member, a name and its content, belongs to: `x/1` of `x/1.seg.png`."""
    folder, slash, name = member[0].rpartition("/")
    return folder + slash + name.partition(".")[0]


def _suffix(member: str) -> str:
    return member.rpartition("/")[2].partition(".")[2].lower()


def _members(url: str) -> Iterator[tuple[str, bytes | str | None]]:
    """Name and content of each file in an archive; None for what is neither text nor JSON; str: why it is not read."""
    with (
        open_bytes(url, "a complete tar archive of samples", tarfile.TarError) as file,
        tarfile.open(fileobj=file, mode="r:") as tar,
    ):
        for member in tar:
            tar.members = []  # type: ignore[attr-defined]  # it would keep them all
            if not member.isfile():
                continue
            if _suffix(member.name) not in (*TEXTS, "json"):
                yield member.name, None
            elif member.size > MAX_BYTES:
                yield member.name, f"{member.name} must have <= {MAX_BYTES:,} bytes, has {member.size:,}"
            else:
                content = tar.extractfile(member)
                yield member.name, content.read() if content else b""
        if file.tell() != tar.offset + tarfile.BLOCKSIZE:  # no block of zeros ends it
            raise tarfile.ReadError("cut short")
