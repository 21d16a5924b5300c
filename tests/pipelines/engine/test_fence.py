"""Whoever has lost the lock of a run writes nothing more into it."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from negcap.pipelines.engine import object_lock, owner
from negcap.pipelines.engine.cluster import Synchronous
from negcap.pipelines.engine.errors import ClusterError, LockedError
from negcap.pipelines.engine.lock import LOCK, locked
from negcap.pipelines.engine.places import RemotePath, place
from negcap.pipelines.engine.progress import measured
from negcap.pipelines.engine.storage import files_below
from negcap.pipelines.engine.tables import verify
from tests.conftest import ROOT
from tests.pipelines.engine.toy_stages import ToyConfig, run_toys, write_captions

TEXTS = [f"a dog chases {number} birds" for number in range(9)]
STANDS_STILL = """
import errno, fcntl, os, signal, sys
from negcap.pipelines.engine import lock
from negcap.pipelines.engine.errors import LockedError
from negcap.pipelines.engine.places import place
from negcap.pipelines.engine.places import RemotePath
from tests.pipelines.engine import toy_stages

_, run, moment = sys.argv
works, puts = toy_stages._misbehave, RemotePath.write_bytes

def no_flock(file, how):
    raise OSError(errno.ENOLCK, "No locks available")

def stand_still_once():
    global moment
    moment = "past"
    os.kill(os.getpid(), signal.SIGSTOP)

def work(texts):
    if moment == "work" and "3" in texts[0]:
        stand_still_once()
    works(texts)

def put(path, *given):
    if str(path).endswith(moment):
        stand_still_once()
    puts(path, *given)

fcntl.flock, lock.HEARTBEAT_SECONDS = no_flock, 0.05
toy_stages._misbehave, RemotePath.write_bytes = work, put
try:
    toy_stages.run_toys(place(run), scheduler="synchronous", overwrite=True)
except LockedError as error:
    sys.exit(str(error))
"""


def no_flock(file: int, how: int) -> None:
    raise OSError(errno.ENOLCK, "No locks available")


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process counts as one of another machine, which flock does not reach, and locks do not last long."""
    monkeypatch.setattr(fcntl, "flock", no_flock)
    monkeypatch.setattr(owner, "_boot", lambda: "another machine")
    monkeypatch.setattr(owner, "STALE_SECONDS", 0)
    monkeypatch.setattr(object_lock, "SETTLE_SECONDS", 0)


def content(run: Path) -> dict[str, bytes]:
    """Every file of a run but its lock."""
    return {str(path): path.read_bytes() for path in files_below(run) if path.name != LOCK}


@pytest.mark.parametrize(
    "store, moment, older, ended",
    [
        ("disk", "work", False, False),
        ("s3", "work", False, True),
        ("s3", "words/part-00001.parquet", False, False),
        ("s3", "words/part-00001.parquet", True, True),
    ],
)
def test_who_stood_still_while_another_took_the_run_over_writes_nothing(
    store: str, moment: str, older: bool, ended: bool, elsewhere: None, bucket: str, tmp_path: Path
) -> None:
    """moment: when it stands still: at work, or when it has made sure of its lock and would write this file. older:
    whether the files are there already. ended: whether the other one has ended when it goes on.
    """
    run = tmp_path / "run" if store == "disk" else place(f"{bucket}/{moment.replace('/', '-')}-{older}")
    write_captions(run, TEXTS, 3)
    if older:
        run_toys(run, ToyConfig(seed=5), scheduler="synchronous")
    command = [sys.executable, "-c", STANDS_STILL, str(run), moment]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as first:
        _, status = os.waitpid(first.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)

        def go_on() -> str:
            os.kill(first.pid, signal.SIGCONT)
            return first.communicate(timeout=30)[1]

        try:
            with locked(run):
                run_toys(run, ToyConfig(upper=True), scheduler="synchronous", overwrite=True)
                made = content(run)
                said = "" if ended else go_on()
            said = said or go_on()
        finally:
            first.kill()
    assert first.returncode == 1
    who = ", which has ended," if ended else f" ({owner.myself()})"
    assert said == f"{run} was taken over by another negcap{who} while this one stood still: this one stops\n"
    assert content(run) == made and not (run / LOCK).exists()
    assert verify(run).problems == ()


class Late(Synchronous):
    """Loses its workers before any shard is made; keeps the calls, which they go on with."""

    def __init__(self) -> None:
        self.calls: list[tuple] = []

    def map(self, function: Callable[..., Any], calls: Sequence[tuple], on_report: Any = None) -> Any:
        if function is not measured:
            return super().map(function, calls, on_report)
        self.calls += calls
        raise ClusterError("lost")


@pytest.mark.parametrize("store", ["disk", "memory"])
def test_a_worker_that_goes_on_for_a_lost_owner_writes_nothing(store: str, tmp_path: Path) -> None:
    run = tmp_path / "run" if store == "disk" else place("memory://late")
    write_captions(run, TEXTS, 3)
    late = Late()
    with pytest.raises(ClusterError):
        run_toys(run, pool=late)
    run_toys(run, scheduler="synchronous")
    made = content(run)
    for call in late.calls:
        with pytest.raises(LockedError, match="was taken over by another negcap, which has ended,"):
            measured(*call)
    with locked(run):
        for call in late.calls:
            with pytest.raises(LockedError, match=f"was taken over by another negcap .*process {os.getpid()} on"):
                measured(*call)
    assert content(run) == made and len(late.calls) == 3


def test_what_another_has_written_is_no_damage(tmp_path: Path) -> None:
    write_captions(tmp_path, TEXTS, 3)
    with pytest.raises(LockedError, match="was taken over"), locked(tmp_path):
        (tmp_path / LOCK).write_bytes(b"of another")
        raise ValueError("captions are damaged")
    assert (tmp_path / LOCK).read_bytes() == b"of another"


def test_a_late_heartbeat_does_not_take_the_lock_back(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run, read = place(f"{bucket}/beat"), RemotePath.read_bytes

    def read_then_taken_over(path: RemotePath) -> bytes:
        found = read(path)
        path.write_bytes(b"of another")
        return found

    with object_lock.object_lock(run) as (_, beat):
        with monkeypatch.context() as patch, pytest.raises(FileExistsError):
            patch.setattr(RemotePath, "read_bytes", read_then_taken_over)
            beat()
        assert (run / LOCK).read_bytes() == b"of another"
