"""One writer for each run: a lock file in the run's folder, held as long as anything may be written into it.

The file RUN/.lock names its owner. On a local disk it is held by flock, which the kernel releases when its process
ends, however it ends, so that nothing has to be cleaned up after a kill. Where flock does not reach other machines
(some network file systems), and on stores, the lock of another machine counts as held while its owner touches the file,
that of this machine while its process lives. A store makes the file only if there is none, in one step if it can (S3,
Google Storage, Azure); elsewhere two that begin at once may both have it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .fence import check, holding, holds
from .object_lock import object_lock
from .owner import LOCK, lives, locked_by, myself, read_owner, say_taken_over, written
from .remote_path import RemotePath

HEARTBEAT_SECONDS = 10
_NO_FLOCK = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)


@contextmanager
def locked(run: Path) -> Iterator[None]:
    """Be the only one who writes into the folder `run` during the block; nested blocks of a thread share the lock.

    A local folder is made, and removed again if it was made here and is still empty. A lock whose owner has ended is
    taken over, which is said on stderr. A folder that cannot be written is not locked. Raises LockedError, naming the
    owner, when the folder is locked, and instead of an error of the block when another process has taken it over;
    ValueError if it is a file.
    """
    if holds(run):
        yield
        return
    if not run.is_dir() and run.exists():
        raise ValueError(f"{run}: the output must be a folder, is a file")
    hold = object_lock if isinstance(run, RemotePath) else _file_lock
    with hold(run) as (content, beat), holding(run, content):
        ended = threading.Event()
        try:
            threading.Thread(target=_heartbeat, args=(beat, ended), name="lock", daemon=True).start()
            yield
        except Exception:
            with suppress(OSError):  # what could not be read may be what another has written
                check(run / LOCK)
            raise
        finally:
            ended.set()


def _heartbeat(beat: Callable[[], None], ended: threading.Event) -> None:
    while not ended.wait(HEARTBEAT_SECONDS):
        with suppress(OSError):
            beat()


@contextmanager
def _file_lock(run: Path) -> Iterator[tuple[bytes | None, Callable[[], None]]]:
    """Lock a local folder during the block; gives the lock's content (None: not locked), and what touches it."""
    place = run.resolve()
    new = [path for path in (place, *place.parents) if not path.exists()]
    try:
        file = _acquire(run, place)
    except OSError as error:
        if error.errno not in _READ_ONLY or not place.is_dir():
            raise
        yield None, lambda: None
        return
    content = os.pread(file, 1 << 16, 0)  # nothing or a part on a full disk
    try:
        yield content, lambda: os.utime(file)
    finally:
        with suppress(OSError):
            if (place / LOCK).read_bytes() == content:
                (place / LOCK).unlink()
        os.close(file)
        with suppress(OSError):  # what is not empty stays
            for path in new:
                path.rmdir()


def _acquire(run: Path, place: Path) -> int:
    """Lock a folder; returns the open lock file. Raises LockedError when another process has it, OSError."""
    while True:
        place.mkdir(parents=True, exist_ok=True)
        try:
            file = os.open(place / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:  # who was here before has just removed the folder
            continue
        try:
            alone = _flock(file)
            last = read_owner(os.pread(file, 1 << 16, 0))
            if alone is False or (last is not None and lives(last, alone, lambda: _age(file, place))):  # noqa: B023
                raise locked_by(run, last)
            if not _is(file, place / LOCK):  # its owner has just removed it
                os.close(file)
                continue
            if last is not None:
                say_taken_over(run, last)
            with suppress(OSError):  # a full disk is reported by what is written next
                os.ftruncate(file, 0)
                os.pwrite(file, written(myself()), 0)
            return file
        except BaseException:
            with suppress(OSError):
                os.close(file)
            raise


def _flock(file: int) -> bool | None:
    """Whether this process has the flock of a file now, and no other of this machine has it; None: there is none."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno == errno.EWOULDBLOCK:
            return False
        if error.errno in _NO_FLOCK:
            return None
        raise
    return True


def _age(file: int, folder: Path) -> float:
    """Seconds since the last heartbeat of a lock file, by the clock of its file system."""
    now = folder / f"{LOCK}.{os.getpid()}"
    now.touch()
    try:
        return now.stat().st_mtime - os.fstat(file).st_mtime
    finally:
        now.unlink()


def _is(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False
