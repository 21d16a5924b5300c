"""Who holds the lock of a run, and whether that process still lives."""

from __future__ import annotations

import getpass
import json
import os
import platform
import secrets
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from .errors import LockedError

LOCK = ".lock"  # the file's name
STALE_SECONDS = 60


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


def lives(owner: Owner | None, alone: bool | None, age: Callable[[], float]) -> bool:
    """Whether the owner of a lock must be taken to live.

    alone: whether it is known that no other process of this machine has the lock; None: it cannot be known. age: gives
    the seconds since the owner's last heartbeat.
    """
    if owner is None or owner.boot != _boot():  # another machine
        return age() < STALE_SECONDS
    if alone:
        return False
    import psutil

    try:
        return abs(psutil.Process(owner.pid).create_time() - owner.started) < 1
    except psutil.Error:
        return False


def locked_by(run: Path, owner: Owner | None) -> LockedError:
    """The error for a run that another process is writing; owner: that process, None if it is not known."""
    who = f" ({owner})" if owner else ""
    return LockedError(f"{run} is being written by another negcap{who}: wait until it is done, or stop it")


def lost_to(run: Path, owner: Owner | None, locked: bool) -> LockedError:
    """The error for a run whose lock this process had; owner: who has it now, if it is `locked` and that is known."""
    who = f" ({owner})" if owner else "" if locked else ", which has ended,"
    return LockedError(f"{run} was taken over by another negcap{who} while this one stood still: this one stops")


def say_taken_over(run: Path, last: Owner | None) -> None:
    """Say on stderr that a run which its last writer (None: unknown) left unfinished is continued by this process."""
    print(f"negcap: {run} was left unfinished by {last or 'another negcap'}; this one goes on with it", file=sys.stderr)


def read_owner(data: bytes) -> Owner | None:
    """The owner that a lock file names; None if it names none, as when its owner is just writing it."""
    try:
        return Owner(**json.loads(data))
    except (ValueError, TypeError):
        return None


def written(owner: Owner) -> bytes:
    """The bytes of a lock file that names this owner: JSON, which `read_owner` reads."""
    return json.dumps(asdict(owner)).encode()


def myself() -> Owner:
    """This process as the owner of a lock, from now on."""
    import psutil

    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a number without a name, as in containers
        user = f"user {os.getuid()}"
    return Owner(user, platform.node(), _boot(), os.getpid(), psutil.Process().create_time(), secrets.token_hex(8))


def _boot() -> str:
    """An id of this machine's current start; its name where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return platform.node()
