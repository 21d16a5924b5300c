"""Files of a run, on a local disk or anywhere that fsspec writes to (S3, Google Storage, Azure, HDFS, SFTP …).

A place is a pathlib.Path on a local disk and a RemotePath elsewhere; both have the same methods, as far as runs need
them, so that other modules need not know which one they have. A local file is replaced by renaming a temporary one; an
object elsewhere is replaced by one request. Nobody trusts a file of a table without its receipt, which is written after
it, so a store needs no renaming.

Endpoint and credentials come from where fsspec and the library of the store look for them (variables FSSPEC_…,
~/.config/fsspec, AWS_…, …) in each process; they are not sent to workers.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

TEMPORARY = ".tmp"
THREADS = 16  # requests to a store at once
FOLDERS = ("hdfs", "arrow_hdfs", "webhdfs", "sftp", "ssh", "smb")  # where a folder must exist before its files
EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs", "az": "azure", "abfs": "azure", "abfss": "azure"}
_SCHEME = re.compile(r"([a-z0-9_]+):/(?!/)")


class RemotePath(PurePosixPath):
    """A file or folder on an fsspec file system: RemotePath("s3://bucket/run") / "captions".

    It has the methods of pathlib.Path that runs need. Every error is an OSError that names the URL. A folder exists if
    it has files. Listings are never taken from a cache, since other processes write, too.
    """

    __slots__ = ()

    def __str__(self) -> str:
        return _SCHEME.sub(r"\1://", super().__str__(), count=1)

    def __fspath__(self) -> str:
        raise ValueError(f"{self} must be on a local disk")

    @property
    def protocol(self) -> str:
        """The protocol of the URL: `s3`."""
        return self.parts[0].removesuffix(":")

    @contextmanager
    def _system(self) -> Iterator[tuple[Any, str]]:
        """The file system, and this path on it. Raises OSError for any error in the block, ImportError as fsspec."""
        import fsspec

        try:
            system, path = fsspec.core.url_to_fs(str(self))
            system.invalidate_cache(path)
            yield system, path
        except ImportError as error:
            extra = EXTRAS.get(self.protocol)
            how = f'pip install "negcap[{extra}]"' if extra else str(error)
            raise ImportError(f"{self.protocol}:// needs another library: {how}") from error
        except FileNotFoundError as error:
            raise FileNotFoundError(errno.ENOENT, "no such file or folder", str(self)) from error
        except FileExistsError as error:
            raise FileExistsError(errno.EEXIST, "it exists already", str(self)) from error
        except PermissionError as error:
            raise PermissionError(errno.EACCES, f"no permission: {_line(error)}", str(self)) from error
        except Exception as error:  # each store has errors of its own
            raise OSError(errno.EIO, f"the store failed: {_line(error)}", str(self)) from error

    def exists(self) -> bool:
        """Whether there is such a file or folder."""
        with self._system() as (system, path):
            return bool(system.exists(path))

    def is_dir(self) -> bool:
        """Whether there is a folder, which means files below it."""
        with self._system() as (system, path):
            return bool(system.isdir(path))

    def is_file(self) -> bool:
        """Whether there is such a file."""
        with self._system() as (system, path):
            return bool(system.isfile(path))

    def iterdir(self) -> Iterator[RemotePath]:
        """The files and folders in this folder."""
        return (self / name for name in self.entries())

    def entries(self) -> dict[str, int]:
        """The names in this folder, with the sizes of files in bytes."""
        with self._system() as (system, path):
            found = system.ls(path, detail=True)
        inside = ((entry["name"].rstrip("/").rpartition("/")[2], entry["size"]) for entry in found
                  if entry["name"].strip("/") != path.strip("/"))  # fmt: skip
        return {name: size or 0 for name, size in inside if name}

    def below(self) -> list[RemotePath]:
        """All files below this folder, sorted."""
        with self._system() as (system, path):
            return sorted(self / found[len(path.rstrip("/")) + 1 :] for found in system.find(path))

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Make the folder where there are folders; most stores have none."""
        if self.protocol in FOLDERS:
            with self._system() as (system, path):
                system.makedirs(path, exist_ok=True)

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

    def write_bytes(self, data: bytes | memoryview, *, new: bool = False) -> None:
        """Write the file, replacing an older one.

        new: raise FileExistsError instead if there is one; this is one step where the store has conditional writes (S3,
        Google Storage, Azure), a question and an answer elsewhere.
        """
        with self._system() as (system, path):
            system.pipe_file(path, bytes(data), mode="create" if new else "overwrite")

    def upload(self, file: Path) -> None:
        """Write this file with the content of a local one, which may be larger than the memory."""
        with self._system() as (system, path):
            system.put_file(str(file), path)

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the file."""
        try:
            with self._system() as (system, path):
                system.rm_file(path)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def modified(self) -> datetime:
        """When the file was written, by the clock of the store."""
        with self._system() as (system, path):
            return system.modified(path)

    def absolute(self) -> RemotePath:
        """The path itself."""
        return self

    def resolve(self) -> RemotePath:
        """The path itself."""
        return self


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def sizes(folder: Path) -> dict[str, int]:
    """The names in a folder, with the sizes of files in bytes; empty if there is no such folder."""
    try:
        if isinstance(folder, RemotePath):
            return folder.entries()
        with os.scandir(folder) as found:
            return {entry.name: entry.stat().st_size for entry in found}
    except (FileNotFoundError, NotADirectoryError):
        return {}


def names(folder: Path) -> list[str]:
    """The names in a folder; empty if there is no such folder."""
    try:
        return list(folder.entries()) if isinstance(folder, RemotePath) else os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def files_below(folder: Path) -> list[Path]:
    """All files below a folder, sorted."""
    if isinstance(folder, RemotePath):
        return folder.below()
    return sorted(path for path in folder.rglob("*") if path.is_file())


def read_files(paths: Iterable[Path]) -> Iterator[bytes | None]:
    """The content of each file, or None where it cannot be read; several at a time where a store answers slowly."""
    with ThreadPoolExecutor(THREADS) as threads:
        found = list(paths)
        several = threads.map if found and isinstance(found[0], RemotePath) else map
        yield from several(_content, found)


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def sha256_file(path: Path) -> str:
    """The sha256 of a file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_atomically(path: Path, data: bytes | memoryview, folder: Path | None = None) -> None:
    """Write a file completely or not at all; an older file of this name is replaced when the new one is on the disk.

    folder: for the temporary file, on the same file system; None: the folder of the file. Raises OSError (disk full,
    no permission) naming the file; the temporary file is then removed.
    """
    if isinstance(path, RemotePath):
        path.write_bytes(data)
        return
    temporary = (folder or path.parent) / f"{path.name}.{secrets.token_hex(4)}{TEMPORARY}"
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        what = "disk full, free some space and run again" if error.errno == errno.ENOSPC else error.strerror
        raise OSError(error.errno, f"cannot write: {what}", str(path)) from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON with sorted keys, atomically."""
    write_atomically(path, (json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False) + "\n").encode())


def remove_leftovers(folder: Path) -> None:
    """Remove what interrupted writes have left in a folder."""
    if not isinstance(folder, RemotePath):
        for path in folder.glob(f"*{TEMPORARY}"):
            path.unlink(missing_ok=True)


def move(file: Path, target: Path) -> None:
    """Move a local file to a path on the same disk or on a store; missing folders are made."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if not isinstance(target, RemotePath):
        file.replace(target)
        return
    target.upload(file)
    file.unlink()


def remove_empty(folder: Path) -> None:
    """Remove a folder if it is empty; those of stores are gone when they are."""
    if not isinstance(folder, RemotePath) and not any(folder.iterdir()):
        folder.rmdir()


def scratch_folder(run: Path, name: str) -> Path:
    """The local folder for files of a run that are no part of it (caches, temporary files), which need not exist.

    It is `RUN/name`, or, for a run elsewhere, one in $XDG_CACHE_HOME/negcap (default ~/.cache/negcap).
    """
    if not isinstance(run, RemotePath):
        return run / name
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "negcap" / hashlib.sha256(str(run).encode()).hexdigest()[:16] / name
