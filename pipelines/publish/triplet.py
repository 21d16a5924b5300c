"""Triplets for sentence-transformers: Parquet files with the columns anchor (the image), positive, negative.

Its losses take columns by position, not by name, and every further column as another negative: so there is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from negcap.pipelines.publish.huggingface import split_name
from negcap.pipelines.publish.parquet import EMBEDDED, SPLIT, ParquetRows, image_value
from negcap.pipelines.publish.publication import Column, Files, FileSet, Publication, RecordSet

CONFIG = "triplet"
ANCHOR = Column("anchor", "the image: the file's path, as it is opened")
TEXTS = (Column("positive", "the true caption"), Column("negative", "a negative of it"))


def card_fields(splits: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The field `configs` of the dataset card: one config, `triplet`."""
    names = dict.fromkeys(split_name(split) for some in splits.values() for split in some)
    files = [{"split": name, "path": f"{CONFIG}/{name}-*.parquet"} for name in names]
    return {"configs": [{"config_name": CONFIG, "default": True, "data_files": files}]}


def write(publication: Publication, folder: Path) -> list[RecordSet]:
    """Write `triplet/{split}-00000-of-000NN.parquet`, one row per negative; one record set."""
    columns = (EMBEDDED._replace(name="anchor") if publication.with_images else ANCHOR, *TEXTS)
    with Files(folder, lambda stem: ParquetRows(stem, columns)) as files:
        for example in publication.examples():
            image = image_value(publication, example)
            for negative in example.negatives:
                files[f"{CONFIG}/{split_name(example.split)}"].add((image, example.text, negative.text))
    return [
        RecordSet(CONFIG, "an image, its caption and a negative", (*columns, SPLIT), FileSet(f"{CONFIG}/*.parquet"))
    ]
