"""Multiple choice as NegBench reads it: one CSV per split, four captions a row, one of them true.

If the run has denials (operators negation and true_negation), some of the true captions deny something, and every
question about such an image has a denial among its false captions, so that the word "not" tells nothing.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from negcap.augment.rng import record_rng
from negcap.pipelines.publish.publication import INTEGER, Column, Files, Publication, RecordSet, TableRows
from negcap.pipelines.tables.denials import NEGATION
from negcap.pipelines.tables.examples import Example, is_denial, source_of

OPTIONS = 4
COLUMNS = (
    Column("image_path", "the image, opened as it is written"),
    *(Column(f"caption_{n}", f"option {n}") for n in range(OPTIONS)),
    Column("correct_answer", "number of the true caption, from 0", INTEGER),
    Column(
        "correct_answer_template", "NegBench's kind of the true caption: negative if it denies something, else positive"
    ),
)


def wrong(example: Example, rng: Random) -> list[str]:
    """The different negatives of a caption in random order, a false denial first if there is one."""
    found = dict.fromkeys((n.text, n.operator == NEGATION) for n in example.negatives if n.text != example.text)
    shuffled = rng.sample(sorted(found), len(found))
    denial = next((one for one in shuffled if one[1]), None)
    if denial is not None:
        shuffled = [denial, *(one for one in shuffled if one is not denial)]
    return list(dict.fromkeys(text for text, _ in shuffled))


def with_enough(examples: list[Example]) -> list[Example]:
    """Those captions of an image that have three different negatives.

    A true denial and the caption that it was made of have the negatives of both.
    """
    found: dict[str, list[Example]] = {}
    for example in examples:
        found.setdefault(source_of(example), []).append(example)
    both = [
        example._replace(negatives=tuple(negative for one in found[source_of(example)] for negative in one.negatives))
        for example in examples
    ]
    return [example for example in both if len({n.text for n in example.negatives} - {example.text}) >= OPTIONS - 1]


def write(publication: Publication, folder: Path) -> list[RecordSet]:
    """Write `{split}.csv`, a row per caption with three random negatives of any operators; one record set per file."""
    seed = publication.selection.draws.seed
    header = [column.name for column in COLUMNS]
    with Files(folder, lambda file: TableRows(file, header)) as files:
        for example in publication.examples():
            rng = record_rng(seed, "options", example.caption_id)
            texts = [example.text, *wrong(example, rng)[: OPTIONS - 1]]
            rng.shuffle(texts)
            row = [publication.prefix + example.image, *texts, texts.index(example.text)]
            row.append("negative" if is_denial(example) else "positive")
            files[f"{example.split}.csv"].add(row)
    return [RecordSet(name, "an image and four captions, one of them true", COLUMNS) for name in files]
