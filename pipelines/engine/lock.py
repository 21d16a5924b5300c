"""One writer for each run: a lock file in the run's folder, held as long as anything may be written into it.

The file RUN/.lock is held by flock, which the kernel releases when its process ends, however it ends, so that nothing
has to be cleaned up after a kill. It names its owner. Where flock does not reach other machines (some network file
systems), the lock of another machine counts as held while its owner touches the file; where there is no flock at all,
that of this machine counts as held while its process lives.
"""

from __future__ import annotations

import errno
import fcntl
import getpass
import json
import os
import platform
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from negcap.pipelines.engine.errors import LockedError

LOCK = ".lock"
HEARTBEAT_SECONDS = 10
STALE_SECONDS = 60
_NO_FLOCK = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)
_held: dict[Path, int] = {}  # folder -> the thread that writes into it


@dataclass(frozen=True)
class Owner:
    """The process that holds a lock. boot: which start of which machine it runs on. started: when, in Unix seconds."""

    user: str
    host: str
    boot: str
    pid: int
    started: float

    def __str__(self) -> str:
        """As messages name it: `anna, process 4711 on node3`."""
        return f"{self.user}, process {self.pid} on {self.host}"


@contextmanager
def locked(run: Path) -> Iterator[None]:
    """Be the only one who writes into the folder `run` during the block; nested blocks of a thread share the lock.

    The folder is made, and removed again if it was made here and is still empty. A lock whose owner has ended is taken
    over, which is said on stderr. A folder that cannot be written is not locked. Raises LockedError, naming the
    owner, when the folder is locked; ValueError if it is a file.
    """
    place, thread = run.resolve(), threading.get_ident()
    if _held.get(place) == thread:
        yield
        return
    if run.exists() and not run.is_dir():
        raise ValueError(f"{run}: the output must be a folder, is a file")
    new = [path for path in (place, *place.parents) if not path.exists()]
    try:
        file = _acquire(run, place)
    except OSError as error:
        if error.errno not in _READ_ONLY or not place.is_dir():
            raise
        yield
        return
    ended = threading.Event()
    try:
        _held[place] = thread
        threading.Thread(target=_heartbeat, args=(file, ended), name="lock", daemon=True).start()
        yield
    finally:
        with suppress(OSError):
            (place / LOCK).unlink()
        _held.pop(place, None)
        ended.set()
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
            last = _read(file)
            if alone is False or (last is not None and _lives(last, alone, file, place)):
                raise LockedError(
                    f"{run} is being written by another negcap{f' ({last})' if last else ''}: "
                    "wait until it is done, or stop it"
                )
            if not _is(file, place / LOCK):  # its owner has just removed it
                os.close(file)
                continue
            if last is not None:
                print(f"negcap: {run} was left unfinished by {last}; this one goes on with it", file=sys.stderr)
            with suppress(OSError):  # a full disk is reported by what is written next
                os.ftruncate(file, 0)
                os.pwrite(file, json.dumps(asdict(_myself())).encode(), 0)
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


def _lives(owner: Owner, alone: bool | None, file: int, folder: Path) -> bool:
    """Whether the owner that a lock file in `folder` names must be taken to live; alone: see `_flock`."""
    if owner.boot != _boot():  # another machine
        return _age(file, folder) < STALE_SECONDS
    if alone:
        return False
    import psutil

    try:
        return abs(psutil.Process(owner.pid).create_time() - owner.started) < 1
    except psutil.Error:
        return False


def _age(file: int, folder: Path) -> float:
    """Seconds since the last heartbeat of a lock file, by the clock of its file system."""
    now = folder / f"{LOCK}.{os.getpid()}"
    now.touch()
    try:
        return now.stat().st_mtime - os.fstat(file).st_mtime
    finally:
        now.unlink()


def _heartbeat(file: int, ended: threading.Event) -> None:
    while not ended.wait(HEARTBEAT_SECONDS):
        with suppress(OSError):
            os.utime(file)


def _is(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def _read(file: int) -> Owner | None:
    """The owner that a lock file names; None if it names none, as when its owner is just writing it."""
    try:
        return Owner(**json.loads(os.pread(file, 1 << 16, 0)))
    except (ValueError, TypeError):
        return None


def _myself() -> Owner:
    import psutil

    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a number without a name, as in containers
        user = f"user {os.getuid()}"
    return Owner(user, platform.node(), _boot(), os.getpid(), psutil.Process().create_time())


def _boot() -> str:
    """An id of this machine's current start; its name where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return platform.node()
