"""Read and write files of a run, on a local disk or on a store (see engine.places). A local file is replaced by
renaming a temporary one, an object by one request: nobody trusts a file that no manifest states.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from .places import RemotePath

Json = Any  # what json.loads returns and json.dumps accepts
TEMPORARY = ".tmp"  # the end of the names of files that are not whole yet
# The folder of files that are moved into place together, once all are whole.
STAGED = ".unfinished"


def sizes(folder: Path) -> dict[str, int]:
    """The names in a folder, with the sizes of files in bytes; empty if there is no such folder."""
    try:
        if isinstance(folder, RemotePath):
            return folder.entries()
        with os.scandir(folder) as entries:
            return {entry.name: entry.stat().st_size for entry in entries}
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


def sha256_file(path: Path) -> str:
    """The sha256 of a file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


UNSEALED = b"0" * 64  # stands where the hash will be


def seal(data: bytearray, place: slice) -> None:
    """Write the sha256 of a file's bytes into them, at a place where they have UNSEALED; `is_sealed` checks it."""
    # The hash is of the bytes with zeros in its own place, so that it can be checked without knowing it.
    data[place] = hashlib.sha256(data).hexdigest().encode()


def is_sealed(data: bytes, place: slice) -> bool:
    """Whether these are the bytes that `seal` has sealed at this place, unchanged."""
    # The hash was taken while UNSEALED stood in its place, so this stands in for it here.
    unsealed = hashlib.sha256(memoryview(data)[: place.start])
    unsealed.update(UNSEALED)
    unsealed.update(memoryview(data)[place.stop :])
    return unsealed.hexdigest().encode() == data[place]


def write_atomically(path: Path, data: bytes | memoryview, folder: Path | None = None) -> None:
    """Write a file completely or not at all, replacing an older one. folder: for the temporary file, on the same file
    system; None: that of the file. Raises OSError (disk full, no permission) naming the file.
    """
    if isinstance(path, RemotePath):
        path.write_bytes(data)
        return
    temporary = (folder or path.parent) / f"{path.name}.{secrets.token_hex(4)}{TEMPORARY}"
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            # Without it, after a power cut, the new name may stand for an empty file.
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        what = "disk full, free some space and run again" if error.errno == errno.ENOSPC else error.strerror
        raise OSError(error.errno, f"cannot write: {what}", str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, value: Json) -> None:
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
    if isinstance(target, RemotePath):
        target.upload(file)
        file.unlink()
    else:
        file.replace(target)


def remove_empty(folder: Path) -> None:
    """Remove a folder if it is empty; those of stores are gone when they are."""
    if not isinstance(folder, RemotePath) and not any(folder.iterdir()):
        folder.rmdir()


def refuse_link(path: Path) -> Path:
    """Return a path inside a folder that a command writes; raise ValueError if it is a link.

    Whoever made the folder, as in an archive or on a shared disk, could lead what is written or removed to any file of
    the user.
    """
    if not isinstance(path, RemotePath) and path.is_symlink():
        raise ValueError(f"{path} is a link, and negcap writes through none: remove it, or put what it leads to there")
    return path


@contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """A new folder for files that are moved into `folder` once all are written; it is removed at the end.

    It is inside of `folder`, or a local one if that is on a store. The caller has the lock of `folder`, so that what a
    killed process has left in it can be removed.
    """
    if isinstance(folder, RemotePath):
        with TemporaryDirectory() as local:
            yield Path(local)
        return
    inside = refuse_link(folder / STAGED)
    shutil.rmtree(inside, ignore_errors=True)
    inside.mkdir(parents=True)
    try:
        yield inside
    finally:
        shutil.rmtree(inside, ignore_errors=True)


def scratch_folder(run: Path, name: str) -> Path:
    """The local folder for caches and temporary files of a run: `RUN/name`, or one in $XDG_CACHE_HOME/negcap. Raises
    ValueError if it is a link.
    """
    if not isinstance(run, RemotePath):
        folder = run
        for part in Path(name).parts:
            folder = refuse_link(folder / part)
        return folder
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "negcap" / hashlib.sha256(str(run).encode()).hexdigest()[:16] / name
