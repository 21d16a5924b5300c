"""Open local paths and fsspec URLs, compressed or not (`.gz .bz2 .xz .zip`), and read lines, bytes or JSON. Errors name
the file and what was expected, never the user names, passwords and signatures that a URL may hold.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import fsspec
import ijson
from fsspec.compression import compr
from fsspec.utils import infer_compression

from ...schemas.messages import missing_protocol

HEAD = 1 << 16
BUFFER = 1 << 18  # characters of JSON that are parsed at a time
MAX_STRING = 1 << 24  # characters of a string in JSON: the parser begins a longer one anew with every buffer
UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # byte order marks
_WEB = ("http://", "https://")
_PATTERN = re.compile(r"[*?\[{]")
_BRACES = re.compile(r"\{(?:(?P<first>\d+)\.\.(?P<last>\d+)|(?P<names>[^{},]*(?:,[^{},]*)+))\}")
_SPLIT = re.compile(r"(?:^|[^a-zA-Z])(train|val|dev|test|restval)(?:20\d\d)?(?=$|[^a-zA-Z0-9])")
_USER = re.compile(r"(?<=://)[^/\s@]+@")
_QUERY = re.compile(r"(?<=[^\s:?])\?[^\s:'\"]*=[^\s:'\"]*")
_STRING = r'"(?:[^"\\]+|\\.)*(?:"|\Z)'
_NO_NUMBER = re.compile(rf"{_STRING}|(?P<value>-?(?:NaN|Infinity))", re.DOTALL)
_WORD_BEGUN = re.compile(r"[A-Za-z-]{1,9}\Z")  # maybe the beginning of -Infinity
_NUMBER = "0123456789+-.eE"
_DAMAGE = (EOFError, OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)
_FOUND = (FileNotFoundError, ValueError, MemoryError, RecursionError, AssertionError)  # they name file and rule


def without_credentials(text: str) -> str:
    """A URL, or a message with URLs, without user names and passwords (`//user:password@`) and queries (`?token=…`)."""
    return _QUERY.sub("", _USER.sub("", text)) if "://" in text else text


@contextmanager
def naming(source: str) -> Iterator[None]:
    """Turn any error of a file system, or a library below, into a ValueError or FileNotFoundError of one line."""
    try:
        yield
    except _FOUND as error:
        shown = without_credentials(str(error))
        if isinstance(error, FileNotFoundError) and " " not in shown:  # of fsspec, which says no more than the URL
            shown = f"{without_credentials(source)}: no such file or folder, or not readable: {shown}"
        if shown == str(error):
            raise
        raise (FileNotFoundError if isinstance(error, FileNotFoundError) else ValueError)(shown) from None
    except Exception as error:
        if type(error).__module__ == "builtins" and not isinstance(error, (OSError, RuntimeError)):
            raise  # a fault of ours
        cause = " ".join(str(error).split())[:300] or type(error).__name__
        named = cause if isinstance(error, OSError) else f"{type(error).__name__}: {cause}"
        raise ValueError(without_credentials(f"{source}: cannot be read: {named}")) from error


def filesystem(url: str) -> tuple[Any, str]:
    """The fsspec file system of `url` and the path in it. Raises ValueError when its protocol cannot be used, or if it
    is a pipe, which could not be read twice, nor at all while nobody writes.
    """
    place = url.rpartition("::")[2].removeprefix("file://").removeprefix("local://")
    if "://" not in place and _is_pipe(place):
        raise ValueError(f"{url}: is a pipe, must be a file: write it to one first (cat PIPE > captions.jsonl)")
    try:
        fs, path = fsspec.core.url_to_fs(url)
        if fs.protocol == "data":
            raise ValueError("its protocol is data, which has no files")
        return fs, path
    except ImportError as error:
        raise ValueError(f"{url}: {missing_protocol(url.rpartition('::')[2].partition(':')[0], error)}") from None
    except (TypeError, ValueError) as error:  # TypeError: for want of settings that no URL has
        raise ValueError(f"{url}: cannot be opened: {first_line(error)}") from None


def _is_pipe(path: str) -> bool:
    """Whether a path is a pipe (`mkfifo`, `<(…)`, /dev/stdin behind `|`), a socket or a terminal."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):  # also of patterns
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or (stat.S_ISCHR(mode) and _is_terminal(path))


def _is_terminal(path: str) -> bool:
    try:
        device = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.isatty(device)
    finally:
        os.close(device)


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
    """The sorted names of the files in a folder and in all folders below it, relative to it: `data/train/a.csv`; none
    that are hidden.
    """
    fs, path = filesystem(folder)
    start = path.rstrip("/") + "/" if path.rstrip("/") else ""
    below = sorted(name[name.find(start) + len(start) :].lstrip("/") for name in fs.find(path))
    return [name for name in below if not any(part[:1] == "." or part == "__MACOSX" for part in name.split("/"))]


def is_pattern(url: str) -> bool:
    """Whether a path or URL is a pattern of several (see `matching`): it has `*`, `?`, `[` or `{` and is no file."""
    if url.startswith(_WEB):  # no list of files can be asked for, and `?` begins a query
        return bool(_BRACES.search(url))
    if not _PATTERN.search(url.partition("::")[0]):
        return False
    fs, path = filesystem(url)
    return not fs.exists(path)


def matching(pattern: str) -> list[str]:
    """The files of a pattern, sorted: `**/*.tar`, `{00000..00999}.tar`, `{train,val}.csv`. FileNotFoundError: none."""
    found: list[str] = []
    for url in expand_braces(pattern):
        if _PATTERN.search(url) and not url.startswith(_WEB):
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


def files_named(named: re.Pattern[str], source: str) -> list[str]:
    """The files that a pattern matches, or those of a folder (without any, of those below it) with such names, or the
    source itself, which is a file.
    """
    if is_pattern(source):
        return matching(source)
    if not is_folder(source):
        return [source]
    for listed in (names, names_below):
        # img2dataset writes its statistics beside its tables
        found = [name for name in listed(source) if named.fullmatch(name) and not name.endswith("_stats.json")]
        if found:
            return [join(source, name) for name in found]
    return []


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
    before = pattern[: braces.start()]
    after = expand_braces(pattern[braces.end() :])
    return [f"{before}{name}{rest}" for name in inside for rest in after]


def name_in(source: str, url: str) -> str:
    """The name of a file of a source, below what all files of it share: `00/a.csv` of the pattern `x/*/a.csv`."""
    place = source.partition("::")[0]
    cut = _PATTERN.search(place)
    start = place[: cut.start()].rpartition("/")[0] if cut else place.rstrip("/")
    _, shared, below = url.partition("::")[0].partition(f"{start}/") if start else ("", "", "")
    return below if shared else name_of(url)


def join(folder: str, name: str) -> str:
    """The URL of the file `name` in a folder; the folder may be a chained URL (`zip://folder::archive.zip`)."""
    first, separator, rest = folder.partition("::")
    return f"{first if first.endswith('://') else first.rstrip('/') + '/'}{name}{separator}{rest}"


def name_of(url: str) -> str:
    """The last part of a path or URL: `s3://bucket/a/b.json` -> `b.json`, `https://host/b.json?key=1` -> `b.json`."""
    return re.split(r"[/\\]", _without_query(url))[-1]


def folder_of(url: str) -> str:
    """The folder of a file, given the file's path or URL; `.` for a bare name."""
    _, separator, rest = url.partition("::")
    return (_without_query(url)[: -len(name_of(url)) or None] or ".") + separator + rest


def _without_query(url: str) -> str:
    """A path or URL without what it is chained to, the query of a web address, and slashes at its end."""
    first = url.partition("::")[0]
    return (first.partition("?")[0] if first.startswith(_WEB) else first).rstrip("/\\")


def split_in(url: str) -> str:
    """The split in a file's name: `captions_val2017.json.gz` -> `val`; empty where the name has none."""
    split = _SPLIT.search(name_of(url))
    return split[1] if split else ""


@contextmanager
def open_bytes(url: str, expected: str, *errors: type[BaseException], packed: bool = True) -> Iterator[IO[bytes]]:
    """Open a file and give its decompressed bytes or, if not `packed`, those stored. Errors of a damaged file, and
    those of types `errors`, also while it is read, become a ValueError that says what was `expected`; FileNotFoundError
    without it.
    """
    try:
        fs, path = filesystem(url)
        try:
            stored = fs.open(path, "rb")
        except OSError:
            raise
        except Exception as error:  # each file system has errors of its own
            raise ValueError(f"{url}: cannot be opened: {first_line(error)}") from None
        compression = infer_compression(path) if packed else None
        with stored:
            if compression == "zip":
                members = [member.filename for member in zipfile.ZipFile(stored).infolist() if not member.is_dir()]
                if len(members) != 1:
                    inside = f": {', '.join(members[:3])}" + (", …" if len(members) > 3 else "") if members else ""
                    hint = f"; zip://NAME::{url} reads one of them, zip://::{url} a folder of tables" if members else ""
                    raise ValueError(f"{url}: must hold one file, holds {len(members)}{inside}{hint}")
                stored.seek(0)
            with compr[compression](stored, mode="rb") as file:
                yield file
    except FileNotFoundError:
        raise FileNotFoundError(f"{url}: no such file, expected {expected}") from None
    except (*_DAMAGE, *errors) as error:  # type: ignore[misc]
        raise ValueError(f"{url}: must be {expected}, cannot be read: {first_line(error)}") from None


def head(url: str) -> bytes:
    """The first 64 KiB of a file, decompressed, in UTF-8 and without a byte order mark."""
    with open_bytes(url, "a caption file") as file:
        start = file.read(HEAD)
    if start.startswith(UTF_16):
        start = start.decode("utf-16", "ignore").encode()
    start = start.removeprefix(b"\xef\xbb\xbf")
    return start.replace(b"\r", b"\n") if _newline(start) == "\r" else start


def _encoding_and_newline(file: IO[bytes]) -> tuple[str, str]:
    """How a text file is written that is to be read from the start: in UTF-8, or UTF-16 if a byte order mark says so,
    and with which line ends.
    """
    if not file.seekable():
        return "utf-8", "\n"
    start = file.read(HEAD)
    file.seek(0)
    return "utf-16" if start.startswith(UTF_16) else "utf-8", _newline(start)


def _newline(start: bytes) -> str:
    """What ends the lines of a file, given its first bytes: a line feed, or a carriage return if it has only those."""
    return "\r" if b"\r" in start and b"\n" not in start else "\n"


def lines(url: str, expected: str) -> Iterator[str]:
    """The lines of a file in UTF-8, or UTF-16 with a byte order mark, without that mark and line ends; bytes that are
    not UTF-8 are surrogates.
    """
    with open_bytes(url, expected, UnicodeError) as file:
        encoding, newline = _encoding_and_newline(file)
        with io.TextIOWrapper(file, encoding=encoding, errors="surrogateescape", newline=newline) as text:
            for number, line in enumerate(text):
                yield (line if number else line.removeprefix("\ufeff")).rstrip("\r\n")


class _JsonBytes:
    """The bytes of a JSON file, in which U+FFFD stands for what is not UTF-8, and null for NaN and Infinity, which
    Python writes and JSON does not have: either costs a record, not all. Raises ijson.JSONError for a string or number
    that does not end.
    """

    def __init__(self, file: IO[bytes]) -> None:
        encoding = {"utf-8": "utf-8-sig"}.get(name := _encoding_and_newline(file)[0], name)
        self._text = io.TextIOWrapper(file, encoding, errors="replace", newline="")
        self._held = ""  # the end of what was read, if it may go on
        self._in_string = False
        self._open = 0  # characters of the string or number that has not ended yet

    def read(self, size: int = -1) -> bytes:
        """About `size` characters, none at the end alone."""
        while True:
            read = self._text.read(size)
            text = self._held + read
            keep = len(text)
            if read and (len(text) - len(text.rstrip("\\"))) % 2 == 1:  # what it escapes is in the next buffer
                keep -= 1
            elif read and (begun := _WORD_BEGUN.search(text, max(len(text) - 9, 0))):
                keep = begun.start()
            text, self._held = text[:keep], text[keep:]
            if text or not read:
                return self._follow(text).encode()

    def _follow(self, text: str) -> str:
        """The next piece of text, made JSON."""
        first = '"' if self._in_string else ""  # so that strings begin and end in what is searched
        plain = text.replace("\\\\", "").replace('\\"', "")
        if "NaN" in text or "Infinity" in text:
            text = _NO_NUMBER.sub(lambda match: "null" if match["value"] else match[0], first + text)[len(first) :]
        self._in_string ^= plain.count('"') % 2 == 1
        ended = plain.rfind('"') if self._in_string else len(plain.rstrip(_NUMBER)) - 1
        self._open = self._open + len(text) if ended < 0 else len(plain) - ended - 1
        if self._open > MAX_STRING:
            kind = "string" if self._in_string else "number"
            raise ijson.JSONError(f"a {kind} in it has more than {MAX_STRING:,} characters: does it end?")
        return text


@contextmanager
def open_json(url: str, expected: str) -> Iterator[Any]:
    """Open a JSON file for ijson. Raises ValueError, naming the file and what was `expected`, when it is broken."""
    with open_bytes(url, expected, ijson.JSONError, UnicodeDecodeError) as file:
        yield _JsonBytes(file)


def json_items(url: str, prefix: str, expected: str) -> Iterator[Any]:
    """The items of a list in a JSON file of any size: `annotations.item`, or `item` if the file is the list."""
    with open_json(url, expected) as file:
        yield from ijson.items(file, prefix, use_float=True, buf_size=BUFFER)


def content(url: str) -> dict[str, Any]:
    """What identifies a file: its name without folder (`file`), `bytes` and `sha256`, as stored (compressed)."""
    digest = hashlib.sha256()
    size = 0
    with open_bytes(url, "a readable file", packed=False) as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
            size += len(chunk)
    return {"file": name_of(url), "bytes": size, "sha256": digest.hexdigest()}


def first_line(error: BaseException) -> str:
    """The first line of an error's message, str or (as ijson has it) bytes; else the error's type."""
    message = error.args[0] if error.args and isinstance(error.args[0], bytes) else str(error).encode()
    first = message.decode("utf-8", "backslashreplace").strip().split("\n")[0].rstrip(".")
    return first[:300] or type(error).__name__
