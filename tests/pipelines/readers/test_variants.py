"""Captions as people keep them: cells, tables, lines, JSON objects, folders and archives; and what cannot be read."""

import gzip
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from negcap.pipelines import readers
from negcap.pipelines.readers import ReadOptions
from negcap.pipelines.readers.cells import captions_in
from negcap.pipelines.readers.record import MAX_CAPTIONS, MAX_TEXT
from tests.pipelines.readers.sources import Case, Files, content, put, read
from tests.pipelines.readers.test_formats import COCO, COMPRESS, CSV, FILES, TEN_LINES, multi30k
from tests.pipelines.readers.test_layouts import conversation, pair

OWL, HEN, DOG, BALL = "Two owls stare .", "A hen sits.", "A dog sleeps.", "A dog's ball."
TWO = [("1.jpg", OWL), ("2.jpg", HEN)]
ONE_IMAGE = [("1.jpg", OWL), ("1.jpg", HEN)]
NUMBERED = [("1", OWL), ("2", HEN)]


def false_at(*numbers: int) -> list[str]:
    return ["false_caption"] * len(numbers)


LINES = {  # lines of a text: images and captions
    "file names": (f"1.jpg {OWL}\n2.jpg {HEN}", TWO),
    "long numbers": (f"000042 {OWL}\n000043 {HEN}", [("000042", OWL), ("000043", HEN)]),
    "a colon": (f"img_1: {OWL}\nimg_2: {HEN}", [("img_1", OWL), ("img_2", HEN)]),
    "numbered": (f"1. {OWL}\n2. {HEN}", NUMBERED),
    "words with digits": ("18-year-old girl\n3D glasses", [("1", "18-year-old girl"), ("2", "3D glasses")]),
    "numbers of things": ("2 dogs run\n3 dogs run", [("1", "2 dogs run"), ("2", "3 dogs run")]),
    "phrases": (f"[/EN#1/animals Two owls] stare .\n{HEN}", NUMBERED),
    "one line": (f"vid_1_5 {OWL}", [("1", f"vid_1_5 {OWL}")]),
    "ids in some": (f"vid_1_5 {OWL}\n{HEN}", [("1", f"vid_1_5 {OWL}"), ("2", HEN)]),
}  # fmt: skip
TABLES: dict[str, tuple[str, str, list[tuple[str, str]]]] = {  # a table, the columns that are named, what is read
    "columns of one name": (f"image,caption,caption\n1.jpg,{OWL},{HEN}\n", "", ONE_IMAGE),
    "semicolons": ("image;caption;split\n1.jpg;A dog; a cat;val\n", "", [("1.jpg", "A dog; a cat")]),
    "commas": ("image,caption,split\n1.jpg,A dog, a cat,val\n", "", [("1.jpg", "A dog, a cat")]),
    "commas at the end": ("split,image,caption\nval,1.jpg,A dog, a cat\n", "", [("1.jpg", "A dog, a cat")]),
    "truth is another column": (f"true\tcaption\n1.jpg\t{OWL}\n", "image=true", [("1.jpg", OWL)]),
    "the end of a URL is no folder": (f"url,caption\nhttps://x.org/1/,{OWL}\n", "", [("https://x.org/1/", OWL)]),
}
OBJECTS = {  # a JSON file that is one object, or lines: images and captions
    "captions alone in a list": ({"data": [{"caption": OWL}, {"caption": HEN}]}, NUMBERED),
    "beside objects about it": (
        {"info": {"about": "some captions", "url": "x y"}, "data": {"1.jpg": [OWL], "2.jpg": [HEN]}}, TWO),
    "deep inside": ({"result": {"dataset": {"items": [pair("1.jpg", OWL)]}}}, TWO[:1]),
    "one record": ({"image": "1.jpg", "caption": OWL}, TWO[:1]),
    "columns as lists of lists": ({"image": ["1.jpg", "2.jpg"], "caption": [[OWL], [HEN]]}, TWO),
    "images with captions": ({"images": [{"file_name": "1.jpg", "captions": [OWL, HEN]}]}, ONE_IMAGE),
    "by an id, with the image": ({"17": pair("1.jpg", OWL), "18": pair("2.jpg", HEN)}, TWO),
    "by the image, with more": ({"a/1.png": {"caption": OWL, "tags": "owl"}}, [("a/1.png", OWL)]),
    "turns of a conversation": ([{"image": "1.jpg", "conversations": conversation(OWL)}], TWO[:1]),
}  # fmt: skip
LONG = {"1.jpg": "", "1.long.txt": OWL, "1.tags.txt": "owl"}
CASES: dict[str, Case] = {
    **{f"lines: {name}": Case({"captions.txt": text}, captions) for name, (text, captions) in LINES.items()},
    **{f"a table: {name}": Case({"a.csv": text}, captions, columns, (), "table")
       for name, (text, columns, captions) in TABLES.items()},
    **{f"an object{', indented' * bool(indent)}: {name}":
       # the questions of a conversation are no captions
       Case({"a.json": json.dumps(value, indent=indent)}, captions, "caption=conversations.value" * ("turns" in name))
       for name, (value, captions) in OBJECTS.items() for indent in (None, 1)},
    "a caption in each language": Case(
        {"a.json": [{"image": "1.jpg", "en": {"caption": OWL}, "de": {"caption": "Zwei Eulen."}}]}, TWO[:1]),
    "a line for each image": Case({"a.jsonl": [{"1.jpg": [OWL]}, {"2.jpg": HEN}]}, TWO, format="table"),
    "a folder: pairs": Case({"a/1.jpg": "", "a/1.txt": OWL, "2.PNG": "", "2.caption": f"{HEN}\n{OWL}\n"},
                            [("2.PNG", HEN), ("2.PNG", OWL), ("a/1.jpg", OWL)]),
    "a folder: images apart": Case({"images/1.jpg": "", "texts/1.txt": OWL}, [("images/1.jpg", OWL)]),
    "a folder: a text without image": Case({"1.jpg": "", "1.txt": OWL, "README.txt": "Read."}, TWO[:1], "",
                                           ["no_image"]),
    "a folder: an empty text": Case({"1.jpg": "", "1.txt": "\n", "2.jpg": "", "2.txt": HEN}, TWO[1:], "", ["no_text"]),
    "a folder: texts alone": Case({"a/x_1.txt": OWL, "b/x_2.txt": HEN, "README.txt": "Hello."},
                                  [("a/x_1", OWL), ("b/x_2", HEN)]),
    **{f"an archive: {name}": Case({"a.tar": members}, captions, columns, rejected)
       for name, (members, columns, captions, rejected) in {
        "lines in lower case": ({"1.jpg": "", "1.txt": "a kite\na hill\n\n"}, "",
                                [("1.jpg", "a kite"), ("1.jpg", "a hill")], []),
        "a sentence in lines": ({"1.jpg": "", "1.txt": "A kite\nover a hill."}, "",
                                [("1.jpg", "A kite over a hill.")], []),
        "the JSON has it whole": ({"1.jpg": "", "1.txt": f"{OWL}\n{HEN}", "1.json": {"caption": f"{OWL}\n{HEN}"}}, "",
                                  [("1.jpg", f"{OWL} {HEN}")], []),
        "an empty text": ({"1.jpg": "", "1.txt": "\n"}, "", [], ["no_text"]),
        "no text": ({"1.jpg": "", "2.jpg": "", "2.txt": HEN}, "", TWO[1:], ["no_text"]),
        "texts first": ({"1.txt": OWL, "2.txt": HEN, "2.jpg": "", "1.jpg": ""}, "", TWO, []),
        "dots, one sample": ({"a.05.jpg": "", "a.05.txt": OWL}, "", [("a.05.jpg", OWL)], []),
        "folders apart": ({"images/1.jpg": "", "images/2.jpg": "", "texts/1.txt": OWL, "texts/2.txt": HEN}, "",
                          [("images/1.jpg", OWL), ("images/2.jpg", HEN)], []),
        "folders with others": (
            {"x/1.cls": "7", "x/1.seg.png": b"", "x/1.png": b"", "x/1.text": OWL, "y/1.text": HEN}, "",
            [("x/1.png", OWL), ("y/1", HEN)], []),
        "two named suffixes": (LONG, "caption=long.txt,caption=tags.txt", [("1.jpg", OWL), ("1.jpg", "owl")], []),
        "a list in a field": ({"1.json": {"alt": [OWL, HEN]}}, "caption=alt", [("1", OWL), ("1", HEN)], []),
        "no texts at all": ({"1.jpg": "", "1.caps": OWL}, "", [], ["no_text"]),
        "marks of truth": ({"0.json": {"caption": DOG, "is_true": 0}, "1.json": {"caption": HEN, "is_true": 1}}, "",
                           [("1", HEN)], false_at(0)),
    }.items()},
    "truth: numbered columns": Case(
        {"a.tsv": f"1.jpg\t{OWL}\t1\n2.jpg\t{HEN}\t0\n"}, TWO[:1], "image=1,caption=2,truth=3", false_at(1), "table"),
    "truth: captions alone": Case({"a.csv": f"caption,is_true\n{DOG},0\n{OWL},1\n"}, [("3", OWL)], "", false_at(0)),
    "truth: a list for a list": Case(
        {"a.jsonl": [{"image": "1", "captions": [OWL, DOG], "is_rejected": [False, True]}]}, [("1", OWL)], "",
        false_at(1)),
    "truth: one for a list": Case({"a.jsonl": [{"image": "1", "captions": [DOG, HEN], "is_true": 0}]}, [], "",
                                  false_at(0, 1)),
    "truth: VizWiz, one mark, for one caption": Case({"val.json": {"annotations": [
        {"image_id": 1, "caption": OWL, "is_precanned": False}, {"image_id": 2, "caption": HEN}]}}, NUMBERED),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_captions_are_read_as_people_keep_them(name: str, tmp_path: Path) -> None:
    CASES[name].check(tmp_path)


@pytest.mark.parametrize("files", [
    {"train/1.jpg": "", "train/1.txt": OWL, "test/1.jpg": "", "test/1.txt": OWL},
    {f"{split}/{name}": text for split in ("train", "test") for name, text in
     {"nshards.txt": "1", "0.tar": content("a.tar", {f"{split}.jpg": "", f"{split}.txt": OWL})}.items()},
], ids=["texts", "archives of CLIP_benchmark"])  # fmt: skip
def test_folders_may_be_splits(files: Files, tmp_path: Path) -> None:
    put(tmp_path, files)
    assert [(record.split, record.text) for record in read(tmp_path).records] == [("test", OWL), ("train", OWL)]


LISTS = {  # a list as text
    "JSON": json.dumps([DOG, BALL]),
    "JSON, spaced": f' [ "{DOG}" ,\n "{BALL}" ] ',
    "Python": repr([DOG, BALL]),
    "Python 2": f"[u'{DOG}', u\"{BALL}\"]",
    "a comma at the end": f"['{DOG}', \"{BALL}\",]",
    "an escaped quote": f"['{DOG}', 'A dog\\'s ball.']",
    "numpy": f"['{DOG}' \"{BALL}\"]",
    "numpy, two lines": f"['{DOG}'\n \"{BALL}\"]",
}
NO_LISTS = (
    *("[blurred] A man walks.", "[blurred]", "[A man, a dog]", "A man walks [blurred]", "", "[", "]"),
    *("[blurred] A man walks [again]", "['A dog sleeps.] A dog lies.]", "[dog for dog in dogs]"),
    *("{blurred} A man", f"{DOG}\n{BALL}", "[" * 5000 + "]" * 5000),
    json.dumps(["x" * MAX_TEXT] * MAX_CAPTIONS),  # too long
)
CELLS: dict[str, tuple[Any, list[Any]]] = {  # a cell, and its captions
    **{f"a list, {name}": (written, [DOG, BALL]) for name, written in LISTS.items()},
    **{f"no list, {text[:20]}": (text, [text]) for text in NO_LISTS},
    "a list": ([DOG, BALL], [DOG, BALL]),
    "a tuple": ((DOG, BALL), [DOG, BALL]),
    "a number": (7, [7]),
    "none": (None, [None]),
    "an empty list": ([], [[]]),  # no row is lost
    "an empty list as text": ("[]", [[]]),
    "a backslash that escapes nothing": ("['A d\\og.', 'A cat.']", ["A d\\og.", "A cat."]),
    "others beside texts": ("['A', None, {'caption': 'B'}]", ["A", None, {"caption": "B"}]),
    "objects": ([{"raw": DOG, "tokens": ["a"]}, {"raw": BALL}], [DOG, BALL]),
    "an object as Python prints it": (repr({"text": BALL}), [BALL]),
    "objects as text": (json.dumps([{"caption": DOG}, {"caption": BALL}]), [DOG, BALL]),
    "a conversation as text": (json.dumps(conversation(DOG)), [DOG]),
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
FAULTS: list[tuple[Files, str, dict[str, Any], str]] = [  # files, what of them is read, by which options; the message
    # files
    ({"notes.text": "Just some lines\nof text\n"}, "notes.text", {}, "has none of the known forms"),
    ({"untitled.txt": f"owl.jpg\t{OWL}\n"}, "untitled.txt", {}, "a table without a header .* --format table"),
    ({"untitled.txt": f"barn/owl.JPG,{OWL}\n"}, "untitled.txt", {}, "looks like a table without a header"),
    ({"train_images.txt": "owl.jpg\nhen.jpg\n"}, "train_images.txt", {}, "looks like .* a list of images"),
    ({"train.txt": f"VID1 0.0 6.9##{OWL}\nVID2 1.0 3.2##{HEN}\n"}, "train.txt", {}, "each line has ##, so it looks"),
    ({"blank.txt": "\n \n"}, "blank.txt", {}, "is empty; give a file with captions"),
    ({"program.txt": b"\x7fELF\x02\x01\x01" + b"\0" * 93 + b"A program." * 9}, "program.txt", {}, "is binary"),
    ({"words.npz": b"PK\x03\x04-\x00\x00\x00\x08\x00\x00\x00!\x00,,\n"}, "words.npz", {}, "is binary"),
    ({"utf16.csv": (CSV * 9).encode("utf-16-le")}, "utf16.csv", {}, "looks like UTF-16 without a .* iconv"),
    ({"cut.json": json.dumps(COCO)[:70]}, "cut.json", {}, "must be complete JSON, cannot be read"),
    ({"a.json.gz": "{}"}, "a.json.gz", {}, "must be a caption file, cannot be read: Not a gzipped file"),
    *(({name + end: COMPRESS[end](content(name, FILES[name][0]))[:-30]}, name + end, {}, "must be .*, cannot be read")
      for name in ("captions_val2017.json", "dataset_barn.json", "barn.json", "barn.parquet", "barn.token", "barn.csv")
      for end in COMPRESS if end or name.endswith(("json", "parquet"))),
    # not there
    ({}, "nothing.json", {}, r"nothing\.json: no such file or folder"),
    ({}, "nothing.json", {"format": "coco"}, r"no such file, expected complete COCO annotation JSON"),
    ({}, "nowhere://a.csv", {}, "nowhere://a.csv: cannot be opened: Protocol not known: nowhere"),
    # folders
    ({"a/holds.doc": ""}, "a", {}, r"must be a Multi30K folder, .*; holds holds\.doc"),
    ({"a/holds.doc": ""}, "a", {"format": "hats"}, "format must be one of coco, karpathy, .*, was: hats"),
    *((files, "", {}, rf"or of images with a text file each; holds {holds}") for files, holds in (
        ({"a.txt": OWL, "b.txt": HEN}, "a"), ({"1.jpg": ""}, "1"),
        ({"train/captions.txt": OWL, "val/captions.txt": HEN}, "train"),
        ({"a/captions_1.txt": OWL, "b/captions_1.txt": HEN}, "a"))),  # images have names of their own
    ({**multi30k(), "val.3.en.gz": gzip.compress(b"one\n")}, "", {},
     r"val\.3\.en\.gz: must have as many lines as val_images\.txt, has only 1"),
    ({**multi30k(), "val.3.en.gz": gzip.compress(b"1\n2\n3\n")}, "", {}, r"val\.3\.en\.gz: must have .*, 2, has more"),
    (multi30k(), "", {"language": "fr"}, r"has no Multi30K files .*\.fr\.gz.*; languages there: de, en"),
    ({name: text for name, text in multi30k().items() if name != "val_images.txt"}, "", {}, r"has no val_images\.txt"),
    (multi30k(), "train.1.en.gz", {"format": "multi30k"}, "must be the folder of its files, was a file"),
    (multi30k(), "train.1.en.gz", {}, "looks like one file of Multi30K, give the folder it is in"),
    ({"dev_caps.txt": "\n".join(TEN_LINES.splitlines()[:9])}, "", {}, "must have 5 lines per image, has only 9 lines"),
    ({"dev_caps.txt": TEN_LINES, "dev_images.txt": "1\n2\n3\n"}, "", {},
     "must have 5 lines for each line of dev_images.txt, has only 10 lines"),
    ({"dev_caps.txt": TEN_LINES, "dev_images.txt": "1\n"}, "", {}, "5 lines for each line of dev_images.txt, has more"),
    ({"dev_caps.txt": TEN_LINES}, "", {"language": "all"}, "in one language, expected dev_caps.<language>.tsv"),
    # JSON that has no captions, or leaves open which
    *(({"a.json": value}, "a.json", {}, re.escape(message)) for value, message in [
        ({"info": {"about": "captions of dogs"}, "things": [1, 2]}, "must have a list of"),
        ({"a": [pair("1.jpg", DOG, nr=1)], "b": [pair("2.jpg", OWL, size=2)]}, "must have a list of objects"),
        ({"nr": 1, "a": {"items": [pair("1.jpg", DOG)]}, "b": {"items": [pair("2.jpg", OWL)]}}, "must have a list of"),
        ({"dog": "an animal that barks", "cat": "an animal that purrs"}, "no image column found"),
        ({"1.jpg": 3, "2.jpg": 4}, "no image column found"),
        ([{"image": "1.jpg", "signs": [{"text": "STOP"}, {"text": "GO"}]}], "no caption column found"),
        ([{"image": "1.jpg", "conversations": conversation(DOG)}],
         "--columns caption=conversations takes the answers in conversations"),
        ([{"image": "1.jpg", "caption_1": DOG, "caption_2": OWL}],
         "if caption_1, caption_2 all have true captions of the image, use "
         "--columns caption=caption_1,caption=caption_2"),
        ({"pictures": [{"nr": 1}], "remarks": [{"said": DOG, "nr": 1}]},
         "has pictures, a list of objects (nr); remarks, a list of objects (said, nr)"),
        ({"notes": ["Of 2021.", {"nr": 1}], "nr": 1}, "has notes, a list of texts; nr, a value;"),
        ([{"picture": {"nr": 1}, "remark": {"said": DOG}}], "(columns: picture, remark, picture.nr, remark.said)"),
    ]),
    # columns
    ({"a.parquet": parquet(IMAGE, TEXT, TEXT)}, "a.parquet", {}, "must have one column caption, has 2: rename"),
    ({"a.parquet": parquet(IMAGE, IMAGE, TEXT)}, "a.parquet", {}, "must have one column image, has 2"),
    ({"a.parquet": parquet(IMAGE, ("caption", [b"1", b"2"]))}, "a.parquet", {},
     "the caption column caption is binary, must be text"),
    ({"a.parquet": parquet(IMAGE, ("said", [b"1", b"2"]))}, "a.parquet", {"columns": "caption=said"},
     "column said is binary"),
    ({"a.parquet": parquet(IMAGE, TEXT, ("a", [1, 2]), ("a", [1, 2]))}, "a.parquet", {"keep_columns": ("a",)},
     "one column a, has 2"),
    ({"a.tar": LONG}, "a.tar", {}, r"\(columns: long\.txt, tags\.txt, image, key\); name it: --columns caption=NAME"),
    ({"a.tar": LONG}, "a.tar", {"columns": "caption=words"}, "caption column must be one of the columns found, was: w"),
    # columns of truth
    *(({"a.csv": [pair("1.jpg", DOG, **{name: value}) for value in values]}, "a.csv", {"columns": columns}, message)
      for name, values, columns, message in [
        ("is_true", ["true", "maybe"], "", "must be 0 or 1, .*, was: 'maybe'; --columns truth"),
        ("correct", [0, "3"], "truth=correct", "must be 0 or 1, .*, was: '3'; --columns truth=none"),
        ("score", [0.5, 1], "truth=score", "truth column score must be 0 or 1, .*, was: '0.5'"),
        ("score", [0.5, 1], "truth=tru", "truth column must be one of the columns found, was: tru"),
    ]),
    ({"a.json": {"images": [], "annotations": [{"image_id": 1, "caption": DOG}]}}, "a.json",
     {"columns": "truth=label"}, "of the first has"),
]  # fmt: skip


@pytest.mark.parametrize(("files", "name", "options", "message"), FAULTS, ids=[fault[3][:30] for fault in FAULTS])
def test_what_cannot_be_read_is_said_in_a_line(files: Files, name: str, options, message: str, tmp_path: Path) -> None:
    put(tmp_path, files)
    source = name if "://" in name else str(tmp_path / name)
    with pytest.raises((ValueError, FileNotFoundError), match=message) as error:
        read(source, **options)
    assert "\n" not in str(error.value) and ("format" in options or str(error.value).startswith(source))


def test_lines_have_no_column_of_truth(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="truth_column is for tables, WebDataset tars and COCO .*, the format is line"):
        readers.files_of(put(tmp_path, {"a.txt": DOG}), "lines", ReadOptions.of({"truth_column": "label"}))


@pytest.mark.parametrize(("members", "holds"), [
    (["folder/owl.csv", "folder/hen.csv"], r"2: folder/owl\.csv, folder/hen\.csv"),
    ([], "0$"),
])  # fmt: skip
def test_an_archive_must_hold_one_file(members: list[str], holds: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.csv.zip", "w") as archive:
        archive.mkdir("folder")  # it is no file
        for member in members:
            archive.writestr(member, CSV)
    with pytest.raises(ValueError, match=rf"a.csv.zip: must hold one file, holds {holds}"):
        read(f"{tmp_path}/a.csv.zip")
    if members:
        assert len(read(f"zip://folder::{tmp_path}/a.csv.zip").records) == 4
