"""Whoever has lost the lock of a run writes nothing more into it.

A process that stands still (SIGSTOP, a suspended machine, a lost network) for longer than its lock lasts does not know
that another has taken its run over. So each write asks first whether the lock file is still the one that the writer, or
whom it works for, has written. After the answer it may stand still again; therefore a write to S3 names the version of
the object that it replaces, which it has seen before it asked. If the run is taken over after the answer, then either
the other one has written the object, and the store refuses the late write, or it will, and replaces what came late.
What is left is an object that the other one keeps with the bytes it had (or as missing), if the late writer stood still
just between answer and request; and removals, writes to other stores, and renaming on a disk, where nothing can be
made conditional. Such a file is not the one of its receipt: nobody reads it, and it is made again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType

from .owner import LOCK, lost_to, read_owner
from .remote_path import RemotePath

# run -> the content of its lock, for the thread that may write there (workers have threads for several owners at once)
_held: ContextVar[Mapping[Path, bytes | None]] = ContextVar("held", default=MappingProxyType({}))


@contextmanager
def holding(run: Path, lock: bytes | None) -> Iterator[None]:
    """Let this thread write into a run during the block, as long as its lock file has this content (None: unlocked)."""
    token = _held.set({**_held.get(), run.resolve(): lock})
    try:
        yield
    finally:
        _held.reset(token)


def holds(run: Path) -> bool:
    """Whether this thread is in a block of `holding` for this run."""
    return run.resolve() in _held.get()


def lock_of(run: Path) -> bytes | None:
    """What the lock file of a run held by this thread must contain; None if it is not locked."""
    return _held.get().get(run.resolve())


def check(path: Path) -> None:
    """Raise LockedError if `path` lies in a run that this thread held and another process has taken over; OSError if
    the lock cannot be read.
    """
    held = _held.get()
    for folder in path.absolute().parents if held else ():
        lock = held.get(folder.resolve())
        if lock is not None and (found := _content(folder / LOCK)) != lock:
            raise lost_to(folder, None if found is None else read_owner(found), found is not None)


def _content(lock: Path) -> bytes | None:
    try:
        return lock.read_bytes()
    except FileNotFoundError:
        if isinstance(lock, RemotePath):
            return None
    os.listdir(lock.parent)  # a network file system may remember that there was none, until the folder is opened
    return lock.read_bytes() if lock.exists() else None
