"""One writer for each run: the lock file RUN/.lock, made only if there is none, which names its owner.

The owner writes (touches) it every HEARTBEAT_SECONDS. A lock of this machine counts as left when its process has ended,
one of another machine (or of another container) after STALE_SECONDS without a heartbeat. Who takes over a lock that was
left looks again after a moment: of two that do so at once, the one whose lock was replaced stops. A local disk and S3,
Google Storage and Azure make the file in one step; on other stores two that begin at once may both have it.

Whoever has lost the lock writes nothing more into the run (the fence). A process that stands still (SIGSTOP, a lost
network) for longer than its lock lasts does not know that another has taken its run over. So each write
asks first whether the lock file is still the one that the writer, or whom it works for, has written. After the answer
it may stand still again; therefore a write to S3 names the version of the object that it replaces, which it has seen
before it asked. If the run is taken over after the answer, then either the other one has written the object, and the
store refuses the late write, or it will, and replaces what came late. What is left is an object that the other one
keeps with the bytes it had (or as missing), if the late writer stood still just between answer and request; and
removals, writes to other stores, and renaming on a disk, where nothing can be made conditional. Such a file is not the
one that its manifest states: nobody reads it, and it is made again.
"""

from __future__ import annotations

import errno
import getpass
import json
import os
import platform
import secrets
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType

from .errors import LockedError
from .places import RemotePath

LOCK = ".lock"  # the file's name
HEARTBEAT_SECONDS = 10
STALE_SECONDS = 60
SETTLE_SECONDS = 1  # on a store
LOCAL_SETTLE_SECONDS = 0.05
_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)

# run -> the content of its lock, for the thread that may write there (workers have threads for several owners at once)
_held: ContextVar[Mapping[Path, bytes | None]] = ContextVar("held", default=MappingProxyType({}))


@dataclass(frozen=True)
class Owner:
    """The process that holds a lock. boot: which start of which machine it runs on. started: when, in Unix seconds.

    token: random, so that no two locks are the same.
    """

    user: str
    host: str
    boot: str
    pid: int
    started: float
    token: str = ""

    def __str__(self) -> str:
        """As messages name it: `anna, process 4711 on node3`."""
        return f"{self.user}, process {self.pid} on {self.host}"


def myself() -> Owner:
    """This process as the owner of a lock, from now on."""
    import psutil

    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a number without a name, as in containers
        user = f"user {os.getuid()}"
    return Owner(user, platform.node(), _boot(), os.getpid(), psutil.Process().create_time(), secrets.token_hex(8))


def _boot() -> str:
    """An id of this machine's current start and of what numbers its processes; its name where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip() + os.readlink("/proc/self/ns/pid")
    except OSError:
        return platform.node()


def _owner(data: bytes) -> Owner | None:
    """The owner that a lock file names; None if it names none, as when its owner is just writing it."""
    try:
        return Owner(**json.loads(data))
    except (ValueError, TypeError):
        return None


def _lives(owner: Owner | None, lock: Path) -> bool:
    """Whether the owner of a lock must be taken to live."""
    if owner is None or owner.boot != _boot():  # another machine
        return _age(lock) < STALE_SECONDS
    import psutil

    try:
        process = psutil.Process(owner.pid)
        return abs(process.create_time() - owner.started) < 1 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _age(lock: Path) -> float:
    """Seconds since the last heartbeat of a lock, by the clock of its disk or store."""
    now = lock.with_name(f"{lock.name}.{os.getpid()}")
    now.write_bytes(b"now")
    try:
        if isinstance(lock, RemotePath):
            return float((now.modified() - lock.modified()).total_seconds())
        return now.stat().st_mtime - lock.stat().st_mtime
    finally:
        now.unlink(missing_ok=True)


@contextmanager
def locked(run: Path) -> Iterator[None]:
    """Be the only one who writes into the folder `run` during the block; nested blocks of a thread share the lock.

    A local folder is made, and removed again if it was made here and is still empty. A lock whose owner has ended is
    taken over, which is said on stderr. A folder that cannot be written is not locked. Raises LockedError, naming the
    owner, when the folder is locked, and instead of an error of the block when another process has taken it over;
    ValueError if it is a file.
    """
    if run.resolve() in _held.get():
        yield
        return
    if not run.is_dir() and run.exists():
        raise ValueError(f"{run}: the output must be a folder, is a file")
    place = run.resolve()
    new = [] if isinstance(run, RemotePath) else [path for path in (place, *place.parents) if not path.exists()]
    mine: bytes | None = None
    ended = threading.Event()
    try:
        try:
            mine = _acquire(run, place / LOCK, json.dumps(asdict(myself())).encode())
        except OSError as error:
            if error.errno not in _READ_ONLY or new:
                raise
        with holding(run, mine):
            if mine is not None:
                threading.Thread(target=_heartbeat, args=(place / LOCK, mine, ended), daemon=True).start()
            try:
                yield
            except Exception:
                with suppress(OSError):  # what could not be read may be what another has written
                    check(run / LOCK)
                raise
    finally:
        ended.set()
        with suppress(OSError):
            if (place / LOCK).read_bytes() == mine:
                (place / LOCK).unlink()
        with suppress(OSError):  # what is not empty stays
            for path in new:
                path.rmdir()


def _acquire(run: Path, lock: Path, mine: bytes) -> bytes:
    """Write a lock file; returns its content. Raises LockedError when another process has it, OSError."""
    last, taken = None, False
    while True:
        try:
            lock.parent.mkdir(parents=True, exist_ok=True)
            mine = _create(lock, mine)
            break
        except FileExistsError:
            with suppress(FileNotFoundError):  # its owner has just removed it
                last = _owner(lock.read_bytes())
                if _lives(last, lock):
                    raise _locked_by(run, last) from None
                lock.unlink(missing_ok=True)
                taken = True
        except FileNotFoundError:
            if isinstance(lock, RemotePath):
                raise  # no such bucket; locally, who was here before has just removed the folder
    if taken:
        time.sleep(SETTLE_SECONDS if isinstance(lock, RemotePath) else LOCAL_SETTLE_SECONDS)
        found = _content(lock)
        if found != mine:
            raise _locked_by(run, _owner(found or b""))
        who = last or "another negcap"
        print(f"negcap: {run} was left unfinished by {who}; this one goes on with it", file=sys.stderr)
    for left in [] if isinstance(lock, RemotePath) else lock.parent.glob(f"{LOCK}.*"):  # by who was killed here
        left.unlink(missing_ok=True)
    return mine


def _create(lock: Path, data: bytes) -> bytes:
    """Make a lock file in one step; returns its content, less of it on a full disk. Raises FileExistsError."""
    if isinstance(lock, RemotePath):
        lock.write_bytes(data, None)
        return data
    temporary = lock.with_name(f"{lock.name}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.write_bytes(data)
        os.link(temporary, lock)
        return data
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOENT) or not temporary.exists():
            raise
        with lock.open("xb") as file:  # a disk without links, or a full one, which is reported by what is written next
            with suppress(OSError):
                file.write(data)
                file.flush()
        return lock.read_bytes()
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _heartbeat(lock: Path, mine: bytes, ended: threading.Event) -> None:
    while not ended.wait(HEARTBEAT_SECONDS):
        with suppress(OSError):
            beat(lock, mine)


def beat(lock: Path, mine: bytes) -> None:
    """Make a lock as new, unless it is another one."""
    version = lock.version() if isinstance(lock, RemotePath) else None
    if lock.read_bytes() == mine:
        if isinstance(lock, RemotePath):
            lock.write_bytes(mine, version)
        else:
            os.utime(lock)


def _locked_by(run: Path, owner: Owner | None) -> LockedError:
    who = f" ({owner})" if owner else ""
    return LockedError(f"{run} is being written by another negcap{who}: wait until it is done, or stop it")


@contextmanager
def holding(run: Path, lock: bytes | None) -> Iterator[None]:
    """Let this thread write into a run during the block, as long as its lock file has this content (None: unlocked)."""
    token = _held.set({**_held.get(), run.resolve(): lock})
    try:
        yield
    finally:
        _held.reset(token)


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
            owner = _owner(found or b"")
            who = f" ({owner})" if owner else "" if found is not None else ", which has ended,"
            why = f"was taken over by another negcap{who} while this one stood still: this one stops"
            raise LockedError(f"{folder} {why}")


def _content(lock: Path) -> bytes | None:
    """What a lock file contains; None if there is none."""
    with suppress(FileNotFoundError):
        return lock.read_bytes()
    if isinstance(lock, RemotePath):
        return None
    os.listdir(lock.parent)  # a network file system may remember that there was none, until the folder is opened
    return lock.read_bytes() if lock.exists() else None
