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
HEARTBEAT_SECONDS = 10  # between two times that the lock is written
STALE_SECONDS = 60  # on a store
# How long it takes at most until the later of two that take over a lock has replaced the lock of the other.
SETTLE_SECONDS = 1
# Errors of folders that cannot be written, and of file systems without locks: there, a command goes on without a lock.
_UNLOCKED = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
_OWNER = re.compile(r".*, process (?P<process>\d+) on (?P<node>.*)")
MOST_OF_AN_OWNER = 1000  # characters
NO_LOCK = "must be the lock of negcap, a plain file that names its owner, and is something else: remove it"

_held: ContextVar[frozenset[Path]] = ContextVar("held", default=frozenset())  # the runs that this thread has locked


@contextmanager
def locked(run: Path) -> Iterator[None]:
    """Be the only process that writes into a folder (of a run, a model, results …) during the block.

    Nested blocks of a thread share the lock. A local folder is made if it is missing, and removed again if it is still
    empty. A lock whose owner has ended is taken over, with a message on stderr. A read-only folder, or one on a file
    system without locks, is not locked.

    Raises LockedError, which names the owner, if another process has the lock; ValueError if `run` is a file; OSError
    if the lock cannot be written for another reason.
    """
    folder = run.resolve()
    if folder in _held.get():
        yield
        return
    if not run.is_dir() and run.exists():
        raise ValueError(f"{run}: the output must be a folder, is a file")
    with _locked_object(run) if isinstance(run, RemotePath) else _locked_file(run, folder):
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


def _locked_error(run: PurePath, owner: str) -> LockedError:
    """The error for a run that another process, `owner` (see `_myself`, "" if it is not known), is writing."""
    who = f" ({owner})" if owner else ""
    return LockedError(f"{run} is being written by another negcap{who}: wait until it is done, or stop it")


def _say_taken_over(run: PurePath, owner: str) -> None:
    """Say on stderr that the lock of a process which has ended is taken over."""
    print(
        f"negcap: {run} was left unfinished by {owner or 'another negcap'}; this one goes on with it", file=sys.stderr
    )


@contextmanager
def _locked_file(run: Path, folder: Path) -> Iterator[None]:
    """Hold the lock of a folder on a disk: a file in it that is locked for as long as the context lasts.

    Args:
        run: the folder as the user named it, for messages.
        folder: the same without links. It is made if there is none, and removed in the end if it is empty.
    """
    new_folders = [path for path in (folder, *folder.parents) if not path.exists()]
    file = None
    try:
        try:
            file = _open_locked(run, folder / LOCK)
        except OSError as error:
            if error.errno not in _UNLOCKED or not folder.exists():
                raise
            # The file may have been made before locking it failed.
            with suppress(OSError):
                (folder / LOCK).unlink()
        yield
    finally:
        if file is not None:
            # Before it is unlocked: the next one makes a new file. In the other order it might lock this one, which
            # then vanishes under it, and a third one would lock a new file beside it.
            (folder / LOCK).unlink(missing_ok=True)
            file.close()
        with suppress(OSError):  # what is not empty stays
            for path in new_folders:
                path.rmdir()


def _open_locked(run: Path, lock: Path) -> IO[str]:
    """Lock the file `lock` of the folder `run`, made if it is missing, and write this process into it as the owner.

    Returns:
        The open file. The lock holds until it is closed, or this process ends.

    Raises:
        LockedError: another process has the lock; names it.
        ValueError: the file is something else than a lock.
        OSError: the file cannot be made.
    """
    while True:
        lock.parent.mkdir(parents=True, exist_ok=True)
        # Whoever had the lock before may just have removed the file or the folder: try again.
        with suppress(FileNotFoundError), ExitStack() as opened:
            file = opened.enter_context(_open_plain_file(lock))
            file.seek(0)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise _locked_error(run, file.read(MOST_OF_AN_OWNER)) from None
            # Its owner may have removed it between our opening and our locking it: then it is no longer the file of
            # this name, and another one may lock that. Try again.
            is_still_there = os.path.samestat(os.fstat(file.fileno()), lock.stat())
            if is_still_there:
                owner = file.read(MOST_OF_AN_OWNER)
                if owner and not _OWNER.fullmatch(owner):
                    raise ValueError(f"{lock} {NO_LOCK}")
                # A file with an owner, but not locked: its owner has ended without removing it.
                if owner:
                    _say_taken_over(run, owner)
                file.truncate(0)
                file.write(_myself())
                file.flush()
                opened.pop_all()
                return file


def _open_plain_file(lock: Path) -> IO[str]:
    """Open the file of a lock to read and append; it is made if it is missing.

    Raises ValueError if it is a link, a second name of some file, or no file at all: a folder from elsewhere may hold
    one, and the lock's text would replace what is there. FileNotFoundError if the folder has just been removed.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    # Else a named pipe would block for as long as nobody else opens it.
    flags |= os.O_NONBLOCK
    try:
        descriptor = os.open(lock, flags, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise ValueError(f"{lock} {NO_LOCK}") from None
        raise
    state = os.fstat(descriptor)
    if not stat.S_ISREG(state.st_mode) or state.st_nlink > 1:
        os.close(descriptor)
        raise ValueError(f"{lock} {NO_LOCK}")
    return open(descriptor, "a+", encoding="utf-8", errors="replace")


@contextmanager
def _locked_object(run: RemotePath) -> Iterator[None]:
    """Hold the lock of a folder on a store: an object whose content a thread writes anew, until the block ends."""
    lock = run / LOCK
    # No two owners are equal, not even two of one process.
    content = f"{_myself()}\n{secrets.token_hex(8)}".encode()
    ended = threading.Event()

    def beat() -> None:
        """Write the lock anew every HEARTBEAT_SECONDS, as long as it is ours, until the block ends."""
        while not ended.wait(HEARTBEAT_SECONDS):
            with suppress(OSError):  # a store that fails for a moment; the lock lasts for STALE_SECONDS
                if lock.read_bytes() == content:
                    lock.write_bytes(content)

    _acquire_object(run, lock, content)
    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        # Else it may write the lock anew after it was removed.
        thread.join()
        with suppress(OSError):
            if lock.read_bytes() == content:
                lock.unlink()


def _acquire_object(run: RemotePath, lock: RemotePath, content: bytes) -> None:
    """Write the lock of a folder on a store, if no other process has it.

    It is taken over from an owner that has ended, as far as this machine can know, or that has given no sign of life
    for STALE_SECONDS.

    Args:
        run: the folder.
        lock: its lock.
        content: what to write, the owner in the first line.

    Raises:
        LockedError: another owner has the lock; names it.
    """
    left_by = None  # the owner that the lock was taken over from
    while True:
        try:
            lock.write_bytes(content, new=True)
        except FileExistsError:
            with suppress(FileNotFoundError):  # its owner has just removed it
                owner = lock.read_text().partition("\n")[0]
                if not _has_ended(owner) and _seconds_since_heartbeat(lock) < STALE_SECONDS:
                    raise _locked_error(run, owner) from None
                lock.unlink(missing_ok=True)
                left_by = owner
            continue
        if left_by is None:
            return
        # Two may have found the same old lock: the slower one removes the new lock of the other and writes its own.
        # So both wait, and who then finds another lock than its own gives way.
        time.sleep(SETTLE_SECONDS)
        try:
            present = lock.read_bytes()
        except FileNotFoundError:
            continue  # the other one has removed this lock, and left none of its own: nobody has it now
        if present != content:
            raise _locked_error(run, present.decode().partition("\n")[0])
        _say_taken_over(run, left_by)
        return


def _has_ended(owner: str) -> bool:
    """Whether the owner of a lock was a process of this machine that does not exist any more. False where that cannot
    be known: on other machines, and on systems without /proc.
    """
    process = _OWNER.fullmatch(owner)
    if process is None or process["node"] != platform.node() or not Path("/proc/self").exists():
        return False
    return not Path(f"/proc/{process['process']}").exists()


def _seconds_since_heartbeat(lock: RemotePath) -> float:
    """Seconds since the last heartbeat of a lock, by the clock of its store."""
    # The clock of the store may differ from ours, so an object that is written now tells what time it is there.
    probe = lock.with_name(f"{lock.name}.{os.getpid()}")
    probe.write_bytes(b"now")
    try:
        return probe.stat().st_mtime - lock.stat().st_mtime
    finally:
        probe.unlink(missing_ok=True)
