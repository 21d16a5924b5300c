"""OpenCLIP: one TSV per split, `filepath title`: true captions only, as its `--dataset-type csv` reads them."""

from __future__ import annotations

from pathlib import Path

from .publication import Column, Files, Publication, RecordSet, TableRows

COLUMNS = (
    Column("filepath", "the image, opened as it is written"),
    Column("title", "a true caption"),
)


def write(publication: Publication, folder: Path) -> list[RecordSet]:
    """Write `{split}.tsv`; one record set per file."""
    header = [column.name for column in COLUMNS]
    with Files(folder, lambda file: TableRows(file, header, "\t")) as files:
        for example in publication.examples():
            files[f"{example.split}.tsv"].add([publication.prefix + example.image, example.text])
    return [RecordSet(name, "images and their true captions", COLUMNS) for name in files]
