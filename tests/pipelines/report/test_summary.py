"""What a run's stages made and took: the summary, progress, and the page about its workers."""

import errno
import io
import json
import os
import platform
import re
from pathlib import Path
from unittest.mock import Mock

import pytest
from rich.console import Console

from negcap.pipelines.engine import progress
from negcap.pipelines.engine.cluster import Executor
from negcap.pipelines.engine.manifest import Identity, Manifest, write_manifest
from negcap.pipelines.engine.progress import STATISTICS, Progress, ShardStatistics, read_statistics
from negcap.pipelines.engine.run import Execution, run_stage
from negcap.pipelines.report import summary
from negcap.pipelines.report.info import PAGE, page, write_page
from tests.pipelines.engine.toy_stages import COUNT, SPLIT, TEXTS, ToyConfig, write_captions
from tests.pipelines.report.test_rows import Terminal

COUNTS = {
    "captions": 200, "noun.captions": 190, "noun.rows": 3000, "family.noun.captions": 190, "family.noun.rows": 3000,
    "shuffle.captions": 50, "shuffle.rows": 60, "preposition.captions": 100, "preposition.rows": 1000,
    "family.relation.captions": 120, "family.relation.rows": 1060, "rejected.noun.related_in_sibling": 40,
    "rejected.noun.unchanged": 2, "rejected.shuffle.interchangeable": 7, "rejected.shuffle.no_candidate": 130,
}  # fmt: skip
FAMILIES = {"noun": "noun", "shuffle": "relation", "preposition": "relation"}


def shown(table: object) -> list[str]:
    """The lines of a table, without the head, with one blank between two words."""
    stream = io.StringIO()
    Console(file=stream, width=100).print(table)
    lines = [" ".join(line.split()) for line in stream.getvalue().splitlines()]
    return [line for line in lines if line and "─" not in line][1:]


def test_coverage_yield_and_refusals_of_families_and_their_operators() -> None:
    assert shown(summary.operators_table(COUNTS, FAMILIES)) == [
        "noun 190 95.0 % 3,000 15.0 42 0",
        "relation 120 60.0 % 1,060 5.3 7",
        "shuffle 50 25.0 % 60 0.3 7 130",
        "preposition 100 50.0 % 1,000 5.0 0 0",
    ]
    assert shown(summary.rejections_table(COUNTS, FAMILIES)) == [
        "noun 42 related_in_sibling 40, unchanged 2", "shuffle 7 interchangeable 7"
    ]  # fmt: skip
    assert summary.rejections_table({"captions": 3}, FAMILIES) is None
    assert shown(summary.operators_table({}, {"noun": "noun"})) == ["noun 0 – 0 – 0 0"]


def test_what_other_operators_would_add_is_told_from_those_that_were_tried() -> None:
    counts = {"captions": 200, "captions.without": 40, "without.unnatural": 30, "without.no_candidate": 10}
    lines = summary.coverage_lines(counts)
    assert lines[0] == "captions with a negative: 160 of 200 (80.0 %)" and len(lines) == 2
    counts |= {"tried": 8, "more.verb": 1, "more.negation": 1, "more.attribute": 3}
    assert lines[1].startswith("40 captions got no negative: 30 with only unnatural candidates (raise ")
    hints = "adding --operator attribute would cover about 15, --operator negation about 5, --operator verb about 5"
    assert summary.coverage_lines(counts) == [*lines, f"{hints} of them (estimated from 8)"]


def test_what_was_read_and_counted(tmp_path: Path) -> None:
    def told(table: str, counts: dict[str, int]) -> str:
        write_manifest(tmp_path / table, Manifest(Identity("x", {}, {}, (), "", {}), True, (), counts))
        return summary.corpus_lines(tmp_path)[-1]

    assert summary.corpus_lines(tmp_path) == []
    read = told("captions", {"captions": 1000, "images": 1, "rejected.no_text": 3, "rejected.too_long": 1})
    assert read == "1,000 captions of 1 image; 4 records rejected (no_text 3, too_long 1)"
    assert told("parses", {"captions": 900, "skipped.de": 100}) == "not English, left out: 100 de"
    counts = {"captions": 800, "min_count": 5, "nouns": 70, "numerals": 9}
    said = "vocabulary: 70 nouns (seen at least 5 times), 9 numerals; counted on 800 captions"
    assert told("lexicon", {"train_only": 1, **counts}) == f"{said} of the train split"
    blended = told("lexicon", {"train_only": 0, "blended": 1, "reference_captions": 5000, **counts})
    assert blended == f"{said} (no train split found), plus the built-in counts (weight: 5,000 captions)"


@pytest.mark.parametrize("stream", [Terminal(), io.StringIO()])
def test_progress_says_what_was_done(stream: io.StringIO, capsys: pytest.CaptureFixture[str]) -> None:
    for shown in (progress.report(stream=stream), progress.report(quiet=True)):
        with shown.stage("parse", 3, reused=1):
            shown.advance(2500)
            shown.advance(100)
        with shown.stage("lexicon", 1, reused=1):
            pass
        timings = [(t.stage, t.captions, t.shards, t.reused) for t in shown.timings]
        assert timings == [("parse", 2600, 2, 1), ("lexicon", 0, 0, 1)]
    assert ("━" in stream.getvalue()) == stream.isatty()
    assert re.search(r"parse: 2,600 captions in [^\n]*, 1 shard up to date before", stream.getvalue())
    assert "lexicon: up to date" in stream.getvalue() and capsys.readouterr() == ("", "")


def test_every_shard_has_a_line_and_a_second_run_adds_none(tmp_path: Path) -> None:
    write_captions(tmp_path, TEXTS[:25], 10)
    for _ in range(2):
        for stage in (COUNT, SPLIT):
            run_stage(stage, tmp_path, ToyConfig(), Execution(Executor(), Progress(), statistics=True), metadata={})
        lines = read_statistics(tmp_path, "split")
        assert [(line.shard, line.captions, line.retries) for line in lines] == [(0, 10, 0), (1, 10, 0), (2, 5, 0)]
        assert {line.worker for line in lines} == {f"{platform.node()}:{os.getpid()}"}
        assert all(0 <= line.cpu and 0 < line.seconds < 60 and 2**24 < line.memory < 2**36 for line in lines)
    file = tmp_path / STATISTICS / "split.jsonl"
    before = [json.dumps({**json.loads(line), "seconds": 59.0}).encode() for line in file.read_bytes().splitlines()]
    file.write_bytes(b"\n".join(before) + b"\n")
    (tmp_path / "words" / "part-00001.parquet").unlink()
    run_stage(SPLIT, tmp_path, ToyConfig(), Execution(Executor(), Progress(), statistics=True), metadata={})
    assert [line.seconds == 59.0 for line in read_statistics(tmp_path, "split")] == [True, False, True]


def test_the_page_sums_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {"captions": 1000, "rejected.noun.likely_true": 2, "rejected.verb.likely_true": 1, "rejected.verb.odd": 5}
    line = progress.Stopwatch().statistics(0, counts)
    assert (line.shard, line.captions, line.refused) == (0, 1000, {"likely_true": 3, "odd": 5})
    lines = [
        ShardStatistics(0, "a:1", 1000, 7200.0, 7000.0, 300_000_000, {"odd": 5, "no_candidate": 4}),
        ShardStatistics(1, "b:1", 500, 1800.0, 1700.0, 100_000_000, {"odd": 1, "likely_true": 2}, 1),
    ]
    text = page("coco", {"negatives": lines})
    assert "| negatives | 2 | 1,500 | 2.42 | 0 | 2 | 200.0 MB | 300.0 MB | 1 |" in text
    assert "Rejected: 8 candidates: odd 6, likely_true 2; no candidate 4" in text
    assert "| part-00000 | 1,000 | 7200.0 | 7000.0 | 300.0 MB | 0 | a:1 |\n| part-00001 |" in text
    assert write_page(tmp_path) is None
    with monkeypatch.context() as patch:  # a full disk costs the statistics only
        patch.setattr(os, "replace", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
        progress.write_statistics(tmp_path, "negatives", lines)
        assert read_statistics(tmp_path, "negatives") == []
    progress.write_statistics(tmp_path, "negatives", lines)
    with (tmp_path / STATISTICS / "negatives.jsonl").open("a") as file:
        file.write("{\n" + json.dumps({"shard": 3}) + "\n")  # torn, or of another version
    assert write_page(tmp_path) == tmp_path / STATISTICS / PAGE
    assert (tmp_path / STATISTICS / PAGE).read_text() == page(tmp_path.name, {"negatives": lines})
