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
from typing import NamedTuple

from .cells import captions_in, captions_in_lines
from .files import filesystem, name_in, name_of, open_bytes, split_in
from .paths import names_in, value_at
from .record import Cell, ReadOptions, Record, Rejected, is_image_name
from .table import Columns, captions_of, choose, parse_json
from .truth import only_true

FILES = re.compile(r".+\.tar(?:\.(?:gz|bz2|xz))?", re.IGNORECASE)
TEXTS = ("txt", "text", "caption")
# The most that a text or JSON in an archive may have; all those of an archive are in memory at once.
MAX_BYTES = 1 << 20


class ArchiveFile(NamedTuple):
    """A file in an archive. content: of text and JSON; None: of others; str: why it is not read."""

    name: str
    content: bytes | str | None

    @property
    def is_read(self) -> bool:
        """Whether it is a text or JSON."""
        return self.content is not None


def records(source: str, url: str, options: ReadOptions) -> Iterator[Record | Rejected]:
    """The captions of a tar archive (of the folder or pattern `source`), one record each.

    The `line` of a record is the number of its sample, from 1. Raises ValueError when the archive is broken or has no
    captions.
    """
    yield from only_true(chain.from_iterable(map(captions_of, _records_of_samples(source, url, options))), options, url)


def _records_of_samples(source: str, url: str, options: ReadOptions) -> Iterator[Record | Rejected]:
    """A record for each sample of a tar archive, maybe with a list of captions as its text.

    The texts of an archive are in memory at once, since the members of a sample may stand apart.

    Args:
        source: the folder or pattern that the archive is of.
        url: the archive.
        options: with the columns that the user has named.
    """
    name = name_in(source, url)
    splits_in_path = (split_in(part) for part in reversed(name.split("/")))  # `00012.tar` may be in `train`
    file_split = next(filter(None, splits_in_path), "")
    # The image is known by its suffix, the id by the name: neither is a field of the sample. Kept columns are read at
    # the end, since `choose` would refuse a sample whose JSON lacks one.
    options_for_fields = options.changed(image_column="image", id_column="", keep_columns=())
    by_key: dict[str, list[ArchiveFile]] = {}
    for file in _files_in_archive(url):
        by_key.setdefault(_key_of_sample(file.name), []).append(file)
    if not any(_has_image_and_text(sample) for sample in by_key.values()):  # images/1.jpg and texts/1.txt
        by_key = _join_across_folders(by_key)
    chosen: Columns | None = None  # by the first sample that has fields
    # Files with one key may be several samples: `a.05.jpg`, `a.05.txt`, `a.06.jpg` and `a.06.txt` have the key `a`.
    samples = chain.from_iterable(starmap(_separate_samples, by_key.items()))
    for line, (key, sample) in enumerate(samples, 1):
        try:
            fields = _fields_of_sample(sample)
        except _UnreadableError as error:
            yield Rejected(name, line, "not_a_record", str(error), "")
            continue
        image = next((file.name for file in sample if is_image_name(file.name)), "")
        has_fields = bool(fields.keys() - {"image", "key"})
        fields |= {"image": image, "key": key}
        if chosen is None and has_fields:
            chosen = choose([*names_in(fields)], options_for_fields, url)
        if chosen is None:
            suffixes = ", ".join(dict.fromkeys(_suffix_of(file.name) for file in sample))
            detail = f"a sample must have a text ({', '.join(TEXTS)}) or JSON, has only: {suffixes}"
            yield Rejected(name, line, "no_text", detail, "")
            continue
        yield Record(
            source=name,
            line=line,
            image=image or key,
            text=_captions_of_sample(fields, chosen),
            split=fields.get(chosen.split, "") if chosen.split else file_split,
            language=fields.get(chosen.language) if chosen.language else options.language,
            number=None,  # the captions of a sample have no numbers of their own
            id=key,
            kept=tuple(fields.get(column) for column in options.keep_columns),
            truth={column: fields.get(column) for column in chosen.truth} if chosen.truth else None,
        )


def _captions_of_sample(fields: Mapping[str, Cell], chosen: Columns) -> Cell:
    """The caption of a sample, or a list of the captions in several columns."""
    cells = [value_at(fields, column) for column in chosen.captions]
    if len(cells) == 1:
        return cells[0]
    return [caption for cell in cells if cell for caption in captions_in(cell)]


def _has_image_and_text(sample: Sequence[ArchiveFile]) -> bool:
    """Whether a sample has an image, and a text or JSON."""
    return any(is_image_name(file.name) for file in sample) and any(file.is_read for file in sample)


def _join_across_folders(by_key: Mapping[str, list[ArchiveFile]]) -> dict[str, list[ArchiveFile]]:
    """Samples joined by their keys without folders, so that `images/1.jpg` and `texts/1.txt` are one sample.

    They stay apart, as they are in `by_key`, unless every joined sample then has both an image and a text.
    """
    joined: dict[str, list[ArchiveFile]] = {}
    for key, sample in by_key.items():
        joined.setdefault(name_of(key), []).extend(sample)
    return joined if all(map(_has_image_and_text, joined.values())) else dict(by_key)


def _separate_samples(key: str, files: Sequence[ArchiveFile]) -> Iterator[tuple[str, Sequence[ArchiveFile]]]:
    """Tell apart the samples among the files with one key, the name up to the first dot; yields key and files of each.

    There are several if the names have more dots: `a.05.jpg`, `a.05.txt`, `a.06.jpg` and `a.06.txt` have the key `a`.
    Then an image and a text with the same name up to the last dot are a sample.
    """
    by_stem: dict[str, list[ArchiveFile]] = {}
    for file in files:
        by_stem.setdefault(_stem_of(file.name), []).append(file)
    paired = [stem for stem, sample in by_stem.items() if _has_image_and_text(sample)]
    if len(paired) < 2:
        # One sample. What is named as its image and its text comes first, as the first image is the sample's:
        # `1.jpg`, `1.txt` before `1.seg.png`.
        yield key, sorted(files, key=lambda file: _stem_of(file.name) not in paired)
        return
    for stem in paired:
        yield stem, by_stem[stem]


class _UnreadableError(ValueError):
    """A sample has a file that cannot be read; the message says which, and the rule."""


def _fields_of_sample(sample: Sequence[ArchiveFile]) -> dict[str, Cell]:
    """The fields of a sample: those of its JSON, and its texts by suffix, of which `caption` is the usual one."""
    fields: dict[str, Cell] = {}
    texts: dict[str, str] = {}
    for file in sample:
        if isinstance(file.content, str):
            raise _UnreadableError(file.content)
        if file.content is None:
            continue
        text = file.content.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
        suffix = _suffix_of(file.name)
        if not suffix.endswith("json"):
            texts[suffix] = text
            continue
        value = parse_json(text)
        if not isinstance(value, dict):
            raise _UnreadableError(f"{name_of(file.name)} must be one JSON object")
        fields |= value
    usual = next((suffix for suffix in TEXTS if suffix in texts), None)
    if usual is None and len(texts) == 1:
        (usual,) = texts
    caption_in_json = fields.get("caption")
    for suffix, text in texts.items():
        # img2dataset writes the caption twice, in the JSON and as a text: then it is one, whatever lines it has.
        is_written_twice = isinstance(caption_in_json, str) and caption_in_json.strip() == text.strip()
        value = text if is_written_twice else captions_in_lines(text) or text
        fields["caption" if suffix == usual else suffix] = value
    return fields


def content(url: str) -> dict[str, str | int]:
    """What identifies an archive's captions: its name (`file`), `bytes`, and a hash of its files' names and texts."""
    digest = hashlib.sha256()
    for member in _files_in_archive(url):
        digest.update(repr((member.name, member.content)).encode())
    fs, path = filesystem(url)
    return {"file": name_of(url), "bytes": fs.size(path), "sha256 of its texts": digest.hexdigest()}


def _key_of_sample(name: str) -> str:
    """The key of the sample that a file belongs to, by its name: `x/1` of `x/1.seg.png`."""
    folder, slash, bare = name.rpartition("/")
    return folder + slash + bare.partition(".")[0]


def _stem_of(name: str) -> str:
    """A file's name up to the last dot: `x/1.seg` of `x/1.seg.png`."""
    return name.rpartition(".")[0]


def _suffix_of(name: str) -> str:
    """What follows the first dot: `seg.png` of `x/1.seg.png`."""
    return name.rpartition("/")[2].partition(".")[2].lower()


def _files_in_archive(url: str) -> Iterator[ArchiveFile]:
    """The files in an archive, in order."""
    with (
        open_bytes(url, "a complete tar archive of samples", tarfile.TarError) as file,
        tarfile.open(fileobj=file, mode="r:") as tar,
    ):
        for member in tar:
            # tarfile keeps what it has read of every member, which grows with the archive.
            tar.members = []  # type: ignore[attr-defined]
            if not member.isfile():
                continue
            if _suffix_of(member.name).rpartition(".")[2] not in (*TEXTS, "json"):
                yield ArchiveFile(member.name, None)
            elif member.size > MAX_BYTES:
                yield ArchiveFile(member.name, f"{member.name} must have <= {MAX_BYTES:,} bytes, has {member.size:,}")
            else:
                content = tar.extractfile(member)
                yield ArchiveFile(member.name, content.read() if content else b"")
        # tarfile takes the end of a file for the end of an archive, which is a block of zeros: a file that was cut
        # between two members would be read as whole.
        if file.tell() != tar.offset + tarfile.BLOCKSIZE:
            raise tarfile.ReadError("cut short")
