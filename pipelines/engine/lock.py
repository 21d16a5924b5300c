"""One writer for each run: the lock RUN/.lock, which names its owner. On a disk its owner has locked the file (flock),
so that the system unlocks it when the process ends. On a store it is an object, made if there is none (one step on S3,
Google Storage, Azure) and written anew every HEARTBEAT_SECONDS; it counts as left after STALE_SECONDS, or if its owner
was a process of this machine and has ended. A process that stood still for so long may write a shard of another's
table: no manifest states that, so nobody reads it, and it is made again.
"""

from __future__ import annotations

import errno
import fcntl
import getpass
import os
import platform
import re
import secrets
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path, PurePath
from typing import IO

from .errors import LockedError
from .places import RemotePath

LOCK = ".lock"  # the file's name
HEARTBEAT_SECONDS, STALE_SECONDS = 10, 60  # on a store
SETTLE_SECONDS = 1  # until the later of two that take over a lock has replaced that of the other
# of folders that cannot be written, and of file systems without locks
_UNLOCKED = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)

_held: ContextVar[frozenset[Path]] = ContextVar("held", default=frozenset())  # the runs that this thread has locked


@contextmanager
def locked(run: Path) -> Iterator[None]:
    """Be the only one who writes into the folder `run` during the block; nested blocks of a thread share the lock.

    A local folder is made if it is missing, and removed again if it is still empty. A lock whose owner has ended is
    taken over, with a message on stderr. A read-only folder, or one on a file system without locks, is not locked.
    Raises LockedError, which names the owner, if another has the lock; ValueError if `run` is a file; OSError if the
    lock cannot be written for another reason.
    """
    folder = run.resolve()
    if folder in _held.get():
        yield
        return
    if not run.is_dir() and run.exists():
        raise ValueError(f"{run}: the output must be a folder, is a file")
    with _object(run) if isinstance(run, RemotePath) else _file(run, folder):
        token = _held.set(_held.get() | {folder})
        try:
            yield
        finally:
            _held.reset(token)


def _myself() -> str:
    """This process as messages name it: `anna, process 4711 on node3`."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a number without a name, as in containers
        user = f"user {os.getuid()}"
    return f"{user}, process {os.getpid()} on {platform.node()}"


def _refused(run: PurePath, owner: str) -> LockedError:
    who = f" ({owner})" if owner else ""
    return LockedError(f"{run} is being written by another negcap{who}: wait until it is done, or stop it")


def _say_left(run: PurePath, owner: str) -> None:
    print(
        f"negcap: {run} was left unfinished by {owner or 'another negcap'}; this one goes on with it", file=sys.stderr
    )


@contextmanager
def _file(run: Path, folder: Path) -> Iterator[None]:
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    file = None
    try:
        try:
            file = _open(run, folder / LOCK)
        except OSError as error:
            if error.errno not in _UNLOCKED or not folder.exists():
                raise
            with suppress(OSError):
                (folder / LOCK).unlink()
        yield
    finally:
        if file is not None:
            (folder / LOCK).unlink(missing_ok=True)  # before another can lock it
            file.close()
        with suppress(OSError):  # what is not empty stays
            for path in new:
                path.rmdir()


def _open(run: Path, lock: Path) -> IO[str]:
    """Make and lock a file, and write the owner into it. Raises LockedError when another process has it, OSError."""
    while True:
        lock.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError), ExitStack() as opened:  # who was here before has just removed file or folder
            file = opened.enter_context(lock.open("a+"))
            file.seek(0)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise _refused(run, file.read()) from None
            if os.path.samestat(os.fstat(file.fileno()), lock.stat()):
                if owner := file.read():
                    _say_left(run, owner)
                file.truncate(0)
                file.write(_myself())
                file.flush()
                opened.pop_all()
                return file


@contextmanager
def _object(run: RemotePath) -> Iterator[None]:
    lock, mine, ended = run / LOCK, f"{_myself()}\n{secrets.token_hex(8)}".encode(), threading.Event()

    def beat() -> None:
        while not ended.wait(HEARTBEAT_SECONDS):
            with suppress(OSError):
                if lock.read_bytes() == mine:
                    lock.write_bytes(mine)

    _acquire(run, lock, mine)
    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()  # else it may write the lock anew after it was removed
        with suppress(OSError):
            if lock.read_bytes() == mine:
                lock.unlink()


def _acquire(run: RemotePath, lock: RemotePath, mine: bytes) -> None:
    left = None
    while True:
        try:
            lock.write_bytes(mine, new=True)
            break
        except FileExistsError:
            with suppress(FileNotFoundError):  # its owner has just removed it
                owner = lock.read_text().partition("\n")[0]
                here = re.fullmatch(rf".*, process (\d+) on {re.escape(platform.node())}", owner)
                ended = here and not Path(f"/proc/{here[1]}").exists() and Path("/proc/self").exists()
                if not ended and _age(lock) < STALE_SECONDS:
                    raise _refused(run, owner) from None
                lock.unlink(missing_ok=True)
                left = owner
    if left is not None:
        time.sleep(SETTLE_SECONDS)
        if lock.exists() and (now := lock.read_bytes()) != mine:
            raise _refused(run, now.decode().partition("\n")[0])
        _say_left(run, left)


def _age(lock: RemotePath) -> float:
    """Seconds since the last heartbeat of a lock, by the clock of its store."""
    now = lock.with_name(f"{lock.name}.{os.getpid()}")
    now.write_bytes(b"now")
    try:
        return now.stat().st_mtime - lock.stat().st_mtime
    finally:
        now.unlink(missing_ok=True)
