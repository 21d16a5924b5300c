"""Multiple choice as NegBench reads it: one CSV per split, four captions a row, one of them true."""

from __future__ import annotations

from pathlib import Path

from negcap.augment.rng import record_rng
from negcap.pipelines.publish.publication import INTEGER, Column, Files, Publication, RecordSet, TableRows
from negcap.pipelines.publish.selection import Example

OPTIONS = 4
COLUMNS = (
    Column("image_path", "the image, opened as it is written"),
    *(Column(f"caption_{n}", f"option {n}") for n in range(OPTIONS)),
    Column("correct_answer", "number of the true caption, from 0", INTEGER),
    Column("correct_answer_template", "NegBench's kind of the true caption: positive, since it negates nothing"),
)


def wrong(example: Example) -> list[str]:
    """The different negatives of a caption."""
    return [text for text in dict.fromkeys(n.text for n in example.negatives) if text != example.text]


def with_enough(examples: list[Example]) -> list[Example]:
    """Those captions of an image that have three different negatives."""
    return [example for example in examples if len(wrong(example)) >= OPTIONS - 1]


def write(publication: Publication, folder: Path) -> list[RecordSet]:
    """Write `{split}.csv`, a row per caption with three random negatives of any operators; one record set per file."""
    seed = publication.selection.draws.seed
    header = [column.name for column in COLUMNS]
    with Files(folder, lambda file: TableRows(file, header)) as files:
        for example in publication.examples():
            rng = record_rng(seed, "options", example.caption_id)
            texts = [example.text, *rng.sample(wrong(example), OPTIONS - 1)]
            rng.shuffle(texts)
            row = [publication.prefix + example.image, *texts, texts.index(example.text), "positive"]
            files[f"{example.split}.csv"].add(row)
    return [RecordSet(name, "an image and four captions, one of them true", COLUMNS) for name in files]
