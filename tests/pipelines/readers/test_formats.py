"""Every format that is read: its detection, bad records, limits and folders. The sentences are made up."""

import bz2
import gzip
import io
import json
import lzma
import math
import os
import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ijson import JSONError

from negcap.pipelines import readers
from negcap.pipelines.readers import ReadOptions, pairs
from negcap.pipelines.readers.files import BUFFER, MAX_STRING, _JsonBytes, name_of
from tests.pipelines.readers.sources import Read, content, put, read

HEN, OWL = "A speckled hen guards three eggs.", "Two owls stare at a lantern ."
TEN_LINES = "\n".join(f"Sentence number {number} about a kite ." for number in range(10))
IMAGES = [{"id": 7, "file_name": "000000000007.jpg"}, {"id": 9, "file_name": "000000000009.jpg"}]
ANNOTATIONS = [
    {"id": 1, "image_id": 9, "caption": OWL},
    {"id": 2, "image_id": 7, "caption": HEN},
    {"id": 3, "image_id": 9, "caption": HEN},
]
COCO = {"info": {"year": 2017}, "images": IMAGES, "annotations": ANNOTATIONS}
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
FILES: dict[str, tuple[Any, str, list[tuple[str, str, str]]]] = {  # name -> content, format, (image, split, text)
    "captions_val2017.json": (COCO, "coco", [
        ("000000000009.jpg", "val", OWL), ("000000000007.jpg", "val", HEN), ("000000000009.jpg", "val", HEN)]),
    "mine.json": (json.dumps({**COCO, "images": []}, indent=1), "coco", [
        ("9", "", OWL), ("7", "", HEN), ("9", "", HEN)]),
    "dataset_barn.json": (KARPATHY, "karpathy", [
        ("val2014/owl.jpg", "restval", OWL), ("val2014/owl.jpg", "restval", HEN), ("hen.jpg", "test", HEN)]),
    "barn.token": (f"owl.jpg#0\t{OWL}\nhen.jpg#0\t{HEN}\nowl.jpg#3\t{HEN}\n", "flickr", [
        ("owl.jpg", "", OWL), ("hen.jpg", "", HEN), ("owl.jpg", "", HEN)]),
    "dev_caps.txt": (TEN_LINES, "vsepp", [
        (f"dev_{number // 5}", "dev", text) for number, text in enumerate(TEN_LINES.splitlines())]),
    **{f"barn.{kind}": (ROWS, "table", ROWS_READ) for kind in ("csv", "tsv", "jsonl", "json", "parquet")},
    "semicolons.csv": (CSV.replace(",", ";"), "table", ROWS_READ),
    "pipes.txt": (CSV.replace(",", "| "), "table", ROWS_READ),
    "pretty.json": (json.dumps(ROWS, indent=2), "table", ROWS_READ),
    "utf16.json": (json.dumps(ROWS).encode("utf-16"), "table", ROWS_READ),
    "captions.txt": (f"{HEN}\n\n  \r\n{OWL}\r\n{HEN}", "lines", [("1", "", HEN), ("4", "", OWL), ("5", "", HEN)]),
    "test.TXT": (f"\ufeff{OWL}\n", "lines", [("1", "test", OWL)]),
}  # fmt: skip


def with_splits(result: Read) -> list[tuple[str, str, str]]:
    assert result.rejected == []
    return [(record.image, record.split, record.text) for record in result.records]


@pytest.mark.parametrize("compression", [*COMPRESS, "by URL"])
@pytest.mark.parametrize("name", FILES)
def test_every_format_is_read_and_detected(name: str, compression: str, tmp_path: Path) -> None:
    value, format, expected = FILES[name]
    folder, end = (f"memory://{uuid.uuid4()}", "") if compression == "by URL" else (tmp_path, compression)
    path = put(folder, {name + end: COMPRESS[end](content(name, value))})
    assert readers.detect(path) == format and readers.files_of(path, format, ReadOptions()) == [path]
    result = read(path)
    assert with_splits(result) == expected
    assert {(record.source, record.language) for record in result.records} == {(name + end, "en")}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_line_ends_and_encodings(end: str, encoding: str, tmp_path: Path) -> None:
    for name in ("a.csv", "b.tsv", "c.jsonl"):
        path = put(tmp_path, {name: content(name, ROWS).decode().replace("\n", end).encode(encoding)})
        assert with_splits(read(path)) == ROWS_READ


# JSON


@pytest.mark.parametrize(("changed", "expected"), [
    ({"annotations": [*ANNOTATIONS, ANNOTATIONS[0]]}, (4, "duplicate_caption_id")),
    ({"images": [*IMAGES, {"id": 7, "file_name": "other.jpg"}, IMAGES[1]]}, (2, "ambiguous_image")),
    ({"annotations": [*ANNOTATIONS, {"id": 9, "image_id": 1234, "caption": HEN}]}, (4, "no_image")),
    # ids of images that are texts there and numbers here, and images last
    ({"images": [{**image, "id": str(image["id"])} for image in IMAGES]}, None),
])  # fmt: skip
def test_coco_annotations_whose_image_or_id_is_not_clear_are_rejected(changed, expected, tmp_path: Path) -> None:
    result = read(put(tmp_path, {"a.json": dict(reversed({**COCO, **changed}.items()))}))
    assert result.reasons == [expected] * (expected is not None)
    assert result.captions[0] == ("000000000009.jpg", OWL)
    assert len(result.records) == 3 - (result.reasons == [(2, "ambiguous_image")])


def test_nan_and_infinity_that_python_writes_are_no_values(tmp_path: Path) -> None:
    nan, says_nan = float("nan"), 'A sign says "NaN, -Infinity" \\'
    annotations = [
        {"image_id": 1, "caption": says_nan, "area": -float("inf")},
        {"image_id": 1, "caption": nan},
        {"id": nan, "image_id": 1, "caption": HEN},
    ]
    images = [{"id": 1, "file_name": "owl.jpg", "date": nan}, {"id": nan, "file_name": "x.jpg"}]
    path = put(tmp_path, {"a.json": {"info": {"score": nan}, "images": images, "annotations": annotations}})
    assert readers.detect(path) == "coco"
    assert read(path).captions == [("owl.jpg", says_nan), ("owl.jpg", HEN)] and read(path).reasons == [(2, "no_text")]


@settings(deadline=None, max_examples=50)
@example([float("inf")], 3)
@given(
    st.recursive(st.text(st.sampled_from('NaInfty-\\"{}[], é🐕')) | st.floats() | st.none(), st.lists),
    st.integers(1, 40),
)
def test_json_is_read_whole_in_buffers_of_any_size(value, size):
    def finite(value: Any) -> Any:
        if isinstance(value, list):
            return [finite(item) for item in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    file = _JsonBytes(io.BytesIO(json.dumps(value, ensure_ascii=False).encode()))
    assert json.loads(b"".join(iter(lambda: file.read(size), b""))) == finite(value)


@pytest.mark.parametrize(
    ("begin", "more"), [('["', "no end "), ('{"', '\\"'), ("[", "1")], ids=["text", "quotes", "number"]
)
def test_a_string_or_number_in_json_has_a_largest_size(begin: str, more: str) -> None:
    endless = begin + more * ((MAX_STRING + BUFFER) // len(more) + 1)
    file = _JsonBytes(io.BytesIO(endless.encode()))
    with pytest.raises(JSONError, match="a (string|number) in it has more than 16,777,216 characters: does it end"):
        while file.read(BUFFER):
            pass


def test_a_text_that_does_not_end_is_said_in_time(tmp_path: Path) -> None:
    endless = '[{"image": "a.jpg", "caption": "' + "no end " * (MAX_STRING // 6)
    with pytest.raises(ValueError, match="a.json: must be .*, cannot be read: a string in it has more than"):
        read(put(tmp_path, {"a.json": endless}))  # the parser begins a string anew with every buffer


# folders


def test_a_pipe_is_no_input(tmp_path: Path) -> None:
    for name in ("a.json", "a.csv.gz", "a.tar", "a_caps.txt"):
        path = f"{tmp_path}/{name}"
        os.mkfifo(path)
        for source in (path, f"file://{path}", f"zip://a::{path}"):
            for attempt in (readers.detect, readers.content, pairs.pair_files):
                with pytest.raises(ValueError, match=r"is a pipe, must be a file: write it to one first"):
                    attempt(source)


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
    result = read(tmp_path, "multi30k", language=language)
    assert readers.detect(str(tmp_path)) == "multi30k" and result.rejected == []
    images = [image for image in ("elk.jpg", "fox.jpg", "bat.jpg") for _ in range(per_image)]
    numbers = [*range(per_image)] * 3
    assert [(record.image, record.number) for record in result.records] == [*zip(images, numbers, strict=True)]
    assert {record.language for record in result.records} == ({"de", "en"} if language == "all" else {language})
    last = result.records[-1]
    assert (last.text, last.line) == (f"val {last.language} 5 line 1", 2) and last.source == f"val.5.{last.language}.gz"


def test_multi30k_task_1_with_lists_in_image_splits(tmp_path: Path) -> None:
    put(tmp_path, {"image_splits/train.txt": "elk.jpg\nfox.jpg\n", "raw/train.en": f"{HEN}\n{OWL}\n"})
    assert read(tmp_path / "raw").captions == [("elk.jpg", HEN), ("fox.jpg", OWL)]


def test_vsepp_folder_takes_names_from_image_lists_and_captions_in_other_languages(tmp_path: Path) -> None:
    german = "elk.jpg\tEin Elch steht still.\nowl.jpg\tEine Eule.\nkaputt\nelk.jpg\tDer Elch.\n"
    put(tmp_path, {"dev_caps.txt": TEN_LINES, "dev_images.txt": "elk.jpg\nfox.jpg\n", "dev_caps.de.tsv": german})
    put(tmp_path, {"train_caps.txt": "\n".join(TEN_LINES.splitlines()[:5])})
    assert readers.detect(str(tmp_path)) == "vsepp"
    english = [(image, number) for image in ("train_0", "elk.jpg", "fox.jpg") for number in range(5)]
    for source, expected in ((tmp_path, english), (tmp_path / "dev_caps.txt", english[5:])):
        assert [(record.image, record.number) for record in read(source).records] == expected
    (tmp_path / "train_caps.txt").unlink()
    result = read(tmp_path, language="all")
    assert {(r.source, r.image, r.language) for r in result.records[:5]} == {("dev_caps.txt", "elk.jpg", "en")}
    assert [(r.source, r.line, r.image, r.language, r.number) for r in result.records[5:]] == [
        ("dev_caps.de.tsv", 1, "elk.jpg", "de", 5), ("dev_caps.de.tsv", 4, "elk.jpg", "de", 6),
    ]  # fmt: skip
    no_language = [(number, "no_language") for number in range(6, 11)]  # the fox has no German captions
    assert result.reasons == [(3, "not_a_record"), *no_language, (2, "no_image")]
    for language, names in (("en", []), ("all", ["dev_caps.de.tsv"])):
        urls = readers.files_of(str(tmp_path), "vsepp", ReadOptions(language=language))
        assert [name_of(url) for url in urls] == ["dev_caps.txt", "dev_images.txt", *names]


def test_a_folder_of_links_is_read_as_what_they_lead_to(tmp_path: Path) -> None:
    hidden = {"far/.git/a.csv": ROWS, "far/__MACOSX/b.csv": ""}
    put(tmp_path, {"far/away/train.csv": ROWS, "far/away/val.csv": ROWS, **hidden})
    assert [record.source for record in read(tmp_path / "far").records] == ["away/train.csv"] * 2 + ["away/val.csv"] * 2
    (tmp_path / "data").mkdir()
    for name in ("train.csv", "val.csv", "test.csv"):  # the last leads nowhere
        (tmp_path / "data" / name).symlink_to(tmp_path / "far" / "away" / name)
    (tmp_path / "link").symlink_to(tmp_path / "data", target_is_directory=True)
    for source in (tmp_path / "data", tmp_path / "link"):
        assert [record.source for record in read(source).records] == ["train.csv"] * 2 + ["val.csv"] * 2


# bad records


BAD_LINES = [  # bytes of a caption, reason, detail
    (b"", "no_text", "caption must not be empty, was: ''"),
    (b"A caf\xe9 at night.", "not_utf8", "caption must be UTF-8, has "),
    (b"kite " * 2500, "too_long", "caption must be <= 10000 characters, was: 12499"),
    (b"A\x00bell", "control_characters", "caption must have no control characters, has U+0000"),
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
def test_a_bad_caption_is_one_rejected_record(format: str, tmp_path: Path) -> None:
    name, before, record, between, behind = FORMS[format]
    source = tmp_path if format == "multi30k" else tmp_path / name
    if format == "multi30k":
        put(tmp_path, {"val_images.txt": "".join(f"{number}.jpg\n" for number in range(5))})
    for bad, reason, detail in BAD_LINES:
        if format == "lines" and not bad.strip():
            continue  # empty lines are no records
        records = []
        for n, text in enumerate([HEN.encode(), bad, OWL.encode(), HEN.encode(), OWL.encode()]):
            quoted = b'"' + text.replace(b"\x00", b"\\u0000") + b'"'
            records.append(record % {b"n": n, b"text": text, b"json": quoted})
        put(tmp_path, {name: before + between.join(records) + behind})
        result = read(source, "table" if format in ("csv", "tsv", "jsonl", "json") else "")
        line = 3 if format in ("csv", "tsv") else 2  # these have a header
        assert result.reasons == [(line, reason)] and len(result.records) == 4, bad[:20]
        assert result.rejected[0].detail.startswith(detail) and len(result.rejected[0].text) <= 200 + 3


GOOD = '{"image": "1.jpg", "caption": "A hen"}'
KARPATHY_ITEM = (SENTENCE % {b"n": 1, b"json": b'"A hen"'}).decode()
FORTY = "".join(f"vid_{number}_5 {OWL}\n" for number in range(40))


@pytest.mark.parametrize(("format", "text", "lines", "read_before"), [
    ("flickr", f"owl.jpg#0\t{OWL}\n\nno tab\nowl.jpg\t{OWL}\nowl.jpg#x\t{OWL}\nowl.jpg#12345\t{OWL}", [3, 4, 5, 6], 1),
    ("table", f"image,caption\n1.jpg,{OWL}\n2.jpg\n\n3.jpg,one,two\n", [3, 5], 1),
    ("table", f"image,caption\n1.jpg,{OWL}\nimage,caption\n2.jpg,{OWL}\n", [3], 2),  # files were put together
    ("table", f'{GOOD}\n{{"image": \n[1]\nnull\n', [2, 3, 4], 1),
    ("table", f"[{GOOD}, 17]", [2], 1),
    ("coco", '{"annotations": [{"image_id": 1, "caption": "A hen"}, null, [1]]}', [2, 3], 1),
    ("karpathy", f'{{"images": [{KARPATHY_ITEM}, 3, {{"sentences": []}}]}}', [2, 3], 1),
    ("lines", f"{FORTY}{HEN}", [41], 40),  # a line without an id among lines with ids
])  # fmt: skip
def test_what_is_no_record_is_rejected_by_line(format, text: str, lines, read_before: int, tmp_path: Path) -> None:
    result = read(put(tmp_path, {"a.txt": text}), format)
    assert len(result.records) == read_before and result.reasons == [(line, "not_a_record") for line in lines]
