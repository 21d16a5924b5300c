"""One writer for each run: the lock file RUN/.lock, made only if there is none, which names its owner.

The owner writes (touches) it every HEARTBEAT_SECONDS. A lock of this machine counts as left when its process has ended,
one of another machine (or of another container) after STALE_SECONDS without a heartbeat. Who takes over a lock that was
left looks again after a moment: of two that do so at once, the one whose lock was replaced stops. A local disk and S3,
Google Storage and Azure make the file in one step; on other stores two that begin at once may both have it.

Whoever has lost the lock writes nothing more into the run (the fence). A process that stands still (SIGSTOP, a lost
network) for longer than its lock lasts does not know that another has taken its run over. So each write
asks first whether the lock file is still the one that the writer, or whom it works for, has written. After the answer
it may stand still again; therefore a write to S3 names the version of the object that it replaces, which it has seen
before it asked: the store refuses it if the other one has written the object since. What is left is an object that the
other one keeps with the bytes it had (or as missing), if the late writer stood still just between answer and request;
and removals, writes to other stores, and renaming on a disk, where nothing can be made conditional. Such a file is not
the one that its manifest states: nobody reads it, and it is made again.
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
_NO_LINKS = (errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)

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


def _owner(data: bytes | None) -> Owner | None:
    """The owner that a lock file names; None if it names none, as when its owner is just writing it."""
    try:
        return Owner(**json.loads(data or b""))
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
        return now.stat().st_mtime - lock.stat().st_mtime
    finally:
        now.unlink(missing_ok=True)


@contextmanager
def locked(run: Path) -> Iterator[None]:
    """Be the only one who writes into the folder `run` during the block; nested blocks of a thread share the lock.

    A local folder is made, and removed again if it was made here and is still empty. A lock whose owner has ended is
    taken over, which is said on stderr. A folder that cannot be written is not locked. Raises LockedError, naming the
    owner, when the folder is locked, and instead of an error of the block when another process has taken it over;
    ValueError if it is a file, OSError if the lock cannot be written.
    """
    folder = run.resolve()
    if folder in _held.get():
        yield
        return
    if not run.is_dir() and run.exists():
        raise ValueError(f"{run}: the output must be a folder, is a file")
    new = [] if isinstance(run, RemotePath) else [path for path in (folder, *folder.parents) if not path.exists()]
    lock, mine, ended = folder / LOCK, None, threading.Event()
    try:
        try:
            mine = json.dumps(asdict(myself())).encode()
            _acquire(run, lock, mine)
            threading.Thread(target=_heartbeat, args=(lock, mine, ended), daemon=True).start()
        except OSError as error:
            mine = None
            if error.errno not in _READ_ONLY or new:
                raise
        with holding(run, mine):
            try:
                yield
            except Exception:
                with suppress(OSError):  # what could not be read may be what another has written
                    check(run / LOCK)
                raise
    finally:
        ended.set()
        with suppress(OSError):
            if lock.read_bytes() == mine:
                lock.unlink()
        with suppress(OSError):  # what is not empty stays
            for path in new:
                path.rmdir()


def _acquire(run: Path, lock: Path, mine: bytes) -> None:
    """Write a lock file. Raises LockedError when another process has it, OSError."""
    last, left = None, False
    while True:
        try:
            lock.parent.mkdir(parents=True, exist_ok=True)
            _create(lock, mine)
            break
        except FileExistsError:
            with suppress(FileNotFoundError):  # its owner has just removed it
                last = _owner(lock.read_bytes())
                if _lives(last, lock):
                    raise _locked_by(run, last) from None
                lock.unlink(missing_ok=True)
                left = True
        except FileNotFoundError:
            if isinstance(lock, RemotePath):
                raise  # no such bucket; locally, who was here before has just removed the folder
    if left:
        time.sleep(SETTLE_SECONDS if isinstance(lock, RemotePath) else LOCAL_SETTLE_SECONDS)
        if (now := _content(lock)) != mine:
            raise _locked_by(run, _owner(now))
        who = last or "another negcap"
        print(f"negcap: {run} was left unfinished by {who}; this one goes on with it", file=sys.stderr)
    for temporary in [] if isinstance(lock, RemotePath) else lock.parent.glob(f"{LOCK}.*"):  # of who was killed here
        temporary.unlink(missing_ok=True)


def _create(lock: Path, data: bytes) -> None:
    """Make a lock file in one step. Raises FileExistsError."""
    if isinstance(lock, RemotePath):
        lock.write_bytes(data, None)
        return
    temporary = lock.with_name(f"{lock.name}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.write_bytes(data)
        os.link(temporary, lock)
    except OSError as error:
        if error.errno not in _NO_LINKS or not temporary.exists():
            raise
        with lock.open("xb") as file:
            file.write(data)
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
        if lock is not None and (now := _content(folder / LOCK)) != lock:
            owner = _owner(now)
            who = f" ({owner})" if owner else "" if now is not None else ", which has ended,"
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
