"""Ingest: from any source to shards of captions, each image whole. The sentences are made up for these tests."""

import errno
import gzip
import io
import json
import random
import subprocess
import sys
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from negcap.pipelines.engine.errors import OtherConfigError
from negcap.pipelines.engine.manifest import read_manifest
from negcap.pipelines.engine.progress import Progress
from negcap.pipelines.engine.run import Execution
from negcap.pipelines.engine.shards import list_shards
from negcap.pipelines.engine.tables import read_table, verify
from negcap.pipelines.ingestion import grouping
from negcap.pipelines.ingestion.grouping import captions_per_shard, shard_sizes
from negcap.pipelines.stages import ingest as stage
from negcap.pipelines.stages.ingest import IngestConfig, Ingested, ingest
from negcap.schemas.captions import CAPTIONS, RECORD_REASONS, REJECTED_RECORDS
from negcap.schemas.fields import check
from tests.conftest import ROOT
from tests.tables import content, rows_of

ROWS = [(f"photos/{image}.jpg", f"Kite {number} over hill {image}.") for image in "abcde" for number in range(3)]


def run_ingest(
    source: str | Path, run: Path, *, overwrite: bool = False, progress: Progress | None = None, **config: object
) -> Ingested:
    execution = Execution(overwrite=overwrite, progress=progress or Progress())
    return ingest(str(source), run, IngestConfig(**config), execution)  # type: ignore[arg-type]


def csv(path: Path, rows: list[tuple[str, ...]], header: str = "image,caption") -> Path:
    path.write_text("\n".join([header, *(",".join(row) for row in rows)]) + "\n")
    return path


def captions(run: Path) -> list[dict]:
    return rows_of(run, "captions")


def rejected(run: Path) -> list[dict]:
    return rows_of(run, "rejected_records")


@pytest.fixture
def kites(tmp_path: Path) -> Path:
    return csv(tmp_path / "kites.csv", ROWS)


def test_captions_with_their_ids_in_whole_shards_which_say_what_they_were_made_from(kites, tmp_path):
    run, progress = tmp_path / "run", Progress()
    made = run_ingest(kites, run, shard_size=7, source_name="hill", split="val2017", progress=progress)
    assert made == Ingested({"captions": 15, "images": 5}, ())
    assert [(t.stage, t.captions, t.shards) for t in progress.timings] == [("ingest", 15, 3)]
    tables = list(read_table(run, "captions"))
    assert [table.num_rows for table in tables] == [6, 6, 3]
    for table in tables:
        check(table, CAPTIONS)
    ids = {"caption_id": "hill:b:1", "image_id": "b", "image": "photos/b.jpg"}
    text = {"language": "en", "origin": "human", "text": "Kite 1 over hill b."}
    assert captions(run)[4] == {**ids, **text, "split": "val2017"}
    assert [row["text"] for row in captions(run)] == [text for _, text in ROWS]
    metadata = pq.read_schema(run / "captions/part-00000.parquet").metadata
    assert (metadata[b"stage"], metadata[b"negcap_version"].decode()) == (b"ingest", version("negcap"))
    config = json.loads(metadata[b"config"])
    assert (config["format"], config["source_name"], config["shard_size"]) == ("table", "hill", 7)
    assert list(read_manifest(run / "captions").identity.inputs) == ["kites.csv"]
    assert str(tmp_path).encode() not in b"".join(content(run).values())  # neither where nor when
    assert verify(run).problems == ()


def grouped_by_image(rows: list[dict]) -> dict[str, list[str]]:
    texts: dict[str, list[str]] = {}
    for row in rows:
        texts.setdefault(row["image"], []).append(row["text"])
    return texts


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.permutations(range(len(ROWS))), shard_size=st.integers(1, 16), range_rows=st.integers(4, 20))
def test_any_order_keeps_images_whole_and_captions_in_order(order, shard_size, range_rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shuffled")
    rows = [ROWS[index] for index in order]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage, "RANGE_ROWS", range_rows)
        patch.setattr(grouping, "BLOCK_ROWS", 4)
        made = run_ingest(csv(folder / "kites.csv", rows), folder / "run", shard_size=shard_size)
    assert made.counts == {"captions": 15, "images": 5}
    shard_of: dict[str, int] = {}
    for index, table in enumerate(read_table(folder / "run", "captions")):
        assert table.num_rows <= max(shard_size, 3)
        for image in table["image"].to_pylist():
            assert shard_of.setdefault(image, index) == index
    found = captions(folder / "run")
    first_seen = list(dict.fromkeys(image for image, _ in rows))
    assert list(grouped_by_image(found)) == first_seen
    assert grouped_by_image(found) == {name: [text for image, text in rows if image == name] for name in first_seen}
    ids = [f"table:{Path(image).stem}:{number}" for image in first_seen for number in range(3)]
    assert [row["caption_id"] for row in found] == ids
    assert not (folder / "run/.ingest").exists()


def test_sizes_of_shards():
    assert shard_sizes([5, 5, 5], 10) == shard_sizes([5, 5, 5], 12) == [(10, 2), (5, 1)]
    assert shard_sizes([5, 5, 5], 1) == [(5, 1), (5, 1), (5, 1)]
    assert shard_sizes([1, 30, 1, 1], 10) == [(1, 1), (30, 1), (2, 2)] and shard_sizes([], 10) == []
    assert captions_per_shard(IngestConfig(shard_size=7), 10**9, 10**11) == 7
    of_characters = {(0, 0): 1_000, (2 * 10**6, 10**8): 1_000, (20_480_000, 1_024_000_000): 10_000}
    of_characters |= {(4 * 10**8, 2 * 10**10): 20_000, (4 * 10**8, 8 * 10**11): 1_000}
    assert {size: captions_per_shard(IngestConfig(), *size) for size in of_characters} == of_characters


def test_a_limit_keeps_a_sample_of_images_with_all_their_captions_whatever_their_order(tmp_path):
    kept = []
    for number, rows in enumerate((ROWS, random.Random(3).sample(ROWS, len(ROWS)))):
        run = tmp_path / str(number)
        assert run_ingest(csv(tmp_path / "kites.csv", rows), run, limit=2).counts["images"] == 2
        kept.append(grouped_by_image(captions(run)))
        assert kept[-1] == {name: [text for image, text in rows if image == name] for name in kept[-1]}
    assert kept[0].keys() == kept[1].keys() != set(list(dict.fromkeys(image for image, _ in ROWS))[:2])


BAD_LINES = {  # lines of a Flickr token file, after a good one, and why they are rejected
    b"wren.jpg#1\t": "no_text",
    b"wren.jpg#0\tA wren again.": "duplicate_caption_id",
    b"wren.jpg#2\tA wr\xe9n.": "not_utf8",
    b"#0\tNo bird.": "no_image",
    b"../wren.jpg#3\tAway.": "unsafe_path",
    b"other/wren.jpg#4\tAnother wren.": "ambiguous_image",
    b"not a record": "not_a_record",
    b"crow.jpg#0\t" + b"caw " * 2600: "too_long",
    b"crow.jpg#1\tA \x1b[31mred crow.": "control_characters",
}


def test_bad_records_are_kept_apart_with_file_line_and_reason(tmp_path):
    path, run = tmp_path / "birds.token", tmp_path / "run"
    path.write_bytes(b"\n".join([b"wren.jpg#0\tA wren on a post.", *BAD_LINES, b"crow.jpg#4\tA crow on a wire."]))
    made = run_ingest(path, run)
    reasons = [*BAD_LINES.values()]
    assert [(row["line"], row["reason"]) for row in rejected(run)] == list(enumerate(reasons, 2))
    elsewhere = {"too_many_captions", "no_language", "false_caption", "no_truth", "other_language", "boilerplate"}
    assert {*reasons, *elsewhere, "duplicate_text", "near_duplicate_text"} == set(RECORD_REASONS)
    assert made.counts == {"captions": 2, "images": 2, **{f"rejected.{reason}": 1 for reason in reasons}}
    assert [row["caption_id"] for row in captions(run)] == ["flickr:wren:0", "flickr:crow:4"]
    for table in read_table(run, "rejected_records"):
        check(table, REJECTED_RECORDS)
    again = rejected(run)[1]
    assert (again["source"], again["text"]) == ("birds.token", "A wren again.") and "wren.jpg#0" in again["detail"]
    assert "has the file name of another image: 1" in made.warnings[0] and "--columns id=…" in made.warnings[0]
    assert verify(run).problems == ()


def test_captions_of_an_image_beyond_a_thousand_are_rejected(tmp_path):
    rows = [*(("one.jpg", f"Kite {number}.") for number in range(1003)), ("other.jpg", "A kite.")]
    made = run_ingest(csv(tmp_path / "many.csv", rows), tmp_path / "run")
    assert made.counts == {"captions": 1001, "images": 2, "rejected.too_many_captions": 3}
    assert "more than 1,000 captions: 3" in made.warnings[0] and "--columns image=…" in made.warnings[0]
    assert {row["detail"] for row in rejected(tmp_path / "run")} == {
        "an image must have <= 1,000 captions, has more: one.jpg"
    }


def test_strict_stops_at_the_first_bad_record_also_of_a_finished_run(tmp_path):
    path, run = csv(tmp_path / "kites.csv", [*ROWS[:4], ("", "Nothing."), ("b.jpg", "")]), tmp_path / "run"
    message = rf"^{path}:6: no_image: image must name a file or an id, was: ''"
    with pytest.raises(ValueError, match=message):
        run_ingest(path, run, strict=True)
    assert not run.exists()
    run_ingest(path, run)
    before, stream = content(run), io.StringIO()
    with pytest.raises(ValueError, match=message):
        run_ingest(path, run, strict=True, progress=Progress(stream))
    assert content(run) == before and stream.getvalue() == ""


BAD_SOURCES = [
    ("a.text", b"just words\n", "has none of the known forms"),
    ("a.json", b'{"images": [{"id": 1, "file_name": "a.jpg"}], "annotations": [{"ima', "cannot be read"),
    ("a_caps.txt.gz", gzip.compress(b"Goat on a wall\n" * 5000)[:-20], "must be VSE.* captions.*cannot be read"),
    ("a.csv", b"image,caption\n", "must hold captions in the format table, has none; it has no records"),
    ("a.csv", b"image,caption\n/x.jpg,Hen\n", r"has none; the first of its bad records: .*a\.csv:2: unsafe_path"),
    ("a.json", b'{"images": [{"id": 1}], "annotations": []}', "has none; it has no records"),
    ("a.csv", b"picture,words\n1.jpg,Hen\n", r"no image column found \(columns: picture, words\)"),
    ("nothing.csv", None, "nothing.csv: no such file or folder"),
]


@pytest.mark.parametrize("there", [False, True])
def test_nothing_is_written_when_the_source_is_bad(there, tmp_path):
    run = tmp_path / "deep/run"
    if there:
        run.mkdir(parents=True)
    for name, data, message in BAD_SOURCES:
        if data is not None:
            (tmp_path / name).write_bytes(data)
        with pytest.raises((ValueError, FileNotFoundError), match=message) as error:
            run_ingest(tmp_path / name, run)
        assert str(error.value).startswith(str(tmp_path / name)) and "\n" not in str(error.value)
        assert list(run.iterdir()) == [] if there else not run.exists()


def test_another_config_is_refused_and_a_finished_run_is_not_read_again(kites, tmp_path, monkeypatch):
    first = run_ingest(kites, tmp_path / "run")
    before = content(tmp_path / "run")
    with pytest.raises(OtherConfigError, match="limit was unset, is now 2"):
        run_ingest(kites, tmp_path / "run", limit=2)
    with monkeypatch.context() as patch:
        patch.setattr(stage, "read_part", None)
        assert run_ingest(kites, tmp_path / "run") == first
    assert content(tmp_path / "run") == before
    run_ingest(kites, tmp_path / "run", overwrite=True, limit=2)
    run_ingest(kites, tmp_path / "fresh", limit=2)
    assert content(tmp_path / "run") == content(tmp_path / "fresh")


KILLED = """
import os, signal, sys
from pathlib import Path
from negcap.pipelines.engine.progress import Progress
from negcap.pipelines.engine.run import Execution
from negcap.pipelines.stages import ingest as stage

class Killer(Progress):
    def advance(self, captions, steps=1):
        super().advance(captions, steps)
        if self._steps == 3:
            os.kill(os.getpid(), signal.SIGKILL)

stage.ingest(sys.argv[1], Path(sys.argv[2]), stage.IngestConfig(shard_size=50), Execution(progress=Killer()))
"""


def test_a_killed_run_is_completed_to_the_same_bytes(tmp_path):
    rows = [(f"{image}.jpg", f"Hen {number} of yard {image}.") for image in range(60) for number in range(5)]
    path, run = csv(tmp_path / "hens.csv", rows), tmp_path / "run"
    assert subprocess.run([sys.executable, "-c", KILLED, path, run], cwd=ROOT, timeout=60).returncode == -9
    assert len(list_shards(run / "captions")) == 3 and (run / ".ingest").is_dir()
    assert any("unfinished" in problem for problem in verify(run).problems)
    run_ingest(path, run, shard_size=50)
    run_ingest(path, tmp_path / "fresh", shard_size=50)
    assert content(run) == content(tmp_path / "fresh")


@pytest.mark.parametrize(("failing", "number", "message"), [
    ("negcap.pipelines.ingestion.grouping.write_blocks", errno.ENOSPC, "cannot write: disk full, free some space"),
    ("negcap.pipelines.ingestion.grouping.write_blocks", errno.EFBIG, "cannot write: File too large"),
    ("os.replace", errno.ENOSPC, "cannot write: disk full, free some space"),
])  # fmt: skip
def test_a_full_disk_is_a_clear_error_and_leaves_no_half_shard(failing, number, message, kites, tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(number, "it failed")

    with monkeypatch.context() as patch:
        patch.setattr(failing, full)
        with pytest.raises(OSError, match=message):
            run_ingest(kites, tmp_path / "run")
    assert not (tmp_path / "run").exists() or content(tmp_path / "run") == {}
    run_ingest(kites, tmp_path / "run")
    assert verify(tmp_path / "run").problems == ()


def test_an_image_in_two_splits_has_distinct_ids_and_a_warning(tmp_path):
    rows = [("a.jpg", "One kite.", "train"), ("b.jpg", "Two kites.", "train"), ("a.jpg", "Three kites.", "val")]
    path = csv(tmp_path / "kites.csv", rows, "image,caption,split")
    made = run_ingest(path, tmp_path / "run")
    found = [(row["caption_id"], row["split"]) for row in captions(tmp_path / "run")]
    assert found == [("table:a:0", "train"), ("table:a:1", "val"), ("table:b:0", "train")]
    assert made.warnings == ("images with captions in more than one split: 1",)
    assert run_ingest(path, tmp_path / "run") == made


@pytest.mark.data
@pytest.mark.parametrize(("source", "splits", "images", "first"), [
    ("flickr8k", {"train": 30000, "dev": 5000}, 7000, "vsepp:2513260012_03d33305cf:0"),
    ("coco/captions_val2017.json.gz", {"val": 25014}, 5000, "coco:000000179765:0"),
    ("multi30k", {"train": 145000, "val": 5070}, 30014, "multi30k:1000092795:0"),
])  # fmt: skip
def test_real_captions(source, splits, images, first, tmp_path, real_data):
    made = run_ingest(real_data / source, tmp_path / "run")
    assert made == Ingested({"captions": sum(splits.values()), "images": images}, ())
    table = pa.concat_tables(read_table(tmp_path / "run", "captions"))
    assert Counter(table["split"].to_pylist()) == splits
    assert table["caption_id"][0].as_py() == first
    assert pc.count_distinct(table["caption_id"]).as_py() == table.num_rows
    ids = [set(shard["image_id"].to_pylist()) for shard in read_table(tmp_path / "run", "captions", ["image_id"])]
    assert sum(map(len, ids)) == len(set().union(*ids)) == images
