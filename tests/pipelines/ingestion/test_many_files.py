"""Sources of many files: the same captions whatever reads them, shards that end with files, what is kept of each."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from negcap.pipelines.engine.errors import StageError
from negcap.pipelines.engine.manifest import read_manifest
from negcap.pipelines.engine.shards import list_shards, sealed
from negcap.pipelines.engine.tables import read_table, verify
from negcap.pipelines.ingestion import grouping
from negcap.pipelines.stages import ingest as stage
from tests.cases import cases_of
from tests.pipelines.readers.sources import put
from tests.pipelines.stages.test_ingest import run_ingest
from tests.tables import content, rows_of

FILES = 9


def tables(folder: Path, **more) -> Path:
    """Parquet files, each with four images of its own and one that all have."""
    folder.mkdir(parents=True)
    for file in range(FILES):
        images = [f"{file}-{row}.jpg" for row in range(4)] + ["all.jpg"]
        texts = [f"Kite {row} of file {file}." for row in range(5)]
        columns = {"image": images, "caption": texts, **{name: values(file) for name, values in more.items()}}
        pq.write_table(pa.table(columns), folder / f"{file:05d}.parquet")
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files that no test changes."""
    return tables(tmp_path_factory.mktemp("files") / "many")


@pytest.fixture(scope="module")
def whole(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Their run, in shards of three captions."""
    run = tmp_path_factory.mktemp("whole") / "run"
    assert run_ingest(folder, run, shard_size=3).counts == {"captions": 45, "images": 37}
    return run


def read(run: Path, table: str) -> list[list[dict]]:
    return [shard.to_pylist() for shard in read_table(run, table)]


def test_a_shard_ends_where_a_file_ends_and_siblings_are_together(whole):
    shards = read(whole, "captions")
    assert [row["caption_id"] for row in shards[1]] == ["table:0-3:0"]
    everywhere = shards[2]  # an image is in the file that has it first, and whole
    assert [row["text"] for row in everywhere] == [f"Kite 4 of file {file}." for file in range(FILES)]
    assert [row["caption_id"] for row in everywhere] == [f"table:all:{number}" for number in range(FILES)]
    assert [len(shard) for shard in shards[3:]] == [3, 1] * 8
    assert verify(whole).problems == ()
    assert not (whole / ".ingest").exists()


def test_the_same_captions_from_one_part_and_from_many(folder, whole, tmp_path, monkeypatch):
    monkeypatch.setattr(stage, "MANY_FILES", 100)
    monkeypatch.setattr(grouping, "BLOCK_ROWS", 7)
    monkeypatch.setattr(stage, "RANGE_ROWS", 11)
    run_ingest(folder, tmp_path / "one")
    assert rows_of(whole, "captions") == rows_of(tmp_path / "one", "captions")


@pytest.mark.parametrize("pattern", ["*.parquet", "{00000..00008}.parquet", "**/0000?.parquet"])
def test_patterns_of_files(pattern, folder, whole, tmp_path):
    run_ingest(f"{folder}/{pattern}", tmp_path / "again", shard_size=3)
    assert content(whole) == content(tmp_path / "again")


def test_files_of_one_name_in_several_folders(tmp_path):
    for name in ("a", "b"):
        tables(tmp_path / "many" / name)
    run_ingest(tmp_path / "many/*/*.parquet", tmp_path / "run")
    manifest = read_manifest(tmp_path / "run/captions")
    assert manifest is not None and {"a/00000.parquet", "b/00000.parquet"} < set(manifest.identity.inputs)
    with pytest.raises(FileNotFoundError, match=r"x\*\.parquet: no such file, and no files match this pattern"):
        run_ingest(tmp_path / "many/x*.parquet", tmp_path / "none")


@pytest.mark.parametrize("stopped", ["read_part", "group_rows", "pack_range"])
def test_an_interrupted_ingest_goes_on_with_what_was_read(stopped, folder, whole, tmp_path, monkeypatch):
    done: list[int] = []
    opened: list[object] = []
    step, read_records = getattr(stage, stopped), stage.readers.read

    def interrupted(work, number, *rest):
        if stopped == "group_rows" or len(done) == 5:
            raise KeyboardInterrupt
        done.append(number)
        return step(work, number, *rest)

    def counted(*arguments):
        opened.append(arguments)
        return read_records(*arguments)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(stage, stopped, interrupted)
        run_ingest(folder, tmp_path / "run", shard_size=3)
    monkeypatch.setattr(stage.readers, "read", counted)
    run_ingest(folder, tmp_path / "run", shard_size=3)
    assert len(opened) == (FILES - 5 if stopped == "read_part" else 0)
    assert content(tmp_path / "run") == content(whole)


def test_a_damaged_spill_file_is_made_again(folder, whole, tmp_path, monkeypatch):
    run = tmp_path / "run"
    with monkeypatch.context() as patch, pytest.raises(StageError, match="ingest stopped: TypeError"):
        patch.setattr(stage, "group_rows", None)
        run_ingest(folder, run, shard_size=3)
    spilled = run / ".ingest/rows-00004.arrow"
    spilled.write_bytes(spilled.read_bytes()[:-90] + bytes(90))
    run_ingest(folder, run, shard_size=3)
    assert content(run) == content(whole)


def test_rejected_records_stand_with_the_shards_of_their_file(tmp_path):
    folder, run = tables(tmp_path / "many"), tmp_path / "run"
    for file in (2, 3, 8):  # of the third and the last file, nothing is left
        texts = ["", "", "", ""] if file != 3 else ["A kite.", "", "A kite.", "A kite."]
        pq.write_table(pa.table({"image": list("abcd"), "caption": texts}), folder / f"{file:05d}.parquet")
    made = run_ingest(folder, run)
    assert made.counts["rejected.no_text"] == 9
    sources = {path.name: {row["source"] for row in sealed(path).read().to_pylist()}
               for path in list_shards(run / "rejected_records")}  # fmt: skip
    assert sources == {
        "part-00000.parquet": set(),
        "part-00002.parquet": {"00002.parquet", "00003.parquet"},
        "part-00006.parquet": {"00008.parquet"},
    }
    assert verify(run).problems == ()
    assert run_ingest(folder, run).counts == made.counts
    with pytest.raises(ValueError, match=r"00002\.parquet:1: no_text"):
        run_ingest(folder, run, strict=True)


def test_columns_are_kept_with_each_caption(tmp_path):
    folder, run = tmp_path / "many", tmp_path / "run"
    tables(
        folder,
        url=lambda file: [f"https://x.org/{file}/{row}" for row in range(5)],
        width=lambda file: [file * 10, None, 2, 3, 4],
        licence=lambda file: [None] * 5 if file == 0 else [["by", "sa"]] * 5,
    )
    run_ingest(folder, run, keep_columns=("url", "width", "licence"))
    captions, kept = rows_of(run, "captions"), rows_of(run, "source_columns")
    assert [row["caption_id"] for row in kept] == [row["caption_id"] for row in captions]
    row = next(row for row in kept if row["caption_id"] == "table:1-0:0")
    columns = {"url": "https://x.org/1/0", "width": 10, "licence": '["by", "sa"]'}
    assert row == {"caption_id": "table:1-0:0", "image_id": "1-0", **columns}
    assert kept[1]["width"] is None


@pytest.mark.parametrize("source, column, message", cases_of(__file__)["kept_columns"]["refused"])
def test_errors_of_kept_columns_name_the_column(source, column, message, tmp_path):
    tables(tmp_path / "many", width=lambda file: [1] * 5 if file < 4 else ["wide"] * 5)
    rows = [{"photo": "1.jpg", "caption": "A kite.", "split": "train"}]
    put(tmp_path, {"captions.txt": "A kite flies.\n", "a.parquet": rows})
    with pytest.raises(ValueError, match=message):
        run_ingest(tmp_path / source, tmp_path / "run", keep_columns=(column,))
    assert not (tmp_path / "run").exists()


def test_ids_come_from_a_column(tmp_path):
    rows = [
        {"url": "https://a.org/1.jpg", "text": "A kite.", "uid": "f0/1"},
        {"url": "https://b.org/1.jpg", "text": "Two kites.", "uid": "f1"},
        {"url": "https://a.org/1.jpg", "text": "A red kite.", "uid": ""},
    ]
    path = put(tmp_path, {"laion.parquet": rows})
    made = run_ingest(path, tmp_path / "urls", id_column="url")
    assert made.counts == {"captions": 3, "images": 2}
    captions = rows_of(tmp_path / "urls", "captions")
    assert [row["text"] for row in captions] == ["A kite.", "A red kite.", "Two kites."]
    assert captions[0]["image"] == "https://a.org/1.jpg" and len(captions[0]["image_id"]) == 16
    made = run_ingest(path, tmp_path / "uids")  # a column of such a name is taken unasked
    assert [row["image_id"] for row in rows_of(tmp_path / "uids", "captions")] == ["f0_1", "f1"]
    assert made.counts["rejected.no_image"] == 1
