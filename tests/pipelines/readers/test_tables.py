"""Tables of every kind: columns and their names, cells with several captions, columns of truth."""

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from negcap.pipelines.api.captions import captions_as_arrow_table, captions_table
from negcap.pipelines.ingestion.grouping import IngestConfig
from negcap.pipelines.readers import pairs
from negcap.pipelines.readers.pairs import CaptionWithNegatives, read_pairs
from negcap.pipelines.readers.truth import LOOKED_AT
from tests.pipelines.readers.sources import TABLES, put, read
from tests.pipelines.readers.test_variants import BALL, DOG, LISTS

HEN, OWL, COW = "A speckled hen guards three eggs.", "Two owls stare at a lantern .", "The cow is in the barn."
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
    first = 2 if name in ("a.csv", "a.tsv") else 1  # lines, of which the first is the header, or rows
    path = put(tmp_path, {name: [{"caption": OWL, "split": "test"}, {"caption": HEN, "split": "val"}]})
    assert read(path).captions == [(str(first), OWL), (str(first + 1), HEN)]


@each_kind
def test_captions_of_several_columns(name: str, tmp_path: Path) -> None:
    rows = [{"image": "1.jpg", "c 1": OWL, "c 2": HEN, "c 3": ""}, {"image": "2.jpg", "c 1": "", "c 2": "", "c 3": ""}]
    result = read(put(tmp_path, {name: rows}), columns="caption=c 1,caption=c_2,caption=c 3")
    assert result.captions == [("1.jpg", OWL), ("1.jpg", HEN)]
    assert [bad.reason for bad in result.rejected] == ["no_text"]


@each_kind
def test_a_column_may_have_the_language_of_each_caption(name: str, tmp_path: Path) -> None:
    rows = [("a.jpg", HEN, "en"), ("a.jpg", "Eine Henne.", "de-AT"), ("b.jpg", OWL, ""), ("b.jpg", OWL, "Klingon")]
    names = ("image", "caption", "tongue")
    path = put(tmp_path, {name: [dict(zip(names, row, strict=True)) for row in rows]})
    result = read(path, columns="language=tongue")
    assert [(record.image, record.language) for record in result.records] == [("a.jpg", "en"), ("a.jpg", "de")]
    assert {bad.reason for bad in result.rejected} == {"no_language"}
    assert result.rejected[1].detail.endswith("was: 'Klingon'")
    assert {record.language for record in read(path, language="fr").records} == {"fr"}


def test_a_quote_that_never_ends_costs_one_record(tmp_path: Path) -> None:
    rows = [f"{number}.jpg,{HEN}" for number in range(6000)]
    rows[3] = '3.jpg,"A quote that never ends'
    result = read(put(tmp_path, {"open.csv": "image,caption\n" + "\n".join(rows)}))
    assert result.reasons == [(5, "not_a_record")]
    assert [record.image for record in result.records] == [f"{number}.jpg" for number in range(6000) if number != 3]


def test_what_of_parquet_is_not_read_may_be_as_it_is(tmp_path: Path) -> None:
    columns = [["1.jpg", "2.jpg"], [OWL, HEN], [b"1", b"2"], [1, 2], [1, 2]]
    path = put(tmp_path, {"a.parquet": pa.Table.from_arrays(list(map(pa.array, columns)), [*"ix", "text", "a", "a"])})
    assert len(read(path, columns="image=i,caption=x").records) == 2
    with pytest.raises(ValueError, match=r"a\.parquet: must have one column a, has 2"):
        list(pairs.read_pairs(path))


def test_parquet_dictionaries_numbers_and_nulls(tmp_path: Path) -> None:
    table = pa.table({
        "image_id": pa.array([5, 6, None]),
        "caption": pa.array([OWL, None, HEN]).dictionary_encode(),
        "split": pa.array(["train", None, "val"], pa.large_string()),
    })  # fmt: skip
    result = read(put(tmp_path, {"a.parquet": table}))
    assert result.captions == [("5", OWL)] and result.reasons == [(2, "no_text"), (3, "no_image")]


def test_embedded_images_are_read_by_their_paths_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = [{"bytes": b"x" * 1000, "path": "owl.jpg"}, {"bytes": b"x", "path": None}, None]
    rows = [{"image": image, "meta": {"size": 3}, "text": OWL} for image in images]
    put(tmp_path, {"train-0.parquet": rows, "test-1.parquet": rows[:2]})
    asked, iterate = [], pq.ParquetFile.iter_batches
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", lambda *a, **k: asked.append(k["columns"]) or iterate(*a, **k))
    for columns in ("", "image=image"):
        result = read(tmp_path / "train-0.parquet", columns=columns)
        assert result.captions == [("owl.jpg", OWL), ("2", OWL)] and result.reasons == [(3, "no_image")]
    assert asked == [["image.path", "text"]] * 2  # the pictures are not read
    assert [record.image for record in read(tmp_path).records] == ["owl.jpg", "test-1-2", "owl.jpg", "train-0-2"]
    with pytest.raises(ValueError, match="found: meta.size, text, image$"):
        read(tmp_path / "train-0.parquet", columns="image=photo")
    bare = [{"image": {"bytes": b"x"}, "text": text} for text in (OWL, HEN)]
    assert read(put(tmp_path, {"bare.parquet": bare})).captions == [("1", OWL), ("2", HEN)]


def test_columns_inside_are_named_by_path(tmp_path: Path) -> None:
    rows = [{"nr": 1, "remarks": [{"said": DOG, "by": "en"}, {"said": BALL, "by": "en"}]},
            {"nr": 2, "remarks": [{"said": HEN, "by": "en"}]}]  # fmt: skip
    put(tmp_path, {"a.jsonl": rows, "a.json": {"all": rows}, "a.parquet": rows})
    for name, inside in (("a.jsonl", ""), ("a.json", ""), ("a.parquet", ""), ("a.json", "all.")):
        columns = f"image={inside}nr,caption={inside}remarks.said,language={inside}remarks.by"
        assert read(tmp_path / name, columns=columns).captions == [("1", DOG), ("1", BALL), ("2", HEN)]


@each_kind
@pytest.mark.parametrize("way", ["JSON", "Python", "numpy"])
def test_a_list_in_a_cell_becomes_captions_of_its_image(name: str, way: str, tmp_path: Path) -> None:
    cells = {"1.jpg": LISTS[way], "2.jpg": "[blurred] A man walks.", "3.jpg": "[]", "4.jpg": "['A cow.', None]"}
    rows = [{"raw": cell, "sentids": "[0, 1]", "split": "train", "filename": image} for image, cell in cells.items()]
    result = read(put(tmp_path, {name: rows}))
    expected = [("1.jpg", DOG), ("1.jpg", BALL), ("2.jpg", "[blurred] A man walks."), ("4.jpg", "A cow.")]
    assert result.captions == expected
    details = ["caption must be text, was: []", "caption must be text, is missing"]
    assert [bad.detail for bad in result.rejected] == details


@each_kind
def test_import_reads_such_cells_alike(name: str, tmp_path: Path) -> None:
    row = {"filepath": "1.jpg", "title": LISTS["Python"], "neg_caption": "['A cat sleeps.' 'A cow sleeps.']"}
    rows = [row, {**row, "title": "[blurred] A man."}, {**row, "title": "[]"}]
    first, second, third = read_pairs(put(tmp_path, {name: rows}))
    assert isinstance(first, CaptionWithNegatives) and isinstance(second, CaptionWithNegatives)
    assert first.captions == (DOG, BALL)  # that of the negatives comes first
    assert [negative.text for negative in first.negatives] == ["A cat sleeps.", "A cow sleeps."]
    assert second.captions == ("[blurred] A man.",)
    assert third.detail == "caption must be text, was: []"


# columns of truth


def rows_with(**columns: list[Any]) -> list[dict[str, Any]]:
    """Rows of three captions, with the values of these columns."""
    rows = [{"image": f"{number}.jpg", "caption": text} for number, text in enumerate([DOG, HEN, COW], 1)]
    return [{**row, **{name: values[i] for name, values in columns.items()}} for i, row in enumerate(rows)]


def texts_of(source: str | Path, **options: Any) -> list[str]:
    """The captions that are kept; the others are all said to be false."""
    result = read(source, **options)
    assert {bad.reason for bad in result.rejected} <= {"false_caption"}
    return [record.text for record in result.records]


ALL = [DOG, HEN, COW]
CERTAIN = [  # columns, the captions that are kept, what is said of the others
    ({"is_true": [1, 0, 1]}, [DOG, COW], ["is_true was: 0"]),
    ({"Is True": [True, False, False]}, [DOG], ["Is True was: False", "Is True was: False"]),
    ({"correct": ["yes", "no", "Yes "]}, [DOG, COW], ["correct was: no"]),
    ({"is_correct": [1.0, 0.0, 1.0]}, [DOG, COW], ["is_correct was: 0.0"]),
    ({"is_rejected": [True, False, False], "is_precanned": [False, False, True]}, [HEN],
     ["is_rejected was: True", "is_precanned was: True"]),
    ({"is_true": [1, 0, 1], "label": [0, 1, 1]}, [DOG, COW], ["is_true was: 0"]),  # nothing to ask
    # columns that say something else
    *(({name: values}, ALL, []) for name, values in (
        ("label", [0, 1, 2]), ("label", ["dog", "cat", "cow"]), ("target", [0.5, 1.0, 0.0]),
        ("correct", ["A", "B", "D"]), ("is_true", ["surely", "maybe", "hardly"]), ("label", [None, None, None]),
        ("truth_value", [0, 1, 0]))),
]  # fmt: skip


@each_kind
def test_what_is_certainly_false_is_left_out_and_said(name: str, tmp_path: Path) -> None:
    for columns, kept, details in CERTAIN:
        path = put(tmp_path, {name: rows_with(**columns)})
        assert texts_of(path) == kept
        expected = [f"caption must be true of its image, {detail}" for detail in details]
        assert [bad.detail for bad in read(path).rejected] == expected
        assert texts_of(path, columns="truth=none") == ALL


@each_kind
@pytest.mark.parametrize("column", ["label", "Truth"])
@pytest.mark.parametrize("values", [[1, 0, 1], ["true", "false", "true"], [True, False, True]], ids=str)
def test_what_may_be_a_class_is_asked(values: list[Any], column: str, name: str, tmp_path: Path) -> None:
    path = put(tmp_path, {name: rows_with(**{column: values})})
    with pytest.raises(ValueError, match=rf"{name}: the column {column}, of .* --columns truth={column} takes only .*"):
        read(path)
    assert texts_of(path, columns=f"truth={column}") == [DOG, COW]
    assert texts_of(path, columns="truth=none") == ALL


def test_values_of_truth_that_are_not_clear_after_the_first_are_rejected(tmp_path: Path) -> None:
    clear = [{"image": f"{n}.jpg", "caption": DOG, "is_true": "1", "is_rejected": ""} for n in range(LOOKED_AT)]
    unclear = [{**clear[0], "is_true": value} for value in ("", "maybe")]
    result = read(put(tmp_path, {"a.csv": clear + unclear}))
    assert len(result.records) == LOOKED_AT  # what is not marked as rejected is not
    expected = [("no_truth", ", is missing"), ("no_truth", "was: 'maybe'")]
    assert [(bad.reason, bad.detail[-12:]) for bad in result.rejected] == expected


def test_tables_in_memory_are_asked_by_argument() -> None:
    frame = pd.DataFrame(rows_with(label=[1, 0, 1]))
    label, none = (IngestConfig.of({"truth_column": column}) for column in ("label", "none"))
    with pytest.warns(UserWarning, match="captions left out: false_caption 1; the first is that at position 1"):
        assert captions_table(captions_as_arrow_table(frame, label), label).captions["text"].to_pylist() == [DOG, COW]
    assert captions_table(captions_as_arrow_table(frame, none), none).captions.num_rows == 3
    offered = re.escape("truth_column='label' takes only the true captions, truth_column='none'")
    with pytest.raises(ValueError, match=offered):
        captions_table(captions_as_arrow_table(frame, IngestConfig.of({})), IngestConfig.of({}))
