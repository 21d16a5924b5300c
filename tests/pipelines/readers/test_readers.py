"""Readers: every format, its detection, bad records and broken files. The sentences are made up for these tests."""

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

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from negcap.pipelines import readers
from negcap.pipelines.readers import ReadOptions, Record, Rejected, pairs
from negcap.pipelines.readers.files import _JsonBytes, name_of, split_in
from negcap.pipelines.readers.record import MAX_TEXT, clean, image_id
from negcap.schemas.captions import RECORD_REASONS

HEN, OWL = "A speckled hen guards three eggs.", "Two owls stare at a lantern ."
TEN = [f"Sentence number {number} about a kite ." for number in range(10)]
COCO = {
    "info": {"year": 2017},
    "images": [{"id": 7, "file_name": "000000000007.jpg"}, {"id": 9, "file_name": "000000000009.jpg"}],
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
COMPRESS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


def put(folder: Path | str, files: dict[str, str | bytes]) -> str:
    """Write files into a folder or below an fsspec URL; the last one's name."""
    path = ""
    for name, content in files.items():
        path = f"{folder}/{name}"
        with fsspec.open(path, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
    return path


def read(source: str, format: str = "", **options: str) -> tuple[list[Record], list[Rejected]]:
    records = list(readers.read(source, format or readers.detect(source), ReadOptions(**options)))
    return [r for r in records if isinstance(r, Record)], [r for r in records if isinstance(r, Rejected)]


def short(records: list[Record]) -> list[tuple[str, str, str]]:
    return [(record.image, record.split, record.text) for record in records]


def parquet(rows: list[dict]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue().to_pybytes()


def delimited(delimiter: str, rows: list[dict[str, str]] = ROWS) -> str:
    return "\n".join(map(delimiter.join, [list(rows[0]), *(list(row.values()) for row in rows)])) + "\n"


def as_table(name: str, rows: list[dict]) -> str | bytes:
    """Rows of texts as a table of the kind that the name of a file ends with."""
    objects = {"jsonl": "\n".join(map(json.dumps, rows)), "json": json.dumps(rows), "parquet": parquet(rows)}
    return objects.get(name.partition(".")[2]) or delimited("\t" if name.endswith("tsv") else ",", rows)


FILES = {  # name -> content, format, what is read
    "captions_val2017.json": (
        json.dumps(COCO),
        "coco",
        [("000000000009.jpg", "val", OWL), ("000000000007.jpg", "val", HEN), ("000000000009.jpg", "val", HEN)],
    ),
    "mine.json": (json.dumps({**COCO, "images": []}, indent=1), "coco", [
        ("9", "", OWL), ("7", "", HEN), ("9", "", HEN),
    ]),
    "dataset_barn.json": (
        json.dumps(KARPATHY),
        "karpathy",
        [("val2014/owl.jpg", "restval", OWL), ("val2014/owl.jpg", "restval", HEN), ("hen.jpg", "test", HEN)],
    ),
    "barn.token": (f"owl.jpg#0\t{OWL}\nhen.jpg#0\t{HEN}\nowl.jpg#3\t{HEN}\n", "flickr", [
        ("owl.jpg", "", OWL), ("hen.jpg", "", HEN), ("owl.jpg", "", HEN),
    ]),
    "dev_caps.txt": ("\n".join(TEN) + "\n", "vsepp", [
        (f"dev_{number // 5}", "dev", sentence) for number, sentence in enumerate(TEN)
    ]),
    "barn.csv": (delimited(","), "table", ROWS_READ),
    "barn.tsv": (delimited("\t"), "table", ROWS_READ),
    "semicolons.csv": (delimited(";"), "table", ROWS_READ),
    "pipes.txt": (delimited("|").replace("|", "| "), "table", ROWS_READ),
    "crlf.csv": (delimited(",").replace("\n", "\r\n"), "table", ROWS_READ),
    "mark.csv": ("\ufeff" + delimited(","), "table", ROWS_READ),
    "utf16.csv": (delimited(",").encode("utf-16"), "table", ROWS_READ),
    "utf16.json": (json.dumps(ROWS).encode("utf-16"), "table", ROWS_READ),
    "barn.jsonl": ("\n".join(map(json.dumps, ROWS)) + "\n\n", "table", ROWS_READ),
    "list.json": (json.dumps(ROWS), "table", ROWS_READ),
    "pretty.json": (json.dumps(ROWS, indent=2), "table", ROWS_READ),
    "barn.parquet": (parquet(ROWS), "table", ROWS_READ),
    "captions.txt": (f"{HEN}\n\n  \r\n{OWL}\r\n{HEN}", "lines", [("1", "", HEN), ("4", "", OWL), ("5", "", HEN)]),
    "test.TXT": (f"\ufeff{OWL}\n", "lines", [("1", "test", OWL)]),
}  # fmt: skip


@pytest.mark.parametrize("compression", [*COMPRESS, "by URL"])
@pytest.mark.parametrize("name", FILES)
def test_reads_and_detects_every_format(name, compression, tmp_path):
    content, format, expected = FILES[name]
    folder, end = (f"memory://{uuid.uuid4()}", "") if compression == "by URL" else (tmp_path, compression)
    path = put(folder, {name + end: COMPRESS[end](content.encode() if isinstance(content, str) else content)})
    assert readers.detect(path) == format and readers.files_of(path, format, ReadOptions()) == [path]
    records, rejected = read(path)
    assert short(records) == expected and rejected == []
    assert {(record.source, record.language) for record in records} == {(name + end, "en")}


def test_coco_skips_nothing_when_images_come_last_and_refuses_a_repeated_annotation(tmp_path):
    turned = dict(reversed(COCO.items()))
    turned["annotations"] = [*COCO["annotations"], COCO["annotations"][0]]
    records, rejected = read(put(tmp_path, {"captions_train2014.json": json.dumps(turned)}))
    assert short(records)[0] == ("000000000009.jpg", "train", OWL)
    assert [(bad.line, bad.reason, bad.text) for bad in rejected] == [(4, "duplicate_caption_id", OWL)]


def test_coco_rejects_captions_of_an_id_that_several_images_have(tmp_path):
    images = [*COCO["images"], {"id": 7, "file_name": "other.jpg"}, {"id": 9, "file_name": "000000000009.jpg"}]
    records, rejected = read(put(tmp_path, {"a.json": json.dumps({**COCO, "images": images})}))
    assert short(records) == [("000000000009.jpg", "", OWL), ("000000000009.jpg", "", HEN)]
    assert [(bad.line, bad.reason, bad.text) for bad in rejected] == [(2, "ambiguous_image", HEN)]
    assert rejected[0].detail == "image_id must be of one image, is of several: 7 of 000000000007.jpg and other.jpg"
    assert rejected[0].reason in RECORD_REASONS


NAN = float("nan")
SAYS_NAN = 'A sign says "NaN, -Infinity" \\'
WITH_NAN = {  # by format: a value of Python; what is read of it; what is rejected
    "coco": (
        {
            "info": {"score": NAN},
            "images": [{"id": 1, "file_name": "owl.jpg", "date": NAN}, {"id": NAN, "file_name": "x.jpg"}],
            "annotations": [
                {"id": 1, "image_id": 1, "caption": SAYS_NAN, "area": -float("inf")},
                {"id": 2, "image_id": 1, "caption": NAN},
                {"id": NAN, "image_id": 1, "caption": HEN},
            ],
        },
        [("owl.jpg", "", SAYS_NAN), ("owl.jpg", "", HEN)],
        [(2, "no_text")],
    ),
    "karpathy": (
        {"images": [{"filename": "owl.jpg", "cocoid": NAN, "split": "val", "sentences": [{"raw": OWL, "p": NAN}]}]},
        [("owl.jpg", "val", OWL)],
        [],
    ),
    "table": (
        [{"image": "owl.jpg", "caption": SAYS_NAN, "w": NAN}, {"image": NAN, "caption": HEN}],
        [("owl.jpg", "", SAYS_NAN)],
        [(2, "no_image")],
    ),
}


@pytest.mark.parametrize("buffer", [1, 2, 3, 5, 8, 13, 1 << 18])
@pytest.mark.parametrize("format", WITH_NAN)
def test_nan_and_infinity_that_python_writes_are_no_values(format, buffer, tmp_path, monkeypatch):
    value, expected, bad = WITH_NAN[format]
    path = put(tmp_path, {"a.json": json.dumps(value)})
    monkeypatch.setattr("negcap.pipelines.readers.files.BUFFER", buffer)
    assert readers.detect(path) == format
    records, rejected = read(path)
    assert short(records) == expected and [(one.line, one.reason) for one in rejected] == bad


@given(
    st.recursive(st.text(st.sampled_from('NaInfty-\\"{}[], é🐕')) | st.floats() | st.none(), st.lists),
    st.integers(1, 40),
)
def test_json_is_read_whole_in_buffers_of_any_size(value, size):
    file = _JsonBytes(io.BytesIO(json.dumps(value, ensure_ascii=False).encode()))
    got = b"".join(iter(lambda: file.read(size), b""))

    def without(some):
        if isinstance(some, list):
            return [without(item) for item in some]
        return None if isinstance(some, float) and not math.isfinite(some) else some

    assert json.loads(got) == without(value)


ENDLESS = {  # JSON of which one value does not end
    "string": ('[{"image": "a.jpg", "caption": "', "no end "),
    "escapes": ('{"annotations": [{"image_id": 1, "caption": "', "\\\\"),
    "quotes": ('{"images": [{"id": 1, "file_name": "', '\\"'),
    "key": ('{"images": [{"', "k"),
    "number": ('{"annotations": [{"image_id": ', "1"),
    "first key": ('{"', "a"),
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_a_string_or_number_in_json_has_a_largest_size(kind, tmp_path, monkeypatch):
    monkeypatch.setattr("negcap.pipelines.readers.files.MAX_STRING", 1 << 20)
    begin, more = ENDLESS[kind]
    path = put(tmp_path, {"a.json": begin + more * (24_000_000 // len(more))})
    began = time.process_time()
    with pytest.raises(ValueError, match=r"a.json: must be .*, cannot be read: a (string|number) in it has more than"):
        read(path, "" if begin[0] == "[" else "coco")
    assert time.process_time() - began < 5


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.csv", "a.csv.gz", "a.parquet", "a.tar", "a_caps.txt"])
def test_a_pipe_is_no_input(name, tmp_path):
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


def test_parquet_columns_that_cannot_be_told_or_read(tmp_path):
    texts, images = pa.array([OWL, HEN]), pa.array(["a.jpg", "b.jpg"])
    for columns, options, said in (
        ({"image": images, "caption": (texts, texts)}, {}, "must have one column caption, has 2: rename or drop"),
        ({"image": (images, images), "caption": texts}, {}, "must have one column image, has 2"),
        (
            {"image": images, "caption": texts.cast(pa.binary())},
            {},
            "the caption column caption is binary, must be text",
        ),
        ({"image": images, "said": texts.cast(pa.large_binary())}, {"caption_column": "said"}, "column said is binary"),
        ({"image": images, "caption": texts, "a": (texts, texts)}, {"keep_columns": ("a",)}, "one column a, has 2"),
    ):
        arrays = [
            (name, array) for name, some in columns.items() for array in (some if type(some) is tuple else [some])
        ]
        path = f"{tmp_path}/a.parquet"
        pq.write_table(pa.Table.from_arrays([array for _, array in arrays], [name for name, _ in arrays]), path)
        with pytest.raises(ValueError, match=said) as error:
            read(path, **options)
        assert str(error.value).startswith(path) and "\n" not in str(error.value)
    arrays = [images, texts, pa.array([b"1", b"2"]), texts, texts]  # those that are not read may be as they are
    pq.write_table(pa.Table.from_arrays(arrays, ["image", "caption", "text", "a", "a"]), path)
    assert len(read(path)[0]) == 2
    with pytest.raises(ValueError, match=r"a\.parquet: must have one column a, has 2"):
        list(pairs.read_pairs(path))


def multi30k() -> dict[str, str | bytes]:
    files: dict[str, str | bytes] = {"val_images.txt": "fox.jpg#0\nbat.jpg#1\n", "train_images.txt": "elk.jpg\n"}
    for split, count in (("val", 2), ("train", 1)):
        for number in range(1, 6):
            for language in ("de", "en"):
                lines = [f"{split} {language} {number} line {line}" for line in range(count)]
                files[f"{split}.{number}.{language}.gz"] = gzip.compress("\n".join(lines).encode() + b"\n")
    return files


@pytest.mark.parametrize(("language", "per_image"), [("en", 5), ("de", 5), ("all", 10)])
def test_multi30k_folder(language, per_image, tmp_path):
    put(tmp_path, multi30k())
    assert readers.detect(str(tmp_path)) == "multi30k"
    records, rejected = read(str(tmp_path), language=language)
    assert rejected == []
    images = [image for image in ("elk.jpg", "fox.jpg", "bat.jpg") for _ in range(per_image)]
    assert [(record.image, record.number) for record in records] == [*zip(images, [*range(per_image)] * 3, strict=True)]
    assert {record.language for record in records} == ({"de", "en"} if language == "all" else {language})
    last = records[-1]
    assert (last.text, last.line) == (f"val {last.language} 5 line 1", 2)
    assert last.source == f"val.5.{last.language}.gz"


def test_multi30k_task_1_with_lists_in_image_splits(tmp_path):
    put(tmp_path, {"image_splits/train.txt": "elk.jpg\nfox.jpg\n", "raw/train.en": f"{HEN}\n{OWL}\n"})
    records, _ = read(f"{tmp_path}/raw")
    assert short(records) == [("elk.jpg", "train", HEN), ("fox.jpg", "train", OWL)]


def test_multi30k_says_what_is_missing_or_too_long(tmp_path):
    put(tmp_path, multi30k())
    for lines, said in (("one\n", "has only 1"), ("one\ntwo\nsurplus\n", "2, has more")):
        put(tmp_path, {"val.3.en.gz": gzip.compress(lines.encode())})
        with pytest.raises(ValueError, match=rf"val\.3\.en\.gz: must have as many lines as val_images\.txt, {said}"):
            read(str(tmp_path))
    (tmp_path / "val_images.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"has no Multi30K files .*\.fr\.gz.*; languages there: de, en"):
        read(str(tmp_path), language="fr")
    with pytest.raises(FileNotFoundError, match=r"has no val_images\.txt, the list of the images of val"):
        read(str(tmp_path))
    with pytest.raises(ValueError, match="must be the folder of its files, was a file"):
        read(f"{tmp_path}/train.1.en.gz", "multi30k")
    with pytest.raises(ValueError, match="looks like one file of Multi30K, give the folder it is in"):
        readers.detect(f"{tmp_path}/train.1.en.gz")


def test_vsepp_folder_takes_names_from_image_lists(tmp_path):
    put(tmp_path, {"dev_caps.txt": "\n".join(TEN), "dev_images.txt": "elk.jpg\nfox.jpg\n"})
    put(tmp_path, {"train_caps.txt": "\n".join(TEN[:5])})
    assert readers.detect(str(tmp_path)) == "vsepp"
    expected = [(image, number) for image in ("train_0", "elk.jpg", "fox.jpg") for number in range(5)]
    assert [(record.image, record.number) for record in read(str(tmp_path))[0]] == expected
    assert [(record.image, record.number) for record in read(f"{tmp_path}/dev_caps.txt")[0]] == expected[5:]
    files = readers.files_of(str(tmp_path), "vsepp", ReadOptions())
    assert [name_of(url) for url in files] == ["train_caps.txt", "dev_caps.txt", "dev_images.txt"]


def test_vsepp_folder_has_captions_in_other_languages(tmp_path):
    put(tmp_path, {"dev_caps.txt": "\n".join(TEN), "dev_images.txt": "elk.jpg\nfox.jpg\n"})
    assert [record.language for record in read(str(tmp_path))[0]] == ["en"] * 10
    with pytest.raises(FileNotFoundError, match=r"has captions in one language, expected dev_caps.<language>.tsv"):
        read(str(tmp_path), language="all")
    german = "elk.jpg\tEin Elch steht still.\nowl.jpg\tEine Eule.\nkaputt\nelk.jpg\tDer Elch.\n"
    put(tmp_path, {"dev_caps.de.tsv": german})
    assert [record.language for record in read(str(tmp_path))[0]] == ["en"] * 10
    records, rejected = read(str(tmp_path), language="all")
    assert [(r.source, r.line, r.image, r.language, r.number) for r in records] == [
        *(("dev_caps.txt", number + 1, "elk.jpg", "en", number) for number in range(5)),
        ("dev_caps.de.tsv", 1, "elk.jpg", "de", 5),
        ("dev_caps.de.tsv", 4, "elk.jpg", "de", 6),
    ]
    assert [record.text for record in records[5:]] == ["Ein Elch steht still.", "Der Elch."]
    assert [(r.line, r.reason) for r in rejected] == [
        (3, "not_a_record"),
        *((number, "no_language") for number in range(6, 11)),
        (2, "no_image"),
    ]
    assert rejected[1].detail == "image must have captions in en and de, has none in: de"
    files = readers.files_of(str(tmp_path), "vsepp", ReadOptions(language="all"))
    assert [name_of(url) for url in files] == ["dev_caps.txt", "dev_images.txt", "dev_caps.de.tsv"]


def test_vsepp_needs_five_lines_an_image(tmp_path):
    for captions, images, message in (
        (9, None, "must have 5 lines per image, has only 9 lines"),
        (10, 3, "must have 5 lines for each line of dev_images.txt, has only 10 lines"),
        (10, 1, "must have 5 lines for each line of dev_images.txt, has more"),
    ):
        if images:
            put(tmp_path, {"dev_images.txt": "".join(f"{number}.jpg\n" for number in range(images))})
        path = put(tmp_path, {"dev_caps.txt": "\n".join(TEN[:captions])})
        with pytest.raises(ValueError, match=f"dev_caps.txt: {message}"):
            read(path)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.parquet", "a.json"])
def test_tables_with_columns_of_other_names(name, tmp_path):
    path = put(tmp_path, {name: as_table(name, [{"what": "x", "photo file": "owl.jpg", "said": OWL, "part": "test"}])})
    for message, options in {
        r"no image column found \(columns: what, photo file, said, part\); name it: --columns image=NAME,c": {},
        "no caption column found": {"image_column": "photo file"},
        "split column must be one of the columns found, was: fold; found: what": {
            "image_column": "photo file", "caption_column": "said", "split_column": "fold",
        },
    }.items():  # fmt: skip
        with pytest.raises(ValueError, match=message):
            read(path, **options)
    records, _ = read(path, image_column="photo file", caption_column="said", split_column="part")
    assert short(records) == [("owl.jpg", "test", OWL)]


def test_columns_by_number_where_there_is_no_header(tmp_path):
    path = put(tmp_path, {"barn.tsv": f"owl.jpg\t{OWL}\nhen.jpg\t{HEN}\n"})
    records, _ = read(path, image_column="1", caption_column="2", language="de")
    assert short(records) == [("owl.jpg", "", OWL), ("hen.jpg", "", HEN)]
    assert records[0].language == "de"
    with pytest.raises(ValueError, match=r"column numbers must be <= 2, were: \[1, 3\]"):
        read(path, image_column="1", caption_column="3")


def test_quotes_in_csv_and_tsv(tmp_path):
    said = 'A sign says ""stop"", twice'
    path = put(tmp_path, {"a.csv": f'image,caption\n1.jpg,"{said}"\n2.jpg,"Over\ntwo lines"\n3.jpg,{HEN}\n'})
    expected = [('A sign says "stop", twice', 2), ("Over two lines", 3), (HEN, 5)]
    assert [(record.text, record.line) for record in read(path)[0]] == expected
    lines = ["image\tcaption", f'1.jpg\t"{said}"', '2.jpg\t"Stop" is on a sign', '3.jpg\tA 7" pan', f"4.jpg\t{HEN}"]
    records, rejected = read(put(tmp_path, {"a.tsv": "\n".join(lines)}))
    assert [record.text for record in records] == ['A sign says "stop", twice', '"Stop" is on a sign', 'A 7" pan', HEN]
    assert rejected == []
    rows = [f"{number}.jpg,{HEN}" for number in range(6000)]
    rows[3] = '3.jpg,"A quote that never ends'  # costs one record
    records, rejected = read(put(tmp_path, {"open.csv": "image,caption\n" + "\n".join(rows)}))
    assert [(bad.line, bad.reason) for bad in rejected] == [(5, "not_a_record")]
    assert rejected[0].detail == "a record must be CSV: a quote is never closed"
    assert [record.image for record in records] == [f"{number}.jpg" for number in range(6000) if number != 3]


def test_a_cell_with_several_captions(tmp_path):
    rows = [{"filename": "owl.jpg", "caption": [OWL, HEN]}, {"filename": "hen.jpg", "caption": [HEN]}]
    pictured = [{"image": {"bytes": b"\0", "path": "x"}, **row} for row in rows]  # embedded pictures are passed over
    for name, some in (("a.jsonl", rows), ("b.json", rows), ("c.parquet", pictured)):
        records, rejected = read(put(tmp_path, {name: parquet(some) if some is pictured else as_table(name, some)}))
        assert short(records) == [("owl.jpg", "", OWL), ("owl.jpg", "", HEN), ("hen.jpg", "", HEN)]
        assert rejected == []


def test_embedded_images_are_read_by_their_paths_alone(tmp_path, monkeypatch):
    images = [{"bytes": b"x" * 1000, "path": "owl.jpg"}, {"bytes": b"x", "path": None}, None]
    rows = [{"image": image, "meta": {"size": 3}, "text": OWL} for image in images]
    path = put(tmp_path, {"train-0.parquet": parquet(rows), "test-1.parquet": parquet(rows[:2])})
    asked, iterate = [], pq.ParquetFile.iter_batches
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", lambda *a, **k: asked.append(k["columns"]) or iterate(*a, **k))
    for options in ({}, {"image_column": "image"}):
        records, rejected = read(f"{tmp_path}/train-0.parquet", **options)
        assert short(records) == [("owl.jpg", "train", OWL), ("2", "train", OWL)]
        assert [(bad.line, bad.reason) for bad in rejected] == [(3, "no_image")]
    assert asked == [["image.path", "text"]] * 2
    both = [record.image for record in read(str(tmp_path))[0]]
    assert path and both == ["owl.jpg", "test-1-2", "owl.jpg", "train-0-2"]
    with pytest.raises(ValueError, match="found: meta.size, text, image$"):
        read(f"{tmp_path}/train-0.parquet", image_column="photo")
    bare = [{"image": {"bytes": b"x"}, "text": text} for text in (OWL, HEN)]
    assert short(read(put(tmp_path, {"bare.parquet": parquet(bare)}))[0]) == [("1", "", OWL), ("2", "", HEN)]


@pytest.mark.parametrize("name", ["a.csv", "a.txt", "a.jsonl", "a.json", "a.parquet"])
def test_a_table_of_captions_alone_has_an_image_for_each_row(name, tmp_path):
    first = ("2", "3") if name in ("a.csv", "a.txt") else ("1", "2")  # lines, or rows
    rows = [{"caption": OWL, "split": "test"}, {"caption": HEN, "split": "val"}]
    records, _ = read(put(tmp_path, {name: as_table(name, rows)}))
    assert short(records) == [(image, row["split"], row["caption"]) for image, row in zip(first, rows, strict=True)]
    other = put(tmp_path, {"b.csv": f"caption,photograph\n{OWL},owl.jpg\n"})
    with pytest.raises(ValueError, match=r"no image column found \(columns: caption, photograph"):
        read(other)


def test_parquet_dictionaries_numbers_and_nulls(tmp_path):
    table = pa.table({
        "image_id": pa.array([5, 6, None]),
        "caption": pa.array([OWL, None, HEN]).dictionary_encode(),
        "split": pa.array(["train", None, "val"], pa.large_string()),
    })  # fmt: skip
    pq.write_table(table, tmp_path / "a.parquet")
    records, rejected = read(f"{tmp_path}/a.parquet")
    assert short(records) == [("5", "train", OWL)]
    assert [(bad.line, bad.reason) for bad in rejected] == [(2, "no_text"), (3, "no_image")]


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
def test_a_bad_caption_is_one_rejected_record(format, bad, reason, detail, tmp_path):
    if format == "lines" and not bad.strip():
        pytest.skip("empty lines are no records")
    name, before, record, between, behind = FORMS[format]
    rows = []
    for n, text in enumerate([HEN.encode(), bad, OWL.encode(), HEN.encode(), OWL.encode()]):
        quoted = b'"' + text.replace(b"\x07", b"\\u0007").replace(b"\x00", b"\\u0000") + b'"'
        rows.append(record % {b"n": n, b"text": text, b"json": quoted})
    path = put(tmp_path, {name: before + between.join(rows) + behind})
    if format == "multi30k":
        put(tmp_path, {"val_images.txt": "".join(f"{number}.jpg\n" for number in range(5))})
        path = str(tmp_path)
    records, rejected = read(path, "table" if format in ("csv", "tsv", "jsonl", "json") else "")
    assert [(r.reason, r.line) for r in rejected] == [(reason, 3 if format in ("csv", "tsv") else 2)]
    assert rejected[0].detail.startswith(detail)
    assert len(rejected[0].text) <= 200 + 3
    assert len(records) == 4 and reason in RECORD_REASONS


BAD_IMAGES = {
    "unsafe_path": ["../secret/owl.jpg", "a/../../owl.jpg", "a\\..\\owl.jpg", "/etc/owl.jpg", "C:\\owl.jpg",
                    "~/owl.jpg", "file:///owl.jpg", "https://host/../owl.jpg", "c:owl.jpg", "barn\\owl.jpg"],
    "no_image": ["", ".jpg", "folder/", None, 1.5, True],
    "too_long": ["a" * 1001],
    "control_characters": ["owl\x01.jpg", "owl\nhen.jpg", "owl\then.jpg", "owl\u2028hen.jpg",
                           "snow\u00adowl.jpg", "snow\u200bowl.jpg", "owl\u202ehen.jpg", "owl\ufeff.jpg",
                           "owl\ue000.jpg"],
    "not_utf8": ["owl\udcff.jpg"],
}  # fmt: skip
IMAGE_IDS = {
    "a/b/owl.jpg": "owl", "owl.JPEG": "owl", "v1.2": "v1.2", "owl.jpg.1": "owl.jpg.1", "c\\owl.png": "owl",
    "000000000009.jpg": "000000000009", "17": "17", "jpg": "jpg",
}  # fmt: skip
SPLITS = {
    "captions_train2017.json": "train", "captions_val2014.json.gz": "val", "train.csv": "train", "my-test.tsv": "test",
    "a_dev.jsonl": "dev", "training.csv": "", "values.csv": "", "barn.csv": "",
}  # fmt: skip
UNTOUCHED = ("MiXeD Case , spaced .", '"quoted" & more', "family 👨\u200d👩\u200d👧 emoji")
TEXTS = {
    "  Two \t owls\u00a0 stare . ": "Two owls stare .", "A hen\nand an egg\r\n": "A hen and an egg",
    "cafe\u0301": "café", **dict(zip(UNTOUCHED, UNTOUCHED, strict=True)),
}  # fmt: skip


@pytest.mark.parametrize("reason", BAD_IMAGES)
def test_bad_images(reason):
    for image in BAD_IMAGES[reason]:
        rejected = clean(Record("a.csv", 12, image, HEN))
        assert isinstance(rejected, Rejected), image
        assert (rejected[:3], rejected.text) == (("a.csv", 12, reason), HEN)


def test_what_names_texts_and_images_become():
    assert {image: image_id(image) for image in IMAGE_IDS} == IMAGE_IDS
    assert {name: split_in(f"s3://train/val/{name}") for name in SPLITS} == SPLITS
    assert {text: clean(Record("a", 1, "i", text)).text for text in TEXTS} == TEXTS
    spaced = [f"Owl at 9.41{space}PM.png" for space in "\u0020\u00a0\u1680\u2003\u2009\u202f\u205f\u3000"]
    seen = ("鳥\u30001.jpg", "🦉.jpg", "o'wl (2) [b] #3.jpg", "10:41 owl.jpg")
    plain = ("owl.jpg", "a/b.c/owl..jpg", "https://host/owl.jpg", "..owl", "10", "münz.png", "jpg")
    for image in (*plain, *spaced, *seen):
        assert clean(Record("a.csv", 1, image, HEN)).image == image
    for text in ("\u200b", "\u200b\u200d\u2060", "\ufeff", " \u00ad ", "\u3164", "\u2800\ufe0f", "\U000e0041"):
        assert clean(Record("a.csv", 1, "a.jpg", text)).reason == "no_text"
        assert clean(Record("a.csv", 1, "a.jpg", f"{text}owl")).text.endswith("owl")


@given(st.text(max_size=300))
def test_cleaning_is_idempotent_and_total(text):
    cleaned = clean(Record("a", 1, "i", text))
    if isinstance(cleaned, Record):
        assert clean(cleaned) == cleaned
        assert 0 < len(cleaned.text.encode("utf-8")) and len(cleaned.text) <= MAX_TEXT
        assert "  " not in cleaned.text
    else:
        assert cleaned.reason in RECORD_REASONS
        assert cleaned.text.encode("utf-8") is not None


SOURCES = {  # the name of a file, its content: why its format is not known
    ("notes.text", "Just some lines\nof text\n"): "has none of the known forms",
    ("untitled.txt", f"owl.jpg\t{OWL}\n"): "looks like a table without a header .* --format table",
    ("untitled.txt", f"barn/owl.JPG,{OWL}\n"): "looks like a table without a header",
    ("train_images.txt", "owl.jpg\nhen.jpg\n"): "looks like .* a list of images",
    (
        "train.txt",
        f"VID1 0.0 6.9##{OWL}\nVID2 1.0 3.2##{HEN}\n",
    ): "each line has ##, so it looks like a table; with tabs",
    ("blank.txt", "\n \n"): "is empty",
    ("empty.csv", ""): "is empty",
    ("words.npz", b"PK\x03\x04-\x00\x00\x00\x08\x00\x00\x00!\x00,,\n"): "is binary",
    ("photo.jpg", b"\xff\xd8\xff\xe0\0\x10JFIF"): "is binary",
    (
        "utf16.csv",
        ("image,caption\n" + f"owl.jpg,{OWL}\n" * 9).encode("utf-16-le"),
    ): "looks like UTF-16 without a .* iconv",
    ("cut.json", json.dumps(COCO)[:70]): "must be complete JSON, cannot be read",
    ("notgzip.json.gz", "{}"): "must be a caption file, cannot be read: Not a gzipped file",
}


def test_unknown_formats_and_missing_sources_are_one_line(tmp_path):
    for (name, content), expected in SOURCES.items():
        path = put(tmp_path, {name: content})
        with pytest.raises(ValueError, match=expected) as error:
            readers.detect(path)
        assert str(error.value).startswith(path)
        assert "\n" not in str(error.value)
    with pytest.raises(FileNotFoundError, match=r"nothing\.json: no such file or folder"):
        readers.detect(f"{tmp_path}/nothing.json")
    with pytest.raises(FileNotFoundError, match=r"nothing\.json: no such file, expected complete COCO annotation JSON"):
        read(f"{tmp_path}/nothing.json", "coco")
    with pytest.raises(ValueError, match="nowhere://a.csv: cannot be opened: Protocol not known: nowhere"):
        readers.detect("nowhere://a.csv")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "holds.doc").touch()
    with pytest.raises(ValueError, match=r"must be a Multi30K folder, .*; holds holds\.doc"):
        readers.detect(f"{tmp_path}/folder")
    with pytest.raises(ValueError, match="format must be one of coco, karpathy, .*, was: hats"):
        readers.reader_of("hats")


CUT = [
    *((name, "", share) for name in ("captions_val2017.json", "dataset_barn.json", "list.json", "barn.parquet")
      for share in (0.5, 0.95)),
    *((name, packed, 0.9) for name in ("captions_val2017.json", "barn.token", "dev_caps.txt", "barn.csv", "barn.tsv")
      for packed in (".gz", ".xz", ".bz2")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "compression", "share"), CUT)
def test_a_file_cut_short_is_an_error(name, compression, share, tmp_path):
    content, format, _ = FILES[name]
    packed = COMPRESS[compression](content.encode() if isinstance(content, str) else content)
    path = put(tmp_path, {name + compression: packed[: int(len(packed) * share)]})
    with pytest.raises(ValueError, match="must be .*, cannot be read") as error:
        read(path, format)
    assert str(error.value).startswith(path) and "\n" not in str(error.value)


GOOD = '{"image": "1.jpg", "caption": "A hen"}'
KARPATHY_ITEM = (SENTENCE % {b"n": 1, b"json": b'"A hen"'}).decode()


@pytest.mark.parametrize(
    ("format", "content", "lines"),
    [
        ("flickr", f"owl.jpg#0\t{OWL}\n\nno tab\nowl.jpg\t{OWL}\nowl.jpg#x\t{OWL}\nowl.jpg#12345\t{OWL}", [3, 4, 5, 6]),
        ("table", f"image,caption\n1.jpg,{OWL}\n2.jpg\n\n3.jpg,one,two\n", [3, 5]),
        ("table", f'{GOOD}\n{{"image": \n[1]\nnull\n', [2, 3, 4]),
        ("table", f"[{GOOD}, 17]", [2]),
        ("coco", '{"annotations": [{"image_id": 1, "caption": "A hen"}, null, [1]]}', [2, 3]),
        ("karpathy", f'{{"images": [{KARPATHY_ITEM}, 3, {{"sentences": []}}]}}', [2, 3]),
    ],
)
def test_what_is_no_record_is_rejected_by_line(format, content, lines, tmp_path):
    records, rejected = read(put(tmp_path, {"a.txt": content}), format)
    assert len(records) == 1
    assert [bad.line for bad in rejected] == lines
    assert {bad.reason for bad in rejected} == {"not_a_record"}


def test_a_folder_of_links_is_read_as_what_they_lead_to(tmp_path: Path) -> None:
    away, folder = tmp_path / "far" / "away", tmp_path / "data"
    for made in (away, folder):
        made.mkdir(parents=True)
    for name in ("train.csv", "val.csv"):
        (away / name).write_text(delimited(","))
        (folder / name).symlink_to(away / name)
    (folder / "test.csv").symlink_to(tmp_path / "nowhere.csv")
    (tmp_path / "link").symlink_to(folder, target_is_directory=True)
    for source in (folder, tmp_path / "link"):
        records, _ = read(str(source))
        assert [record.source for record in records] == ["train.csv"] * 2 + ["val.csv"] * 2
        assert short(records) == ROWS_READ * 2


FOLDERS = {  # files of a folder: images and captions that are read, and reasons
    "pairs": ({"a/1.jpg": "", "a/1.txt": OWL, "2.PNG": "", "2.caption": HEN}, [("2.PNG", HEN), ("a/1.jpg", OWL)], []),
    "a caption a line": ({"1.jpg": "", "1.txt": f"{OWL}\n{HEN}\n"}, [("1.jpg", OWL), ("1.jpg", HEN)], []),
    "images apart": ({"images/1.jpg": "", "texts/1.txt": OWL}, [("images/1.jpg", OWL)], []),
    "a text without image": (
        {"1.jpg": "", "1.txt": OWL, "README.txt": "Read me first."}, [("1.jpg", OWL)], ["no_image"]),
    "an empty text": ({"1.jpg": "", "1.txt": "\n", "2.jpg": "", "2.txt": OWL}, [("2.jpg", OWL)], ["no_text"]),
    "texts alone": ({"a/x_1.txt": OWL, "b/x_2.txt": HEN, "README.txt": "Hello."}, [("a/x_1", OWL), ("b/x_2", HEN)], []),
    "splits": ({"train/1.jpg": "", "train/1.txt": OWL}, [("train/1.jpg", OWL)], []),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_of_images_with_texts(name, tmp_path):
    files, expected, reasons = FOLDERS[name]
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    put(tmp_path, files)
    assert readers.detect(str(tmp_path)) == "folder"
    records, rejected = read(str(tmp_path))
    assert [(record.image, record.text) for record in records] == expected
    assert [bad.reason for bad in rejected] == reasons
    assert {record.split for record in records} == ({"train"} if name == "splits" else {""})


@pytest.mark.parametrize(
    "files", [{"a.txt": OWL, "b.txt": HEN}, {"train/captions.txt": OWL, "val/captions.txt": HEN}, {"1.jpg": ""}]
)
def test_a_folder_that_may_be_something_else_is_refused(files, tmp_path):
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
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
    "phrases": (
        "[/EN#1/animals Two owls] stare\n[/EN#2/animals A hen] sits",
        [("1", "Two owls stare"), ("2", "A hen sits")],
    ),
    "one line": (f"vid_1_5 {OWL}", [("1", f"vid_1_5 {OWL}")]),
    "ids in some": (f"vid_1_5 {OWL}\n{HEN}", [("1", f"vid_1_5 {OWL}"), ("2", HEN)]),
}


@pytest.mark.parametrize("name", IDS)
def test_ids_in_front_of_captions(name, tmp_path):
    text, expected = IDS[name]
    records, rejected = read(put(tmp_path, {"captions.txt": text}))
    assert [(record.image, record.text) for record in records] == expected and not rejected


def test_a_line_without_an_id_among_lines_with_ids_is_rejected(tmp_path):
    lines = [f"vid_{number}_5 {OWL}" for number in range(40)]
    records, rejected = read(put(tmp_path, {"captions.txt": "\n".join([*lines, HEN])}))
    assert len(records) == 40
    assert [(bad.line, bad.reason, bad.text) for bad in rejected] == [(41, "not_a_record", HEN)]


def test_coco_annotations_of_unknown_images_are_rejected(tmp_path):
    strange = {"id": 9, "image_id": 1234, "caption": HEN}
    content = {**COCO, "annotations": [*COCO["annotations"], strange]}
    records, rejected = read(put(tmp_path, {"a.json": json.dumps(content)}))
    assert len(records) == 3
    detail = "image_id must be the id of one of the images, was: 1234"
    assert [(bad.line, bad.reason, bad.detail) for bad in rejected] == [(4, "no_image", detail)]
    texts = {**content, "images": [{**image, "id": str(image["id"])} for image in COCO["images"]]}
    assert short(read(put(tmp_path, {"b.json": json.dumps(texts)}))[0]) == short(records)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_captions_of_several_columns(name, tmp_path):
    rows = [{"image": "1.jpg", "c 1": OWL, "c 2": HEN, "c 3": ""}, {"image": "2.jpg", "c 1": "", "c 2": "", "c 3": ""}]
    path = put(tmp_path, {name: as_table(name, rows)})
    records, rejected = read(path, caption_column=("c 1", "c_2", "c 3"))
    assert short(records) == [("1.jpg", "", OWL), ("1.jpg", "", HEN)]
    assert [bad.reason for bad in rejected] == ["no_text"]


def test_the_end_of_a_url_is_no_folder(tmp_path):
    path = put(tmp_path, {"a.csv": f"url,caption\nhttps://x.org/1/,{OWL}\nhttps://x.org/2/,{HEN}\n"})
    assert [(record.image, record.id) for record in read(path)[0]] == [
        ("https://x.org/1/", "1"),
        ("https://x.org/2/", "2"),
    ]


def test_an_archive_must_hold_one_file(tmp_path):
    for name, members, holds in (
        ("barn.csv.zip", ["folder/owl.csv", "folder/hen.csv"], r"2: folder/owl\.csv, folder/hen\.csv"),
        ("empty.csv.zip", [], "0$"),
    ):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.mkdir("folder")  # it is no file
            for member in members:
                archive.writestr(member, f"image,caption\nowl.jpg,{OWL}\n")
        with pytest.raises(ValueError, match=rf"{name}: must hold one file, holds {holds}"):
            read(f"{tmp_path}/{name}")
    assert len(read(f"zip://folder::{tmp_path}/barn.csv.zip")[0]) == 2


@pytest.mark.parametrize("name", ["said.csv", "said.tsv", "said.jsonl", "said.json", "said.parquet"])
def test_a_column_may_have_the_language_of_each_caption(name: str, tmp_path: Path) -> None:
    rows = [("a.jpg", HEN, "en"), ("a.jpg", "Eine Henne.", "de-AT"), ("b.jpg", OWL, ""), ("b.jpg", OWL, "Klingon")]
    names = ("image", "caption", "tongue")
    path = put(tmp_path, {name: as_table(name, [dict(zip(names, row, strict=True)) for row in rows])})
    records, rejected = read(path, language_column="tongue")
    assert [(record.image, record.language) for record in records] == [("a.jpg", "en"), ("a.jpg", "de")]
    assert {bad.reason for bad in rejected} == {"no_language"} and "no_language" in RECORD_REASONS
    assert rejected[1].detail == "language must be an ISO 639 code such as en, was: 'Klingon'"
    assert {record.language for record in read(path, language="fr")[0]} == {"fr"}
    with pytest.raises(ValueError, match="language column must be one of the columns found, was: lang; found: image"):
        read(path, language_column="lang")


def test_a_table_put_together_of_several_and_columns_of_one_name(tmp_path):
    rows = f"image,caption\n1.jpg,{OWL}\n"
    records, rejected = read(put(tmp_path, {"a.csv": rows + rows.replace("1.jpg", "2.jpg")}))
    assert short(records) == [("1.jpg", "", OWL), ("2.jpg", "", OWL)]
    assert [(bad.line, bad.detail) for bad in rejected] == [(3, "a record must not be the names of the columns again")]
    records, _ = read(put(tmp_path, {"b.csv": f"image,caption,caption\n1.jpg,{OWL},{HEN}\n"}))
    assert short(records) == [("1.jpg", "", OWL), ("1.jpg", "", HEN)]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_line_ends_and_encodings(end, encoding, tmp_path):
    for name, text in (("a.csv", delimited(",")), ("b.tsv", delimited("\t")), ("c.jsonl", as_table("c.jsonl", ROWS))):
        path = put(tmp_path, {name: text.replace("\n", end).encode(encoding)})
        assert readers.detect(path) == "table" and short(read(path)[0]) == ROWS_READ
