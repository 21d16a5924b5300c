"""Ingest: from any source to shards of captions, each image whole. The sentences are made up for these tests."""

import errno
import gzip
import io
import json
import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from negcap.pipelines.engine.errors import OtherConfigError
from negcap.pipelines.engine.manifest import read_manifest
from negcap.pipelines.engine.progress import Progress
from negcap.pipelines.engine.run import Execution
from negcap.pipelines.engine.tables import read_table, verify
from negcap.pipelines.ingestion import grouping
from negcap.pipelines.ingestion.grouping import captions_per_shard, shard_sizes
from negcap.pipelines.stages import ingest as stage
from negcap.pipelines.stages.ingest import IngestConfig, Ingested, ingest
from negcap.schemas.captions import CAPTIONS
from negcap.schemas.fields import check
from tests.cases import cases_of
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
    check(tables[0], CAPTIONS)
    ids = {"caption_id": "hill:b:1", "image_id": "b", "image": "photos/b.jpg", "split": "val2017"}
    assert captions(run)[4] == {**ids, "language": "en", "origin": "human", "text": "Kite 1 over hill b."}
    assert [row["text"] for row in captions(run)] == [text for _, text in ROWS]
    metadata = tables[0].schema.metadata
    config = json.loads(metadata[b"config"])
    assert (metadata[b"stage"], config["format"], config["shard_size"]) == (b"ingest", "table", 7)
    assert list(read_manifest(run / "captions").identity.inputs) == ["kites.csv"]
    assert str(tmp_path).encode() not in b"".join(content(run).values())  # neither where nor when
    assert verify(run).problems == ()


def grouped_by_image(rows: list[dict]) -> dict[str, list[str]]:
    texts: dict[str, list[str]] = {}
    for row in rows:
        texts.setdefault(row["image"], []).append(row["text"])
    return texts


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.permutations(range(len(ROWS))), shard_size=st.integers(1, 16), range_rows=st.integers(4, 20))
def test_any_order_keeps_images_whole_and_captions_in_order(order, shard_size, range_rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shuffled")
    rows = [ROWS[index] for index in order]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage, "RANGE_ROWS", range_rows)
        patch.setattr(grouping, "BLOCK_ROWS", 4)
        run_ingest(csv(folder / "kites.csv", rows), folder / "run", shard_size=shard_size)
    shards = [table.to_pylist() for table in read_table(folder / "run", "captions")]
    assert max(map(len, shards)) <= max(shard_size, 3)
    images_of_shards = [{row["image"] for row in shard} for shard in shards]
    assert sum(map(len, images_of_shards)) == 5  # none is divided
    made = grouped_by_image(captions(folder / "run"))
    expected = grouped_by_image([{"image": image, "text": text} for image, text in rows])
    assert list(made.items()) == list(expected.items())  # in the order in which the images come
    ids = [f"table:{Path(image).stem}:{number}" for image in expected for number in range(3)]
    assert [row["caption_id"] for row in captions(folder / "run")] == ids


def test_sizes_of_shards():
    assert shard_sizes([5, 5, 5], 10) == shard_sizes([5, 5, 5], 12) == [(10, 2), (5, 1)]
    assert shard_sizes([5, 5, 5], 1) == [(5, 1), (5, 1), (5, 1)]
    assert shard_sizes([1, 30, 1, 1], 10) == [(1, 1), (30, 1), (2, 2)] and shard_sizes([], 10) == []
    assert captions_per_shard(IngestConfig(shard_size=7), 10**9, 10**11) == 7
    of_captions_and_characters = {(0, 0): 1_000, (2 * 10**6, 10**8): 1_000, (20_480_000, 1_024_000_000): 10_000}
    of_captions_and_characters |= {(4 * 10**8, 2 * 10**10): 20_000, (4 * 10**8, 8 * 10**11): 1_000}
    for size, expected in of_captions_and_characters.items():
        assert captions_per_shard(IngestConfig(), *size) == expected


def test_a_limit_keeps_a_sample_of_images_with_all_their_captions_whatever_their_order(tmp_path):
    kept = []
    for number, rows in enumerate((ROWS, random.Random(3).sample(ROWS, len(ROWS)))):
        run_ingest(csv(tmp_path / "kites.csv", rows), tmp_path / str(number), limit=2)
        kept.append({image: set(texts) for image, texts in grouped_by_image(captions(tmp_path / str(number))).items()})
    assert kept[0] == kept[1] and [len(texts) for texts in kept[0].values()] == [3, 3]
    assert kept[0].keys() != {"photos/a.jpg", "photos/b.jpg"}  # not the first ones


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
    assert made.counts == {"captions": 2, "images": 2, **{f"rejected.{reason}": 1 for reason in reasons}}
    assert [row["caption_id"] for row in captions(run)] == ["flickr:wren:0", "flickr:crow:4"]
    again = rejected(run)[1]
    assert (again["source"], again["text"]) == ("birds.token", "A wren again.") and "wren.jpg#0" in again["detail"]
    assert "has the file name of another image: 1" in made.warnings[0] and "--columns id=…" in made.warnings[0]
    assert verify(run).problems == ()


def test_captions_of_an_image_beyond_a_thousand_are_rejected(tmp_path):
    rows = [*(("one.jpg", f"Kite {number}.") for number in range(1003)), ("other.jpg", "A kite.")]
    made = run_ingest(csv(tmp_path / "many.csv", rows), tmp_path / "run")
    assert made.counts == {"captions": 1001, "images": 2, "rejected.too_many_captions": 3}
    assert "more than 1,000 captions: 3" in made.warnings[0] and "--columns image=…" in made.warnings[0]
    assert {row["reason"] for row in rejected(tmp_path / "run")} == {"too_many_captions"}


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


@pytest.mark.parametrize("name, text, message", cases_of(__file__)["ingest"]["bad_sources"])
@pytest.mark.parametrize("there", [False, True])
def test_nothing_is_written_when_the_source_is_bad(name, text, message, there, tmp_path):
    run = tmp_path / "deep/run"
    if there:
        run.mkdir(parents=True)
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message) as error:
        run_ingest(tmp_path / name, run)
    assert str(error.value).startswith(str(tmp_path / name)) and "\n" not in str(error.value)
    assert list(run.iterdir()) == [] if there else not run.exists()


def test_a_source_that_is_missing_or_cut_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.csv: no such file or folder"):
        run_ingest(tmp_path / "nothing.csv", tmp_path / "run")
    (tmp_path / "a_caps.txt.gz").write_bytes(gzip.compress(b"Goat on a wall\n" * 5000)[:-20])
    with pytest.raises(ValueError, match="must be VSE.* captions.*cannot be read"):
        run_ingest(tmp_path / "a_caps.txt.gz", tmp_path / "run")
    assert not (tmp_path / "run").exists()


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


@pytest.mark.parametrize("failing", ["negcap.pipelines.ingestion.grouping.write_blocks", "os.replace"])
def test_a_full_disk_is_a_clear_error_and_leaves_no_half_shard(failing, kites, tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "it failed")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="cannot write: disk full, free some space"):
        patch.setattr(failing, full)
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
@pytest.mark.parametrize("source, splits, images", [
    ("flickr8k", {"train": 30000, "dev": 5000}, 7000),
    ("coco/captions_val2017.json.gz", {"val": 25014}, 5000),
    ("multi30k", {"train": 145000, "val": 5070}, 30014),
])  # fmt: skip
def test_real_captions(source, splits, images, tmp_path, real_data):
    made = run_ingest(real_data / source, tmp_path / "run")
    assert made == Ingested({"captions": sum(splits.values()), "images": images}, ())
    assert Counter(row["split"] for row in captions(tmp_path / "run")) == splits
