"""What the fault bench does to builds: run them in forks of this process, stop them, break their files."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from negcap.pipelines.cli import main
from negcap.pipelines.engine.manifest import manifest_path
from negcap.pipelines.engine.progress import STATISTICS

PATIENCE = 300  # seconds for one command


class Ended(NamedTuple):
    """How a command ended: its status (negative: the signal that killed it), stdout and stderr, and how long it ran."""

    status: int
    out: str
    err: str
    seconds: float

    @property
    def refusal(self) -> bool:
        """Whether it ended in one line that says why."""
        return self.status == 2 and self.err.startswith("negcap") and self.err.count("\n") == 1


class Fork:
    """A command of negcap in a copy of this process, which has loaded all modules and models already."""

    def __init__(self, arguments: list[str], prepare: Callable[[], None] = lambda: None) -> None:
        """Start it. prepare: called in the copy before the command."""
        self._files = [os.memfd_create(name) for name in ("out", "err")]
        self._began = time.monotonic()
        self._ended: Ended | None = None
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid:
            return
        status = 70  # of sysexits.h: an error within the software
        try:
            for number, file in enumerate(self._files, 1):
                os.dup2(file, number)
            for name in ("SIGTERM", "SIGHUP", "SIGINT"):
                signal.signal(signal.Signals[name], signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            prepare()
            status = main(arguments)
        except BaseException:  # pytest and the bench must not go on in the copy
            import traceback

            traceback.print_exc()
        finally:
            with contextlib.suppress(BaseException):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status)

    def running(self) -> bool:
        """Whether it has not ended yet."""
        if self._ended is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._end(status)
        return self._ended is None

    def stop(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def wait(self) -> Ended:
        """Wait for its end; it is killed when it takes longer than PATIENCE."""
        deadline = time.monotonic() + PATIENCE
        while self.running():
            if time.monotonic() > deadline:
                self.stop(signal.SIGKILL)
            time.sleep(0.005)
        assert self._ended is not None
        return self._ended

    def _end(self, status: int) -> None:
        seconds = time.monotonic() - self._began
        said = []
        for file in self._files:
            said.append(os.pread(file, 1 << 24, 0).decode("utf-8", "replace"))
            os.close(file)
        self._ended = Ended(os.waitstatus_to_exitcode(status), said[0], said[1], seconds)


def content(folder: Path) -> dict[str, bytes]:
    """Every file below a folder but statistics and caches, which commands that only read leave there, by path."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.parent.name != STATISTICS and ".cache" not in path.relative_to(folder).parts
    }


def full_after(writes: int) -> Callable[[], None]:
    """A disk that is full after so many files: to be called in a process."""

    def prepare() -> None:
        left, replace = [writes], os.replace

        def full(*paths: Path) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            replace(*paths)

        os.replace = full  # type: ignore[assignment]

    return prepare


def no_file_above(size: int) -> Callable[[], None]:
    """A limit to the size of each file, as of a quota: to be called in a process."""

    def prepare() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    return prepare


def without_stages(run: Path, stages: tuple[str, ...], outputs: dict[str, list[str]], copy: Path) -> Path:
    """A copy of a run as it was before these stages; outputs: the tables that each makes."""
    shutil.copytree(run, copy)
    for stage in stages:
        for table in outputs[stage]:
            shutil.rmtree(copy / table, ignore_errors=True)
            manifest_path(copy / table).unlink(missing_ok=True)
    return copy
