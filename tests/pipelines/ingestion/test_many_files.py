"""Sources of many files: the same captions whatever reads them, shards that end with files, what is kept of each."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from negcap.pipelines.engine.errors import StageError
from negcap.pipelines.engine.tables import read_table, verify
from negcap.pipelines.ingestion import grouping
from negcap.pipelines.stages import ingest as stage
from tests.pipelines.readers.sources import put
from tests.pipelines.stages.test_ingest import run_ingest
from tests.tables import content

FILES = 9


def tables(folder: Path, rows: int = 4, **more) -> Path:
    """Parquet files, each with some images of its own and one that all have."""
    folder.mkdir(parents=True)
    for file in range(FILES):
        images = [f"{file}-{row}.jpg" for row in range(rows)] + ["all.jpg"]
        texts = [f"Kite {row} of file {file}." for row in range(rows + 1)]
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
    assert sum(read(whole, "captions"), []) == sum(read(tmp_path / "one", "captions"), [])


@pytest.mark.parametrize("pattern", ["*.parquet", "{00000..00008}.parquet", "**/0000?.parquet"])
def test_patterns_of_files(pattern, folder, whole, tmp_path):
    run_ingest(f"{folder}/{pattern}", tmp_path / "again", shard_size=3)
    assert content(whole) == content(tmp_path / "again")


def test_files_of_one_name_in_several_folders(tmp_path):
    for name in ("a", "b"):
        tables(tmp_path / "many" / name)
    bad = pa.table({"image": ["1.jpg", "2.jpg"], "caption": ["A kite.", ""]})
    pq.write_table(bad, tmp_path / "many/b/00003.parquet")
    made = run_ingest(tmp_path / "many/*/*.parquet", tmp_path / "run")
    assert made.counts["rejected.no_text"] == 1
    assert [row["source"] for row in sum(read(tmp_path / "run", "rejected_records"), [])] == ["b/00003.parquet"]
    manifest = json.loads((tmp_path / "run/_manifests/captions.json").read_bytes())
    assert {"a/00000.parquet", "b/00000.parquet"} < set(manifest["identity"]["inputs"])
    with pytest.raises(FileNotFoundError, match=r"x\*\.parquet: no such file, and no files match this pattern"):
        run_ingest(tmp_path / "many/x*.parquet", tmp_path / "none")


@pytest.mark.parametrize("stopped", ["read_part", "group_rows", "pack_range"])
def test_an_interrupted_ingest_goes_on_with_what_was_read(stopped, folder, whole, tmp_path, monkeypatch):
    made, opened, run = [], [], tmp_path / "run"
    step, records = getattr(stage, stopped), stage.readers.read

    def interrupted(work, number, *rest):
        if len(made) == (0 if stopped == "group_rows" else 5):
            raise KeyboardInterrupt
        made.append(number)
        return step(work, number, *rest)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(stage, stopped, interrupted)
        run_ingest(folder, run, shard_size=3)
    assert (run / ".ingest").is_dir()
    monkeypatch.setattr(stage.readers, "read", lambda *given: (opened.append(given[3]), records(*given))[1])
    run_ingest(folder, run, shard_size=3)
    assert len(opened) == (FILES - 5 if stopped == "read_part" else 0)
    assert content(run) == content(whole)


def test_a_damaged_spill_file_is_made_again(folder, whole, tmp_path, monkeypatch):
    run = tmp_path / "run"
    with monkeypatch.context() as patch, pytest.raises(StageError, match="ingest stopped: ZeroDivisionError"):
        patch.setattr(stage, "group_rows", lambda *_: 1 / 0)
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
    shards = [[*dict.fromkeys(row["source"] for row in shard)] for shard in read(run, "rejected_records")]
    assert shards == [[], ["00002.parquet", "00003.parquet"], ["00008.parquet"]]
    names = sorted(path.name for path in (run / "rejected_records").iterdir())
    assert names == [f"part-0000{number}.parquet" for number in (0, 2, 6)]
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
    captions, kept = read(run, "captions"), read(run, "source_columns")
    assert [[row["caption_id"] for row in shard] for shard in kept] == [
        [row["caption_id"] for row in shard] for shard in captions
    ]
    ids = {"caption_id": "table:1-0:0", "image_id": "1-0"}
    assert kept[1][0] == {**ids, "url": "https://x.org/1/0", "width": 10, "licence": '["by", "sa"]'}
    assert kept[0][1]["width"] is None
    assert verify(run).problems == ()


@pytest.mark.parametrize(("source", "column", "message"), [
    ("many", "width", "column width must be int64, as in the first file: .*wide"),
    ("many", "hight", r"keep column must be one of the columns found, was: hight; found: image,"),
    ("captions.txt", "width", "keep_columns is for tables and WebDataset tars, the format is lines"),
    ("a.parquet", "split", "must not have the name of a column of captions, was: split"),
])  # fmt: skip
def test_errors_of_kept_columns_name_the_column(source: str, column: str, message: str, tmp_path: Path) -> None:
    tables(tmp_path / "many", width=lambda file: [1] * 5 if file < 4 else ["wide"] * 5)
    rows = [{"photo": "1.jpg", "caption": "A kite.", "split": "train"}]
    put(tmp_path, {"captions.txt": "A kite flies.\n", "a.parquet": rows})
    with pytest.raises(ValueError, match=message):
        run_ingest(tmp_path / source, tmp_path / "run", keep_columns=(column,))
    assert not (tmp_path / "run").exists()


def test_ids_come_from_a_column(tmp_path: Path) -> None:
    urls = ["https://a.org/1.jpg", "https://b.org/1.jpg", "https://a.org/1.jpg"]
    rows = [{"URL": url, "TEXT": text, "nr": nr} for url, text, nr in zip(
        urls, ["A kite.", "Two kites.", "A red kite."], ["f0/1", "f1", ""], strict=True)]  # fmt: skip
    path = put(tmp_path, {"laion.parquet": rows})
    made = run_ingest(path, tmp_path / "names")
    assert made.counts == {"captions": 2, "images": 1, "rejected.ambiguous_image": 1}
    assert "--columns id=… (id_column= in Python) names a column" in made.warnings[0]
    made = run_ingest(path, tmp_path / "urls", id_column="url")
    assert made.counts == {"captions": 3, "images": 2}
    first = read(tmp_path / "urls", "captions")[0]
    assert [row["text"] for row in first] == ["A kite.", "A red kite.", "Two kites."]
    assert first[0]["image"] == urls[0] and len(first[0]["image_id"]) == 16
    uids = [{"uid" if name == "nr" else name: value for name, value in row.items()} for row in rows]  # as DataComp
    made = run_ingest(put(tmp_path, {"datacomp.parquet": uids}), tmp_path / "uids")
    assert [row["image_id"] for row in read(tmp_path / "uids", "captions")[0]] == ["f0_1", "f1"]
    assert made.counts["rejected.no_image"] == 1
