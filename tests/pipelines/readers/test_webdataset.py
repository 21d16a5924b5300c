"""WebDataset tars, and img2dataset's folders, which have tables beside them."""

import gzip
from pathlib import Path

import pytest

from negcap.pipelines import readers
from negcap.pipelines.readers.webdataset import MAX_BYTES
from tests.pipelines.readers.sources import content, put, read


@pytest.mark.parametrize("name", ["train-00000.tar", "train-00000.tar.gz"])
def test_samples_of_img2dataset(name: str, tmp_path: Path) -> None:
    about = {"caption": "A kite.", "url": "https://x.org/1.jpg", "key": "000000001", "width": 512}
    members = {
        **{"000000001.jpg": b"\xff" * 3000, "000000001.txt": "A kite.\n", "000000001.json": about},
        **{"000000002.jpg": b"", "000000002.json": {**about, "key": "000000002", "caption": None}},
        **{"000000003.jpg": b"", "000000003.json": "["},
    }
    data = content("a.tar", members)
    path = put(tmp_path, {name: gzip.compress(data) if name.endswith(".gz") else data})
    assert readers.detect(path) == "webdataset"
    result = read(path, keep_columns=("url", "width"))
    (record,) = result.records
    assert (record.id, record.image, record.text) == ("000000001", "000000001.jpg", "A kite.")
    assert (record.split, record.source, record.line, record.kept) == ("train", name, 1, ("https://x.org/1.jpg", 512))
    assert result.reasons == [(2, "no_text"), (3, "not_a_record")]


def test_a_text_that_is_too_long_and_a_cut_archive(tmp_path: Path) -> None:
    path = put(tmp_path, {"a.tar": {"1.txt": "kite " * (MAX_BYTES // 4), "2.txt": "A kite."}})
    assert read(path).reasons == [(1, "not_a_record")]
    whole = content("a.tar", {"1.txt": "A kite.", "2.txt": "A hill."})
    for size in (1100, 1024):  # in a file, between two
        Path(path).write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"a\.tar: must be a complete tar archive of samples, cannot be read"):
            read(path)


def test_a_folder_of_img2dataset_is_read_from_its_tables(tmp_path: Path) -> None:
    for number in range(2):
        put(tmp_path, {f"0000{number}.tar": {f"0000{number}0000.txt": "A kite."}, f"0000{number}_stats.json": {}})
    assert readers.detect(str(tmp_path)) == "webdataset"
    for number in range(2):
        rows = [
            {"url": "https://x.org/1.jpg", "caption": "A kite.", "status": "success", "key": f"0000{number}0000"},
            {"url": "https://x.org/2.jpg", "caption": "A hill.", "status": "failed", "key": f"0000{number}0001"},
        ]
        put(tmp_path, {f"0000{number}.parquet": rows})
    assert readers.detect(str(tmp_path)) == "table"
    result = read(tmp_path)
    assert [record.id for record in result.records] == ["000000000", "000010000"]
    assert [bad.detail for bad in result.rejected] == ["image must have been downloaded, its status was: 'failed'"] * 2


def test_an_archive_is_known_by_its_texts_and_names(tmp_path: Path) -> None:
    def known(text: str, picture: bytes, name: str = "1.jpg") -> dict:
        return readers.content(put(tmp_path, {"a.tar": {name: picture, "1.txt": text}}), "webdataset")

    first = known("A kite.", b"xxx")
    assert first["file"] == "a.tar" and first["bytes"] == (tmp_path / "a.tar").stat().st_size
    assert known("A kite.", b"yyy") == first
    assert known("A kit!.", b"xxx") != first and known("A kite.", b"xxx", "2.jpg") != first
