"""WebDataset tars, and img2dataset's folders, which have tables beside them."""

import io
import json
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from negcap.pipelines import readers
from negcap.pipelines.readers import ReadOptions, webdataset


def archive(path: Path, members: dict[str, str | bytes]) -> Path:
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as tar:
        for name, content in members.items():
            data = content.encode() if isinstance(content, str) else content
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def read(source: Path, **options) -> list[tuple]:
    format = readers.detect(str(source))
    assert format == "webdataset"
    found = readers.read(str(source), format, ReadOptions(**options))
    return [
        (one.id, one.image, one.text, one.kept) if isinstance(one, readers.Record) else (one.line, one.reason)
        for one in found
    ]


@pytest.mark.parametrize("name", ["train-00000.tar", "train-00000.tar.gz"])
def test_samples_of_img2dataset(name, tmp_path):
    about = {"caption": "A kite.", "url": "https://x.org/1.jpg", "key": "000000001", "width": 512}
    members = {
        "000000001.jpg": b"\xff" * 3000,
        "000000001.txt": "A kite.\n",
        "000000001.json": json.dumps(about),
        "000000002.jpg": b"",
        "000000002.json": json.dumps({**about, "key": "000000002", "caption": None}),
        "000000003.json": "[",
        "000000003.jpg": b"",
    }
    path = archive(tmp_path / name, members)
    first = ("000000001", "000000001.jpg", "A kite.", ("https://x.org/1.jpg", 512))
    assert read(path, keep_columns=("url", "width")) == [first, (2, "no_text"), (3, "not_a_record")]
    record = next(readers.read(str(path), "webdataset", ReadOptions()))
    assert (record.split, record.source, record.line) == ("train", name, 1)


def test_samples_in_folders_with_other_members_whose_caption_is_a_field_or_a_list(tmp_path):
    members = {"x/1.cls": "7", "x/1.seg.png": b"", "x/1.png": b"", "x/1.text": "A kite.", "y/1.text": "A hill."}
    path = archive(tmp_path / "b.tar", members)
    assert read(path) == [("x_1", "x/1.png", "A kite.", ()), ("y_1", "y/1", "A hill.", ())]
    path = archive(tmp_path / "a.tar", {"1.json": json.dumps({"alt": ["A kite.", "A red kite."], "text": "x"})})
    assert [row[2] for row in read(path, caption_column="alt")] == ["A kite.", "A red kite."]
    with pytest.raises(ValueError, match=r"a\.tar: caption column must be one of the columns found, was: words"):
        read(path, caption_column="words")


def test_a_member_that_is_too_long_and_a_cut_archive(tmp_path, monkeypatch):
    path = archive(tmp_path / "a.tar", {"1.txt": "kite " * 9, "2.txt": "A kite."})
    monkeypatch.setattr(webdataset, "MAX_BYTES", 20)
    assert read(path)[0] == (1, "not_a_record")
    path.write_bytes(path.read_bytes()[:1100])
    with pytest.raises(ValueError, match=r"a\.tar: must be a complete tar archive of samples, cannot be read"):
        read(path)


def test_a_folder_of_img2dataset_is_read_from_its_tables(tmp_path):
    columns = {
        "url": ["https://x.org/1.jpg", "https://x.org/2.jpg"],
        "caption": ["A kite.", "A hill."],
        "status": ["success", "failed_to_download"],
    }
    for number in range(2):
        archive(tmp_path / f"0000{number}.tar", {f"0000{number}0000.txt": "A kite."})
        (tmp_path / f"0000{number}_stats.json").write_text("{}")
    assert readers.detect(str(tmp_path)) == "webdataset"
    for number in range(2):
        keys = {"key": [f"0000{number}000{row}" for row in range(2)]}
        pq.write_table(pa.table(columns | keys), tmp_path / f"0000{number}.parquet")
    assert readers.detect(str(tmp_path)) == "table"
    found = list(readers.read(str(tmp_path), "table", ReadOptions()))
    assert [one.id for one in found if isinstance(one, readers.Record)] == ["000000000", "000010000"]
    bad = [one for one in found if isinstance(one, readers.Rejected)]
    assert [one.reason for one in bad] == ["no_image"] * 2
    assert bad[0].detail == "image must have been downloaded, its status was: 'failed_to_download'"


def test_an_archive_is_known_by_its_texts_and_names(tmp_path):
    def known(text: str, picture: bytes, name: str = "1.jpg") -> dict:
        return readers.content(str(archive(tmp_path / "a.tar", {name: picture, "1.txt": text})), "webdataset")

    first = known("A kite.", b"xxx")
    assert first["file"] == "a.tar" and first["bytes"] == (tmp_path / "a.tar").stat().st_size
    assert known("A kite.", b"yyy") == first
    assert known("A kit!.", b"xxx") != first and known("A kite.", b"xxx", "2.jpg") != first


MEMBERS = {  # members of an archive: image and caption of each record, or number and reason
    "one caption a line": (
        {"1.jpg": "", "1.txt": "A kite.\nA hill.\n\n"}, [("1.jpg", "A kite."), ("1.jpg", "A hill.")]),
    "lower case": ({"1.jpg": "", "1.txt": "a kite\na hill"}, [("1.jpg", "a kite"), ("1.jpg", "a hill")]),
    "a sentence in lines": ({"1.jpg": "", "1.txt": "A kite\nover a hill."}, [("1.jpg", "A kite over a hill.")]),
    "the JSON has it whole": (
        {"1.jpg": "", "1.txt": "A kite.\nA hill.", "1.json": json.dumps({"caption": "A kite.\nA hill."})},
        [("1.jpg", "A kite. A hill.")]),
    "an empty text": ({"1.jpg": "", "1.txt": "\n"}, [(1, "no_text")]),
    "no text": ({"1.jpg": "", "2.jpg": "", "2.txt": "A kite."}, [(1, "no_text"), ("2.jpg", "A kite.")]),
    "apart": (
        {"1.jpg": "", "2.jpg": "", "1.txt": "A kite.", "2.txt": "A hill."},
        [("1.jpg", "A kite."), ("2.jpg", "A hill.")]),
    "texts first": ({"1.txt": "A kite.", "2.txt": "A hill.", "2.jpg": "", "1.jpg": ""},
                    [("1.jpg", "A kite."), ("2.jpg", "A hill.")]),
    "dots": ({"a.05.jpg": "", "a.05.txt": "A kite.", "a.06.jpg": "", "a.06.txt": "A hill."},
             [("a.05.jpg", "A kite."), ("a.06.jpg", "A hill.")]),
    "dots, one sample": ({"a.05.jpg": "", "a.05.txt": "A kite."}, [("a.05.jpg", "A kite.")]),
    "folders apart": ({"images/1.jpg": "", "images/2.jpg": "", "texts/1.txt": "A kite.", "texts/2.txt": "A hill."},
                      [("images/1.jpg", "A kite."), ("images/2.jpg", "A hill.")]),
    "other suffixes": ({"1.input.jpg": "", "1.outputs.txt": "A kite."}, [("1.input.jpg", "A kite.")]),
}  # fmt: skip


@pytest.mark.parametrize("name", MEMBERS)
def test_texts_and_names_as_people_pack_them(name: str, tmp_path: Path) -> None:
    members, expected = MEMBERS[name]
    found = read(archive(tmp_path / "a.tar", members))
    assert [row[1:3] if len(row) > 2 else row for row in found] == expected


def test_texts_with_unusual_suffixes_are_named_or_chosen(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.tar", {"1.jpg": "", "1.long.txt": "A kite.", "1.tags.txt": "kite"})
    with pytest.raises(
        ValueError, match=r"\(columns: long\.txt, tags\.txt, image, key\); name it: --columns caption=NAME"
    ):
        read(path)
    assert read(path, caption_column=("long.txt",))[0][:3] == ("1", "1.jpg", "A kite.")
    both = read(path, caption_column=("long.txt", "tags.txt"))
    assert [row[2] for row in both] == ["A kite.", "kite"]


def test_a_folder_of_splits_as_clip_benchmark_has_it(tmp_path: Path) -> None:
    for split in ("train", "test"):
        (tmp_path / split).mkdir()
        (tmp_path / split / "nshards.txt").write_text("1")
        archive(tmp_path / split / "0.tar", {f"{split}.jpg": "", f"{split}.txt": "A kite.\nA hill."})
    assert readers.detect(str(tmp_path)) == "webdataset"
    found = list(readers.read(str(tmp_path), "webdataset", ReadOptions()))
    assert [(one.image, one.split) for one in found] == [("test.jpg", "test")] * 2 + [("train.jpg", "train")] * 2


def test_an_archive_without_texts_says_what_it_has(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.tar", {"1.jpg": "", "1.caps": "A kite."})
    (bad,) = readers.read(str(path), "webdataset", ReadOptions())
    assert bad.detail == "a sample must have a text (txt, text, caption) or JSON, has only: jpg, caps"
