"""WebDataset tars, as img2dataset and others write them: members `key.jpg`, `key.txt`, `key.json` make a sample. The
caption is that text (of several lines, each is a caption), or the field of the JSON that is named or has a usual name.
Pictures are skipped.
"""

from __future__ import annotations

import hashlib
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, starmap
from typing import Any, NamedTuple

from .cells import captions_in, captions_in_lines
from .files import filesystem, name_in, name_of, open_bytes, split_in
from .paths import names_in, value_at
from .record import ReadOptions, Record, Rejected, is_image_name
from .table import captions_of, choose, parse_json
from .truth import only_true

FILES = re.compile(r".+\.tar(?:\.(?:gz|bz2|xz))?", re.IGNORECASE)
TEXTS = ("txt", "text", "caption")
MAX_BYTES = 1 << 20  # of a text or JSON member


class Member(NamedTuple):
    """A file in an archive. content: of text and JSON; None: of others; str: why it is not read."""

    name: str
    content: bytes | str | None

    @property
    def is_read(self) -> bool:
        """Whether it is a text or JSON."""
        return self.content is not None


def records(source: str, url: str, options: ReadOptions) -> Iterator[Record | Rejected]:
    """The captions of a tar archive (of the folder or pattern `source`), one record each; `line`: of the sample, from
    1. Raises ValueError when it is broken or has no captions.
    """
    yield from only_true(chain.from_iterable(map(captions_of, _samples(source, url, options))), options, url)


def _samples(source: str, url: str, options: ReadOptions) -> Iterator[Record | Rejected]:
    """A record for each sample of a tar archive, maybe with a list of captions as its text.

    The texts of an archive are in memory at once, since the members of a sample may stand apart.
    """
    name = name_in(source, url)
    file_split = next(filter(None, map(split_in, reversed(name.split("/")))), "")
    asked = options.changed(image_column="image", id_column="", keep_columns=())
    by_key: dict[str, list[Member]] = {}
    for member in _members(url):
        by_key.setdefault(_key(member.name), []).append(member)
    if not any(_has_both(members) for members in by_key.values()):  # images/1.jpg and texts/1.txt
        by_key = _without_folders(by_key)
    chosen = None
    samples = chain.from_iterable(starmap(_split_up, by_key.items()))
    for line, (key, members) in enumerate(samples, 1):
        fields, wrong = _fields(members)
        if wrong:
            yield Rejected(name, line, "not_a_record", wrong, "")
            continue
        image = next((member.name for member in members if is_image_name(member.name)), "")
        fields |= {"image": image, "key": key}
        if chosen is None and len(fields) > 2:
            chosen = choose([*names_in(fields)], asked, url)
        texts = [value_at(fields, column) for column in chosen.captions] if chosen else [None]
        if chosen is None:
            suffixes = ", ".join(dict.fromkeys(_suffix(member.name) for member in members))
            detail = f"a sample must have a text ({', '.join(TEXTS)}) or JSON, has only: {suffixes}"
            yield Rejected(name, line, "no_text", detail, "")
            continue
        text = texts[0] if len(texts) == 1 else [caption for cell in texts if cell for caption in captions_in(cell)]
        split = fields.get(chosen.split, "") if chosen and chosen.split else file_split
        language = fields.get(chosen.language) if chosen and chosen.language else options.language
        kept = tuple(map(fields.get, options.keep_columns))
        truth = {name: fields.get(name) for name in chosen.truth} if chosen and chosen.truth else None
        yield Record(name, line, image or key, text, split, language, None, key, kept, truth)


def _has_both(members: Sequence[Member]) -> bool:
    """Whether a sample has an image, and a text or JSON."""
    return any(is_image_name(member.name) for member in members) and any(member.is_read for member in members)


def _without_folders(by_key: Mapping[str, list[Member]]) -> dict[str, list[Member]]:
    """The samples by their keys without folders; as they are, unless that brings images and texts together."""
    joined: dict[str, list[Member]] = {}
    for key, members in by_key.items():
        joined.setdefault(name_of(key), []).extend(members)
    return joined if all(map(_has_both, joined.values())) else dict(by_key)


def _split_up(key: str, members: Sequence[Member]) -> Iterator[tuple[str, Sequence[Member]]]:
    """The samples among members with a key: several, if their names have dots before the last one, as `a.05.jpg`,
    `a.05.txt`, `a.06.jpg`, `a.06.txt` have: an image and a text with the same name up to the last dot are a sample.
    """
    by_stem: dict[str, list[Member]] = {}
    for member in members:
        by_stem.setdefault(member.name.rpartition(".")[0], []).append(member)
    paired = [stem for stem, of_stem in by_stem.items() if _has_both(of_stem)]
    if len(paired) < 2:
        yield key, sorted(members, key=lambda member: member.name.rpartition(".")[0] not in paired)
        return
    for stem in paired:
        yield stem, by_stem[stem]


def _fields(members: Sequence[Member]) -> tuple[dict[str, Any], str]:
    """The fields of a sample: those of its JSON, and its texts by suffix, of which `caption` is the usual one; or what
    is wrong with a member.
    """
    fields: dict[str, Any] = {}
    texts: dict[str, str] = {}
    for member in members:
        if isinstance(member.content, str):
            return {}, member.content
        if member.content is None:
            continue
        text = member.content.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
        suffix = _suffix(member.name)
        if suffix.endswith("json"):
            if not isinstance(value := parse_json(text), dict):
                return {}, f"{name_of(member.name)} must be one JSON object"
            fields |= value
        else:
            texts[suffix] = text
    usual = [suffix for suffix in TEXTS if suffix in texts] or (list(texts) if len(texts) == 1 else [])
    about = fields.get("caption")
    for suffix, text in texts.items():
        is_whole = isinstance(about, str) and about.strip() == text.strip()  # img2dataset writes the caption twice
        fields["caption" if suffix in usual[:1] else suffix] = text if is_whole else captions_in_lines(text) or text
    return fields, ""


def content(url: str) -> dict[str, Any]:
    """What identifies an archive's captions: its name (`file`), `bytes`, and a hash of its members' names and texts."""
    digest = hashlib.sha256()
    for member in _members(url):
        digest.update(repr((member.name, member.content)).encode())
    fs, path = filesystem(url)
    return {"file": name_of(url), "bytes": fs.size(path), "sha256 of its texts": digest.hexdigest()}


def _key(member: str) -> str:
    """The key of the sample that a member belongs to, by its name: `x/1` of `x/1.seg.png`."""
    folder, slash, name = member.rpartition("/")
    return folder + slash + name.partition(".")[0]


def _suffix(member: str) -> str:
    return member.rpartition("/")[2].partition(".")[2].lower()


def _members(url: str) -> Iterator[Member]:
    """The files in an archive, in order."""
    with (
        open_bytes(url, "a complete tar archive of samples", tarfile.TarError) as file,
        tarfile.open(fileobj=file, mode="r:") as tar,
    ):
        for member in tar:
            tar.members = []  # type: ignore[attr-defined]  # it would keep them all
            if not member.isfile():
                continue
            if _suffix(member.name).rpartition(".")[2] not in (*TEXTS, "json"):
                yield Member(member.name, None)
            elif member.size > MAX_BYTES:
                yield Member(member.name, f"{member.name} must have <= {MAX_BYTES:,} bytes, has {member.size:,}")
            else:
                content = tar.extractfile(member)
                yield Member(member.name, content.read() if content else b"")
        if file.tell() != tar.offset + tarfile.BLOCKSIZE:  # no block of zeros ends it
            raise tarfile.ReadError("cut short")
