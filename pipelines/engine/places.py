"""Where files lie: on a local disk (a pathlib.Path) or, of runs, anywhere that fsspec writes to (a RemotePath). Each
process finds endpoint and credentials where fsspec and the library of the store look for them; workers are sent none.
"""

from __future__ import annotations

import errno
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import unquote, urlsplit

from ...schemas.messages import missing_protocol

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

FOLDERS = ("hdfs", "arrow_hdfs", "webhdfs", "sftp", "ssh", "smb")  # where a folder must exist before its files
STORES = (*("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oci", "oss"), *FOLDERS, "memory")
IS_THERE = ("PreconditionFailed", "ConditionalRequestConflict")  # what S3 says when a file must be new, but is not


class StoreError(NamedTuple):
    """How an error of a store is told: the number of an OSError, and a message in which {} is what the store says."""

    number: int
    message: str


KNOWN_ERRORS = {
    FileNotFoundError: StoreError(errno.ENOENT, "no such file or folder"),
    FileExistsError: StoreError(errno.EEXIST, "it exists already"),
    PermissionError: StoreError(errno.EACCES, "no permission: {}"),
}
OTHER_ERROR = StoreError(errno.EIO, "the store failed: {}")
_SCHEME = re.compile(r"([a-z0-9_]+):/(?!/)")  # pathlib has made one of the two slashes of a URL
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+._-]+):/|.*::")


class OnStore(NamedTuple):
    """A file system of fsspec, and a path on it, without the protocol."""

    system: AbstractFileSystem
    path: str


class RemotePath(PurePosixPath):
    """A file or folder on an fsspec file system, RemotePath("s3://bucket/run") / "captions", with the methods of
    pathlib.Path that runs need. Every error is an OSError that names the URL. A folder exists if it has files. Listings
    are never cached.
    """

    __slots__ = ()

    def __str__(self) -> str:
        """The URL: a path has one slash after `s3:`, a URL has two."""
        return _SCHEME.sub(r"\1://", super().__str__(), count=1)

    def __fspath__(self) -> str:
        """Raise ValueError: only functions that need a path on a disk ask for it."""
        raise ValueError(f"{self} must be on a local disk")

    @property
    def protocol(self) -> str:
        """The protocol of the URL: `s3`."""
        return self.parts[0].removesuffix(":")

    @contextmanager
    def _system(self) -> Iterator[OnStore]:
        """The file system, and this path on it. Raises OSError for any error in the block, ImportError as fsspec."""
        import fsspec

        try:
            system, path = fsspec.core.url_to_fs(str(self))
            # fsspec would give an old listing again, without what other processes have written since.
            system.invalidate_cache(path)
            yield OnStore(system, path)
        except ImportError as error:
            raise ImportError(missing_protocol(self.protocol, error)) from error
        except Exception as error:  # each store has errors of its own
            details = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            known = (told for kind, told in KNOWN_ERRORS.items() if isinstance(error, kind))
            told = next(known, OTHER_ERROR)
            raise OSError(told.number, told.message.format(details), str(self)) from error

    def _call(self, method: str, **options: bool) -> Any:
        """What a method of the file system returns for this path."""
        with self._system() as (system, path):
            return getattr(system, method)(path, **options)

    def exists(self) -> bool:
        """Whether there is such a file or folder."""
        return bool(self._call("exists"))

    def is_dir(self) -> bool:
        """Whether there is a folder, which means files below it."""
        return bool(self._call("isdir"))

    def is_file(self) -> bool:
        """Whether there is such a file."""
        return bool(self._call("isfile"))

    def stat(self) -> SimpleNamespace:
        """`st_mtime`: when the file was written, in Unix seconds, by the clock of the store."""
        return SimpleNamespace(st_mtime=self._call("modified").timestamp())

    def entries(self) -> dict[str, int]:
        """The names in this folder, with the sizes of files in bytes."""
        with self._system() as (system, path):
            listed = system.ls(path, detail=True)
        # Some stores list the folder itself, too.
        entries = [entry for entry in listed if entry["name"].strip("/") != path.strip("/")]
        return {entry["name"].rstrip("/").rpartition("/")[2]: entry["size"] or 0 for entry in entries}

    def iterdir(self) -> Iterator[RemotePath]:
        """The files and folders in this folder."""
        return (self / name for name in self.entries())

    def below(self) -> list[RemotePath]:
        """All files below this folder, sorted."""
        with self._system() as (system, path):
            return sorted(self / file[len(path.rstrip("/")) + 1 :] for file in system.find(path))

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Make the folder where there are folders; most stores have none."""
        if self.protocol in FOLDERS:
            self._call("makedirs", exist_ok=True)

    def read_bytes(self) -> bytes:
        """The content of the file."""
        with self._system() as (system, path):
            try:
                return bytes(system.cat_file(path, start=0))  # without a start some ask for the size first
            except OSError as error:
                if error.errno != errno.EINVAL:  # there is no start: it is empty
                    raise
                return b""

    def read_text(self, encoding: str = "utf-8") -> str:
        """The content of the file as text."""
        return self.read_bytes().decode(encoding)

    def open(self, mode: str = "rb") -> io.BytesIO:
        """The content of the file, as a binary file in memory."""
        return io.BytesIO(self.read_bytes())

    def write_bytes(self, data: bytes | memoryview, new: bool = False) -> None:
        """Write the file. With `new` it must not be there, else FileExistsError; S3, Google Storage and Azure look and
        write in one step, so that of two processes only one makes it.
        """
        try:
            with self._system() as (system, path):
                try:
                    system.pipe_file(path, bytes(data), mode="create" if new else "overwrite")
                except OSError as error:
                    # s3fs tells a failed precondition as a plain OSError; its cause is the answer of S3
                    code = getattr(error.__cause__, "response", {}).get("Error", {}).get("Code")
                    if new and code in IS_THERE:
                        raise FileExistsError from error
                    raise
        except FileNotFoundError as error:
            why = "cannot write: there is no such bucket, or no folder to write into"
            raise FileNotFoundError(errno.ENOENT, why, str(self)) from error

    def upload(self, file: Path) -> None:
        """Write this file with the content of a local one, which may be larger than the memory."""
        with self._system() as (system, path):
            system.put_file(str(file), path)

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the file."""
        try:
            self._call("rm_file")
        except FileNotFoundError:
            if not missing_ok:
                raise

    def absolute(self) -> RemotePath:
        """The path itself."""
        return self

    resolve = absolute


def place(given: str | PathLike[str], what: str = "path") -> Path:
    """The folder that a user gave as a path, or as a URL of one of STORES (a RemotePath); `what` names it in errors."""
    if isinstance(given, RemotePath):
        return cast(Path, given)
    text = fspath(given)
    url = _URL.match(text)
    if not url or "::" in text or url[1].lower() == "file":
        return local_path(given, what)
    scheme = url[1].lower()
    if scheme not in STORES:
        raise ValueError(f"{what} must be a folder or a URL of {', '.join(STORES)}, was: {text}")
    if urlsplit(text).password or "?" in text:
        raise ValueError(f"{what} must be a {scheme} URL without a password and ?…: fsspec's configuration holds these")
    rest = text[len(scheme) + 1 :]
    host = "default" if rest.startswith("///") and "hdfs" in scheme else ""  # hdfs:///run: of Hadoop's configuration
    path = RemotePath(f"{scheme}://{host}/{rest.lstrip('/')}")
    if len(path.parts) < 2 or ".." in path.parts:
        raise ValueError(f"{what} must name a folder, was: {text}")
    return cast(Path, path)


def local_path(given: str | PathLike[str], what: str = "path") -> Path:
    """The path on a local disk that a user gave as a path or as a file:// URL.

    Path("s3://bucket/run") is `s3:/bucket/run`, so that counts as a URL, too; `./s3:/run` is a folder.

    Args:
        given: by the user.
        what: names the path in errors.

    Raises:
        ValueError: it is another URL, or a loop of links.
    """
    text = str(given) if isinstance(given, RemotePath) else fspath(given)
    path = Path(text)
    if url := _URL.match(text):
        parts = urlsplit(text)
        # url[1], the scheme, is None for a chain of URLs: "simplecache::s3://bucket/run".
        if not url[1] or parts.scheme != "file" or parts.netloc not in ("", "localhost") or "::" in text:
            raise ValueError(f"{what} must be on a local disk, was the URL: {text}")
        path = Path(unquote(parts.path))
    try:
        path.stat()
    except OSError as error:  # a path that does not exist is no error: it may be made
        if error.errno == errno.ELOOP:
            raise ValueError(f"{what} must be no loop of symbolic links, was: {path}") from None
    return path
