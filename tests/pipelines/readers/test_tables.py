"""Tables of every kind: columns and their names, cells with several captions, columns of truth."""

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from negcap.pipelines import readers
from negcap.pipelines.api.captions import captions_as_arrow_table, captions_table
from negcap.pipelines.ingestion.grouping import IngestConfig
from negcap.pipelines.readers import ReadOptions, pairs
from negcap.pipelines.readers.cells import captions_in, items_of
from negcap.pipelines.readers.pairs import CaptionWithNegatives, read_pairs
from negcap.pipelines.readers.record import MAX_CAPTIONS, MAX_TEXT
from negcap.pipelines.readers.truth import LOOKED_AT
from tests.pipelines.readers.sources import TABLES, captions_of, put, read

HEN, OWL, COW = "A speckled hen guards three eggs.", "Two owls stare at a lantern .", "The cow is in the barn."
DOG, BALL = "A dog sleeps.", "A dog's ball."
each_kind = pytest.mark.parametrize("name", TABLES)


@each_kind
def test_columns_of_other_names(name: str, tmp_path: Path) -> None:
    path = put(tmp_path, {name: [{"what": "x", "photo file": "owl.jpg", "said": OWL, "part": "test"}]})
    for message, columns in {
        r"no image column found \(columns: what, photo file, said, part\); name it: --columns image=NAME,c": "",
        "no caption column found": "image=photo file",
        "split column must be one of the columns found, was: fold": "image=photo file,caption=said,split=fold",
    }.items():  # fmt: skip
        with pytest.raises(ValueError, match=message):
            read(path, columns=columns)
    (record,) = read(path, columns="image=photo file,caption=said,split=part").records
    assert (record.image, record.text, record.split) == ("owl.jpg", OWL, "test")


@each_kind
def test_a_table_of_captions_alone_has_an_image_for_each_row(name: str, tmp_path: Path) -> None:
    first = ("2", "3") if name in ("a.csv", "a.tsv") else ("1", "2")  # lines, or rows
    path = put(tmp_path, {name: [{"caption": OWL, "split": "test"}, {"caption": HEN, "split": "val"}]})
    assert captions_of(path) == [*zip(first, (OWL, HEN), strict=True)]


@each_kind
def test_captions_of_several_columns(name: str, tmp_path: Path) -> None:
    rows = [{"image": "1.jpg", "c 1": OWL, "c 2": HEN, "c 3": ""}, {"image": "2.jpg", "c 1": "", "c 2": "", "c 3": ""}]
    found = read(put(tmp_path, {name: rows}), columns="caption=c 1,caption=c_2,caption=c 3")
    assert found.captions == [("1.jpg", OWL), ("1.jpg", HEN)]
    assert [bad.reason for bad in found.rejected] == ["no_text"]


@each_kind
def test_a_column_may_have_the_language_of_each_caption(name: str, tmp_path: Path) -> None:
    rows = [("a.jpg", HEN, "en"), ("a.jpg", "Eine Henne.", "de-AT"), ("b.jpg", OWL, ""), ("b.jpg", OWL, "Klingon")]
    names = ("image", "caption", "tongue")
    path = put(tmp_path, {name: [dict(zip(names, row, strict=True)) for row in rows]})
    found = read(path, columns="language=tongue")
    assert [(record.image, record.language) for record in found.records] == [("a.jpg", "en"), ("a.jpg", "de")]
    assert {bad.reason for bad in found.rejected} == {"no_language"}
    assert found.rejected[1].detail.endswith("was: 'Klingon'")
    assert {record.language for record in read(path, language="fr").records} == {"fr"}


TEXTS = {  # a table as text, the columns that are named; what is read
    "numbers": (f"owl.jpg\t{OWL}\nhen.jpg\t{HEN}\n", "image=1,caption=2", [("owl.jpg", OWL), ("hen.jpg", HEN)]),
    "columns of one name": (f"image,caption,caption\n1.jpg,{OWL},{HEN}\n", "", [("1.jpg", OWL), ("1.jpg", HEN)]),
    "semicolons": ("image;caption;split\n1.jpg;A dog; a cat;val\n", "", [("1.jpg", "A dog; a cat")]),
    "commas": ("image,caption,split\n1.jpg,A dog, a cat,val\n", "", [("1.jpg", "A dog, a cat")]),
    "commas at the end": ("split,image,caption\nval,1.jpg,A dog, a cat\n", "", [("1.jpg", "A dog, a cat")]),
    "pipes": ("image| nr| comment\n1.jpg| 0| A dog , a cat\n", "", [("1.jpg", "A dog , a cat")]),
    "truth is another column": (f"true\tcaption\n1.jpg\t{DOG}\n", "image=true", [("1.jpg", DOG)]),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_a_table_as_people_write_it(name: str, tmp_path: Path) -> None:
    text, columns, expected = TEXTS[name]
    assert captions_of(put(tmp_path, {"a.csv": text}), "table", columns) == expected


def test_rows_that_are_none_cost_one_record_each(tmp_path: Path) -> None:
    rows = [f"{number}.jpg,{HEN}" for number in range(6000)]
    rows[3] = '3.jpg,"A quote that never ends'
    found = read(put(tmp_path, {"open.csv": "image,caption\n" + "\n".join(rows)}))
    assert found.reasons == [(5, "not_a_record")]
    assert [record.image for record in found.records] == [f"{number}.jpg" for number in range(6000) if number != 3]
    again = f"image,caption\n1.jpg,{OWL}\n"  # files were put together
    assert read(put(tmp_path, {"a.csv": again * 2})).reasons == [(3, "not_a_record")]


def test_the_end_of_a_url_is_no_folder(tmp_path: Path) -> None:
    path = put(tmp_path, {"a.csv": f"url,caption\nhttps://x.org/1/,{OWL}\nhttps://x.org/2/,{HEN}\n"})
    assert [(record.image, record.id) for record in read(path).records] == [
        ("https://x.org/1/", "1"), ("https://x.org/2/", "2"),
    ]  # fmt: skip


def test_parquet_columns_that_cannot_be_told_or_read(tmp_path: Path) -> None:
    texts, images = pa.array([OWL, HEN]), pa.array(["a.jpg", "b.jpg"])
    binary = pa.array([b"1", b"2"])
    path = f"{tmp_path}/a.parquet"
    for columns, options, message in (
        (
            [("image", images), ("caption", texts), ("caption", texts)],
            {},
            "must have one column caption, has 2: rename",
        ),
        ([("image", images), ("image", images), ("caption", texts)], {}, "must have one column image, has 2"),
        ([("image", images), ("caption", binary)], {}, "the caption column caption is binary, must be text"),
        ([("image", images), ("said", binary)], {"columns": "caption=said"}, "column said is binary"),
        ([("image", images), ("caption", texts), *[("a", texts)] * 2], {"keep_columns": ("a",)}, "one column a, has 2"),
    ):
        put(
            tmp_path,
            {"a.parquet": pa.Table.from_arrays([array for _, array in columns], [name for name, _ in columns])},
        )
        with pytest.raises(ValueError, match=message) as error:
            read(path, **options)
        assert str(error.value).startswith(path) and "\n" not in str(error.value)
    # Those that are not read may be as they are.
    put(tmp_path, {"a.parquet": pa.Table.from_arrays([images, texts, binary, texts, texts], [*"ix", "text", "a", "a"])})
    assert len(read(path, columns="image=i,caption=x").records) == 2
    with pytest.raises(ValueError, match=r"a\.parquet: must have one column a, has 2"):
        list(pairs.read_pairs(path))


def test_parquet_dictionaries_numbers_and_nulls(tmp_path: Path) -> None:
    table = pa.table({
        "image_id": pa.array([5, 6, None]),
        "caption": pa.array([OWL, None, HEN]).dictionary_encode(),
        "split": pa.array(["train", None, "val"], pa.large_string()),
    })  # fmt: skip
    found = read(put(tmp_path, {"a.parquet": table}))
    assert found.captions == [("5", OWL)] and found.reasons == [(2, "no_text"), (3, "no_image")]


def test_embedded_images_are_read_by_their_paths_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = [{"bytes": b"x" * 1000, "path": "owl.jpg"}, {"bytes": b"x", "path": None}, None]
    rows = [{"image": image, "meta": {"size": 3}, "text": OWL} for image in images]
    put(tmp_path, {"train-0.parquet": rows, "test-1.parquet": rows[:2]})
    asked, iterate = [], pq.ParquetFile.iter_batches
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", lambda *a, **k: asked.append(k["columns"]) or iterate(*a, **k))
    for columns in ("", "image=image"):
        found = read(tmp_path / "train-0.parquet", columns=columns)
        assert found.captions == [("owl.jpg", OWL), ("2", OWL)] and found.reasons == [(3, "no_image")]
    assert asked == [["image.path", "text"]] * 2  # the pictures are not read
    assert [record.image for record in read(tmp_path).records] == ["owl.jpg", "test-1-2", "owl.jpg", "train-0-2"]
    with pytest.raises(ValueError, match="found: meta.size, text, image$"):
        read(tmp_path / "train-0.parquet", columns="image=photo")
    bare = [{"image": {"bytes": b"x"}, "text": text} for text in (OWL, HEN)]
    assert captions_of(put(tmp_path, {"bare.parquet": bare})) == [("1", OWL), ("2", HEN)]


def test_columns_inside_are_named_by_path(tmp_path: Path) -> None:
    rows = [{"nr": 1, "remarks": [{"said": DOG, "by": "en"}, {"said": BALL, "by": "en"}]},
            {"nr": 2, "remarks": [{"said": HEN, "by": "en"}]}]  # fmt: skip
    expected = [("1", DOG), ("1", BALL), ("2", HEN)]
    put(tmp_path, {"a.jsonl": rows, "a.json": {"all": rows}, "a.parquet": rows})
    for name in ("a.jsonl", "a.json", "a.parquet"):
        assert captions_of(tmp_path / name, "", "image=nr,caption=remarks.said,language=remarks.by") == expected
    assert captions_of(tmp_path / "a.json", "", "image=all.nr,caption=all.remarks.said") == expected


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
    json.dumps(["x" * MAX_TEXT] * MAX_CAPTIONS),  # too long
)


def test_the_items_of_a_cell() -> None:
    for written in LISTS.values():
        assert items_of(written) == [DOG, BALL], written
    for text in NO_LISTS:
        assert items_of(text) == [text], text[:40]
    assert len(items_of("[" * 5000 + "]" * 5000)) == 1
    assert items_of([DOG, BALL]) == items_of((DOG, BALL)) == [DOG, BALL]
    assert items_of(None) == [None] and items_of(7) == [7] and items_of("[]") == items_of([]) == []
    assert items_of("['A d\\og.', 'A cat.']") == ["A d\\og.", "A cat."]  # without a warning of Python's
    assert items_of("['A', None, {'caption': 'B'}]") == ["A", None, {"caption": "B"}]


CELLS = {  # a cell, and its captions
    "objects": ([{"raw": DOG, "tokens": ["a"]}, {"raw": BALL}], [DOG, BALL]),
    "an object as text": (json.dumps({"caption": DOG}), [DOG]),
    "an object as Python prints it": (repr({"text": BALL}), [BALL]),
    "objects as text": (json.dumps([{"caption": DOG}, {"caption": BALL}]), [DOG, BALL]),
    "a set phrase in braces": ("{blurred} A man", ["{blurred} A man"]),
    "a conversation": ([{"from": "human", "value": "What?"}, {"from": "gpt", "value": DOG}], [DOG]),
    "a conversation as text": (json.dumps([{"from": "human", "value": "?"}, {"from": "gpt", "value": DOG}]), [DOG]),
    "messages in parts": (
        [{"role": "user", "content": [{"type": "text", "text": "What?"}]},
         {"role": "assistant", "content": [{"type": "text", "text": DOG}]}], [DOG]),
    "numbered lines": (f"1. {DOG}\n2. {BALL}\n", [DOG, BALL]),
    "bullets": (f"- {DOG}\n\n- {BALL}", [DOG, BALL]),
    "lines of one text": (f"{DOG}\n{BALL}", [f"{DOG}\n{BALL}"]),
    "nothing": ([], [[]]),
}  # fmt: skip


@pytest.mark.parametrize("name", CELLS)
def test_captions_in_a_cell(name: str) -> None:
    cell, captions = CELLS[name]
    assert captions_in(cell) == captions


@each_kind
@pytest.mark.parametrize("way", ["JSON", "Python", "numpy"])
def test_a_list_in_a_cell_becomes_captions_of_its_image(name: str, way: str, tmp_path: Path) -> None:
    cells = {"1.jpg": LISTS[way], "2.jpg": "[blurred] A man walks.", "3.jpg": "[]", "4.jpg": "['A cow.', None]"}
    rows = [{"raw": cell, "sentids": "[0, 1]", "split": "train", "filename": image} for image, cell in cells.items()]
    found = read(put(tmp_path, {name: rows}))
    assert found.captions == [("1.jpg", DOG), ("1.jpg", BALL), ("2.jpg", "[blurred] A man walks."), ("4.jpg", "A cow.")]
    assert [bad.detail for bad in found.rejected] == [
        "caption must be text, was: []",
        "caption must be text, is missing",
    ]


@each_kind
def test_import_reads_such_cells_alike(name: str, tmp_path: Path) -> None:
    row = {"filepath": "1.jpg", "title": LISTS["Python"], "neg_caption": "['A cat sleeps.' 'A cow sleeps.']"}
    first, second, third = read_pairs(
        put(tmp_path, {name: [row, {**row, "title": "[blurred] A man."}, {**row, "title": "[]"}]})
    )
    assert isinstance(first, CaptionWithNegatives) and isinstance(second, CaptionWithNegatives)
    assert first.captions == (DOG, BALL)  # that of the negatives comes first
    assert [negative.text for negative in first.negatives] == ["A cat sleeps.", "A cow sleeps."]
    assert second.captions == ("[blurred] A man.",)
    assert third.detail == "caption must be text, was: []"


def rows_with(**columns: list[Any]) -> list[dict[str, Any]]:
    """Rows of three captions, with the values of these columns."""
    rows = [{"image": f"{number}.jpg", "caption": text} for number, text in enumerate([DOG, HEN, COW], 1)]
    return [{**row, **{name: values[at] for name, values in columns.items()}} for at, row in enumerate(rows)]


def texts_of(source: str | Path, **options: Any) -> list[str]:
    """The captions that are kept; of all others it is said that they are false."""
    found = read(source, **options)
    assert {bad.reason for bad in found.rejected} <= {"false_caption"}
    return [record.text for record in found.records]


CERTAIN = [  # columns, the captions that are kept, what is said of the others
    ({"is_true": [1, 0, 1]}, [DOG, COW], ["is_true was: 0"]),
    ({"Is True": [True, False, False]}, [DOG], ["Is True was: False", "Is True was: False"]),
    ({"correct": ["yes", "no", "Yes "]}, [DOG, COW], ["correct was: no"]),
    ({"is_correct": [1.0, 0.0, 1.0]}, [DOG, COW], ["is_correct was: 0.0"]),
    ({"is_rejected": [True, False, False], "is_precanned": [False, False, True]}, [HEN],
     ["is_rejected was: True", "is_precanned was: True"]),
    ({"is_true": [1, 0, 1], "label": [0, 1, 1]}, [DOG, COW], ["is_true was: 0"]),  # nothing to ask
]  # fmt: skip
NO_TRUTH = [  # columns that say something else
    {"label": [0, 1, 2]}, {"label": ["dog", "cat", "cow"]}, {"target": [0.5, 1.0, 0.0]}, {"correct": ["A", "B", "D"]},
    {"is_true": ["surely", "maybe", "hardly"]}, {"label": [None, None, None]}, {"truth_value": [0, 1, 0]},
]  # fmt: skip


@each_kind
@pytest.mark.parametrize(("columns", "kept", "said"), CERTAIN, ids=lambda value: str(value)[:30])
def test_what_is_certainly_false_is_left_out_and_said(columns, kept, said, name: str, tmp_path: Path) -> None:
    path = put(tmp_path, {name: rows_with(**columns)})
    assert texts_of(path) == kept
    assert [bad.detail for bad in read(path).rejected] == [
        f"caption must be true of its image, {detail}" for detail in said
    ]
    assert texts_of(path, columns="truth=none") == [DOG, HEN, COW]


@each_kind
@pytest.mark.parametrize("columns", NO_TRUTH, ids=str)
def test_a_column_with_other_values_or_another_name_is_none_of_truth(columns, name: str, tmp_path: Path) -> None:
    assert texts_of(put(tmp_path, {name: rows_with(**columns)})) == [DOG, HEN, COW]


@each_kind
@pytest.mark.parametrize("column", ["label", "Truth"])
@pytest.mark.parametrize("values", [[1, 0, 1], ["true", "false", "true"], [True, False, True]], ids=str)
def test_what_may_be_a_class_is_asked(values: list[Any], column: str, name: str, tmp_path: Path) -> None:
    path = put(tmp_path, {name: rows_with(**{column: values})})
    with pytest.raises(ValueError, match=rf"{name}: the column {column}, of .* --columns truth={column} takes only .*"):
        read(path)
    assert texts_of(path, columns=f"truth={column}") == [DOG, COW]
    assert texts_of(path, columns="truth=none") == [DOG, HEN, COW]


TRUTH_FAULTS = [  # a file, the columns that are named, the message
    ("a.csv", rows_with(is_true=["true", "maybe", "false"]), "", "must be 0 or 1, .*, was: 'maybe'; --columns truth"),
    ("a.csv", rows_with(correct=[0, "3", 1]), "truth=correct", "must be 0 or 1, .*, was: '3'; --columns truth=none"),
    ("a.csv", rows_with(score=[0.5, 1, 0]), "truth=score", "truth column score must be 0 or 1, .*, was: '0.5'"),
    ("a.csv", rows_with(score=[0.5, 1, 0]), "truth=tru", "truth column must be one of the columns found, was: tru"),
    ("a.json", {"images": [], "annotations": [{"image_id": 1, "caption": DOG}]}, "truth=label", "of the first has"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "rows", "columns", "message"), TRUTH_FAULTS)
def test_a_column_of_truth_must_be_clear(name: str, rows: Any, columns: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        read(put(tmp_path, {name: rows}), columns=columns)


def test_a_format_without_columns_has_no_truth(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="truth_column is for tables, WebDataset tars and COCO .*, the format is line"):
        readers.files_of(put(tmp_path, {"a.txt": DOG}), "lines", ReadOptions.of({"truth_column": "label"}))


def test_other_values_after_the_first_are_rejected(tmp_path: Path) -> None:
    clear = [{"image": f"{n}.jpg", "caption": DOG, "is_true": "1", "is_rejected": ""} for n in range(LOOKED_AT)]
    unclear = [{**clear[0], "is_true": value} for value in ("", "maybe")]
    found = read(put(tmp_path, {"a.csv": clear + unclear}))
    assert len(found.records) == LOOKED_AT  # what is not marked as rejected is not
    assert [(bad.reason, bad.detail[-12:]) for bad in found.rejected] == [
        ("no_truth", ", is missing"), ("no_truth", "was: 'maybe'"),
    ]  # fmt: skip


TRUE_OF = {  # a file, the columns that are named, the captions that are kept
    "numbered columns": ("a.tsv", f"1.jpg\t{DOG}\t1\n2.jpg\t{HEN}\t0\n", "image=1,caption=2,truth=3", [DOG]),
    "captions alone": ("a.csv", f"caption,is_true\n{DOG},1\n{HEN},0\n{COW},1\n", "", [DOG, COW]),
    "captions alone, named": ("a.csv", f"caption,label\n{DOG},1\n{HEN},0\n{COW},1\n", "truth=label", [DOG, COW]),
    "a list for a list": (
        "a.jsonl", [{"image": "1", "captions": [DOG, HEN, COW], "is_rejected": [False, True, False]}], "", [DOG, COW]),
    "one for a list": ("a.jsonl", [{"image": "1", "captions": [DOG, HEN], "is_true": 0}], "", []),
    "samples": ("a.tar", {"0.json": {"caption": DOG, "is_true": 0}, "1.json": {"caption": HEN, "is_true": 1}}, "",
                [HEN]),
    "VizWiz": ("val.json", {"images": [], "annotations": [
        {"image_id": n, "caption": text, "is_rejected": rejected, "is_precanned": precanned}
        for n, (text, rejected, precanned) in enumerate([(DOG, False, False), (HEN, True, True), (COW, True, False)])]},
        "", [DOG]),
    "VizWiz, one mark": ("val.json", {"annotations": [
        {"image_id": 1, "caption": DOG, "is_precanned": False}, {"image_id": 2, "caption": HEN}]}, "", [DOG, HEN]),
}  # fmt: skip


@pytest.mark.parametrize("case", TRUE_OF)
def test_false_captions_are_left_out_of_every_format(case: str, tmp_path: Path) -> None:
    name, value, columns, kept = TRUE_OF[case]
    format = "table" if name == "a.tsv" else readers.detect(put(tmp_path, {name: value}))
    assert texts_of(put(tmp_path, {name: value}), format=format, columns=columns) == kept


def test_tables_in_memory_are_asked_by_argument() -> None:
    frame = pd.DataFrame(rows_with(label=[1, 0, 1]))
    said = IngestConfig.of({"truth_column": "label"})
    with pytest.warns(UserWarning, match="captions left out: false_caption 1; the first is that at position 1"):
        assert captions_table(captions_as_arrow_table(frame, said), said).captions["text"].to_pylist() == [DOG, COW]
    none = IngestConfig.of({"truth_column": "none"})
    assert captions_table(captions_as_arrow_table(frame, none), none).captions.num_rows == 3
    offered = re.escape("truth_column='label' takes only the true captions, truth_column='none'")
    with pytest.raises(ValueError, match=offered):
        captions_table(captions_as_arrow_table(frame, IngestConfig.of({})), IngestConfig.of({}))
