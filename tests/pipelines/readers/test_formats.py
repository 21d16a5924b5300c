"""Every format that is read: its detection, bad records and broken files. The sentences are made up for these tests."""

import bz2
import gzip
import io
import json
import lzma
import math
import os
import time
import uuid
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from negcap.pipelines import readers
from negcap.pipelines.readers import ReadOptions, pairs
from negcap.pipelines.readers.files import BUFFER, MAX_STRING, _JsonBytes, name_of
from negcap.schemas.captions import RECORD_REASONS
from tests.pipelines.readers.sources import Read, captions_of, content, put, read

HEN, OWL = "A speckled hen guards three eggs.", "Two owls stare at a lantern ."
TEN = [f"Sentence number {number} about a kite ." for number in range(10)]
TEN_LINES = "\n".join(TEN)
IMAGES = [{"id": 7, "file_name": "000000000007.jpg"}, {"id": 9, "file_name": "000000000009.jpg"}]
COCO = {
    "info": {"year": 2017},
    "images": IMAGES,
    "annotations": [
        {"id": 1, "image_id": 9, "caption": OWL},
        {"id": 2, "image_id": 7, "caption": HEN},
        {"id": 3, "image_id": 9, "caption": HEN},
    ],
}
KARPATHY = {
    "images": [
        {"filepath": "val2014", "filename": "owl.jpg", "split": "restval", "sentences": [{"raw": OWL}, {"raw": HEN}]},
        {"filename": "hen.jpg", "split": "test", "sentences": [{"raw": HEN}]},
    ],
    "dataset": "barn",
}
ROWS = [{"image": "a/owl.jpg", "caption": OWL, "split": "train"}, {"image": "hen.png", "caption": HEN, "split": "val"}]
ROWS_READ = [("a/owl.jpg", "train", OWL), ("hen.png", "val", HEN)]
CSV = content("a.csv", ROWS).decode()
COMPRESS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
FILES: dict[str, tuple[Any, str, list[tuple[str, str, str]]]] = {  # name -> content, format, what is read
    "captions_val2017.json": (COCO, "coco", [
        ("000000000009.jpg", "val", OWL), ("000000000007.jpg", "val", HEN), ("000000000009.jpg", "val", HEN)]),
    "mine.json": (json.dumps({**COCO, "images": []}, indent=1), "coco", [
        ("9", "", OWL), ("7", "", HEN), ("9", "", HEN)]),
    "dataset_barn.json": (KARPATHY, "karpathy", [
        ("val2014/owl.jpg", "restval", OWL), ("val2014/owl.jpg", "restval", HEN), ("hen.jpg", "test", HEN)]),
    "barn.token": (f"owl.jpg#0\t{OWL}\nhen.jpg#0\t{HEN}\nowl.jpg#3\t{HEN}\n", "flickr", [
        ("owl.jpg", "", OWL), ("hen.jpg", "", HEN), ("owl.jpg", "", HEN)]),
    "dev_caps.txt": (TEN_LINES, "vsepp", [(f"dev_{number // 5}", "dev", text) for number, text in enumerate(TEN)]),
    **{f"barn.{kind}": (ROWS, "table", ROWS_READ) for kind in ("csv", "tsv", "jsonl", "json", "parquet")},
    "semicolons.csv": (CSV.replace(",", ";"), "table", ROWS_READ),
    "pipes.txt": (CSV.replace(",", "| "), "table", ROWS_READ),
    "pretty.json": (json.dumps(ROWS, indent=2), "table", ROWS_READ),
    "utf16.json": (json.dumps(ROWS).encode("utf-16"), "table", ROWS_READ),
    "captions.txt": (f"{HEN}\n\n  \r\n{OWL}\r\n{HEN}", "lines", [("1", "", HEN), ("4", "", OWL), ("5", "", HEN)]),
    "test.TXT": (f"\ufeff{OWL}\n", "lines", [("1", "test", OWL)]),
}  # fmt: skip


def with_splits(found: Read) -> list[tuple[str, str, str]]:
    assert found.rejected == []
    return [(record.image, record.split, record.text) for record in found.records]


@pytest.mark.parametrize("compression", [*COMPRESS, "by URL"])
@pytest.mark.parametrize("name", FILES)
def test_every_format_is_read_and_detected(name: str, compression: str, tmp_path: Path) -> None:
    value, format, expected = FILES[name]
    folder, end = (f"memory://{uuid.uuid4()}", "") if compression == "by URL" else (tmp_path, compression)
    path = put(folder, {name + end: COMPRESS[end](content(name, value))})
    assert readers.detect(path) == format and readers.files_of(path, format, ReadOptions()) == [path]
    found = read(path)
    assert with_splits(found) == expected
    assert {(record.source, record.language) for record in found.records} == {(name + end, "en")}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_line_ends_and_encodings(end: str, encoding: str, tmp_path: Path) -> None:
    for name in ("a.csv", "b.tsv", "c.jsonl"):
        path = put(tmp_path, {name: content(name, ROWS).decode().replace("\n", end).encode(encoding)})
        assert with_splits(read(path)) == ROWS_READ


@pytest.mark.parametrize(("changed", "expected"), [
    ({"annotations": [*COCO["annotations"], COCO["annotations"][0]]}, (4, "duplicate_caption_id")),
    ({"images": [*IMAGES, {"id": 7, "file_name": "other.jpg"}, IMAGES[1]]}, (2, "ambiguous_image")),
    ({"annotations": [*COCO["annotations"], {"id": 9, "image_id": 1234, "caption": HEN}]}, (4, "no_image")),
])  # fmt: skip
def test_coco_annotations_whose_image_or_id_is_not_clear_are_rejected(changed, expected, tmp_path: Path) -> None:
    found = read(put(tmp_path, {"a.json": {**COCO, **changed}}))
    assert found.reasons == [expected] and len(found.records) == (2 if "images" in changed else 3)
    texts = [{**image, "id": str(image["id"])} for image in IMAGES]  # ids as texts here, and as numbers there
    turned = dict(reversed({**COCO, "images": texts}.items()))  # images last
    assert captions_of(put(tmp_path, {"b.json": turned}))[0] == ("000000000009.jpg", OWL)


NAN = float("nan")
SAYS_NAN = 'A sign says "NaN, -Infinity" \\'
WITH_NAN = {  # by format: a value of Python; what is read of it; what is rejected
    "coco": ({
        "info": {"score": NAN},
        "images": [{"id": 1, "file_name": "owl.jpg", "date": NAN}, {"id": NAN, "file_name": "x.jpg"}],
        "annotations": [{"id": 1, "image_id": 1, "caption": SAYS_NAN, "area": -float("inf")},
                        {"id": 2, "image_id": 1, "caption": NAN}, {"id": NAN, "image_id": 1, "caption": HEN}],
    }, [("owl.jpg", SAYS_NAN), ("owl.jpg", HEN)], [(2, "no_text")]),
    "karpathy": ({"images": [{"filename": "owl.jpg", "cocoid": NAN, "sentences": [{"raw": OWL, "p": NAN}]}]},
                 [("owl.jpg", OWL)], []),
    "table": ([{"image": "owl.jpg", "caption": SAYS_NAN, "w": NAN}, {"image": NAN, "caption": HEN}],
              [("owl.jpg", SAYS_NAN)], [(2, "no_image")]),
}  # fmt: skip


@pytest.mark.parametrize("format", WITH_NAN)
def test_nan_and_infinity_that_python_writes_are_no_values(format: str, tmp_path: Path) -> None:
    value, expected, bad = WITH_NAN[format]
    path = put(tmp_path, {"a.json": value})
    assert readers.detect(path) == format
    assert (read(path).captions, read(path).reasons) == (expected, bad)


@given(
    st.recursive(st.text(st.sampled_from('NaInfty-\\"{}[], é🐕')) | st.floats() | st.none(), st.lists),
    st.integers(1, 40),
)
def test_json_is_read_whole_in_buffers_of_any_size(value, size):
    def without(value: Any) -> Any:
        if isinstance(value, list):
            return [without(item) for item in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    assert json.loads(in_buffers(value, size)) == without(value)


def in_buffers(value: object, size: int) -> bytes:
    file = _JsonBytes(io.BytesIO(json.dumps(value, ensure_ascii=False).encode()))
    return b"".join(iter(lambda: file.read(size), b""))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 13])
def test_quotes_and_backslashes_between_buffers_hide_no_nan(size: int) -> None:
    assert json.loads(in_buffers([SAYS_NAN, NAN, {SAYS_NAN: -NAN}], size)) == [SAYS_NAN, None, {SAYS_NAN: None}]


ENDLESS = {  # JSON of which one value does not end: how it begins, and what then comes again and again
    "string": ('[{"image": "a.jpg", "caption": "', "no end "),
    "quotes": ('{"images": [{"id": 1, "file_name": "', '\\"'),
    "key": ('{"images": [{"', "k"),
    "number": ('{"annotations": [{"image_id": ', "1"),
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_a_string_or_number_in_json_has_a_largest_size(kind: str, tmp_path: Path) -> None:
    begin, more = ENDLESS[kind]
    path = put(tmp_path, {"a.json": begin + more * ((MAX_STRING + BUFFER) // len(more) + 1)})
    began = time.process_time()
    with pytest.raises(ValueError, match=r"a.json: must be .*, cannot be read: a (string|number) in it has more than"):
        read(path, "" if begin[0] == "[" else "coco")
    assert time.process_time() - began < 20  # not with the square of the size


@pytest.mark.parametrize("name", ["a.json", "a.csv.gz", "a.parquet", "a.tar", "a_caps.txt"])
def test_a_pipe_is_no_input(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    reading, writing = os.pipe()
    try:
        for path in (
            f"{tmp_path}/{name}",
            f"file://{tmp_path}/{name}",
            f"zip://a::{tmp_path}/{name}",
            f"/dev/fd/{reading}",
        ):
            for attempt in (readers.detect, readers.content, pairs.pair_files):
                with pytest.raises(ValueError, match=r"is a pipe, must be a file: write it to one first"):
                    attempt(path)
    finally:
        os.close(reading)
        os.close(writing)


def multi30k() -> dict[str, str | bytes]:
    files: dict[str, str | bytes] = {"val_images.txt": "fox.jpg#0\nbat.jpg#1\n", "train_images.txt": "elk.jpg\n"}
    for split, count in (("val", 2), ("train", 1)):
        for number in range(1, 6):
            for language in ("de", "en"):
                lines = [f"{split} {language} {number} line {line}" for line in range(count)]
                files[f"{split}.{number}.{language}.gz"] = gzip.compress("\n".join(lines).encode() + b"\n")
    return files


@pytest.mark.parametrize(("language", "per_image"), [("en", 5), ("de", 5), ("all", 10)])
def test_multi30k_folder(language: str, per_image: int, tmp_path: Path) -> None:
    put(tmp_path, multi30k())
    found = read(tmp_path, "multi30k", language=language)
    assert readers.detect(str(tmp_path)) == "multi30k" and found.rejected == []
    images = [image for image in ("elk.jpg", "fox.jpg", "bat.jpg") for _ in range(per_image)]
    numbers = [*range(per_image)] * 3
    assert [(record.image, record.number) for record in found.records] == [*zip(images, numbers, strict=True)]
    assert {record.language for record in found.records} == ({"de", "en"} if language == "all" else {language})
    last = found.records[-1]
    assert (last.text, last.line, last.source) == (
        f"val {last.language} 5 line 1", 2, f"val.5.{last.language}.gz",
    )  # fmt: skip


def test_multi30k_task_1_with_lists_in_image_splits(tmp_path: Path) -> None:
    put(tmp_path, {"image_splits/train.txt": "elk.jpg\nfox.jpg\n", "raw/train.en": f"{HEN}\n{OWL}\n"})
    assert captions_of(f"{tmp_path}/raw") == [("elk.jpg", HEN), ("fox.jpg", OWL)]


LAYOUT_FAULTS = [  # files of a folder, what is read, by which options; the message
    ({**multi30k(), "val.3.en.gz": gzip.compress(b"one\n")}, "", {},
     r"val\.3\.en\.gz: must have as many lines as val_images\.txt, has only 1"),
    ({**multi30k(), "val.3.en.gz": gzip.compress(b"1\n2\n3\n")}, "", {}, r"val\.3\.en\.gz: must have .*, 2, has more"),
    (multi30k(), "", {"language": "fr"}, r"has no Multi30K files .*\.fr\.gz.*; languages there: de, en"),
    ({name: text for name, text in multi30k().items() if name != "val_images.txt"}, "", {}, r"has no val_images\.txt"),
    (multi30k(), "train.1.en.gz", {"format": "multi30k"}, "must be the folder of its files, was a file"),
    (multi30k(), "train.1.en.gz", {}, "looks like one file of Multi30K, give the folder it is in"),
    ({"dev_caps.txt": "\n".join(TEN[:9])}, "", {}, "must have 5 lines per image, has only 9 lines"),
    ({"dev_caps.txt": TEN_LINES, "dev_images.txt": "1\n2\n3\n"}, "", {},
     "must have 5 lines for each line of dev_images.txt, has only 10 lines"),
    ({"dev_caps.txt": TEN_LINES, "dev_images.txt": "1\n"}, "", {}, "5 lines for each line of dev_images.txt, has more"),
    ({"dev_caps.txt": TEN_LINES}, "", {"language": "all"}, "in one language, expected dev_caps.<language>.tsv"),
]  # fmt: skip


@pytest.mark.parametrize(("files", "name", "options", "message"), LAYOUT_FAULTS)
def test_what_a_folder_lacks_is_named(files, name: str, options: dict[str, Any], message: str, tmp_path: Path) -> None:
    put(tmp_path, files)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        read(tmp_path / name, **options)


def test_vsepp_folder_takes_names_from_image_lists(tmp_path: Path) -> None:
    files = {"dev_caps.txt": TEN_LINES, "dev_images.txt": "elk.jpg\nfox.jpg\n", "train_caps.txt": "\n".join(TEN[:5])}
    put(tmp_path, files)
    assert readers.detect(str(tmp_path)) == "vsepp"
    expected = [(image, number) for image in ("train_0", "elk.jpg", "fox.jpg") for number in range(5)]
    assert [(record.image, record.number) for record in read(tmp_path).records] == expected
    assert [(record.image, record.number) for record in read(tmp_path / "dev_caps.txt").records] == expected[5:]
    urls = readers.files_of(str(tmp_path), "vsepp", ReadOptions())
    assert [name_of(url) for url in urls] == ["train_caps.txt", "dev_caps.txt", "dev_images.txt"]


def test_vsepp_folder_has_captions_in_other_languages(tmp_path: Path) -> None:
    german = "elk.jpg\tEin Elch steht still.\nowl.jpg\tEine Eule.\nkaputt\nelk.jpg\tDer Elch.\n"
    put(tmp_path, {"dev_caps.txt": TEN_LINES, "dev_images.txt": "elk.jpg\nfox.jpg\n", "dev_caps.de.tsv": german})
    assert [record.language for record in read(tmp_path).records] == ["en"] * 10
    found = read(tmp_path, language="all")
    assert [(r.source, r.line, r.image, r.language, r.number) for r in found.records] == [
        *(("dev_caps.txt", number + 1, "elk.jpg", "en", number) for number in range(5)),
        ("dev_caps.de.tsv", 1, "elk.jpg", "de", 5),
        ("dev_caps.de.tsv", 4, "elk.jpg", "de", 6),
    ]
    assert found.reasons == [
        (3, "not_a_record"), *((number, "no_language") for number in range(6, 11)), (2, "no_image"),
    ]  # fmt: skip
    urls = readers.files_of(str(tmp_path), "vsepp", ReadOptions(language="all"))
    assert [name_of(url) for url in urls] == ["dev_caps.txt", "dev_images.txt", "dev_caps.de.tsv"]


BAD_LINES = [  # bytes of a caption, reason, detail
    (b"", "no_text", "caption must not be empty, was: ''"),
    (b"   ", "no_text", "caption must not be empty, was: '   '"),
    (b"A caf\xe9 at night.", "not_utf8", "caption must be UTF-8, has "),
    ("A caf\ufffd at night.".encode(), "not_utf8", "caption must be UTF-8, has U+FFFD, the mark of lost bytes, at"),
    (b"kite " * 2500, "too_long", "caption must be <= 10000 characters, was: 12499"),
    (b"A\x07bell", "control_characters", "caption must have no control characters, has U+0007"),
    (b"A\x00bell", "control_characters", "caption must have no control characters, has U+0000"),
    ("turned \u202e round".encode(), "control_characters", "caption must have no control characters, has U+202E"),
]
ITEM = b'"image": "%(n)d.jpg", "caption": %(json)b'
SENTENCE = b'{"filename": "%(n)d.jpg", "sentences": [{"raw": %(json)b}]}'
FORMS = {  # by format: the name of a file; what is before, of and between its records, and behind them
    "lines": ("a.txt", b"", b"%(text)b", b"\n", b""),
    "flickr": ("a.token", b"", b"%(n)d.jpg#0\t%(text)b", b"\n", b""),
    "vsepp": ("dev_caps.txt", b"", b"%(text)b", b"\n", b""),
    "multi30k": ("val.en", b"", b"%(text)b", b"\n", b"\n"),
    "csv": ("a.csv", b"image,caption\n", b"%(n)d.jpg,%(text)b", b"\n", b""),
    "tsv": ("a.tsv", b"image\tcaption\n", b"%(n)d.jpg\t%(text)b", b"\n", b""),
    "jsonl": ("a.jsonl", b"", b"{" + ITEM + b"}", b"\n", b""),
    "json": ("a.json", b"[", b"{" + ITEM + b"}", b",", b"]"),
    "coco": ("a.json", b'{"annotations": [', b'{"image_id": %(n)d, "caption": %(json)b}', b",", b"]}"),
    "karpathy": ("a.json", b'{"images": [', SENTENCE, b",", b"]}"),
}


@pytest.mark.parametrize("format", FORMS)
@pytest.mark.parametrize(("bad", "reason", "detail"), BAD_LINES, ids=lambda value: str(value)[:12])
def test_a_bad_caption_is_one_rejected_record(
    format: str, bad: bytes, reason: str, detail: str, tmp_path: Path
) -> None:
    if format == "lines" and not bad.strip():
        pytest.skip("empty lines are no records")
    name, before, record, between, behind = FORMS[format]
    rows = []
    for n, text in enumerate([HEN.encode(), bad, OWL.encode(), HEN.encode(), OWL.encode()]):
        quoted = b'"' + text.replace(b"\x07", b"\\u0007").replace(b"\x00", b"\\u0000") + b'"'
        rows.append(record % {b"n": n, b"text": text, b"json": quoted})
    images = {"val_images.txt": "".join(f"{number}.jpg\n" for number in range(5))} if format == "multi30k" else {}
    path = put(tmp_path, {**images, name: before + between.join(rows) + behind})
    kind = "table" if format in ("csv", "tsv", "jsonl", "json") else ""
    found = read(tmp_path if format == "multi30k" else path, kind)
    assert found.reasons == [(3 if format in ("csv", "tsv") else 2, reason)] and len(found.records) == 4
    assert found.rejected[0].detail.startswith(detail) and len(found.rejected[0].text) <= 200 + 3
    assert reason in RECORD_REASONS


GOOD = '{"image": "1.jpg", "caption": "A hen"}'
KARPATHY_ITEM = (SENTENCE % {b"n": 1, b"json": b'"A hen"'}).decode()


@pytest.mark.parametrize(
    ("format", "text", "lines"),
    [
        ("flickr", f"owl.jpg#0\t{OWL}\n\nno tab\nowl.jpg\t{OWL}\nowl.jpg#x\t{OWL}\nowl.jpg#12345\t{OWL}", [3, 4, 5, 6]),
        ("table", f"image,caption\n1.jpg,{OWL}\n2.jpg\n\n3.jpg,one,two\n", [3, 5]),
        ("table", f'{GOOD}\n{{"image": \n[1]\nnull\n', [2, 3, 4]),
        ("table", f"[{GOOD}, 17]", [2]),
        ("coco", '{"annotations": [{"image_id": 1, "caption": "A hen"}, null, [1]]}', [2, 3]),
        ("karpathy", f'{{"images": [{KARPATHY_ITEM}, 3, {{"sentences": []}}]}}', [2, 3]),
    ],
)
def test_what_is_no_record_is_rejected_by_line(format: str, text: str, lines: list[int], tmp_path: Path) -> None:
    found = read(put(tmp_path, {"a.txt": text}), format)
    assert len(found.records) == 1 and found.reasons == [(line, "not_a_record") for line in lines]


SOURCES: list[tuple[str, Any, str]] = [  # the name of a file, its content: why it cannot be read
    ("notes.text", "Just some lines\nof text\n", "has none of the known forms"),
    ("untitled.txt", f"owl.jpg\t{OWL}\n", "looks like a table without a header .* --format table"),
    ("untitled.txt", f"barn/owl.JPG,{OWL}\n", "looks like a table without a header"),
    ("train_images.txt", "owl.jpg\nhen.jpg\n", "looks like .* a list of images"),
    ("train.txt", f"VID1 0.0 6.9##{OWL}\nVID2 1.0 3.2##{HEN}\n", "each line has ##, so it looks like a table"),
    ("blank.txt", "\n \n", "is empty; give a file with captions"),
    ("program.txt", b"\x7fELF\x02\x01\x01" + b"\0" * 93 + b"A program." * 9, "is binary"),
    ("words.npz", b"PK\x03\x04-\x00\x00\x00\x08\x00\x00\x00!\x00,,\n", "is binary"),
    ("utf16.csv", (CSV * 9).encode("utf-16-le"), "looks like UTF-16 without a .* iconv"),
    ("cut.json", json.dumps(COCO)[:70], "must be complete JSON, cannot be read"),
    ("notgzip.json.gz", "{}", "must be a caption file, cannot be read: Not a gzipped file"),
    *((name + end, COMPRESS[end](content(name, FILES[name][0]))[:-30], "must be .*, cannot be read")
      for name in ("captions_val2017.json", "dataset_barn.json", "barn.json", "barn.parquet", "barn.token", "barn.csv")
      for end in COMPRESS if end or name.endswith(("json", "parquet"))),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "message"), SOURCES, ids=[source[0] for source in SOURCES])
def test_a_file_that_cannot_be_read_is_named_in_one_line(name: str, value: Any, message: str, tmp_path: Path) -> None:
    path = put(tmp_path, {name: value})
    with pytest.raises(ValueError, match=message) as error:
        read(path)
    assert str(error.value).startswith(path) and "\n" not in str(error.value)


def test_sources_that_are_not_there(tmp_path: Path) -> None:
    put(tmp_path, {"folder/holds.doc": ""})
    for source, format, message in [
        (f"{tmp_path}/nothing.json", "", r"nothing\.json: no such file or folder"),
        (f"{tmp_path}/nothing.json", "coco", r"nothing\.json: no such file, expected complete COCO annotation JSON"),
        ("nowhere://a.csv", "", "nowhere://a.csv: cannot be opened: Protocol not known: nowhere"),
        (f"{tmp_path}/folder", "", r"must be a Multi30K folder, .*; holds holds\.doc"),
        (f"{tmp_path}/folder", "hats", "format must be one of coco, karpathy, .*, was: hats"),
    ]:
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            read(source, format)


def test_a_folder_of_links_is_read_as_what_they_lead_to(tmp_path: Path) -> None:
    put(
        tmp_path,
        {"far/away/train.csv": ROWS, "far/away/val.csv": ROWS, "far/.git/a.csv": ROWS, "far/__MACOSX/b.csv": ""},
    )
    assert [record.source for record in read(tmp_path / "far").records] == ["away/train.csv"] * 2 + ["away/val.csv"] * 2
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("train.csv", "val.csv", "test.csv"):  # the last leads nowhere
        (folder / name).symlink_to(tmp_path / "far" / "away" / name)
    (tmp_path / "link").symlink_to(folder, target_is_directory=True)
    for source in (folder, tmp_path / "link"):
        assert [record.source for record in read(source).records] == ["train.csv"] * 2 + ["val.csv"] * 2
        assert with_splits(read(source)) == ROWS_READ * 2


FOLDERS = {  # files of a folder: images and captions that are read, and reasons
    "pairs": ({"a/1.jpg": "", "a/1.txt": OWL, "2.PNG": "", "2.caption": HEN}, [("2.PNG", HEN), ("a/1.jpg", OWL)], []),
    "a caption a line": ({"1.jpg": "", "1.txt": f"{OWL}\n{HEN}\n"}, [("1.jpg", OWL), ("1.jpg", HEN)], []),
    "images apart": ({"images/1.jpg": "", "texts/1.txt": OWL}, [("images/1.jpg", OWL)], []),
    "a text without image": ({"1.jpg": "", "1.txt": OWL, "README.txt": "Read."}, [("1.jpg", OWL)], ["no_image"]),
    "an empty text": ({"1.jpg": "", "1.txt": "\n", "2.jpg": "", "2.txt": OWL}, [("2.jpg", OWL)], ["no_text"]),
    "texts alone": ({"a/x_1.txt": OWL, "b/x_2.txt": HEN, "README.txt": "Hello."}, [("a/x_1", OWL), ("b/x_2", HEN)], []),
    "splits": ({"train/1.jpg": "", "train/1.txt": OWL}, [("train/1.jpg", OWL)], []),
}
NO_FOLDERS = [
    *({"a.txt": OWL, "b.txt": HEN}, {"train/captions.txt": OWL, "val/captions.txt": HEN}, {"1.jpg": ""}),
    {"a/captions_1.txt": OWL, "b/captions_1.txt": HEN},  # images have names of their own
]


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_of_images_with_texts(name: str, tmp_path: Path) -> None:
    files, expected, reasons = FOLDERS[name]
    put(tmp_path, files)
    assert readers.detect(str(tmp_path)) == "folder"
    found = read(tmp_path)
    assert found.captions == expected and [bad.reason for bad in found.rejected] == reasons
    assert {record.split for record in found.records} == ({"train"} if name == "splits" else {""})


@pytest.mark.parametrize("files", NO_FOLDERS)
def test_a_folder_that_may_be_something_else_is_refused(files: dict[str, str], tmp_path: Path) -> None:
    put(tmp_path, files)
    with pytest.raises(ValueError, match=r"or of images with a text file each; holds (a|train|1)"):
        readers.detect(str(tmp_path))


IDS = {  # lines: images and captions
    "ids": (f"vid_1_5 {OWL}\nvid_1_5 {HEN}\nx_2_9 {HEN}", [("vid_1_5", OWL), ("vid_1_5", HEN), ("x_2_9", HEN)]),
    "file names": (f"1.jpg {OWL}\n2.jpg {HEN}", [("1.jpg", OWL), ("2.jpg", HEN)]),
    "file names with numbers": (f"1.jpg#0 {OWL}\n1.jpg#1 {HEN}", [("1.jpg", OWL), ("1.jpg", HEN)]),
    "long numbers": (f"000042 {OWL}\n000043 {HEN}", [("000042", OWL), ("000043", HEN)]),
    "a colon": (f"img_1: {OWL}\nimg_2: {HEN}", [("img_1", OWL), ("img_2", HEN)]),
    "numbered": (f"1. {OWL}\n2. {HEN}", [("1", OWL), ("2", HEN)]),
    "words with digits": ("18-year-old girl\n3D glasses", [("1", "18-year-old girl"), ("2", "3D glasses")]),
    "numbers of things": ("2 dogs run\n3 dogs run", [("1", "2 dogs run"), ("2", "3 dogs run")]),
    "phrases": ("[/EN#1/animals Two owls] stare\n[/EN#2/animals A hen] sits", [
        ("1", "Two owls stare"), ("2", "A hen sits")]),
    "one line": (f"vid_1_5 {OWL}", [("1", f"vid_1_5 {OWL}")]),
    "ids in some": (f"vid_1_5 {OWL}\n{HEN}", [("1", f"vid_1_5 {OWL}"), ("2", HEN)]),
}  # fmt: skip


@pytest.mark.parametrize("name", IDS)
def test_ids_in_front_of_captions(name: str, tmp_path: Path) -> None:
    text, expected = IDS[name]
    assert captions_of(put(tmp_path, {"captions.txt": text})) == expected


def test_a_line_without_an_id_among_lines_with_ids_is_rejected(tmp_path: Path) -> None:
    lines = [f"vid_{number}_5 {OWL}" for number in range(40)]
    found = read(put(tmp_path, {"captions.txt": "\n".join([*lines, HEN])}))
    assert len(found.records) == 40 and found.reasons == [(41, "not_a_record")]


def test_an_archive_must_hold_one_file(tmp_path: Path) -> None:
    for name, members, holds in (
        ("barn.csv.zip", ["folder/owl.csv", "folder/hen.csv"], r"2: folder/owl\.csv, folder/hen\.csv"),
        ("empty.csv.zip", [], "0$"),
    ):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.mkdir("folder")  # it is no file
            for member in members:
                archive.writestr(member, CSV)
        with pytest.raises(ValueError, match=rf"{name}: must hold one file, holds {holds}"):
            read(f"{tmp_path}/{name}")
    assert len(read(f"zip://folder::{tmp_path}/barn.csv.zip").records) == 4
