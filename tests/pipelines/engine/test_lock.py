"""One writer for each folder that commands write."""

import errno
import os
import platform
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from negcap.pipelines.cli import main
from negcap.pipelines.engine import lock
from negcap.pipelines.engine.errors import LockedError
from negcap.pipelines.engine.lock import LOCK, locked
from negcap.pipelines.engine.places import place
from negcap.pipelines.engine.storage import scratch_folder
from negcap.pipelines.models.figures import write_results
from tests.cases import cases_of
from tests.conftest import ROOT, SAMPLE

ENDED = f"anna, process {2**22 + 1} on {platform.node()}"  # no process has such a number
HOLD = """
import sys
from pathlib import Path
from negcap.pipelines.engine.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
"""
HERE = "--scheduler synchronous --overwrite --quiet"


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


def test_a_second_build_is_refused_and_what_comes_after_a_kill_goes_on(tmp_path, capsys):
    run = tmp_path / "run"
    ingest = ["build", str(SAMPLE), "--output", str(run), "--only", "ingest", "--limit", "2", "--quiet"]
    with held_elsewhere(run) as other:
        assert main([*ingest, "--scheduler", "synchronous", "--overwrite"]) == 2
        assert os.listdir(run) == [LOCK]
        [line] = capsys.readouterr().err.splitlines()
        assert str(run) in line and f"process {other.pid} on " in line
        other.kill()
        other.wait()
        assert main(ingest) == 0
    [line] = capsys.readouterr().err.splitlines()
    assert f"{run} was left unfinished by " in line and f"process {other.pid} on " in line
    assert not (run / LOCK).exists()
    assert main(ingest) == 0
    assert not capsys.readouterr().err


@pytest.fixture(scope="module")
def held(sample_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A run that another thread writes into."""
    run = Path(shutil.copytree(sample_run, tmp_path_factory.mktemp("held") / "run"))
    ready = threading.Event()
    done = threading.Event()

    def hold() -> None:
        with locked(run):
            ready.set()
            done.wait(600)

    with ThreadPoolExecutor(1) as threads:
        threads.submit(hold)
        assert ready.wait(10)
        yield run
        done.set()


@pytest.mark.parametrize("line", cases_of(__file__)["lock"]["writers"])
def test_every_folder_that_a_command_writes_has_one_writer(line, held, sample_run, capsys):
    before = {path: path.stat().st_mtime_ns for path in held.rglob("*")}
    folders = {"RUN": str(sample_run), "HELD": str(held)}
    words = shlex.split(line.format(sample=shlex.quote(str(SAMPLE)), options=HERE))
    assert main([folders.get(word, word) for word in words]) == 2
    said = capsys.readouterr().err
    assert f"{held} is being written by another negcap (" in said and f"process {os.getpid()} on" in said
    assert {path: path.stat().st_mtime_ns for path in held.rglob("*")} == before


def test_results_have_one_writer_and_readers_need_no_lock(held):
    with pytest.raises(LockedError):
        write_results(held, "figures", {}, "")
    assert not (held / "figures.json").exists()
    for reader in (["info"], ["show"], ["info", "--verify"]):
        assert main([*reader, str(held)]) == 0


def test_a_block_within_a_block_and_what_is_left_of_both(tmp_path):
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


def test_a_disk_without_locks_or_that_is_read_only_is_not_locked(tmp_path, monkeypatch):
    def refuse(number: int) -> object:
        def call(*_: object) -> None:
            raise OSError(number, os.strerror(number))

        return call

    monkeypatch.setattr(lock.fcntl, "flock", refuse(errno.ENOSYS))
    with locked(tmp_path / "new"):
        assert not os.listdir(tmp_path / "new")
    monkeypatch.setattr(os, "open", refuse(errno.EROFS))
    with locked(tmp_path):
        assert not os.listdir(tmp_path)


@pytest.fixture(params=["memory", "s3"])
def store(request: pytest.FixtureRequest, bucket: str) -> Path:
    """The folder of a run on a store."""
    name = os.urandom(4).hex()
    return place({"memory": f"memory://{name}", "s3": f"{bucket}/{name}"}[request.param])


def test_one_writer_on_a_store_whose_lock_is_written_anew(store, monkeypatch):
    monkeypatch.setattr(lock, "HEARTBEAT_SECONDS", 0.2)
    file = store / LOCK
    with locked(store), locked(store):
        with pytest.raises(LockedError, match=f"process {os.getpid()} on "):
            lock._acquire_object(store, file, b"of another")
        time.sleep(2.3)  # times on S3 are whole seconds
        assert lock._seconds_since_heartbeat(file) < 2
    assert not file.exists()
    with locked(store):
        file.write_bytes(b"of another")
        time.sleep(0.5)
    assert file.read_bytes() == b"of another"


@pytest.mark.parametrize(
    "owner, age, lives",
    [
        ("anna, process 1 on another", 59, True),
        ("anna, process 1 on another", 61, False),
        (f"anna, process {os.getpid()} on {platform.node()}", 59, True),
        (ENDED, 5, False),
        ("", 59, True),
    ],
    ids=["recent elsewhere", "old elsewhere", "of this process", "of a process that ended", "without an owner"],
)
def test_stale_locks_are_told_from_live_ones(owner, age, lives, monkeypatch, capsys):
    monkeypatch.setattr(lock, "_seconds_since_heartbeat", lambda lock: age)
    monkeypatch.setattr(lock, "SETTLE_SECONDS", 0)
    run = place("memory://stale")
    (run / LOCK).write_bytes(f"{owner}\nabc".encode())
    if lives:
        with pytest.raises(LockedError, match=owner or "another negcap: wait"), locked(run):
            pass
        (run / LOCK).unlink()
    else:
        with locked(run):
            assert f"process {os.getpid()} on" in (run / LOCK).read_text()
        assert f"{run} was left unfinished by {owner}" in capsys.readouterr().err
    assert not (run / LOCK).exists()


def test_of_two_that_take_over_a_lock_one_stops(store, monkeypatch):
    (store / LOCK).write_bytes(ENDED.encode())
    monkeypatch.setattr(time, "sleep", lambda seconds: (store / LOCK).write_bytes(b"ben, process 1 on x"))
    with pytest.raises(LockedError, match="ben, process 1 on x"), locked(store):
        pass
    assert (store / LOCK).read_bytes() == b"ben, process 1 on x"


def test_a_lock_that_was_removed_while_it_settled_is_written_again(monkeypatch):
    run = place("memory://settling")
    (run / LOCK).write_bytes(ENDED.encode())
    pauses = [lambda: None, (run / LOCK).unlink]  # the last one comes first
    monkeypatch.setattr(time, "sleep", lambda seconds: pauses.pop()())
    with locked(run):
        assert not pauses and f"process {os.getpid()} on" in (run / LOCK).read_text()


def test_one_at_a_time_however_fast_they_come_and_go(tmp_path):
    inside: list[int] = []
    counts: list[int] = []

    def come_and_go(_: int) -> None:
        for _ in range(100):
            with suppress(LockedError), locked(tmp_path):
                inside.append(1)
                counts.append(len(inside))
                inside.pop()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(come_and_go, range(4)))
    assert {*counts} == {1} and len(counts) >= 4
    assert not os.listdir(tmp_path)


PRECIOUS = b"the only copy of a letter"
NOT_OWN = {  # what somebody else may have left where the lock goes
    "link": lambda lock, victim: lock.symlink_to(victim),
    "link to nothing": lambda lock, victim: lock.symlink_to(victim.with_name("nowhere")),
    "second name": lambda lock, victim: lock.hardlink_to(victim),
    "other text": lambda lock, victim: lock.write_bytes(PRECIOUS),
    "named pipe": lambda lock, victim: os.mkfifo(lock),
    "folder": lambda lock, victim: lock.mkdir(),
}


@pytest.mark.parametrize("kind", NOT_OWN)
def test_nothing_but_a_lock_is_written_as_a_lock(kind, tmp_path):
    run = tmp_path / "run"
    victim = tmp_path / "victim.txt"
    run.mkdir()
    victim.write_bytes(PRECIOUS)
    NOT_OWN[kind](run / LOCK, victim)
    with pytest.raises(ValueError, match=lock.NO_LOCK), locked(run):
        pass
    assert victim.read_bytes() == PRECIOUS and not (tmp_path / "nowhere").exists()
    assert kind != "other text" or (run / LOCK).read_bytes() == PRECIOUS


@pytest.mark.parametrize("name", ["parses", "_manifests", "_statistics"])
def test_no_folder_that_is_a_link_is_written_into(name, sample_copy, tmp_path, capsys):
    linked = sample_copy / name
    away = tmp_path / "away"
    if linked.exists():
        shutil.move(linked, away)
    else:
        away.mkdir()
    (away / "part-99999.parquet").write_bytes(PRECIOUS)
    linked.symlink_to(away)
    before = {path.name: path.read_bytes() for path in away.iterdir()}
    assert main(["build", "--only", "parse", "--output", str(sample_copy), *HERE.split()]) == 2
    assert f"{linked} is a link, and negcap writes through none" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in away.iterdir()} == before
    with pytest.raises(ValueError, match="is a link, and negcap writes through none"):
        scratch_folder(sample_copy, f"{name}/cache")
