"""Captions as people keep them: cells, tables, lines, JSON objects, folders and archives; and what cannot be read."""

import gzip
import json
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from negcap.pipelines import readers
from negcap.pipelines.readers import ReadOptions
from negcap.pipelines.readers.cells import captions_in
from negcap.pipelines.readers.record import MAX_CAPTIONS, MAX_TEXT
from tests.pipelines.readers.sources import CASES, Files, check_reading, content, filled, put, read
from tests.pipelines.readers.test_formats import COMPRESS, CSV, FILES, TEN_LINES, multi30k

OWL, HEN, DOG, BALL = "Two owls stare .", "A hen sits.", "A dog sleeps.", "A dog's ball."
SINGLE = [(kind, name) for kind in ("lines", "objects", "archives") for name in CASES[kind]]


@pytest.mark.parametrize(("kind", "name"), SINGLE)
def test_a_file_is_read_as_people_keep_captions(kind: str, name: str, tmp_path: Path) -> None:
    written, *expected = filled(CASES[kind][name])
    file = {"lines": "captions.txt", "objects": "a.json", "archives": "a.tar"}[kind]
    check_reading(tmp_path, {file: written}, expected)
    if kind == "objects":
        check_reading(tmp_path, {file: json.dumps(json.loads(written), indent=1)}, expected)


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in ("tables", "folders") for name in CASES[kind]])
def test_tables_and_folders_are_read_as_people_keep_captions(kind: str, name: str, tmp_path: Path) -> None:
    files = filled(CASES[kind][name])
    expected, columns = files.pop("read"), files.pop("columns", "")
    check_reading(tmp_path, files, expected, columns, "table" if kind == "tables" else "")


@pytest.mark.parametrize("files", [
    {"train/1.jpg": "", "train/1.txt": OWL, "test/1.jpg": "", "test/1.txt": OWL},
    {f"{split}/{name}": text for split in ("train", "test") for name, text in
     {"nshards.txt": "1", "0.tar": content("a.tar", {f"{split}.jpg": "", f"{split}.txt": OWL})}.items()},
    {"a.json": {split: [{"image": "1.jpg", "caption": OWL}] for split in ("test", "train")}},
], ids=["texts", "archives of CLIP_benchmark", "lists"])  # fmt: skip
def test_folders_and_lists_may_be_splits(files: Files, tmp_path: Path) -> None:
    put(tmp_path, files)
    assert [(record.split, record.text) for record in read(tmp_path).records] == [("test", OWL), ("train", OWL)]


LISTS = {  # a list as text
    "JSON": json.dumps([DOG, BALL]),
    "Python": repr([DOG, BALL]),
    "Python 2": f"[u'{DOG}', u\"{BALL}\"]",
    "a comma at the end": f"['{DOG}', \"{BALL}\",]",
    "an escaped quote": f"['{DOG}', 'A dog\\'s ball.']",
    "numpy": f"['{DOG}'\n \"{BALL}\"]",
}
NO_LISTS = (
    *("[blurred] A man walks.", "[blurred]", "[A man, a dog]", "A man walks [blurred]", "", "[", "]"),
    *("[blurred] A man walks [again]", "['A dog sleeps.] A dog lies.]", "[dog for dog in dogs]"),
    *("{blurred} A man", f"{DOG}\n{BALL}", f"1. {DOG}\n{BALL}", "[" * 5000 + "]" * 5000),
    json.dumps(["x" * MAX_TEXT] * MAX_CAPTIONS),  # too long
)
CELLS: dict[str, tuple[Any, list[Any]]] = {  # a cell, and its captions
    **{f"a list, {name}": (written, [DOG, BALL]) for name, written in LISTS.items()},
    **{f"no list, {text[:20]}": (text, [text]) for text in NO_LISTS},
    "a list": ([DOG, BALL], [DOG, BALL]),
    "a number": (7, [7]),
    "an empty list": ([], [[]]),  # no row is lost
    "a backslash that escapes nothing": ("['A d\\og.', 'A cat.']", ["A d\\og.", "A cat."]),
    "others beside texts": ("['A', None, {'caption': 'B'}]", ["A", None, {"caption": "B"}]),
    "objects": ([{"raw": DOG, "tokens": ["a"]}, {"raw": BALL}], [DOG, BALL]),
    "an object as Python prints it": (repr({"text": BALL}), [BALL]),
    "objects as text": (json.dumps([{"caption": DOG}, {"caption": BALL}]), [DOG, BALL]),
    "a conversation as text": ('[{"from": "human", "value": "What?"}, {"from": "gpt", "value": "A dog."}]', ["A dog."]),
    "messages in parts": (
        [{"role": "user", "content": [{"type": "text", "text": "What?"}]},
         {"role": "assistant", "content": [{"type": "text", "text": DOG}]}], [DOG]),
    "numbered lines": (f"1. {DOG}\n2. {BALL}\n", [DOG, BALL]),
    "bullets": (f"- {DOG}\n\n- {BALL}", [DOG, BALL]),
}  # fmt: skip


@pytest.mark.parametrize("name", CELLS)
def test_captions_in_a_cell(name: str) -> None:
    cell, captions = CELLS[name]
    assert captions_in(cell) == captions


# what cannot be read


def parquet(*columns: tuple[str, list[Any]]) -> pa.Table:
    return pa.Table.from_arrays([pa.array(values) for _, values in columns], [name for name, _ in columns])


IMAGE, TEXT = ("image", ["a.jpg", "b.jpg"]), ("caption", [OWL, HEN])
MULTI30K = multi30k()
LONG = {"1.jpg": "", "1.long.txt": OWL, "1.tags.txt": "owl"}
FAULTS: list[tuple[Files, str, dict[str, Any], str]] = [  # files, what of them is read, by which options; the message
    *(({name: written}, name, {}, message) for name, written, message in map(filled, CASES["faults"].values())),
    # binary, or cut short
    ({"program.txt": b"\x7fELF\x02\x01\x01" + b"\0" * 93 + b"A program." * 9}, "program.txt", {}, "is binary"),
    ({"utf16.csv": (CSV * 9).encode("utf-16-le")}, "utf16.csv", {}, "looks like UTF-16 without a .* iconv"),
    *(({name + end: COMPRESS[end](content(name, FILES[name][0]))[:-30]}, name + end, {}, "must be .*, cannot be read")
      for name in ("captions_val2017.json", "dataset_barn.json", "barn.json", "barn.parquet", "barn.token", "barn.csv")
      for end in COMPRESS if end or name.endswith(("json", "parquet"))),
    # not there
    ({}, "nothing.json", {}, r"nothing\.json: no such file or folder"),
    ({}, "nothing.json", {"format": "coco"}, r"no such file, expected complete COCO annotation JSON"),
    # folders
    ({"a/holds.doc": ""}, "a", {}, r"must be a Multi30K folder, .*; holds holds\.doc"),
    ({"a/holds.doc": ""}, "a", {"format": "hats"}, "format must be one of coco, karpathy, .*, was: hats"),
    ({"a/captions_1.txt": OWL, "b/captions_1.txt": HEN}, "", {}, "or of images with a text file each; holds a/capt"),
    ({**MULTI30K, "val.3.en.gz": gzip.compress(b"one\n")}, "", {},
     r"val\.3\.en\.gz: must have as many lines as val_images\.txt, has only 1"),
    ({**MULTI30K, "val.3.en.gz": gzip.compress(b"1\n2\n3\n")}, "", {}, r"val\.3\.en\.gz: must have .*, 2, has more"),
    (MULTI30K, "", {"language": "fr"}, r"has no Multi30K files .*\.fr\.gz.*; languages there: de, en"),
    ({**MULTI30K, "test.1.en.gz": gzip.compress(b"one\n")}, "", {}, r"has no test_images\.txt"),
    (MULTI30K, "train.1.en.gz", {"format": "multi30k"}, "must be the folder of its files, was a file"),
    ({"dev_caps.txt": "\n".join(TEN_LINES.splitlines()[:9])}, "", {}, "must have 5 lines per image, has only 9 lines"),
    ({"dev_caps.txt": TEN_LINES, "dev_images.txt": "1\n2\n3\n"}, "", {},
     "must have 5 lines for each line of dev_images.txt, has only 10 lines"),
    ({"dev_caps.txt": TEN_LINES, "dev_images.txt": "1\n"}, "", {}, "5 lines for each line of dev_images.txt, has more"),
    ({"dev_caps.txt": TEN_LINES}, "", {"language": "all"}, "in one language, expected dev_caps.<language>.tsv"),
    # columns
    ({"a.parquet": parquet(IMAGE, TEXT, TEXT)}, "a.parquet", {}, "must have one column caption, has 2: rename"),
    ({"a.parquet": parquet(IMAGE, ("caption", [b"1", b"2"]))}, "a.parquet", {},
     "the caption column caption is binary, must be text"),
    ({"a.tar": LONG}, "a.tar", {}, r"\(columns: long\.txt, tags\.txt, image, key\); name it: --columns caption=NAME"),
    ({"a.tar": LONG}, "a.tar", {"columns": "caption=words"}, "caption column must be one of the columns found, was: w"),
    ({"a.csv": [{"image": "1.jpg", "caption": OWL, "score": 0.5}]}, "a.csv", {"columns": "truth=score"},
     "truth column score must be 0 or 1, .*, was: '0.5'"),
    ({"a.json": {"images": [], "annotations": [{"image_id": 1, "caption": OWL}]}}, "a.json",
     {"columns": "truth=label"}, "of the first has"),
]  # fmt: skip


@pytest.mark.parametrize(("files", "name", "options", "message"), FAULTS, ids=[fault[3][:30] for fault in FAULTS])
def test_what_cannot_be_read_is_said_in_a_line(files: Files, name: str, options, message: str, tmp_path: Path) -> None:
    put(tmp_path, files)
    source = str(tmp_path / name)
    with pytest.raises((ValueError, FileNotFoundError), match=message) as error:
        read(source, **options)
    assert "\n" not in str(error.value) and ("format" in options or str(error.value).startswith(source))


def test_lines_are_no_tables(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a pattern must be of tables or of WebDataset tars, this file is of lines"):
        readers.detect(f"{put(tmp_path, {'a.txt': DOG})[:-5]}*.txt")
    with pytest.raises(ValueError, match="truth_column is for tables, WebDataset tars and COCO .*, the format is line"):
        readers.files_of(put(tmp_path, {"a.txt": DOG}), "lines", ReadOptions.of({"truth_column": "label"}))


def test_an_archive_must_hold_one_file(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.csv.zip", "w") as archive:
        archive.mkdir("folder")  # it is no file
        archive.writestr("folder/owl.csv", CSV)
        archive.writestr("folder/hen.csv", CSV)
    with pytest.raises(ValueError, match=r"a.csv.zip: must hold one file, holds 2: folder/owl\.csv, folder/hen\.csv"):
        read(f"{tmp_path}/a.csv.zip")
    assert len(read(f"zip://folder::{tmp_path}/a.csv.zip").records) == 4
