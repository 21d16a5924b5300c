import errno
import io
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import psutil
import pyarrow as pa
import pytest

from negcap.pipelines.engine import run as run_module
from negcap.pipelines.engine.cluster import Distributed, Executor, executor
from negcap.pipelines.engine.errors import OUT_OF_MEMORY, OtherConfigError, StageError
from negcap.pipelines.engine.manifest import manifest_path, read_manifest
from negcap.pipelines.engine.progress import Progress, Reports
from negcap.pipelines.engine.run import Execution, batches, run_stage
from negcap.pipelines.engine.shards import list_shards, shard_path
from negcap.pipelines.engine.tables import read_table
from tests.conftest import ROOT
from tests.pipelines.engine import toy_stages
from tests.pipelines.engine.conftest import DaskProcesses, wait_for
from tests.pipelines.engine.toy_stages import TEXTS, ToyConfig, run_toys, tree, write_captions
from tests.tables import flip, halve


def rows(run: Path, table: str) -> pa.Table:
    return pa.concat_tables(read_table(run, table)).combine_chunks()


def test_synchronous_makes_every_table_and_counts_whatever_the_size_of_shards(run: Path, tmp_path: Path) -> None:
    counts = run_toys(run, scheduler="synchronous")
    assert counts == {"captions": 97, "words": sum(len(text.split()) for text in TEXTS)}
    assert rows(run, "words").num_rows == counts["words"]
    assert rows(run, "short").num_rows == sum(len(text.split()) < 3 for text in TEXTS)
    assert len(list_shards(run / "words")) == 10
    manifest = read_manifest(run / "words")
    assert manifest is not None and manifest.complete and manifest.counts == counts
    metadata = rows(run, "words").schema.metadata
    stated = {b"made_by": b"tests", b"stage": b"split", b"config": b'{"seed":0,"upper":false}'}
    assert stated.items() <= metadata.items()
    write_captions(tmp_path / "other", TEXTS, 33)
    run_toys(tmp_path / "other", scheduler="synchronous")
    for table in ("counts", "words", "short"):
        assert rows(tmp_path / "other", table).equals(rows(run, table))


@pytest.mark.dask
@pytest.mark.parametrize("number", [1, 2])
def test_one_worker_and_two_write_the_same_bytes(
    run: Path, expected: dict[str, bytes], number: int, workers_of_two: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = workers_of_two.client  # type: ignore[attr-defined]
    some = list(client.nthreads())[:number]
    monkeypatch.setattr(client, "get_executor", partial(client.get_executor, workers=some))
    run_toys(run, pool=workers_of_two)
    assert len(some) == number and tree(run) == expected


class Recording(Progress):
    """Keeps every call of advance."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[int, float]] = []

    def advance(self, captions: int, steps: float = 1) -> None:
        super().advance(captions, steps)
        self.calls.append((captions, steps))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("display", [io.StringIO, Terminal])
@pytest.mark.parametrize("name", ["partial", "finish", "apply"])
def test_a_stage_that_fails_prints_no_line_of_progress(run: Path, name: str, display: type[io.StringIO]) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("broken")

    stream = display()
    progress = Progress(stream)
    workers = executor(scheduler="synchronous")
    if name == "apply":
        execution = Execution(workers, progress)
        run_stage(toy_stages.COUNT, run, ToyConfig(), execution, metadata={})
        assert stream.getvalue().count("count: 97 captions") == 1
    before = stream.getvalue()
    failing = replace(toy_stages.SPLIT if name == "apply" else toy_stages.COUNT, **{name: fail})
    with pytest.raises(StageError, match="broken"):
        run_stage(failing, run, ToyConfig(), Execution(workers, progress), metadata={})
    printed = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue().removeprefix(before))
    assert "captions in" not in printed and "up to date" not in printed
    assert len(progress.timings) == (1 if name == "apply" else 0)


def slow(seconds: str) -> None:
    os.environ["TOY_SECONDS"] = seconds


def test_batches_of_a_shard_are_reported_while_it_is_made_and_change_no_byte(
    run: Path, expected: dict[str, bytes], somewhere: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_SECONDS", "0.02")
    progress, workers = Recording(), somewhere.get("pool") or executor(**somewhere)
    if "pool" in somewhere:
        workers.client.run(slow, "0.02")
    for stage in (toy_stages.COUNT, replace(toy_stages.SPLIT, batch=3)):
        progress.calls.clear()
        run_stage(stage, run, ToyConfig(), Execution(workers, progress), metadata={"made_by": "tests"})
    if "pool" in somewhere:
        workers.client.run(slow, "0")
    assert tree(run) == expected
    assert len([steps for captions, steps in progress.calls if steps < 0.9]) > 10  # of 10 shards of 4 batches each
    assert sum(captions for captions, _ in progress.calls) == 97
    assert sum(steps for _, steps in progress.calls) == pytest.approx(10)
    assert [(t.stage, t.captions, t.shards) for t in progress.timings] == [("count", 97, 11), ("split", 97, 10)]


def test_a_worker_frees_what_a_stage_has_loaded_when_another_one_begins(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "parent_process", lambda: "a process that started this one")
    freed: list[str] = []
    split = replace(toy_stages.SPLIT, free=lambda: freed.append("split"))
    for seed in range(2):
        for stage in (toy_stages.COUNT, split):
            run_stage(stage, run, ToyConfig(seed=seed), Execution(overwrite=True))
            assert freed == ["split"] * seed  # not between the shards of a stage


def test_a_report_counts_once_whoever_repeats_it() -> None:
    counted: list[tuple[int, int]] = []
    reports = Reports(lambda call, new: counted.append((call, new)))
    for done in (0, 3, 6, 0, 3, 6, 10):  # after the first 6 its worker died, and another began anew
        reports(0, done)
    reports(1, 4)
    reports(1, 3)
    assert counted == [(0, 3), (0, 3), (0, 4), (1, 4)]
    assert reports.begun[0] == 2 and reports.begun[1] == 0


def test_a_batch_holds_whole_images() -> None:
    table = pa.table({"image_id": list("aabccc")})
    for size, cut in {1: "aa b ccc", 2: "aa bccc", 3: "aab ccc", 9: "aabccc"}.items():
        assert ["".join(batch["image_id"].to_pylist()) for batch in batches(table, size)] == cut.split()
        assert [len(batch) for batch in batches(table.slice(0, 0), size)] == [0]


def test_a_second_run_makes_again_what_is_damaged_and_touches_nothing_else(
    toys: Path, expected: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stamps() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in toys.rglob("*")}

    before = stamps()
    with monkeypatch.context() as patch:
        patch.setenv("TOY_DEADLY", TEXTS[0])
        assert run_toys(toys, workers=2)["captions"] == 97
    assert stamps() == before
    flip(shard_path(toys / "words", 3), Random(0))
    halve(shard_path(toys / "short", 5))
    shard_path(toys / "counts", 0).unlink()
    run_toys(toys, scheduler="synchronous")
    assert tree(toys) == expected
    assert stamps()[shard_path(toys / "words", 4)] == before[shard_path(toys / "words", 4)]


def test_a_damaged_missing_or_unfinished_input_is_named(tmp_path: Path, run: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere must be the folder of a run, .* makes one"):
        run_toys(tmp_path / "nowhere", scheduler="synchronous")
    assert not (tmp_path / "nowhere").exists()
    shard, manifest = shard_path(run / "captions", 2), manifest_path(run / "captions")
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(StageError, match=r"count stopped at captions/part-00002\.parquet: .* is damaged.*again$"):
        run_toys(run, scheduler="synchronous")
    manifest.write_text(manifest.read_text().replace('"complete": true', '"complete": false'))
    with pytest.raises(ValueError, match="captions is not complete: the build stopped within ingest: run the same"):
        run_toys(run, scheduler="synchronous")


def test_another_config_or_input_is_refused_and_overwrites_on_demand(toys: Path, expected: dict[str, bytes]) -> None:
    with pytest.raises(OtherConfigError, match=r"counts was made with other settings or input: upper was false"):
        run_toys(toys, ToyConfig(upper=True), scheduler="synchronous")
    assert tree(toys) == expected
    run_toys(toys, ToyConfig(upper=True), scheduler="synchronous", overwrite=True)
    assert "DOG" in rows(toys, "words")["word"].to_pylist()
    write_captions(toys, TEXTS, 50)
    assert len(list_shards(toys / "captions")) == 2
    with pytest.raises(OtherConfigError, match="its input captions has changed"):
        run_toys(toys, ToyConfig(upper=True), scheduler="synchronous")
    run_toys(toys, scheduler="synchronous", overwrite=True)
    assert len(list_shards(toys / "words")) == len(list_shards(toys / "short")) == 2


def test_a_lack_of_memory_is_told_with_what_to_do(run: Path) -> None:
    for error, said in ((MemoryError(), OUT_OF_MEMORY), (pa.ArrowMemoryError("malloc of size 7 failed"), "malloc of")):

        def fail(*_: object, error: Exception = error, **__: object) -> None:
            raise error

        failing = replace(toy_stages.COUNT, partial=fail)
        with pytest.raises(StageError) as caught:
            run_stage(failing, run, ToyConfig(), Execution(), metadata={})
        words = str(caught.value)
        assert "count stopped at captions/part-00000.parquet: out of memory: fewer --workers, " in words
        assert said in words and "MemoryError" not in words


def test_what_fails_is_named_in_one_line_and_finished_shards_stay(tmp_path: Path, somewhere: dict) -> None:
    run, other = tmp_path / "run", tmp_path / "other"
    write_captions(run, [*TEXTS[:45], "refuse me", *TEXTS[45:]], 10)
    with pytest.raises(StageError) as caught:
        run_toys(run, **somewhere)
    said = str(caught.value)
    assert said == "split stopped at captions/part-00004.parquet: ValueError: word must be welcome, was: refuse"
    finished = [number for number in range(4) if shard_path(run / "words", number).exists()]
    assert finished and ("pool" in somewhere or finished == [0, 1, 2, 3])  # of two workers one may still be at a shard
    assert not shard_path(run / "words", 4).exists()
    write_captions(other, [*TEXTS, "uncountable"], 10)
    with pytest.raises(StageError, match="^count stopped: ValueError: word must be countable, was: uncountable$"):
        run_toys(other, **somewhere)
    assert not list_shards(other / "counts")


def test_a_full_disk_stops_with_a_clear_error_and_a_second_run_completes(
    run: Path, expected: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = os.replace

    def full(source: Path, target: Path) -> None:
        if target.name == "part-00004.parquet":
            raise OSError(errno.ENOSPC, "No space left on device")
        rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(StageError, match=r"split stopped at .*part-00004\.parquet: cannot write: disk full"):
            run_toys(run, scheduler="synchronous")
    assert not list(run.rglob("*.tmp"))
    assert shard_path(run / "words", 3).exists() and not shard_path(run / "words", 4).exists()
    run_toys(run, scheduler="synchronous")
    assert tree(run) == expected


def test_a_single_shard_starts_no_workers(tmp_path: Path) -> None:
    toy_stages.write_captions(tmp_path / "run", TEXTS, 100)
    with closing(Distributed(lambda: pytest.fail("workers were started"))) as pool:
        assert run_toys(tmp_path / "run", pool=pool)["captions"] == 97


@pytest.mark.dask
def test_a_shard_that_kills_every_worker_is_named(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOY_DEADLY", TEXTS[95])
    with pytest.raises(StageError, match=r"split stopped at captions/part-0000\d\.parquet: its worker was killed"):
        run_toys(run, workers=1, retries=0)
    assert not (run / "words" / "part-00009.parquet").exists()


@pytest.mark.dask
def test_a_run_killed_as_a_whole_is_completed_to_the_same_bytes(run: Path, expected: dict[str, bytes]) -> None:
    command = [sys.executable, "-m", "tests.pipelines.engine.toy_stages", str(run)]
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "TOY_SECONDS": "0.4"})
    wait_for(lambda: list_shards(run / "words"), 30)
    workers = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not psutil.wait_procs(workers, timeout=15)[1]
    assert 0 < len(list_shards(run / "words")) < 10
    manifest = read_manifest(run / "words")
    assert manifest is not None and not manifest.complete
    (run / "_manifests" / "part-00009.parquet.0a0b.tmp").write_bytes(b"half")
    run_toys(run, scheduler="synchronous")
    assert tree(run) == expected


@pytest.mark.dask
def test_a_running_scheduler_is_used_and_left_running_and_its_death_is_one_line(
    run: Path, tmp_path: Path, expected: dict[str, bytes], dask_processes: DaskProcesses
) -> None:
    dask_processes.start("scheduler", "--host", "127.0.0.1", "--port", "0")
    dask_processes.start("worker", "--nthreads", "1", "--no-nanny", TOY_SECONDS="0.1")
    address = dask_processes.address()
    assert address.startswith("tcp://")
    run_toys(run, scheduler=address)
    assert tree(run) == expected
    run_toys(run, ToyConfig(seed=2), scheduler=address, overwrite=True)
    write_captions(tmp_path / "other", TEXTS, 10)
    command = [sys.executable, "-m", "tests.pipelines.engine.toy_stages", str(tmp_path / "other"), address]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as driver:
        while driver.poll() is None and not list_shards(tmp_path / "other" / "words"):
            time.sleep(0.01)
        dask_processes.started[0].kill()
        assert driver.communicate(timeout=60)[1] == "the Dask scheduler was lost; run again to go on\n"


def test_a_worker_with_other_code_is_refused(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "code_of", lambda *functions: "of who started the run")
    with pytest.raises(StageError, match="this worker has another version of negcap's code: install the same"):
        run_toys(run, scheduler="synchronous")
