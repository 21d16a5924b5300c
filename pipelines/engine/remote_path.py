"""A path on a file system of fsspec, with the methods of pathlib.Path that runs need."""

from __future__ import annotations

import errno
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

FOLDERS = ("hdfs", "arrow_hdfs", "webhdfs", "sftp", "ssh", "smb")  # where a folder must exist before its files
EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs", "az": "azure", "abfs": "azure", "abfss": "azure"}
CONDITIONAL = ("s3", "s3a")  # where a write can be bound to the version that it replaces
CHANGED = ("PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey")  # what S3 says when it is another one
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

    def version(self) -> str | None:
        """What tells the content of this file from any other, where a write can depend on it (S3: the ETag), or None if
        there is no file; "" on other stores.
        """
        if self.protocol not in CONDITIONAL:
            return ""
        with self._system() as (system, path):
            bucket, key, _ = system.split_path(path)
            try:
                return str(system.call_s3("head_object", Bucket=bucket, Key=key)["ETag"])
            except FileNotFoundError:
                return None

    def write_bytes(self, data: bytes | memoryview, version: str | None = "") -> None:
        """Write the file, replacing an older one.

        version: raise FileExistsError unless the file is still the one that had this `version`. "" is any; None is no
        file, which is one step where the store has conditional writes (S3, Google Storage, Azure), a question and an
        answer elsewhere.
        """
        only = {"IfMatch": version, "chunksize": len(data) + 1} if version else {}  # of parts it would not be asked
        try:
            with self._system() as (system, path):
                try:
                    system.pipe_file(path, bytes(data), mode="create" if version is None else "overwrite", **only)
                except OSError as error:
                    if version != "" and _code(error) in CHANGED:
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


def _code(error: OSError) -> str | None:
    """The code of an error of S3."""
    found: str | None = getattr(error.__cause__, "response", {}).get("Error", {}).get("Code")
    return found


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
