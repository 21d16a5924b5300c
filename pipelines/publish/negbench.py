"""Multiple choice as NegBench reads it: one CSV per split, four captions a row, one of them true.

If the run has denials (operators negation and true_negation), the questions are about two nouns, see
`negcap.pipelines.tables.questions`; other captions are asked beside three of their negatives.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...augment.elementary import record_rng
from ..tables.examples import Example, is_denial, source_of
from ..tables.pairs import NEGATION
from ..tables.questions import OPTIONS, POSITIVE, Question, questions, shuffled
from .publication import INTEGER, Column, Files, Publication, RecordSet, TableRows

COLUMNS = (
    Column("image_path", "the image, opened as it is written"),
    *(Column(f"caption_{n}", f"option {n}") for n in range(OPTIONS)),
    Column("correct_answer", "number of the true caption, from 0", INTEGER),
    Column(
        "correct_answer_template",
        "NegBench's template of the true caption: positive if it only asserts, negative if it denies something, "
        "hybrid if it asserts one thing and denies another",
    ),
)


def _questions(examples: list[Example], seed: int) -> Iterator[Question]:
    """The questions about the captions of an image, at most one each; those about two nouns first."""
    asked = set[str]()
    for question in questions(examples):
        asked.add(source_of(question.example))
        yield question
    for example in examples:
        options = {n.text for n in example.negatives if n.operator != NEGATION} - {example.text}
        if example.caption_id not in asked and not is_denial(example) and len(options) >= OPTIONS - 1:
            rng = record_rng(seed, "false options", example.caption_id)
            yield Question(example, tuple(rng.sample(sorted(options), OPTIONS - 1)), POSITIVE)


def write(publication: Publication, folder: Path) -> list[RecordSet]:
    """Write `{split}.csv`, a row per caption with three false options; one record set per file."""
    seed = publication.selection.draws.seed
    header = [column.name for column in COLUMNS]
    with Files(folder, lambda file: TableRows(file, header)) as files:
        for examples in publication.by_image():
            for question in _questions(examples, seed):
                example = question.example
                texts, answer = shuffled(question, record_rng(seed, "options", example.caption_id))
                row = [publication.prefix + example.image, *texts, answer, question.template]
                files[f"{example.split}.csv"].add(row)
    return [RecordSet(name, "an image and four captions, one of them true", COLUMNS) for name in files]
