"""WebDataset tars, and img2dataset's folders, which have tables beside them."""

import gzip
from pathlib import Path

import pytest

from negcap.pipelines import readers
from negcap.pipelines.readers.webdataset import MAX_BYTES
from tests.pipelines.readers.sources import captions_of, content, put, read


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
    found = read(path, keep_columns=("url", "width"))
    (record,) = found.records
    assert (record.id, record.image, record.text) == ("000000001", "000000001.jpg", "A kite.")
    assert (record.split, record.source, record.line, record.kept) == ("train", name, 1, ("https://x.org/1.jpg", 512))
    assert found.reasons == [(2, "no_text"), (3, "not_a_record")]


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
    found = read(tmp_path)
    assert [record.id for record in found.records] == ["000000000", "000010000"]
    assert [bad.detail for bad in found.rejected] == ["image must have been downloaded, its status was: 'failed'"] * 2


def test_an_archive_is_known_by_its_texts_and_names(tmp_path: Path) -> None:
    def known(text: str, picture: bytes, name: str = "1.jpg") -> dict:
        return readers.content(put(tmp_path, {"a.tar": {name: picture, "1.txt": text}}), "webdataset")

    first = known("A kite.", b"xxx")
    assert first["file"] == "a.tar" and first["bytes"] == (tmp_path / "a.tar").stat().st_size
    assert known("A kite.", b"yyy") == first
    assert known("A kit!.", b"xxx") != first and known("A kite.", b"xxx", "2.jpg") != first


KITE, HILL = "A kite.", "A hill."
BOTH = [("1.jpg", KITE), ("2.jpg", HILL)]
LONG = {"1.jpg": "", "1.long.txt": KITE, "1.tags.txt": "kite"}
MEMBERS = {  # members of an archive, the columns that are named: what is read, what is rejected
    "one caption a line": ({"1.jpg": "", "1.txt": "A kite.\nA hill.\n\n"}, "", [("1.jpg", KITE), ("1.jpg", HILL)], []),
    "lower case": ({"1.jpg": "", "1.txt": "a kite\na hill"}, "", [("1.jpg", "a kite"), ("1.jpg", "a hill")], []),
    "a sentence in lines": ({"1.jpg": "", "1.txt": "A kite\nover a hill."}, "", [("1.jpg", "A kite over a hill.")], []),
    "the JSON has it whole": (
        {"1.jpg": "", "1.txt": "A kite.\nA hill.", "1.json": {"caption": "A kite.\nA hill."}}, "",
        [("1.jpg", "A kite. A hill.")], []),
    "an empty text": ({"1.jpg": "", "1.txt": "\n"}, "", [], [(1, "no_text")]),
    "no text": ({"1.jpg": "", "2.jpg": "", "2.txt": HILL}, "", [("2.jpg", HILL)], [(1, "no_text")]),
    "apart": ({"1.jpg": "", "2.jpg": "", "1.txt": KITE, "2.txt": HILL}, "", BOTH, []),
    "texts first": ({"1.txt": KITE, "2.txt": HILL, "2.jpg": "", "1.jpg": ""}, "", BOTH, []),
    "dots": ({"a.05.jpg": "", "a.05.txt": KITE, "a.06.jpg": "", "a.06.txt": HILL}, "",
             [("a.05.jpg", KITE), ("a.06.jpg", HILL)], []),
    "dots, one sample": ({"a.05.jpg": "", "a.05.txt": KITE}, "", [("a.05.jpg", KITE)], []),
    "folders apart": ({"images/1.jpg": "", "images/2.jpg": "", "texts/1.txt": KITE, "texts/2.txt": HILL}, "",
                      [("images/1.jpg", KITE), ("images/2.jpg", HILL)], []),
    "folders with others": ({"x/1.cls": "7", "x/1.seg.png": b"", "x/1.png": b"", "x/1.text": KITE, "y/1.text": HILL},
                            "", [("x/1.png", KITE), ("y/1", HILL)], []),
    "other suffixes": ({"1.input.jpg": "", "1.outputs.txt": KITE}, "", [("1.input.jpg", KITE)], []),
    "a named suffix": (LONG, "caption=long.txt", [("1.jpg", KITE)], []),
    "two named suffixes": (LONG, "caption=long.txt,caption=tags.txt", [("1.jpg", KITE), ("1.jpg", "kite")], []),
    "a list in a field": ({"1.json": {"alt": [KITE, HILL]}}, "caption=alt", [("1", KITE), ("1", HILL)], []),
    "no texts": ({"1.jpg": "", "1.caps": KITE}, "", [], [(1, "no_text")]),
}  # fmt: skip


@pytest.mark.parametrize("name", MEMBERS)
def test_texts_and_names_as_people_pack_them(name: str, tmp_path: Path) -> None:
    members, columns, expected, reasons = MEMBERS[name]
    found = read(put(tmp_path, {"a.tar": members}), columns=columns)
    assert (found.captions, found.reasons) == (expected, reasons)
    if name == "no texts":
        detail = "a sample must have a text (txt, text, caption) or JSON, has only: jpg, caps"
        assert found.rejected[0].detail == detail


@pytest.mark.parametrize(("columns", "message"), [
    ("", r"\(columns: long\.txt, tags\.txt, image, key\); name it: --columns caption=NAME"),
    ("caption=words", r"a\.tar: caption column must be one of the columns found, was: words"),
])  # fmt: skip
def test_texts_with_unusual_suffixes_are_asked_for(columns: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        read(put(tmp_path, {"a.tar": LONG}), columns=columns)


def test_a_folder_of_splits_as_clip_benchmark_has_it(tmp_path: Path) -> None:
    for split in ("train", "test"):
        put(tmp_path, {f"{split}/nshards.txt": "1", f"{split}/0.tar": {f"{split}.jpg": "", f"{split}.txt": "A kite."}})
    assert readers.detect(str(tmp_path)) == "webdataset"
    assert captions_of(tmp_path) == [("test.jpg", KITE), ("train.jpg", KITE)]
    assert [record.split for record in read(tmp_path).records] == ["test", "train"]
