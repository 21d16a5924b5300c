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
from typing import IO, NamedTuple

import fsspec
import ijson
from fsspec.compression import compr
from fsspec.utils import infer_compression

from ...schemas.messages import missing_protocol
from .record import Cell

# Bytes by which a file's format, encoding and line ends are told.
HEAD = 1 << 16
# Characters of JSON that are parsed at a time.
BUFFER = 1 << 18
# The most characters of a string in JSON. The parser begins a string anew with every buffer, so that a quote that is
# never closed would take time with the square of the file's size.
MAX_STRING = 1 << 24
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
_NUMBER = "0123456789+-.eE"  # the characters of numbers in JSON
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
        # Libraries of stores raise errors of many types of their own. A TypeError or KeyError of Python's is rather a
        # fault of ours, and must show where it is.
        if type(error).__module__ == "builtins" and not isinstance(error, (OSError, RuntimeError)):
            raise
        cause = " ".join(str(error).split())[:300] or type(error).__name__
        named = cause if isinstance(error, OSError) else f"{type(error).__name__}: {cause}"
        raise ValueError(without_credentials(f"{source}: cannot be read: {named}")) from error


class StoredPath(NamedTuple):
    """Where a file or folder is: an fsspec file system, and the path in it."""

    fs: fsspec.AbstractFileSystem
    path: str


def filesystem(url: str) -> StoredPath:
    """The fsspec file system of `url`, and the path in it.

    Raises ValueError when its protocol cannot be used, or if it is a pipe, which cannot be read twice, and blocks until
    something is written into it.
    """
    # In a chain such as zip://a.csv::/data/b.zip, the last link is what is stored; the others are inside it.
    place = url.rpartition("::")[2].removeprefix("file://").removeprefix("local://")
    if "://" not in place and _is_pipe(place):
        raise ValueError(f"{url}: is a pipe, must be a file: write it to one first (cat PIPE > captions.jsonl)")
    try:
        fs, path = fsspec.core.url_to_fs(url)
        if fs.protocol == "data":
            raise ValueError("its protocol is data, which has no files")
        return StoredPath(fs, path)
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
    """Whether a device is a terminal. It is opened so that it neither blocks nor becomes ours (O_NOCTTY)."""
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
    """The names of the files in a folder and all folders below, relative to it and sorted: `data/train/a.csv`.

    Hidden ones are left out.
    """
    fs, path = filesystem(folder)
    start = path.rstrip("/") + "/" if path.rstrip("/") else ""
    # Some stores list names with a bucket or a slash before the path that was asked for.
    below = sorted(name[name.find(start) + len(start) :].lstrip("/") for name in fs.find(path))
    return [name for name in below if not any(map(_is_hidden, name.split("/")))]


def _is_hidden(part: str) -> bool:
    """Whether a part of a path shows that no user has written the file: `.git`, or what macOS adds to archives."""
    return part.startswith(".") or part == "__MACOSX"


def is_pattern(url: str) -> bool:
    """Whether a path or URL is a pattern of several (see `matching`): it has `*`, `?`, `[` or `{` and is no file."""
    # A web server lists no files, and `?` begins a query there: only braces can be expanded.
    if url.startswith(_WEB):
        return bool(_BRACES.search(url))
    if not _PATTERN.search(url.partition("::")[0]):
        return False
    fs, path = filesystem(url)
    return not fs.exists(path)


def matching(pattern: str) -> list[str]:
    """The files of a pattern, sorted: `**/*.tar`, `{00000..00999}.tar`, `{train,val}.csv`. FileNotFoundError: none."""
    urls: list[str] = []
    for url in expand_braces(pattern):
        if not _PATTERN.search(url) or url.startswith(_WEB):
            urls.append(url)
            continue
        fs, path = filesystem(url)
        # glob gives names alone: the protocol and the rest of a chain are put back around the name of its first link.
        first, separator, rest = url.partition("::")
        protocol = first.partition("://")[0] + "://" if "://" in first else ""
        names = [name for name, entry in fs.glob(path, detail=True).items() if entry["type"] != "directory"]
        urls += sorted(f"{protocol}{name}{separator}{rest}" for name in names)
    if not urls:
        raise FileNotFoundError(f"{pattern}: no such file, and no files match this pattern")
    return urls


def files_named(named: re.Pattern[str], source: str) -> list[str]:
    """The files of a source, which is a pattern, a folder or a file.

    Those that the pattern matches; those in the folder with names like `named` or, if it has none, in folders below;
    or the file itself, whatever its name.
    """
    if is_pattern(source):
        return matching(source)
    if not is_folder(source):
        return [source]
    for list_names in (names, names_below):
        # img2dataset writes its statistics beside its tables.
        fitting = [name for name in list_names(source) if named.fullmatch(name) and not name.endswith("_stats.json")]
        if fitting:
            return [join(source, name) for name in fitting]
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
    after = expand_braces(pattern[braces.end() :])  # which may have further braces
    return [f"{before}{name}{rest}" for name in inside for rest in after]


def name_in(source: str, url: str) -> str:
    """The name of a file of a source, below the folder that all its files share.

    `x/00/a.csv` of the pattern `x/*/a.csv` is `00/a.csv`; a file that is the source itself has its bare name.
    """
    # "::" chains file systems: of `zip://x/*.csv::archive.zip` only the first part has the names inside the archive.
    files_of_source = source.partition("::")[0]
    file = url.partition("::")[0]
    wildcard = _PATTERN.search(files_of_source)
    if wildcard:
        shared_folder = files_of_source[: wildcard.start()].rpartition("/")[0]
    else:
        shared_folder = files_of_source.rstrip("/")
    if not shared_folder or f"{shared_folder}/" not in file:
        return name_of(url)
    return file.partition(f"{shared_folder}/")[2]


def join(folder: str, name: str) -> str:
    """The URL of the file `name` in a folder; the folder may be a chained URL (`zip://folder::archive.zip`)."""
    first, separator, rest = folder.partition("::")
    if not first.endswith("://"):  # the folder may be the root of an archive, `zip://::archive.zip`
        first = first.rstrip("/") + "/"
    return f"{first}{name}{separator}{rest}"


def name_of(url: str) -> str:
    """The last part of a path or URL: `s3://bucket/a/b.json` -> `b.json`, `https://host/b.json?key=1` -> `b.json`."""
    return re.split(r"[/\\]", _without_query(url))[-1]


def folder_of(url: str) -> str:
    """The folder of a file, given the file's path or URL; `.` for a bare name."""
    _, separator, rest = url.partition("::")
    folder = _without_query(url).removesuffix(name_of(url)) or "."
    return folder + separator + rest


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
    """Open a file and give its decompressed bytes.

    Args:
        url: of the file.
        expected: what it should be, for messages.
        *errors: that reading may raise, also in the block; they become ValueErrors.
        packed: whether to decompress; if not, the stored bytes are given.

    Raises:
        ValueError: the file is damaged, or is not what was expected.
        FileNotFoundError: there is no such file.
    """
    try:
        fs, path = filesystem(url)
        # An OSError is told below, FileNotFoundError by a message of its own; other types are of single file systems.
        try:
            stored = fs.open(path, "rb")
        except OSError:
            raise
        except Exception as error:
            raise ValueError(f"{url}: cannot be opened: {first_line(error)}") from None
        compression = infer_compression(path) if packed else None
        with stored:
            if compression == "zip":
                _check_single_member(url, stored)
            with compr[compression](stored, mode="rb") as file:
                yield file
    except FileNotFoundError:
        raise FileNotFoundError(f"{url}: no such file, expected {expected}") from None
    except (*_DAMAGE, *errors) as error:  # type: ignore[misc]
        raise ValueError(f"{url}: must be {expected}, cannot be read: {first_line(error)}") from None


def _check_single_member(url: str, archive: IO[bytes]) -> None:
    """Raise ValueError unless a ZIP archive holds one file, since fsspec would silently read the first of several."""
    members = [member.filename for member in zipfile.ZipFile(archive).infolist() if not member.is_dir()]
    archive.seek(0)
    if len(members) == 1:
        return
    message = f"{url}: must hold one file, holds {len(members)}"
    if members:
        message += f": {', '.join(members[:3])}{', …' if len(members) > 3 else ''}"
        message += f"; zip://NAME::{url} reads one of them, zip://::{url} a folder of tables"
    raise ValueError(message)


def head(url: str) -> bytes:
    """The first 64 KiB of a file, decompressed, in UTF-8 and without a byte order mark."""
    with open_bytes(url, "a caption file") as file:
        start = file.read(HEAD)
    if start.startswith(UTF_16):
        start = start.decode("utf-16", "ignore").encode()
    start = start.removeprefix(b"\xef\xbb\xbf")
    return start.replace(b"\r", b"\n") if _newline(start) == "\r" else start


class TextForm(NamedTuple):
    """How a text file is written."""

    encoding: str
    newline: str


def _text_form_of(file: IO[bytes]) -> TextForm:
    """The encoding and line ends of a text file: UTF-8, or UTF-16 if a byte order mark says so.

    file: at its start, where it is left.
    """
    if not file.seekable():  # some streams of archives: what was read could not be read again
        return TextForm("utf-8", "\n")
    start = file.read(HEAD)
    file.seek(0)
    return TextForm("utf-16" if start.startswith(UTF_16) else "utf-8", _newline(start))


def _newline(start: bytes) -> str:
    """What ends the lines of a file, given its first bytes: a line feed, or a carriage return if it has only those."""
    return "\r" if b"\r" in start and b"\n" not in start else "\n"


def lines(url: str, expected: str) -> Iterator[str]:
    """The lines of a text file, without line ends and byte order mark.

    It is in UTF-8, or in UTF-16 with a byte order mark. Bytes that are not UTF-8 become lone surrogates, so that a
    record with some can be rejected later, and the others be read.
    """
    with open_bytes(url, expected, UnicodeError) as file:
        form = _text_form_of(file)
        with io.TextIOWrapper(file, form.encoding, errors="surrogateescape", newline=form.newline) as text:
            for number, line in enumerate(text):
                if number == 0:
                    line = line.removeprefix("\ufeff")
                yield line.rstrip("\r\n")


class _JsonBytes:
    """The bytes of a JSON file, in which U+FFFD stands for what is not UTF-8, and null for NaN and Infinity, which
    Python writes and JSON does not have: either costs a record, not all. Raises ijson.JSONError for a string or number
    that does not end.
    """

    def __init__(self, file: IO[bytes]) -> None:
        """Read from a file, whose encoding its first bytes tell."""
        encoding = _text_form_of(file).encoding
        if encoding == "utf-8":
            encoding = "utf-8-sig"  # which leaves out a byte order mark, as utf-16 does
        self._text = io.TextIOWrapper(file, encoding, errors="replace", newline="")
        self._held = ""  # the end of what was read, if it may go on
        self._in_string = False  # whether what was given so far ends within a string
        self._open = 0  # characters of the string or number that has not ended yet

    def read(self, size: int = -1) -> bytes:
        """The next piece of the file, of about `size` characters; b"" only at its end.

        What might go on in the next piece, such as half of `NaN`, is held back until that is read.
        """
        while True:
            new = self._text.read(size)
            text = self._held + new
            complete = _complete_length(text) if new else len(text)
            self._held = text[complete:]
            if complete or not new:
                return self._take_note_and_mend(text[:complete]).encode()

    def _take_note_and_mend(self, text: str) -> str:
        """Return the next piece of text with null for NaN and Infinity, and note whether it ends within a string.

        Raises ijson.JSONError for a string or number that has gone on for too long, maybe over several pieces.
        """
        # Without escaped quotes, every quote that is left begins or ends a string.
        plain = text.replace("\\\\", "").replace('\\"', "")
        if "NaN" in text or "Infinity" in text:
            text = _replace_non_numbers(text, self._in_string)
        if plain.count('"') % 2 == 1:
            self._in_string = not self._in_string

        # Where in `plain` the string or number has begun in which the piece ends; -1: in an earlier piece.
        begin = plain.rfind('"') if self._in_string else len(plain.rstrip(_NUMBER)) - 1
        self._open = self._open + len(text) if begin < 0 else len(plain) - begin - 1
        if self._open > MAX_STRING:
            kind = "string" if self._in_string else "number"
            raise ijson.JSONError(f"a {kind} in it has more than {MAX_STRING:,} characters: does it end?")
        return text


def _complete_length(text: str) -> int:
    """How many characters of a piece of JSON can be understood without the next piece.

    A backslash at the end cannot, nor the beginning of a word that may be NaN or Infinity.
    """
    backslashes = len(text) - len(text.rstrip("\\"))
    if backslashes % 2 == 1:  # else each is escaped by the one before
        return len(text) - 1
    begun = _WORD_BEGUN.search(text, max(len(text) - 9, 0))
    return begun.start() if begun else len(text)


def _replace_non_numbers(text: str, in_string: bool) -> str:
    """A piece of JSON with null for NaN and Infinity, but not inside strings; in_string: whether it begins in one."""
    quote = '"' if in_string else ""  # so that every string has a begin in what is searched
    replaced = _NO_NUMBER.sub(lambda match: "null" if match["value"] else match[0], quote + text)
    return replaced[len(quote) :]


@contextmanager
def open_json(url: str, expected: str) -> Iterator[_JsonBytes]:
    """Open a JSON file for ijson. Raises ValueError, naming the file and what was `expected`, when it is broken."""
    with open_bytes(url, expected, ijson.JSONError, UnicodeDecodeError) as file:
        yield _JsonBytes(file)


def json_items(url: str, prefix: str, expected: str) -> Iterator[Cell]:
    """The items of a list in a JSON file of any size: `annotations.item`, or `item` if the file is the list."""
    with open_json(url, expected) as file:
        yield from ijson.items(file, prefix, use_float=True, buf_size=BUFFER)


def content(url: str) -> dict[str, str | int]:
    """A file's name without folder (`file`), its size in `bytes` and its `sha256`, as it is stored (compressed).

    By these a run knows whether the file has changed.
    """
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
