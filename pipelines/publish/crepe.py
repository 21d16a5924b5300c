"""CREPE: one CSV per operator, `image_id,caption,hard_negs,x,y,width,height`, one row per caption with all negatives.

Ma et al. 2023; https://github.com/RAIVNLab/CREPE reads `hard_negs` as a Python list, crops the image to the box, and
opens `{image_id}.jpg`.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from .publication import INTEGER, Column, Files, Publication, RecordSet, TableRows

COLUMNS = (
    Column("image_id", "the image's name without folder and suffix"),
    Column("caption", "the true caption"),
    Column("hard_negs", "its negatives, as a Python list of strings"),
    Column("x", "left edge of the box in pixels", INTEGER),
    Column("y", "upper edge of the box in pixels", INTEGER),
    Column("width", "width of the box in pixels", INTEGER),
    Column("height", "height of the box in pixels", INTEGER),
)


def write(publication: Publication, folder: Path) -> list[RecordSet]:
    """Write `{operator}.csv`, in one folder per split if there are several; one record set per file."""
    header = [column.name for column in COLUMNS]
    with Files(folder, lambda file: TableRows(file, header)) as files:
        for example in publication.examples():
            box = publication.box(example)
            for operator, negatives in groupby(example.negatives, key=lambda negative: negative.operator):
                texts = [negative.text for negative in negatives]
                row = [example.image_id, example.text, repr(texts), *box]
                files[f"{publication.place(example.split)}{operator}.csv"].add(row)
    return [
        RecordSet(name, "a region of an image, its true caption and the negatives of it", COLUMNS) for name in files
    ]
