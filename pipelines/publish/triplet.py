"""Triplets for sentence-transformers: Parquet files with the columns anchor (the image), positive, negative (or n).

Its losses take columns by position, not by name, and every further column as another negative: so there is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...augment.rng import record_rng
from .huggingface import split_name
from .parquet import EMBEDDED, SPLIT, ParquetRows, image_value
from .publication import Column, Files, FileSet, Publication, RecordSet

CONFIG = "triplet"
ANCHOR = Column("anchor", "the image: the file's path, as it is opened")
POSITIVE = Column("positive", "the true caption")


def card_fields(splits: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The field `configs` of the dataset card: one config, `triplet`."""
    names = dict.fromkeys(split_name(split) for some in splits.values() for split in some)
    files = [{"split": name, "path": f"{CONFIG}/{name}-*.parquet"} for name in names]
    return {"configs": [{"config_name": CONFIG, "default": True, "data_files": files}]}


def write(publication: Publication, folder: Path) -> list[RecordSet]:
    """Write `triplet/{split}-00000-of-000NN.parquet`, one row per negative; one record set.

    With n `row_negatives` > 1 the columns are `negative_1` … `negative_n`: the negatives of a caption in random order,
    n a row. The last row is filled up with those of the first.
    """
    n, seed = publication.row_negatives, publication.selection.draws.seed
    names = ["negative"] if n == 1 else [f"negative_{number}" for number in range(1, n + 1)]
    anchor = EMBEDDED._replace(name="anchor") if publication.with_images else ANCHOR
    columns = (anchor, POSITIVE, *(Column(name, "a negative of it") for name in names))
    with Files(folder, lambda stem: ParquetRows(stem, columns)) as files:
        for example in publication.examples():
            image = image_value(publication, example)
            texts = [negative.text for negative in example.negatives]
            if n > 1:
                record_rng(seed, "triplet", example.caption_id).shuffle(texts)
            for start in range(0, len(texts), n):
                row = [texts[at % len(texts)] for at in range(start, start + n)]
                files[f"{CONFIG}/{split_name(example.split)}"].add((image, example.text, *row))
    what = "an image, its caption and negatives"
    return [RecordSet(CONFIG, what, (*columns, SPLIT), FileSet(f"{CONFIG}/*.parquet"))]
