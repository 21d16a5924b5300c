"""Open local paths and fsspec URLs, compressed or not, and read them as lines or bytes.

Every error names the file and says in one line what was expected. Compression is inferred from the name (`.gz .bz2 .xz
.zip`).
"""

from __future__ import annotations

import hashlib
import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from stat import S_ISLNK
from typing import IO, Any

HEAD = 1 << 16
MAX_LINE = 1 << 24  # characters; lines with images in them have some 100,000
_PATTERN = re.compile(r"[*?\[{]")
_BRACES = re.compile(r"\{(?:(?P<first>\d+)\.\.(?P<last>\d+)|(?P<names>[^{},]*(?:,[^{},]*)+))\}")
_SPLIT = re.compile(r"(?:^|[^a-zA-Z])(train|val|dev|test|restval)(?:20\d\d)?(?=$|[^a-zA-Z0-9])")


def filesystem(url: str) -> tuple[Any, str]:
    """The fsspec file system of `url` and the path in it. Raises ValueError when its protocol cannot be used."""
    import fsspec

    try:
        return fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise ValueError(f"{url}: cannot be opened: {_one_line(error)}") from None


def is_folder(url: str) -> bool:
    """Whether `url` is a folder. Raises FileNotFoundError when there is neither a file nor a folder."""
    fs, path = filesystem(url)
    if fs.isdir(path):
        return True
    if not fs.exists(path):
        raise FileNotFoundError(f"{url}: no such file or folder")
    return False


def names(folder: str) -> list[str]:
    """The sorted names of the files, and links to files, directly in a folder."""
    fs, path = filesystem(folder)
    entries = fs.ls(path, detail=True)
    files = (entry["name"] for entry in entries if entry["type"] == "file" or fs.isfile(entry["name"]))
    return sorted(name.rstrip("/").rsplit("/", 1)[-1] for name in files)


def names_below(folder: str) -> list[str]:
    """The sorted names of the files in a folder and in all folders below it, relative to it: `data/train/a.csv`."""
    fs, path = filesystem(folder)
    start = path.rstrip("/") + "/" if path.rstrip("/") else ""
    return sorted(name[name.find(start) + len(start) :].lstrip("/") for name in fs.find(path))


def is_pattern(url: str) -> bool:
    """Whether a path or URL is a pattern of several (see `matching`): it has `*`, `?`, `[` or `{` and is no file."""
    if url.startswith(("http://", "https://")):  # no list of files can be asked for, and `?` begins a query
        return bool(_BRACES.search(url))
    if not _PATTERN.search(url.partition("::")[0]):
        return False
    fs, path = filesystem(url)
    return not fs.exists(path)


def matching(pattern: str) -> list[str]:
    """The files that a pattern means, sorted: `*.parquet`, `**/*.tar`, `{00000..00999}.tar`, `{train,val}.csv`.

    Raises FileNotFoundError when there is none.
    """
    found: list[str] = []
    for url in expand_braces(pattern):
        if _PATTERN.search(url) and not url.startswith(("http://", "https://")):
            fs, path = filesystem(url)
            first, separator, rest = url.partition("::")
            protocol = first.partition("://")[0] + "://" if "://" in first else ""
            inside = (name for name, entry in fs.glob(path, detail=True).items() if entry["type"] != "directory")
            found += sorted(f"{protocol}{name}{separator}{rest}" for name in inside)
        else:
            found.append(url)
    if not found:
        raise FileNotFoundError(f"{pattern}: no such file, and no files match this pattern")
    return found


def expand_braces(pattern: str) -> list[str]:
    """The names that braces stand for, in order: `{09..10}.tar` -> 09.tar, 10.tar; `{a,b}.csv` -> a.csv, b.csv."""
    braces = _BRACES.search(pattern)
    if braces is None:
        return [pattern]
    if braces["first"]:
        width = len(braces["first"])
        inside = [f"{number:0{width}d}" for number in range(int(braces["first"]), int(braces["last"]) + 1)]
    else:
        inside = braces["names"].split(",")
    before, after = pattern[: braces.start()], expand_braces(pattern[braces.end() :])
    return [f"{before}{name}{rest}" for name in inside for rest in after]


def name_in(source: str, url: str) -> str:
    """The name of a file of a source, below what all files of it share: `00/a.csv` of the pattern `x/*/a.csv`."""
    place = source.partition("::")[0]
    cut = _PATTERN.search(place)
    start = place[: cut.start()].rpartition("/")[0] if cut else place.rstrip("/")
    file = url.partition("::")[0]
    at = file.find(f"{start}/") if start else -1
    return file[at + len(start) + 1 :] if at >= 0 else name_of(url)


def join(folder: str, name: str) -> str:
    """The URL of the file `name` in a folder; the folder may be a chained URL (`zip://folder::archive.zip`)."""
    first, separator, rest = folder.partition("::")
    return f"{first if first.endswith('://') else first.rstrip('/') + '/'}{name}{separator}{rest}"


def name_of(url: str) -> str:
    """The last part of a path or URL: `s3://bucket/a/b.json` -> `b.json`, `https://host/b.json?key=1` -> `b.json`."""
    return re.split(r"[/\\]", _without_query(url.partition("::")[0]).rstrip("/\\"))[-1]


def _without_query(url: str) -> str:
    return url.partition("?")[0] if url.startswith(("http://", "https://")) else url


def folder_of(url: str) -> str:
    """The folder of a file, given the file's path or URL; `.` for a bare name."""
    first, separator, rest = url.partition("::")
    first = _without_query(first).rstrip("/\\")
    return (first[: len(first) - len(name_of(url))] or ".") + separator + rest


def split_in(url: str) -> str:
    """The split in a file's name: `captions_val2017.json.gz` -> `val`; empty where the name has none."""
    found = _SPLIT.search(name_of(url))
    return found.group(1) if found else ""


@contextmanager
def reading(url: str, expected: str, *errors: type[BaseException]) -> Iterator[None]:
    """Turn errors of a damaged file, and those of types `errors`, into a ValueError naming file and expectation."""
    damage: tuple[type[BaseException], ...] = (
        EOFError,
        OSError,
        zlib.error,
        lzma.LZMAError,
        zipfile.BadZipFile,
        *errors,
    )
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(f"{url}: no such file, expected {expected}") from None
    except damage as error:
        raise ValueError(f"{url}: must be {expected}, cannot be read: {_one_line(error)}") from None


@contextmanager
def open_bytes(url: str) -> Iterator[IO[bytes]]:
    """Open a file and give its decompressed bytes. Links on a disk are followed; links out of an archive are not.

    Raises ValueError for a file that cannot be opened, or for a link that is not followed, with its target.
    """
    from fsspec.compression import compr
    from fsspec.utils import infer_compression

    fs, path = filesystem(url)
    if link := _link_in_zip(fs, path):
        raise ValueError(f"{url}: is a link to {link}, and links inside a zip archive are not followed")
    try:
        stored = fs.open(path, "rb")
    except OSError:
        raise
    except KeyError as error:  # of tar archives
        raise ValueError(f"{url}: is a link that leads out of its archive: {error.args[0]}") from None
    except Exception as error:  # each file system has errors of its own
        raise ValueError(f"{url}: cannot be opened: {_one_line(error)}") from None
    compression = infer_compression(path)
    with stored:
        if compression == "zip":
            _check_zip(stored, url)
        with compr[compression](stored, mode="rb") as file:
            yield file


def _check_zip(stored: IO[bytes], url: str) -> None:
    """Raise ValueError if a zip archive that is read as one file holds more or fewer files than one."""
    members = [member.filename for member in zipfile.ZipFile(stored).infolist() if not member.is_dir()]
    if len(members) != 1:
        inside = ", ".join(members[:3]) + (", …" if len(members) > 3 else "")
        hint = f"; zip://NAME::{url} reads one of them, zip://::{url} a folder of tables" if members else ""
        raise ValueError(f"{url}: must hold one file, holds {len(members)}{': ' + inside if inside else ''}{hint}")
    stored.seek(0)


def _link_in_zip(fs: Any, path: str) -> str:
    """The target of a member of a zip archive that is a symbolic link; empty for any other file."""
    if getattr(fs, "protocol", "") != "zip":
        return ""
    member = fs.zip.NameToInfo.get(path)
    return fs.cat_file(path).decode("utf-8", "replace") if member and S_ISLNK(member.external_attr >> 16) else ""


def head(url: str) -> bytes:
    """The first 64 KiB of a file, decompressed."""
    with reading(url, "a caption file"), open_bytes(url) as file:
        return file.read(HEAD)


@contextmanager
def open_text(url: str) -> Iterator[io.TextIOWrapper]:
    """Open a file as UTF-8 text; bytes that are not UTF-8 become lone surrogates, and only `\\n` ends a line."""
    with (
        open_bytes(url) as file,
        io.TextIOWrapper(file, encoding="utf-8", errors="surrogateescape", newline="\n") as text,
    ):
        yield text


class LongLine(str):
    """The beginning of a line that is longer than MAX_LINE characters, and an ellipsis; the rest was not kept."""

    RULE = f"a record must have <= {MAX_LINE:,} characters, has more"


def raw_lines(file: io.TextIOWrapper) -> Iterator[str]:
    """The lines of an open text file with their ends; those that are too long as LongLine."""
    while line := file.readline(MAX_LINE + 1):
        if len(line) > MAX_LINE and line[-1] != "\n":
            while (rest := file.readline(MAX_LINE)) and rest[-1] != "\n":
                pass
            line = LongLine(f"{line[:HEAD]} …")
        yield line


def lines(url: str, expected: str) -> Iterator[str]:
    """The lines of a text file, without line ends and byte order mark; those that are too long as LongLine.

    `expected`: what errors say it must be.
    """
    with reading(url, expected), open_text(url) as file:
        found = raw_lines(file)
        for line in islice(found, 1):
            yield _without_end(line.removeprefix("\ufeff"))
        yield from map(_without_end, found)


def _without_end(line: str) -> str:
    return line if type(line) is LongLine else line.rstrip("\r\n")


def content(url: str) -> dict[str, Any]:
    """What identifies a file: its name without folder (`file`), `bytes` and `sha256`, as stored (compressed)."""
    digest, size = hashlib.sha256(), 0
    fs, path = filesystem(url)
    with reading(url, "a readable file"), fs.open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
            size += len(chunk)
    return {"file": name_of(url), "bytes": size, "sha256": digest.hexdigest()}


def _one_line(error: BaseException) -> str:
    """The first line of an error's message, str or (as ijson has it) bytes."""
    message = error.args[0] if error.args and isinstance(error.args[0], bytes) else str(error).encode()
    first = message.decode("utf-8", "backslashreplace").strip().split("\n")[0].rstrip(".")
    return first or type(error).__name__
