"""Columns that say whether a caption is true of its image: what is recognised, asked and left out."""

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from negcap.pipelines import readers
from negcap.pipelines.api.captions import arrow_table, captions_table
from negcap.pipelines.ingestion.grouping import IngestConfig
from negcap.pipelines.readers.record import ReadOptions, Record, Rejected
from tests.pipelines.readers.test_cells import table_of

NAMES = ["a.csv", "a.tsv", "a.jsonl", "a.parquet"]
DOG, CAT, COW = "The dog is under the couch.", "The cat is on the mat.", "The cow is in the barn."
ASKED = r": the column {0}, of .*, may say whether captions are true of their images, or be a class: "
ASKED += r"--columns truth={0} takes only the true captions, --columns truth=none takes all$"


def rows_with(**columns: list[Any]) -> list[dict[str, Any]]:
    """Rows of three captions, with the values of these columns."""
    texts = [DOG, CAT, COW]
    rows = [{"image": f"{number}.jpg", "caption": text} for number, text in enumerate(texts, 1)]
    return [{**row, **{name: values[at] for name, values in columns.items()}} for at, row in enumerate(rows)]


def read(path: Path, **options: str) -> tuple[list[str], list[tuple[str, str]]]:
    """The captions of a file, and reason and detail of its rejected records."""
    records = list(readers.read(str(path), readers.detect(str(path)), ReadOptions.of(options)))
    kept = [record.text for record in records if isinstance(record, Record)]
    return kept, [(record.reason, record.detail) for record in records if isinstance(record, Rejected)]


CERTAIN = [  # columns, the captions that are kept, what is said of the others
    ({"is_true": [1, 0, 1]}, [DOG, COW], ["is_true was: 0"]),
    ({"Is True": [True, False, False]}, [DOG], ["Is True was: False", "Is True was: False"]),
    ({"correct": ["yes", "no", "Yes "]}, [DOG, COW], ["correct was: no"]),
    ({"is_correct": [1.0, 0.0, 1.0]}, [DOG, COW], ["is_correct was: 0.0"]),
    ({"is_rejected": [True, False, False]}, [CAT, COW], ["is_rejected was: True"]),
    ({"is_rejected": [True, False, False], "is_precanned": [False, False, True]}, [CAT],
     ["is_rejected was: True", "is_precanned was: True"]),
    ({"is_true": [1, 0, 1], "label": [0, 1, 1]}, [DOG, COW], ["is_true was: 0"]),  # nothing to ask
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("columns", "kept", "said"), CERTAIN, ids=lambda value: str(value)[:30])
def test_what_is_certainly_false_is_left_out_and_said(columns, kept, said, name, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(table_of(name, rows_with(**columns)))
    texts, refused = read(path)
    assert texts == kept
    assert refused == [("false_caption", f"caption must be true of its image, {detail}") for detail in said]
    assert read(path, truth_column="none") == ([DOG, CAT, COW], [])


NONE = [  # columns that say something else
    {"label": [0, 1, 2]}, {"label": ["dog", "cat", "cow"]}, {"target": [0.5, 1.0, 0.0]}, {"correct": ["A", "B", "D"]},
    {"is_true": ["surely", "maybe", "hardly"]}, {"label": [None, None, None]}, {"truth_value": [0, 1, 0]},
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("columns", NONE, ids=str)
def test_a_column_with_other_values_or_another_name_is_none(columns, name, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(table_of(name, rows_with(**columns)))
    assert read(path) == ([DOG, CAT, COW], [])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("column", ["label", "labels", "target", "true", "Truth"])
@pytest.mark.parametrize("values", [[1, 0, 1], ["true", "false", "true"], [True, False, True]], ids=str)
def test_what_may_be_a_class_is_asked(values, column, name, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(table_of(name, rows_with(**{column: values})))
    with pytest.raises(ValueError, match=name + ASKED.format(column)) as error:
        read(path)
    assert "\n" not in str(error.value)
    texts, refused = read(path, truth_column=column)
    assert texts == [DOG, COW]
    assert refused == [("false_caption", f"caption must be true of its image, {column} was: {values[1]}")]
    assert read(path, truth_column="none") == ([DOG, CAT, COW], [])


@pytest.mark.parametrize("columns", [{"is_true": ["true", "maybe", "false"]}, {"correct": [0, "3", 1]}], ids=str)
def test_a_certain_name_with_other_values_among_them_is_an_error(columns, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(table_of("a.csv", rows_with(**columns)))
    for options in ({}, {"truth_column": next(iter(columns))}):
        with pytest.raises(ValueError, match=r"must be 0 or 1, .*, was: '(maybe|3)'; --columns truth=none takes all"):
            read(path, **options)
    assert read(path, truth_column="none") == ([DOG, CAT, COW], [])


def test_other_values_after_the_first_are_rejected(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("negcap.pipelines.readers.truth.LOOKED_AT", 1)
    path = tmp_path / "a.csv"
    path.write_bytes(table_of("a.csv", rows_with(is_true=[1, "", "maybe"])))
    rule = "is_true must be 0 or 1, true or false, yes or no"
    assert read(path) == ([DOG], [("no_truth", f"{rule}, is missing"), ("no_truth", f"{rule}, was: 'maybe'")])
    path.write_bytes(table_of("a.csv", rows_with(is_rejected=["0", "", "1"])))  # what is not marked is not false
    assert read(path)[0] == [DOG, CAT]


def test_a_named_column_must_be_there_and_say_so(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(table_of("a.csv", rows_with(score=[0.5, 1, 0])))
    with pytest.raises(ValueError, match=r"truth column score must be 0 or 1, .*, was: '0.5'; --columns truth=none"):
        read(path, truth_column="score")
    with pytest.raises(ValueError, match="truth column must be one of the columns found, was: tru; found: image"):
        read(path, truth_column="tru")
    path = tmp_path / "captions.txt"
    path.write_text(f"{DOG}\n")
    with pytest.raises(ValueError, match="truth_column is for tables, WebDataset tars and COCO .*, the format is line"):
        readers.files_of(str(path), "lines", ReadOptions.of({"truth_column": "label"}))


def test_columns_by_number_and_captions_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(f"1.jpg\t{DOG}\t1\n2.jpg\t{CAT}\t0\n")
    options = ReadOptions.of({"image_column": "1", "caption_column": "2", "truth_column": "3"})
    assert len([*readers.read(str(path), "table", options)]) == 2
    assert [type(one) for one in readers.read(str(path), "table", options)] == [Record, Rejected]
    path.write_text(f"caption\tis_true\n{DOG}\t1\n{CAT}\t0\n{COW}\t1\n")  # each row is of an image of its own
    assert read(path)[0] == [DOG, COW]
    path.write_text(f"caption\tlabel\n{DOG}\t1\n{CAT}\t0\n{COW}\t1\n")
    assert read(path, truth_column="label")[0] == [DOG, COW]
    path.write_text(f"true\tcaption\n1.jpg\t{DOG}\n")  # a column that is read as something else says nothing of truth
    assert read(path, image_column="true") == ([DOG], [])


def test_a_list_of_captions_may_have_a_list_of_truths(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"image": "1.jpg", "captions": [DOG, CAT, COW], "is_rejected": [False, True, False]}))
    assert read(path)[0] == [DOG, COW]
    path.write_text(json.dumps({"image": "1.jpg", "captions": [DOG, CAT], "is_true": 0}))  # one for all
    assert [reason for reason, _ in read(path)[1]] == ["false_caption"] * 2


def test_vizwiz_annotations(tmp_path: Path) -> None:
    none = "Quality issues are too severe to recognize visual content."
    marks = [(False, False, DOG), (True, True, none), (True, False, CAT), (False, False, COW)]
    annotations = [
        {"id": at, "image_id": at, "caption": text, "is_rejected": rejected, "is_precanned": precanned}
        for at, (rejected, precanned, text) in enumerate(marks)
    ]
    del annotations[3]["is_rejected"]
    path = tmp_path / "val.json"
    path.write_text(json.dumps({"images": [], "annotations": annotations}, indent=1))
    texts, refused = read(path)
    assert texts == [DOG, COW]
    assert refused == [("false_caption", "caption must be true of its image, is_rejected was: True")] * 2
    assert len(read(path, truth_column="none")[0]) == 4
    assert read(path, truth_column="is_precanned")[0] == [DOG, CAT, COW]
    with pytest.raises(ValueError, match="truth column must be in the records, was: label; none of the first has it"):
        read(path, truth_column="label")


def test_samples_of_webdataset(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as tar:
        for row in rows_with(is_true=[1, 0, 1]):
            content = json.dumps({"caption": row["caption"], "is_true": row["is_true"]}).encode()
            member = tarfile.TarInfo(row["image"].replace("jpg", "json"))
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    assert read(path)[0] == [DOG, COW]


def test_tables_in_memory_are_asked_by_argument() -> None:
    frame = pd.DataFrame(rows_with(label=[1, 0, 1]))
    for config, kept in (({"truth_column": "label"}, [DOG, COW]), ({"truth_column": "none"}, [DOG, CAT, COW])):
        options = IngestConfig.of(config)
        if len(kept) == 2:
            with pytest.warns(UserWarning, match="captions left out: false_caption 1; the first is that at position 1"):
                made, _ = captions_table(arrow_table(frame, options), options)
        else:
            made, _ = captions_table(arrow_table(frame, options), options)
        assert isinstance(made, pa.Table) and made["text"].to_pylist() == kept
    options = IngestConfig.of({})
    with pytest.raises(ValueError, match="truth_column='label' takes only the true captions, truth_column='none'"):
        captions_table(arrow_table(frame, options), options)
