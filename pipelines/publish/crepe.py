"""CREPE: a CSV an operator, `image_id,caption,hard_negs,x,y,width,height`, all negatives of a caption in a row.

Ma et al. 2023; https://github.com/RAIVNLab/CREPE reads `hard_negs` as a Python list, crops the image to the box, and
opens `{image_id}.jpg`.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from negcap.pipelines.publish.publication import INTEGER, Column, Files, Publication, RecordSet, TableRows

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
    """Write `{operator}.csv`, in a folder a split where there are several."""
    header = [column.name for column in COLUMNS]
    with Files(folder, lambda file: TableRows(file, header)) as files:
        for example in publication.examples():
            box = publication.box(example)
            for operator, negatives in groupby(example.negatives, key=lambda negative: negative.operator):
                texts = [negative.text for negative in negatives]
                row = [example.image_id, example.text, repr(texts), *box]
                files[f"{publication.place(example.split)}{operator}.csv"].add(row)
    return [RecordSet(name, "a part of an image, its true caption and the negatives of it", COLUMNS) for name in files]
