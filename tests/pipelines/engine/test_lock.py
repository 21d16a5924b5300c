"""One writer for each run."""

import errno
import os
import platform
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
    *(("build", "--only", stage, "--output") for stage in ("parse", "lexicon", "components", "truth", "negatives")),
    *("refine", ("build", SAMPLE, "--output"), ("scenes", "--output")),
)

ELSEWHERE = (  # commands that write into other folders than a run's; RUN, HELD stand for folders
    "train RUN --output HELD --overwrite",
    "train RUN --output HELD --model vse++ --seed 7",
    "captioner RUN --output HELD --overwrite",
    "finetune RUN --images RUN --output HELD --overwrite",
    "hypernyms --output HELD",
    "entail a.jsonl b.jsonl c.jsonl --output HELD",
    "publish RUN --format coco --license x --allow-blind --output HELD --overwrite",
    "publish RUN --format sugarcrepe --license x --allow-blind --output HELD",
    "audit RUN --output HELD --set blind=false --n 1 --max-pairs 1",
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
    ingest = ["build", str(SAMPLE), "--output", str(run), "--only", "ingest", "--limit", "2", "--quiet"]
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

    with ThreadPoolExecutor(1) as threads:
        threads.submit(hold)
        assert ready.wait(10)
        yield run
        done.set()


def test_what_writes_needs_the_lock_and_what_reads_does_not(held: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for writer in WRITERS:
        command = [writer] if isinstance(writer, str) else [str(word) for word in writer]
        more = [] if command[0] == "scenes" else ["--scheduler", "synchronous"]
        assert main([*command, str(held), *more, "--overwrite", "--quiet"]) == 2, command
        assert f"process {os.getpid()} on" in capsys.readouterr().err
    for reader in (["info"], ["show"], ["info", "--verify"]):
        assert main([*reader, str(held)]) == 0


@pytest.mark.parametrize("line", ELSEWHERE)
def test_every_folder_that_a_command_writes_has_one_writer(
    line: str, held: Path, sample_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.stat().st_mtime_ns for path in held.rglob("*")}
    places = {"RUN": str(sample_run), "HELD": str(held)}
    assert main([places.get(word, word) for word in line.split()]) == 2
    assert f"negcap: {held} is being written by another negcap (" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in held.rglob("*")} == before


def test_results_have_one_writer(held: Path) -> None:
    with pytest.raises(LockedError, match=r"is being written by another negcap"):
        write_results(held, "figures", {}, "")
    assert not (held / "figures.json").exists()


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


def test_a_disk_that_is_read_only_or_without_locks_is_not_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    code = errno.ENOSYS
    with monkeypatch.context() as patch:
        patch.setattr(lock.fcntl, "flock", refuse)
        with locked(tmp_path / "new"):
            assert not os.listdir(tmp_path / "new")
    code = errno.EROFS
    monkeypatch.setattr(lock, "_open_locked", refuse)
    with locked(tmp_path):
        assert not os.listdir(tmp_path)
    with pytest.raises(OSError, match="Read-only"), locked(tmp_path / "new"):
        pass


@pytest.fixture(params=["memory", "s3"])
def store(request: pytest.FixtureRequest, bucket: str) -> Path:
    """The folder of a run on a store."""
    name = os.urandom(4).hex()
    return place({"memory": f"memory://{name}", "s3": f"{bucket}/{name}"}[request.param])


def test_one_writer_on_a_store_whose_lock_is_written_anew(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "HEARTBEAT_SECONDS", 0.2)
    file, refused = store / LOCK, f"process {os.getpid()} on .*: wait until it is done"
    with locked(store), locked(store):
        with pytest.raises(LockedError, match=refused):
            lock._acquire(store, file, b"of another")
        time.sleep(2.3)  # times on S3 are whole seconds
        assert lock._age(file) < 2
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
        (f"anna, process {2**22 + 1} on {platform.node()}", 5, False),
        ("", 59, True),
    ],
    ids=("young", "old", "of this process", "of a process that has ended", "nameless"),
)
def test_stale_locks_are_told_from_live_ones(owner: str, age: int, lives: bool, monkeypatch, capsys) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(lock, "_age", lambda lock: age)
    monkeypatch.setattr(lock, "SETTLE_SECONDS", 0)
    run = place("memory://stale")
    (run / LOCK).write_bytes(f"{owner}\nabc".encode())
    if lives:
        with pytest.raises(LockedError, match=f"another negcap{f' .{owner}.' if owner else ''}: wait"), locked(run):
            pass
        (run / LOCK).unlink()
    else:
        with locked(run):
            assert f"process {os.getpid()} on" in (run / LOCK).read_text()
        assert f"{run} was left unfinished by {owner}" in capsys.readouterr().err
    assert not (run / LOCK).exists()


def test_of_two_that_take_over_a_lock_one_stops(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (store / LOCK).write_bytes(f"anna, process {2**22 + 1} on {platform.node()}".encode())
    monkeypatch.setattr(time, "sleep", lambda seconds: (store / LOCK).write_bytes(b"ben, process 1 on x"))
    with pytest.raises(LockedError, match="ben, process 1 on x"), locked(store):
        pass
    assert (store / LOCK).read_bytes() == b"ben, process 1 on x"


def test_one_at_a_time_however_fast_they_come_and_go(tmp_path: Path) -> None:
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
def test_nothing_but_a_lock_is_written_as_a_lock(
    kind: str, sample_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, victim = Path(shutil.copytree(sample_run, tmp_path / "run")), tmp_path / "victim.txt"
    victim.write_bytes(PRECIOUS)
    NOT_OWN[kind](run / LOCK, victim)
    for command in (["build", "--only", "parse", "--output"], ["refine"]):
        assert main([*command, str(run), "--scheduler", "synchronous", "--overwrite", "--quiet"]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line == f"negcap: {run / LOCK} {lock.NO_LOCK}"
    assert victim.read_bytes() == PRECIOUS and not (tmp_path / "nowhere").exists()
    assert kind != "other text" or (run / LOCK).read_bytes() == PRECIOUS


def test_no_cache_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "away").mkdir()
    (tmp_path / ".cache").symlink_to(tmp_path / "away")
    with pytest.raises(ValueError, match=r"\.cache is a link, and negcap writes through none"):
        scratch_folder(tmp_path, ".cache/blind")


@pytest.mark.parametrize("name", ["parses", "_manifests", "_statistics"])
def test_no_folder_that_is_a_link_is_written_into(
    name: str, sample_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, away = Path(shutil.copytree(sample_run, tmp_path / "run")), tmp_path / "away"
    if (run / name).exists():
        shutil.move(run / name, away)
    else:
        away.mkdir()
    surplus = away / "part-99999.parquet"
    surplus.write_bytes(PRECIOUS)
    (run / name).symlink_to(away)
    before = {path.name: path.read_bytes() for path in away.iterdir()}
    command = ["build", "--only", "parse", "--output", str(run), "--scheduler", "synchronous", "--overwrite", "--quiet"]
    assert main(command) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{run / name} is a link, and negcap writes through none: remove it" in line
    assert {path.name: path.read_bytes() for path in away.iterdir()} == before
