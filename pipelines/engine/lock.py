"""One writer for each folder that commands write (runs, models, results, published sets): the lock FOLDER/.lock, which
names its owner. On a disk its owner has locked the file (flock), so that the system unlocks it when the process ends.
On a store it is an object, made if there is none (one step on S3, Google Storage, Azure) and written anew every
HEARTBEAT_SECONDS; it counts as left after STALE_SECONDS, or if its owner was a process of this machine and has ended. A
process that stood still for so long may write a shard of another's table: no manifest states that, so nobody reads it,
and it is made again.
"""

from __future__ import annotations

import errno
import fcntl
import getpass
import os
import platform
import re
import secrets
import stat
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
from .storage import STAGED, names

LOCK = ".lock"  # the file's name
HEARTBEAT_SECONDS = 10
STALE_SECONDS = 60  # on a store
SETTLE_SECONDS = 1  # until the later of two that take over a lock has replaced that of the other
# of folders that cannot be written, and of file systems without locks
_UNLOCKED = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
_OWNER = re.compile(r".*, process (?P<process>\d+) on (?P<node>.*)")
MOST_OF_AN_OWNER = 1000  # characters
NO_LOCK = "must be the lock of negcap, a plain file that names its owner, and is something else: remove it"

_held: ContextVar[frozenset[Path]] = ContextVar("held", default=frozenset())  # the runs that this thread has locked


@contextmanager
def locked(run: Path) -> Iterator[None]:
    """Be the only one who writes into the folder `run`, or of a model, of results …, during the block; nested blocks of
    a thread share the lock.

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


def holds_nothing(folder: Path) -> bool:
    """Whether a folder is missing or empty but for its lock and what a killed command had not moved into place."""
    return not {*names(folder)} - {LOCK, STAGED}


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
            file = opened.enter_context(_plain_file(lock))
            file.seek(0)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise _refused(run, file.read(MOST_OF_AN_OWNER)) from None
            if os.path.samestat(os.fstat(file.fileno()), lock.stat()):
                owner = file.read(MOST_OF_AN_OWNER)
                if owner and not _OWNER.fullmatch(owner):
                    raise ValueError(f"{lock} {NO_LOCK}")
                if owner:
                    _say_left(run, owner)
                file.truncate(0)
                file.write(_myself())
                file.flush()
                opened.pop_all()
                return file


def _plain_file(lock: Path) -> IO[str]:
    """Open the file of a lock, which is made if it is missing, to read and append. Raises ValueError for a link, a
    second name of some file, or no file at all: a folder from elsewhere may hold one, and the lock's text would replace
    what is there. FileNotFoundError if the folder has just been removed.
    """
    try:  # a named pipe would block for as long as nobody else opens it
        number = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise ValueError(f"{lock} {NO_LOCK}") from None
        raise
    state = os.fstat(number)
    if not stat.S_ISREG(state.st_mode) or state.st_nlink > 1:
        os.close(number)
        raise ValueError(f"{lock} {NO_LOCK}")
    return open(number, "a+", encoding="utf-8", errors="replace")


@contextmanager
def _object(run: RemotePath) -> Iterator[None]:
    lock = run / LOCK
    mine = f"{_myself()}\n{secrets.token_hex(8)}".encode()
    ended = threading.Event()

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
                here = _OWNER.fullmatch(owner)
                ended = here and here["node"] == platform.node() and not Path(f"/proc/{here['process']}").exists()
                ended = ended and Path("/proc/self").exists()
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
