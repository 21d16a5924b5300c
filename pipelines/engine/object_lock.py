"""The lock of a run on a store: an object that names its owner, who writes it anew as long as it works.

Of two processes that take over the same dead lock at once, the one whose lock was replaced sees it after
SETTLE_SECONDS and stops.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast

from .owner import LOCK, lives, locked_by, myself, read_owner, say_taken_over, written
from .remote_path import RemotePath

SETTLE_SECONDS = 1


@contextmanager
def object_lock(run: Path) -> Iterator[tuple[bytes | None, Callable[[], None]]]:
    """Hold the lock of a run on a store while the block runs.

    Gives the lock's content (None: not locked), and a function that writes the lock anew; call it more often than every
    minute, or the lock counts as left. Raises LockedError when another process holds the lock; a run that may not be
    written is not locked.
    """
    lock, mine = cast(RemotePath, run / LOCK), written(myself())
    lock.parent.mkdir(parents=True, exist_ok=True)
    try:
        _create(run, lock, mine)
    except PermissionError:
        yield None, lambda: None
        return

    def beat() -> None:
        version = lock.version()
        if lock.read_bytes() == mine:
            lock.write_bytes(mine, version)

    try:
        yield mine, beat
    finally:
        with suppress(OSError):
            if lock.read_bytes() == mine:
                lock.unlink()


def _create(run: Path, lock: RemotePath, mine: bytes) -> None:
    """Write a lock file. Raises LockedError when another process has it, OSError."""
    last, taken = None, False
    while True:
        try:
            lock.write_bytes(mine, None)
            break
        except FileExistsError:
            with suppress(FileNotFoundError):  # its owner has just removed it
                last = read_owner(lock.read_bytes())
                if lives(last, None, lambda: _age(lock)):
                    raise locked_by(run, last) from None
                lock.unlink(missing_ok=True)
                taken = True
    if taken:
        time.sleep(SETTLE_SECONDS)
        if (found := lock.read_bytes()) != mine:
            raise locked_by(run, read_owner(found))
        say_taken_over(run, last)


def _age(lock: RemotePath) -> float:
    """Seconds since the last heartbeat of a lock on a store, by the store's clock."""
    now = lock.with_name(f"{lock.name}.{os.getpid()}")
    now.write_bytes(b"now")
    try:
        return (now.modified() - lock.modified()).total_seconds()
    finally:
        now.unlink(missing_ok=True)
