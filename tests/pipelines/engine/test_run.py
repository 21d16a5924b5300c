"""Stages brought up to date: what is made, kept, made again; what is said of failures and kills."""

import io
import os
import signal
import subprocess
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random

import psutil
import pyarrow as pa
import pytest

from negcap.pipelines.engine import run as run_module
from negcap.pipelines.engine.cluster import Distributed
from negcap.pipelines.engine.errors import OtherConfigError, StageError
from negcap.pipelines.engine.manifest import read_manifest
from negcap.pipelines.engine.progress import Progress, Reports
from negcap.pipelines.engine.run import Execution, batches, run_stage
from negcap.pipelines.engine.shards import list_shards, shard_path
from negcap.pipelines.engine.tables import read_table
from tests.conftest import ROOT
from tests.pipelines.engine.conftest import wait_for
from tests.pipelines.engine.toy_stages import COUNT, DRIVER, SPLIT, TEXTS, ToyConfig, run_toys, tree, write_captions
from tests.tables import flip, halve


def rows(run: Path, table: str) -> pa.Table:
    return pa.concat_tables(read_table(run, table)).combine_chunks()


def test_every_table_and_count_is_made_whatever_the_size_of_shards(run, tmp_path):
    counts = run_toys(run)
    assert counts == {"captions": 97, "words": sum(len(text.split()) for text in TEXTS)}
    assert rows(run, "words").num_rows == counts["words"]
    assert rows(run, "short").num_rows == sum(len(text.split()) < 3 for text in TEXTS)
    manifest = read_manifest(run / "words")
    assert manifest is not None and manifest.complete and manifest.counts == counts
    stated = {b"made_by": b"tests", b"stage": b"split", b"config": b'{"seed":0,"upper":false}'}
    assert stated.items() <= rows(run, "words").schema.metadata.items()
    other = write_captions(tmp_path / "other", TEXTS, 33)
    run_toys(other)
    for table in ("counts", "words", "short"):
        assert rows(other, table).equals(rows(run, table))


def set_delay(seconds: str) -> None:
    os.environ["TOY_SECONDS"] = seconds


def test_batches_of_a_shard_are_reported_while_it_is_made_and_change_no_byte(run, expected, pool, monkeypatch):
    """In this process and in two workers."""
    calls: list[tuple[int, float]] = []

    class Recording(Progress):
        def advance(self, captions: int, steps: float = 1) -> None:
            super().advance(captions, steps)
            calls.append((captions, steps))

    progress = Recording()
    monkeypatch.setenv("TOY_SECONDS", "0.01")
    if isinstance(pool, Distributed):
        pool.client.run(set_delay, "0.01")
    for stage in (COUNT, replace(SPLIT, batch=3)):
        calls.clear()
        run_stage(stage, run, ToyConfig(), Execution(pool, progress), metadata={"made_by": "tests"})
    if isinstance(pool, Distributed):
        pool.client.run(set_delay, "0")
    assert tree(run) == expected
    assert len([steps for captions, steps in calls if steps < 0.9]) > 10  # of 10 shards of 4 batches each
    assert sum(captions for captions, _ in calls) == 97
    assert sum(steps for _, steps in calls) == pytest.approx(10)
    assert [(t.stage, t.captions, t.shards) for t in progress.timings] == [("count", 97, 11), ("split", 97, 10)]


def test_a_worker_frees_what_a_stage_has_loaded_when_another_one_begins(run, monkeypatch):
    monkeypatch.setattr(run_module, "parent_process", lambda: "a process that started this one")
    freed: list[str] = []
    split = replace(SPLIT, free=lambda: freed.append("split"))
    for seed in range(2):
        for stage in (COUNT, split):
            run_stage(stage, run, ToyConfig(seed=seed), Execution(overwrite=True))
            assert freed == ["split"] * seed  # not between the shards of a stage


def test_a_report_counts_once_whoever_repeats_it():
    counted: list[tuple[int, int]] = []
    reports = Reports(lambda call, new: counted.append((call, new)))
    for done in (0, 3, 6, 0, 3, 6, 10):  # after the first 6 its worker died, and another began anew
        reports(0, done)
    reports(1, 4)
    reports(1, 3)
    assert counted == [(0, 3), (0, 3), (0, 4), (1, 4)]
    assert reports.begun[0] == 2 and reports.begun[1] == 0


def test_a_batch_holds_whole_images():
    table = pa.table({"image_id": list("aabccc")})
    for size, cut in {1: "aa b ccc", 2: "aa bccc", 3: "aab ccc", 9: "aabccc"}.items():
        assert ["".join(batch["image_id"].to_pylist()) for batch in batches(table, size)] == cut.split()
    assert [len(batch) for batch in batches(table.slice(0, 0), 1)] == [0]


def test_a_second_run_makes_again_what_is_damaged_and_touches_nothing_else(toys, expected, monkeypatch):
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
    run_toys(toys)
    assert tree(toys) == expected
    assert stamps()[shard_path(toys / "words", 4)] == before[shard_path(toys / "words", 4)]


def test_a_damaged_or_missing_input_is_named(tmp_path, run):
    with pytest.raises(FileNotFoundError, match="nowhere must be the folder of a run, .* makes one"):
        run_toys(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()
    shard = shard_path(run / "captions", 2)
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(StageError, match=r"count stopped at captions/part-00002\.parquet: .* is damaged.*again$"):
        run_toys(run)


def test_another_config_or_input_is_refused_and_overwrites_on_demand(toys, expected):
    with pytest.raises(OtherConfigError, match=r"counts was made with other settings or input: upper was false"):
        run_toys(toys, ToyConfig(upper=True))
    assert tree(toys) == expected
    run_toys(toys, ToyConfig(upper=True), overwrite=True)
    assert "DOG" in rows(toys, "words")["word"].to_pylist()
    write_captions(toys, TEXTS, 50)
    with pytest.raises(OtherConfigError, match="its input captions has changed"):
        run_toys(toys, ToyConfig(upper=True))
    run_toys(toys, overwrite=True)
    assert {len(list_shards(toys / table)) for table in ("captions", "words", "short")} == {2}


def test_a_lack_of_memory_is_told_with_what_to_do_and_no_line_of_progress(run):
    def fail(*_: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 7 failed")

    lines = io.StringIO()
    with pytest.raises(StageError, match="^count stopped at .*part-00000.parquet: out of memory: .*: malloc of size 7"):
        run_stage(replace(COUNT, partial=fail), run, ToyConfig(), Execution(progress=Progress(lines)))
    assert lines.getvalue() == ""


def test_what_fails_is_named_in_one_line_and_finished_shards_stay(tmp_path, pool):
    run = write_captions(tmp_path / "run", [*TEXTS[:45], "refuse me", *TEXTS[45:]], 10)
    with pytest.raises(StageError) as caught:
        run_toys(run, pool=pool)
    said = "split stopped at captions/part-00004.parquet: ValueError: word must be welcome, was: refuse"
    assert str(caught.value) == said
    finished = [number for number in range(4) if shard_path(run / "words", number).exists()]
    of_two_one_may_be_at_a_shard = isinstance(pool, Distributed)
    assert finished and (of_two_one_may_be_at_a_shard or finished == [0, 1, 2, 3])
    assert not shard_path(run / "words", 4).exists()
    other = write_captions(tmp_path / "other", [*TEXTS, "uncountable"], 10)
    with pytest.raises(StageError, match="^count stopped: ValueError: word must be countable, was: uncountable$"):
        run_toys(other, pool=pool)
    assert not list_shards(other / "counts")


def test_a_single_shard_starts_no_workers(tmp_path):
    run = write_captions(tmp_path / "run", TEXTS, 100)
    with closing(Distributed(lambda: pytest.fail("workers were started"))) as pool:
        assert run_toys(run, pool=pool)["captions"] == 97


@pytest.mark.dask
def test_a_shard_that_kills_every_worker_is_named(run, monkeypatch):
    monkeypatch.setenv("TOY_DEADLY", TEXTS[95])
    with pytest.raises(StageError, match=r"split stopped at captions/part-0000\d\.parquet: its worker was killed"):
        run_toys(run, workers=1, retries=0)
    assert not (run / "words" / "part-00009.parquet").exists()


@pytest.mark.dask
def test_a_run_killed_as_a_whole_is_completed_to_the_same_bytes(run, expected):
    process = subprocess.Popen([*DRIVER, str(run)], cwd=ROOT, env={**os.environ, "TOY_SECONDS": "0.2"})
    wait_for(lambda: list_shards(run / "words"))
    workers = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not psutil.wait_procs(workers, timeout=60)[1]
    assert 0 < len(list_shards(run / "words")) < 10
    manifest = read_manifest(run / "words")
    assert manifest is not None and not manifest.complete
    (run / "_manifests" / "part-00009.parquet.0a0b.tmp").write_bytes(b"half")
    run_toys(run)
    assert tree(run) == expected


def test_a_worker_with_other_code_is_refused(run, monkeypatch):
    monkeypatch.setattr(run_module, "code_of", lambda *functions: "of who started the run")
    with pytest.raises(StageError, match="this worker has another version of negcap's code: install the same"):
        run_toys(run)
