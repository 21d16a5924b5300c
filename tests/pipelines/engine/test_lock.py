"""One writer for each folder that commands write."""

import errno
import os
import platform
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

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
from tests.pipelines.engine.conftest import wait_for
from tests.tables import content

CASES = cases_of(__file__)["lock"]
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


def test_a_second_build_is_refused_and_what_comes_after_a_kill_goes_on(tmp_path, capsys):
    run = tmp_path / "run"
    ingest = ["build", str(SAMPLE), "--output", str(run), "--only", "ingest", "--limit", "2", *HERE.split()]
    holds = [sys.executable, "-c", HOLD, str(run)]
    with subprocess.Popen(holds, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        assert main(ingest) == 2
        assert os.listdir(run) == [LOCK]
        [line] = capsys.readouterr().err.splitlines()
        assert str(run) in line and f"process {other.pid} on " in line
        other.kill()
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
    block = locked(run)
    with ThreadPoolExecutor(1) as thread:
        thread.submit(block.__enter__).result()
        yield run
        thread.submit(block.__exit__, None, None, None).result()


@pytest.mark.parametrize("line", CASES["writers"])
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


@pytest.mark.parametrize("where, name, number", [(lock.fcntl, "flock", errno.ENOSYS), (os, "open", errno.EROFS)])
def test_a_disk_without_locks_or_that_is_read_only_is_not_locked(where, name, number, tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(where, name, refuse)
    with locked(tmp_path):
        assert not os.listdir(tmp_path)


@pytest.fixture(params=["memory", "s3"])
def store(request: pytest.FixtureRequest, bucket: str) -> Path:
    """The folder of a run on a store."""
    root = bucket if request.param == "s3" else "memory:/"
    return place(f"{root}/{os.urandom(4).hex()}")


def test_one_writer_on_a_store_whose_lock_is_written_anew(store, monkeypatch):
    monkeypatch.setattr(lock, "HEARTBEAT_SECONDS", 0.1)
    file = store / LOCK
    with locked(store), locked(store):
        with pytest.raises(LockedError, match=f"process {os.getpid()} on "):
            lock._acquire_object(store, file, b"of another")
        begun = file.stat().st_mtime
        wait_for(lambda: file.stat().st_mtime > begun, 5)  # times on S3 are whole seconds
        assert file.stat().st_mtime > begun
    assert not file.exists()
    with locked(store):
        file.write_bytes(b"of another")
        time.sleep(0.3)
    assert file.read_bytes() == b"of another"


@pytest.mark.parametrize("owner, stale_seconds, lives", [
    ("anna, process 1 on another", 60, True),
    ("anna, process 1 on another", 0, False),
    (f"anna, process {os.getpid()} on {platform.node()}", 60, True),
    (ENDED, 60, False),
    ("", 60, True),
], ids=["elsewhere", "elsewhere, long ago", "this process", "ended", "unknown"])  # fmt: skip
def test_stale_locks_are_told_from_live_ones(owner, stale_seconds, lives, monkeypatch, capsys):
    monkeypatch.setattr(lock, "STALE_SECONDS", stale_seconds)
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


def test_a_file_that_its_owner_removes_before_it_is_locked_again_is_no_lock(tmp_path, monkeypatch):
    flock = lock.fcntl.flock

    def lock_too_late(*arguments: Any) -> None:
        monkeypatch.setattr(lock.fcntl, "flock", flock)
        (tmp_path / LOCK).unlink()
        flock(*arguments)

    monkeypatch.setattr(lock.fcntl, "flock", lock_too_late)
    with locked(tmp_path):
        assert (tmp_path / LOCK).exists()


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
    assert {*counts} == {1} and not os.listdir(tmp_path)


@pytest.mark.parametrize("command", CASES["no_locks"])
def test_nothing_but_a_lock_is_written_as_a_lock(command, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (tmp_path / "letter").write_text("the only copy")
    (tmp_path / "elsewhere").write_text(ENDED)
    subprocess.run(shlex.split(command), cwd=run, check=True)
    with pytest.raises(ValueError, match=lock.NO_LOCK), locked(run):
        pass
    assert (tmp_path / "elsewhere").read_text() == ENDED and not (tmp_path / "nowhere").exists()
    assert not command.startswith("cp") or (run / LOCK).read_text() == "the only copy"


@pytest.mark.parametrize("name", ["parses", "_manifests", "_statistics"])
def test_no_folder_that_is_a_link_is_written_into(name, sample_copy, tmp_path, capsys):
    linked, away = sample_copy / name, tmp_path / "away"
    linked.mkdir(exist_ok=True)
    linked.rename(away)
    linked.symlink_to(away)
    (away / "part-99999.parquet").write_bytes(b"the only copy")
    before = content(away)
    assert main(["build", "--only", "parse", "--output", str(sample_copy), *HERE.split()]) == 2
    assert f"{linked} is a link, and negcap writes through none" in capsys.readouterr().err
    assert content(away) == before
    with pytest.raises(ValueError, match="is a link, and negcap writes through none"):
        scratch_folder(sample_copy, f"{name}/cache")
