"""A task of lmms-eval: Parquet files with questions and images, a YAML file per split, and the functions that it names.

`lmms-eval --include_path DIR --tasks negcap_SPLIT`, started in the folder, asks a model which caption is true.
"""

from __future__ import annotations

from pathlib import Path

from .huggingface import split_name
from .options import LETTERS, QUESTION, choices
from .parquet import EMBEDDED, SPLIT, ParquetRows
from .publication import Column, Files, FileSet, Publication, RecordSet

COLUMNS = (
    Column("question_id", "`<caption_id>#<operator>`"),
    EMBEDDED,
    Column("question", "the question with its options, as it is asked"),
    Column("answer", "the letter of the true caption"),
    Column("operator", "the operator that made the other options"),
    Column("family", "the family of the operator"),
)
FUNCTIONS = '''"""What the YAML files beside this one name."""


def images(row):
    """The image of a question."""
    return [row["image"].convert("RGB")]


def question(row, lmms_eval_specific_kwargs=None):
    """The question with its options."""
    return row["question"]


def answer(row):
    """The letter of the true caption."""
    return row["answer"]


def right(row, results):
    """Whether the first letter that a model answers is that of the true caption; any other answer is wrong."""
    said = results[0].strip().strip("(*\\"' ").upper()
    alone = said[:1] in "ABCD" and not said[1:2].isalpha()
    return {"accuracy": float(alone and said[:1] == row["answer"])}
'''
TASK = """\
task: negcap_{split}
dataset_path: parquet
dataset_kwargs:
  data_files:
    test: {folder}/{split}-*.parquet
test_split: test
output_type: generate_until
doc_to_visual: !function utils.images
doc_to_text: !function utils.question
doc_to_target: !function utils.answer
process_results: !function utils.right
generation_kwargs:
  max_new_tokens: 16
  temperature: 0
  do_sample: false
metric_list:
  - metric: accuracy
    aggregation: mean
    higher_is_better: true
metadata:
  - version: 1.0
"""
DATA = "data"


def write(publication: Publication, folder: Path) -> list[RecordSet]:
    """Write `data/{split}-….parquet`, `negcap_{split}.yaml` and `utils.py`; one record set."""
    assert publication.images is not None
    with Files(folder, lambda stem: ParquetRows(stem, COLUMNS)) as files:
        for choice in choices(publication):
            example = choice.example
            options = "\n".join(f"{letter}. {text}" for letter, text in zip(LETTERS, choice.texts, strict=False))
            asked = f"{QUESTION}\n{options}\nAnswer with the letter only."
            image = {"bytes": publication.images.read(example.image), "path": example.image}
            row = (
                f"{example.caption_id}#{choice.operator}",
                image,
                asked,
                choice.answer,
                choice.operator,
                choice.family,
            )
            files[f"{DATA}/{split_name(example.split)}"].add(row)
        splits = [Path(name).name for name in files]
    for split in splits:
        task = TASK.format(split=split, folder=DATA)
        (folder / f"negcap_{split}.yaml").write_text(task, encoding="utf-8", newline="\n")
    (folder / "utils.py").write_text(FUNCTIONS, encoding="utf-8", newline="\n")
    return [RecordSet("questions", "questions about images", (*COLUMNS, SPLIT), FileSet(f"{DATA}/*.parquet"))]
