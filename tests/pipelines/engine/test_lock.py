import errno
import fcntl
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from negcap.pipelines.cli import main
from negcap.pipelines.engine import lock
from negcap.pipelines.engine.errors import LockedError
from negcap.pipelines.engine.lock import LOCK, locked, myself
from tests.conftest import ROOT, SAMPLE

HOLD = """
import sys
from pathlib import Path
from negcap.pipelines.engine.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
"""
WRITERS = (
    *("parse", "lexicon", "components", "truth", "balance", "negatives", "refine"),
    *(("build", SAMPLE, "--output"), ("ingest", SAMPLE, "--output"), ("scenes", "--output")),
)


@contextmanager
def held_elsewhere(run: Path) -> Iterator[subprocess.Popen]:
    """Another process that holds the lock of a run."""
    command = [sys.executable, "-c", HOLD, str(run)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_second_build_is_refused_and_what_comes_after_a_kill_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    ingest = ["ingest", str(SAMPLE), "--output", str(run), "--limit", "2", "--quiet"]
    with held_elsewhere(run) as other:
        assert main(["build", *ingest[1:], "--scheduler", "synchronous", "--overwrite"]) == 2
        assert os.listdir(run) == [LOCK]
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"negcap: {run} is being written by another negcap (")
        assert f"process {other.pid} on " in line and line.endswith("): wait until it is done, or stop it")
        other.kill()
        other.wait()
        assert main(ingest) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"negcap: {run} was left unfinished by ") and f"process {other.pid} on " in line
    assert not (run / LOCK).exists()
    assert main(ingest) == 0
    assert not capsys.readouterr().err


@pytest.fixture
def held(sample_run: Path, tmp_path: Path) -> Iterator[Path]:
    """A run that another thread writes into."""
    run = Path(shutil.copytree(sample_run, tmp_path / "run"))
    ready, done = threading.Event(), threading.Event()

    def hold() -> None:
        with locked(run):
            ready.set()
            done.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    assert ready.wait(10)
    yield run
    done.set()
    holder.join()


def test_what_writes_needs_the_lock_and_what_reads_does_not(held: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for writer in WRITERS:
        command = [writer] if isinstance(writer, str) else [str(word) for word in writer]
        more = [] if command[0] in ("ingest", "scenes") else ["--scheduler", "synchronous"]
        assert main([*command, str(held), *more, "--overwrite", "--quiet"]) == 2, command
        assert f"process {os.getpid()} on" in capsys.readouterr().err
    for reader in ("info", "show", "verify"):
        assert main([reader, str(held)]) == 0


def test_a_block_within_a_block_and_what_is_left_of_both(tmp_path: Path) -> None:
    run = tmp_path / "a" / "b"
    with locked(run):
        with locked(tmp_path / "a" / ".." / "a" / "b"):
            assert (run / LOCK).exists()
        assert (run / LOCK).exists()
    assert not (tmp_path / "a").exists()
    run.mkdir(parents=True)
    with locked(run):
        pass
    assert run.exists() and not os.listdir(run)


def test_a_read_only_folder_is_not_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open

    def refuse(path: Path, *arguments: int) -> int:
        if Path(path).name == LOCK:
            raise OSError(errno.EROFS, "Read-only file system", str(path))
        return opened(path, *arguments)

    monkeypatch.setattr(os, "open", refuse)
    with locked(tmp_path):
        assert not os.listdir(tmp_path)


def no_flock(file: int, how: int) -> None:
    raise OSError(errno.ENOLCK, "No locks available")


@pytest.mark.parametrize(
    "changed, age, flock, lives",
    [
        ({"boot": "another machine"}, 5, True, True),
        ({"boot": "another machine"}, 5, False, True),
        ({"boot": "another machine"}, 100, True, False),
        ({"boot": "another machine"}, 100, False, False),
        ({}, 5, True, False),
        ({}, 100, False, True),
        ({"started": 1.0}, 5, False, False),
        ({"pid": 2**22 + 1}, 5, False, False),
    ],
)
def test_stale_locks_are_told_from_live_ones(
    changed: dict, age: float, flock: bool, lives: bool, tmp_path: Path, monkeypatch, capsys
) -> None:  # type: ignore[no-untyped-def]
    """A lock file that a process on this machine (this one) or another has left, or keeps, without a flock."""
    owner = replace(myself(), **changed)
    (tmp_path / LOCK).write_text(json.dumps(asdict(owner)))
    now = time.time()
    os.utime(tmp_path / LOCK, (now - age, now - age))
    if not flock:
        monkeypatch.setattr(fcntl, "flock", no_flock)
    if lives:
        with pytest.raises(LockedError, match=str(owner)):
            with locked(tmp_path):
                pass
        assert os.listdir(tmp_path) == [LOCK]
    else:
        with locked(tmp_path):
            assert json.loads((tmp_path / LOCK).read_text())["pid"] == os.getpid()
        assert str(owner) in capsys.readouterr().err
        assert not os.listdir(tmp_path)


def test_a_lock_is_touched_as_long_as_it_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "HEARTBEAT_SECONDS", 0.01)
    with locked(tmp_path):
        os.utime(tmp_path / LOCK, (1, 1))
        deadline = time.monotonic() + 10
        while (tmp_path / LOCK).stat().st_mtime < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert time.time() - (tmp_path / LOCK).stat().st_mtime < 60


def test_one_at_a_time_however_fast_they_come_and_go(tmp_path: Path) -> None:
    inside: list[int] = []
    most, times = [0], [0]

    def come_and_go() -> None:
        for _ in range(100):
            try:
                with locked(tmp_path):
                    inside.append(1)
                    most[0] = max(most[0], len(inside))
                    times[0] += 1
                    inside.pop()
            except LockedError:
                pass

    threads = [threading.Thread(target=come_and_go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] and times[0] >= 4
    assert not os.listdir(tmp_path)
