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
from negcap.pipelines.readers.pairs import CaptionWithNegatives, read_pairs
from negcap.pipelines.readers.truth import LOOKED_AT
from tests.pipelines.readers.sources import TABLES, put, read
from tests.pipelines.readers.test_variants import BALL, DOG, LISTS

HEN, OWL, COW = "A speckled hen guards three eggs.", "Two owls stare at a lantern .", "The cow is in the barn."
ALL = [DOG, HEN, COW]
each_kind = pytest.mark.parametrize("name", TABLES)


def table(names: str, *rows: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Rows with these columns, whose names are between commas."""
    return [dict(zip(names.split(","), row, strict=True)) for row in rows]


@each_kind
def test_columns_of_other_names(name: str, tmp_path: Path) -> None:
    path = put(tmp_path, {name: table("what,photo file,said,part", ("x", "owl.jpg", OWL, "test"))})
    (record,) = read(path, columns="image=photo file,caption=said,split=part").records
    assert (record.image, record.text, record.split) == ("owl.jpg", OWL, "test")
    with pytest.raises(ValueError, match=r"no image column found \(columns: what, photo file, said, part\); name it"):
        read(path)
    with pytest.raises(ValueError, match="split column must be one of the columns found, was: fold"):
        read(path, columns="image=photo file,caption=said,split=fold")


@each_kind
def test_a_table_of_captions_alone_has_an_image_for_each_row(name: str, tmp_path: Path) -> None:
    first = 2 if name in ("a.csv", "a.tsv") else 1  # lines, of which the first is the header, or rows
    path = put(tmp_path, {name: table("caption,split", (OWL, "test"), (HEN, "val"))})
    assert read(path).captions == [(str(first), OWL), (str(first + 1), HEN)]


@each_kind
def test_a_column_may_have_the_language_of_each_caption(name: str, tmp_path: Path) -> None:
    rows = [("a.jpg", HEN, "en"), ("a.jpg", "Eine Henne.", "de-AT"), ("b.jpg", OWL, ""), ("b.jpg", OWL, "Klingon")]
    path = put(tmp_path, {name: table("image,caption,tongue", *rows)})
    result = read(path, columns="language=tongue")
    assert [(record.image, record.language) for record in result.records] == [("a.jpg", "en"), ("a.jpg", "de")]
    assert [bad.reason for bad in result.rejected] == ["no_language"] * 2
    assert {record.language for record in read(path, language="fr").records} == {"fr"}


@each_kind
def test_a_row_may_have_several_captions(name: str, tmp_path: Path) -> None:
    cells = [(OWL, HEN), ("", ""), (LISTS["numpy"], ""), ("[]", ""), ("['A cow.', None]", "")]
    rows = table("filename,c 1,c 2", *((f"{number}.jpg", *pair) for number, pair in enumerate(cells)))
    result = read(put(tmp_path, {name: rows}), columns="caption=c 1,caption=c_2")
    assert result.captions == [("0.jpg", OWL), ("0.jpg", HEN), ("2.jpg", DOG), ("2.jpg", BALL), ("4.jpg", "A cow.")]
    assert [bad.reason for bad in result.rejected] == ["no_text"] * 3  # no row is lost


@each_kind
def test_import_reads_such_cells_alike(name: str, tmp_path: Path) -> None:
    negatives = "['A cat sleeps.' 'A cow sleeps.']"
    cells = [LISTS["Python"], "[blurred] A man.", "[]"]
    rows = table("filepath,title,neg_caption", *(("1.jpg", cell, negatives) for cell in cells))
    first, second, third = read_pairs(put(tmp_path, {name: rows}))
    assert isinstance(first, CaptionWithNegatives) and isinstance(second, CaptionWithNegatives)
    assert first.captions == (DOG, BALL)  # that of the negatives comes first
    assert [negative.text for negative in first.negatives] == ["A cat sleeps.", "A cow sleeps."]
    assert second.captions == ("[blurred] A man.",)
    assert third.detail == "caption must be text, was: []"


def test_parquet_dictionaries_numbers_nulls_and_columns_of_one_name(tmp_path: Path) -> None:
    columns = [pa.array([5, 6, None]), pa.array([OWL, None, HEN]).dictionary_encode(), *[pa.array([1, 2, 3])] * 2]
    names = ["image_id", "caption", "twice", "twice"]  # what is not read may be as it is
    result = read(put(tmp_path, {"a.parquet": pa.Table.from_arrays(columns, names)}))
    assert result.captions == [("5", OWL)] and result.reasons == [(2, "no_text"), (3, "no_image")]


def test_embedded_images_are_read_by_their_paths_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = [{"bytes": b"x" * 1000, "path": "owl.jpg"}, {"bytes": b"x", "path": None}, None]
    rows = [{"image": image, "meta": {"size": 3}, "text": OWL} for image in images]
    put(tmp_path, {"train-0.parquet": rows, "test-1.parquet": rows[:2]})
    asked, iterate = [], pq.ParquetFile.iter_batches
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", lambda *a, **k: asked.append(k["columns"]) or iterate(*a, **k))
    result = read(tmp_path / "train-0.parquet")
    assert result.captions == [("owl.jpg", OWL), ("2", OWL)] and result.reasons == [(3, "no_image")]
    assert asked == [["image.path", "text"]]  # the pictures are not read
    assert read(tmp_path / "train-0.parquet", columns="image=image") == result
    assert [record.image for record in read(tmp_path).records] == ["owl.jpg", "test-1-2", "owl.jpg", "train-0-2"]
    bare = [{"image": {"bytes": b"x"}, "text": text} for text in (OWL, HEN)]
    assert read(put(tmp_path, {"bare.parquet": bare})).captions == [("1", OWL), ("2", HEN)]


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.parquet", "inside.json"])
def test_columns_inside_are_named_by_path(name: str, tmp_path: Path) -> None:
    remarks = [[{"said": DOG, "by": "en"}, {"said": BALL, "by": "en"}], [{"said": HEN, "by": "en"}]]
    rows = table("nr,remarks", (1, remarks[0]), (2, remarks[1]))
    path = put(tmp_path, {name: {"all": rows} if name == "inside.json" else rows})
    inside = "all." if name == "inside.json" else ""
    columns = f"image={inside}nr,caption={inside}remarks.said,language={inside}remarks.by"
    assert read(path, columns=columns).captions == [("1", DOG), ("1", BALL), ("2", HEN)]


# columns of truth


def rows_with(**columns: list[Any]) -> list[dict[str, Any]]:
    """Rows of three captions, with the values of these columns."""
    columns = {"image": ["1.jpg", "2.jpg", "3.jpg"], "caption": ALL, **columns}
    return table(",".join(columns), *zip(*columns.values(), strict=True))


def texts_of(source: str | Path, **options: Any) -> list[str]:
    """The captions that are kept; the others are all said to be false."""
    result = read(source, **options)
    assert {bad.reason for bad in result.rejected} <= {"false_caption"}
    return [record.text for record in result.records]


CERTAIN = [  # columns, the captions that are kept, what is said of the others
    ({"is_true": [1, 0, 1]}, [DOG, COW], ["is_true was: 0"]),
    ({"Is True": [True, False, False]}, [DOG], ["Is True was: False", "Is True was: False"]),
    ({"correct": ["yes", "no", "Yes "]}, [DOG, COW], ["correct was: no"]),
    ({"is_rejected": [True, False, False], "is_precanned": [False, False, True]}, [HEN],
     ["is_rejected was: True", "is_precanned was: True"]),
    ({"is_true": [1, 0, 1], "label": [0, 1, 1]}, [DOG, COW], ["is_true was: 0"]),  # nothing to ask
    # columns that say something else
    ({"label": [0, 1, 2]}, ALL, []),
    ({"target": [0.5, 1.0, 0.0]}, ALL, []),
    ({"is_true": ["surely", "maybe", "hardly"]}, ALL, []),
    ({"label": [None, None, None]}, ALL, []),
    ({"truth_value": [0, 1, 0]}, ALL, []),
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
@pytest.mark.parametrize("values", [[1, 0, 1], ["true", "false", "true"], [True, False, True]], ids=str)
def test_what_may_be_a_class_is_asked(values: list[Any], name: str, tmp_path: Path) -> None:
    path = put(tmp_path, {name: rows_with(Label=values)})
    with pytest.raises(ValueError, match=rf"{name}: the column Label, of .* --columns truth=Label takes only .*"):
        read(path)
    assert texts_of(path, columns="truth=Label") == [DOG, COW]
    assert texts_of(path, columns="truth=none") == ALL


def test_values_of_truth_that_are_not_clear_after_the_first_are_rejected(tmp_path: Path) -> None:
    clear = [("1.jpg", DOG, "1", "")] * LOOKED_AT
    rows = table("image,caption,is_true,is_rejected", *clear, ("1.jpg", DOG, "", ""), ("1.jpg", DOG, "maybe", ""))
    result = read(put(tmp_path, {"a.csv": rows}))
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
