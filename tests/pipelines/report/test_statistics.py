"""What a run's workers took, a line a shard, and the page about it."""

import json
import os
import platform
from pathlib import Path

import pytest

from negcap.pipelines.engine.cluster import Synchronous
from negcap.pipelines.engine.progress import (
    STATISTICS,
    Measured,
    Progress,
    read_statistics,
    with_counts,
    write_statistics,
)
from negcap.pipelines.engine.run import Execution, run_stage
from negcap.pipelines.report.statistics import PAGE, page, write_page
from tests.pipelines.engine.test_run import TEXTS
from tests.pipelines.engine.toy_stages import COUNT, SPLIT, ToyConfig, write_captions


def test_every_shard_has_a_line_and_a_second_run_adds_none(tmp_path: Path) -> None:
    write_captions(tmp_path, TEXTS[:25], 10)
    for _ in range(2):
        for stage in (COUNT, SPLIT):
            run_stage(stage, tmp_path, ToyConfig(), Execution(Synchronous(), Progress(), statistics=True), metadata={})
        lines = read_statistics(tmp_path, "split")
        assert [(line.shard, line.captions, line.retries) for line in lines] == [(0, 10, 0), (1, 10, 0), (2, 5, 0)]
        assert {line.worker for line in lines} == {f"{platform.node()}:{os.getpid()}"}
        assert all(0 <= line.cpu and 0 < line.seconds < 60 and 2**24 < line.memory < 2**36 for line in lines)
    file = tmp_path / STATISTICS / "split.jsonl"
    before = [json.dumps({**json.loads(line), "seconds": 59.0}).encode() for line in file.read_bytes().splitlines()]
    file.write_bytes(b"\n".join(before) + b"\n")
    (tmp_path / "words" / "part-00001.parquet").unlink()
    run_stage(SPLIT, tmp_path, ToyConfig(), Execution(Synchronous(), Progress(), statistics=True), metadata={})
    assert [line.seconds == 59.0 for line in read_statistics(tmp_path, "split")] == [True, False, True]


def test_refusals_are_counted_by_reason() -> None:
    counts = {"captions": 3, "rejected.noun.likely_true": 2, "rejected.verb.likely_true": 1, "rejected.verb.odd": 4}
    line = with_counts(Measured(1, "a:1", 0, 2.0, 1.0, 10), counts, 2)
    assert line == Measured(1, "a:1", 3, 2.0, 1.0, 10, {"likely_true": 3, "odd": 4}, 2)


def test_the_page_sums_up(tmp_path: Path) -> None:
    lines = [
        Measured(0, "a:1", 1000, 7200.0, 7000.0, 300_000_000, {"odd": 5}),
        Measured(1, "b:1", 500, 1800.0, 1700.0, 100_000_000, {"odd": 1, "likely_true": 2}, 1),
    ]
    text = page("coco", {"negatives": lines})
    assert "| negatives | 2 | 1,500 | 2.50 | 0 | 2 | 200.0 MB | 300.0 MB | 1 |" in text
    assert "Rejected: 8 candidates: odd 6, likely_true 2" in text
    assert "| part-00000 | 1,000 | 7200.0 | 7000.0 | 300.0 MB | 0 | a:1 |\n| part-00001 |" in text
    assert write_page(tmp_path) is None
    write_statistics(tmp_path, "negatives", lines)
    with (tmp_path / STATISTICS / "negatives.jsonl").open("a") as file:
        file.write("{\n" + json.dumps({"shard": 3}) + "\n")  # torn, or of another version
    assert write_page(tmp_path) == tmp_path / STATISTICS / PAGE
    assert (tmp_path / STATISTICS / PAGE).read_text() == page(tmp_path.name, {"negatives": lines})


def test_a_full_disk_costs_the_statistics_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    write_statistics(tmp_path, "negatives", [Measured(0, "a:1", 1, 1.0, 1.0, 1)])
    assert read_statistics(tmp_path, "negatives") == []
