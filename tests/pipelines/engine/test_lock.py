"""One writer for each run; whoever has lost the lock of a run writes nothing more into it."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from negcap.pipelines.cli import main
from negcap.pipelines.engine import lock
from negcap.pipelines.engine.cluster import Synchronous
from negcap.pipelines.engine.errors import ClusterError, LockedError
from negcap.pipelines.engine.lock import LOCK, locked, myself
from negcap.pipelines.engine.places import RemotePath, place
from negcap.pipelines.engine.run import make_shard
from negcap.pipelines.engine.storage import files_below
from negcap.pipelines.engine.tables import verify
from tests.conftest import ROOT, SAMPLE
from tests.pipelines.engine.toy_stages import ToyConfig, run_toys, write_captions

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


def test_disks_that_are_read_only_or_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> bytes:
        raise OSError(code, os.strerror(code))

    code = errno.EPERM
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", refuse)
        with locked(tmp_path):
            assert json.loads((tmp_path / LOCK).read_bytes())["pid"] == os.getpid()
            with pytest.raises(FileExistsError):
                lock._create(tmp_path / LOCK, b"")
        assert not os.listdir(tmp_path)
    code = errno.EROFS
    monkeypatch.setattr(lock, "_create", refuse)
    with locked(tmp_path):
        assert not os.listdir(tmp_path)


@pytest.fixture(params=["disk", "memory", "s3"])
def place_of_run(request: pytest.FixtureRequest, tmp_path: Path, bucket: str) -> Path:
    """The folder of a run on a disk, or on a store."""
    name = os.urandom(4).hex()
    stores = {"memory": f"memory://{name}", "s3": f"{bucket}/{name}"}
    return tmp_path if request.param == "disk" else place(stores[request.param])


@pytest.mark.parametrize(
    "changed, age, lives",
    [
        ({"boot": "another machine"}, 59, True),
        ({"boot": "another machine"}, 61, False),
        ({}, 600, True),
        ({"started": 1.0}, 5, False),
        ({"pid": 2**22 + 1}, 5, False),
        (None, 59, True),
        (None, 61, False),
    ],
)
@pytest.mark.parametrize("store", ["disk", "memory"])
def test_stale_locks_are_told_from_live_ones(
    store: str, changed: dict | None, age: int, lives: bool, tmp_path: Path, monkeypatch, capsys
) -> None:  # type: ignore[no-untyped-def]
    """changed: what of the owner is not this process; None: the lock names no owner, as one that is being written."""
    monkeypatch.setattr(lock, "_age", lambda lock: age)
    monkeypatch.setattr(lock, "SETTLE_SECONDS", 0)
    run = tmp_path if store == "disk" else place("memory://stale")
    owner = b"{" if changed is None else json.dumps(asdict(replace(myself(), **changed))).encode()
    (run / LOCK).write_bytes(owner)
    if lives:
        with pytest.raises(LockedError, match="is being written by another negcap"), locked(run):
            pass
        assert (run / LOCK).read_bytes() == owner
        (run / LOCK).unlink()
    else:
        with locked(run):
            assert json.loads((run / LOCK).read_bytes())["pid"] == os.getpid()
        assert f"{run} was left unfinished by" in capsys.readouterr().err
    assert not (run / LOCK).exists()


def test_a_process_that_has_ended_holds_no_lock_while_nobody_waits_for_it(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as other:
        other.kill()
        while psutil.Process(other.pid).status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)
        (tmp_path / f"{LOCK}.0a0b.tmp").touch()  # as one leaves it that is killed while it writes its lock
        with locked(tmp_path):
            pass
        assert not os.listdir(tmp_path)


def test_one_writer_whose_lock_is_written_anew_as_long_as_it_is_held(place_of_run: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(lock, "HEARTBEAT_SECONDS", 1000)
    file = place_of_run / LOCK
    with locked(place_of_run), locked(place_of_run):
        assert json.loads(file.read_bytes())["pid"] == os.getpid()
        with pytest.raises(LockedError, match=f"process {os.getpid()} on .*: wait until it is done"):
            lock._acquire(place_of_run, file, b"of another")
        time.sleep(2.1 if str(file).startswith("s3") else 0.3)  # times on S3 are whole seconds
        age = lock._age(file)
        lock.beat(file, lock.lock_of(place_of_run) or b"")
        assert lock._age(file) < age - 0.2
    assert not file.exists()
    with locked(place_of_run):
        file.write_bytes(b"of another")
        lock.beat(file, lock.lock_of(place_of_run) or b"")
    assert file.read_bytes() == b"of another"


def test_of_two_that_take_over_a_lock_one_stops(place_of_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = place_of_run
    other = json.dumps(asdict(replace(myself(), pid=1, boot="another machine"))).encode()
    (run / LOCK).write_bytes(json.dumps(asdict(replace(myself(), pid=2**22 + 1))).encode())
    monkeypatch.setattr(time, "sleep", lambda seconds: (run / LOCK).write_bytes(other))
    with pytest.raises(LockedError, match="process 1 on"), locked(run):
        pass
    assert (run / LOCK).read_bytes() == other


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


TEXTS = [f"a dog chases {number} birds" for number in range(9)]
STANDS_STILL = """
import os, signal, sys
from negcap.pipelines.engine import lock
from negcap.pipelines.engine.errors import LockedError
from negcap.pipelines.engine.places import RemotePath, place
from tests.pipelines.engine import toy_stages

_, run, moment = sys.argv
works, puts = toy_stages._misbehave, RemotePath.write_bytes

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

lock.HEARTBEAT_SECONDS = 0.05
toy_stages._misbehave, RemotePath.write_bytes = work, put
try:
    toy_stages.run_toys(place(run), scheduler="synchronous", overwrite=True)
except LockedError as error:
    sys.exit(str(error))
"""


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process counts as one of another machine, and locks do not last long."""
    monkeypatch.setattr(lock, "_boot", lambda: "another machine")
    monkeypatch.setattr(lock, "STALE_SECONDS", 0)
    monkeypatch.setattr(lock, "SETTLE_SECONDS", 0)


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
    who = ", which has ended," if ended else f" ({myself()})"
    assert said == f"{run} was taken over by another negcap{who} while this one stood still: this one stops\n"
    assert content(run) == made and not (run / LOCK).exists()
    assert verify(run).problems == ()


class Late(Synchronous):
    """Loses its workers before any shard is made; keeps the calls, which they go on with."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple] = []

    def map(self, function: Callable[..., Any], calls: Sequence[tuple], on_report: Any = None) -> Any:
        if function is not make_shard:
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
            make_shard(*call)
    with locked(run):
        for call in late.calls:
            with pytest.raises(LockedError, match=f"was taken over by another negcap .*process {os.getpid()} on"):
                make_shard(*call)
    assert content(run) == made and len(late.calls) == 3


def test_what_another_has_written_is_no_damage_and_its_lock_is_not_taken_back(bucket: str, tmp_path, monkeypatch):  # type: ignore[no-untyped-def]
    with pytest.raises(LockedError, match="was taken over"), locked(tmp_path):
        (tmp_path / LOCK).write_bytes(b"of another")
        raise ValueError("captions are damaged")
    assert (tmp_path / LOCK).read_bytes() == b"of another"
    run, read = place(f"{bucket}/beat"), RemotePath.read_bytes

    def read_then_taken_over(path: RemotePath) -> bytes:
        found = read(path)
        path.write_bytes(b"of another")
        return found

    with locked(run):
        mine = lock.lock_of(run)
        assert mine is not None
        with monkeypatch.context() as patch, pytest.raises(FileExistsError):
            patch.setattr(RemotePath, "read_bytes", read_then_taken_over)
            lock.beat(run / LOCK, mine)  # too late
        assert (run / LOCK).read_bytes() == b"of another"
