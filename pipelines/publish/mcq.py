"""Multiple choice as VLMEvalKit reads it: one TSV per split, `index, image, question, A, B …, answer, category`.

With `--copy-images` the images are in the file, in base64; with `--images` the column `image_path` says where they are.
Without images there is no such column, and VLMEvalKit asks the model without image: the blind control.
"""

from __future__ import annotations

import base64
from pathlib import Path

from .options import LETTERS, QUESTION, choices
from .publication import INTEGER, Column, Files, Publication, RecordSet, TableRows


def columns(publication: Publication) -> tuple[Column, ...]:
    """The columns of the file; as many letters as a question can have options."""
    most = publication.selection.draws.per_caption or len(LETTERS) - 1
    image = [Column("image", "the image, in base64")] if publication.with_images else []
    if publication.images is not None and not image:
        image = [Column("image_path", "the image, opened as it is written")]
    return (
        Column("index", "number of the question, from 0", INTEGER),
        *image,
        Column("question", "the question"),
        *(Column(letter, f"option {letter}") for letter in LETTERS[: most + 1]),
        Column("answer", "the letter of the true caption"),
        Column("category", "the operator that made the other options"),
        Column("l2-category", "the family of the operator"),
        Column("split", "the split"),
    )


def write(publication: Publication, folder: Path) -> list[RecordSet]:
    """Write `{split}.tsv`; one record set per file."""
    wanted = columns(publication)
    header = [column.name for column in wanted]
    letters = [name for name in header if name in LETTERS]
    numbers: dict[str, int] = {}
    with Files(folder, lambda file: TableRows(file, header, "\t")) as files:
        for choice in choices(publication, len(letters) - 1):
            split = choice.example.split
            number = numbers[split] = numbers.get(split, -1) + 1
            texts = [*choice.texts, *[""] * (len(letters) - len(choice.texts))]
            rest = [QUESTION, *texts, choice.answer, choice.operator, choice.family, split]
            files[f"{split}.tsv"].add([number, *_image(publication, choice.example.image), *rest])
    return [RecordSet(name, "questions with one true caption among negatives", wanted) for name in files]


def _image(publication: Publication, name: str) -> list[str]:
    if publication.images is None:
        return []
    if publication.with_images:
        return [base64.b64encode(publication.images.read(name)).decode()]
    return [publication.prefix + name]
