"""SugarCrepe++: one JSON file per operator, a list of `{"id", "filename", "caption", "caption2", "negative_caption"}`.

Dumpala et al. 2024: two true captions against one negative. Here the second true one is another caption of the image.
"""

from __future__ import annotations

from pathlib import Path

from ...augment.rng import record_rng
from ..tables.examples import Example, other_wordings, with_negatives
from .publication import Column, Files, JsonRows, Publication, RecordSet
from .sugarcrepe import part_of

COLUMNS = (
    Column("id", "number of the row, from 0", "sc:Integer", "$[*].id"),
    Column("filename", "the image, relative to the image folder", path="$[*].filename"),
    Column("caption", "a true caption", path="$[*].caption"),
    Column("caption2", "another true caption of the image", path="$[*].caption2"),
    Column("negative_caption", "a negative of caption", path="$[*].negative_caption"),
)


def with_another(examples: list[Example]) -> list[Example]:
    """Those captions of an image that have negatives and another caption with a different text."""
    return [example for example in with_negatives(examples) if other_wordings(example)]


def write(publication: Publication, folder: Path) -> list[RecordSet]:
    """Write `{operator}.json`, in one folder per split if there are several; one record set per file."""
    seed = publication.selection.draws.seed
    with Files(folder, JsonRows) as files:
        for example in publication.examples():
            second = record_rng(seed, "caption2", example.caption_id).choice(other_wordings(example))
            for negative in example.negatives:
                file = files[f"{publication.place(example.split)}{part_of(negative, publication.names)}.json"]
                row = {"filename": example.image, "caption": example.text, "caption2": second}
                file.add({"id": file.rows, **row, "negative_caption": negative.text})
    return [RecordSet(name, "two true captions and a negative of the first", COLUMNS) for name in files]
