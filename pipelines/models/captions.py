"""A run's captions: texts, splits and images, and which of them a model is trained and measured on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from negcap.augment.rng import record_rng
from negcap.pipelines.engine.shards import read_table
from negcap.schemas.captions import LANGUAGE


class Captions(NamedTuple):
    """The C English captions of a run, in its order.

    ids, texts, splits: of each caption; image_ids: of the I images; image: (C,) the image of each caption, an index
    into image_ids; human: (C,) bool, written by a person; extra: how many at the end are of the extra table.
    """

    ids: list[str]
    texts: pa.Array
    splits: pa.Array
    image_ids: list[str]
    image: Tensor
    human: Tensor
    extra: int = 0

    def of_splits(self, splits: Sequence[str]) -> Tensor:
        """The indices of the captions in these splits, in order."""
        return torch.from_numpy(np.flatnonzero(pc.is_in(self.splits, pa.array(list(splits), pa.string()))))

    def of_split(self, split: str) -> Tensor:
        """The indices of the captions in this split. Raises ValueError, naming the splits, when there are none."""
        chosen = self.of_splits([split])
        if not len(chosen):
            known = ", ".join(repr(name) for name in self.splits.unique().to_pylist())
            raise ValueError(f"split must be one of {known}, was: {split!r}")
        return chosen

    def measurable(self, captions: Tensor) -> Tensor:
        """Of these captions (n,), those to measure on: none of the extra table, and human ones if there are any."""
        captions = captions[captions < len(self.ids) - self.extra]
        human = captions[self.human[captions]]
        return human if len(human) else captions

    def to_evaluate(self, split: str, available: Tensor, limit: int | None) -> Tensor:
        """The captions that an evaluation on a split measures on, (n,); limit: of its first images only.

        available: (I,) bool, images with features. Raises ValueError when there are none.
        """
        chosen = self.measurable(self.of_split(split))
        chosen = chosen[available[self.image[chosen]]]
        if not len(chosen):
            raise ValueError(f"split {split!r} must have captions of images with features, has none")
        if limit:
            chosen = chosen[torch.isin(self.image[chosen], self.image[chosen].unique()[:limit])]
        return chosen


def read_captions(run: Path, extra: str = "") -> Captions:
    """Read the English captions of a run, then those of its table `extra`, if one is named.

    Raises FileNotFoundError for a table that is missing, ValueError for an extra table that holds no captions.
    """
    columns = ["caption_id", "image_id", "split", "language", "origin", "text"]
    tables = [pa.concat_tables(read_table(run, name, columns)) for name in ("captions", extra) if name]
    lacking = [name for table in tables for name in columns if name not in table.column_names]
    if lacking:
        raise ValueError(f"extra must be a table of captions, {extra} lacks: {', '.join(lacking)}")
    tables = [rows.filter(pc.equal(rows["language"], LANGUAGE)) for rows in tables]
    rows = pa.concat_tables(rows.replace_schema_metadata() for rows in tables).combine_chunks()
    images = rows["image_id"].combine_chunks().dictionary_encode()
    return Captions(
        rows["caption_id"].to_pylist(),
        rows["text"].combine_chunks(),
        rows["split"].combine_chunks(),
        images.dictionary.to_pylist(),
        torch.from_numpy(images.indices.to_numpy().astype(np.int64)),
        torch.from_numpy(pc.equal(rows["origin"], "human").to_numpy()),
        sum(len(table) for table in tables[1:]),
    )


def split_captions(
    captions: Captions, train: Sequence[str], validation: str, held_out: int, available: Tensor
) -> tuple[Tensor, Tensor]:
    """The indices of the captions to train on and of those to validate on.

    train: splits; validation: split; if it has no captions, `held_out` images of the train splits, chosen by a hash of
    their ids. available: (I,) bool, images with features. Raises ValueError when either is empty.
    """
    train_rows, validation_rows = captions.of_splits(train), captions.measurable(captions.of_splits([validation]))
    train_rows = train_rows[available[captions.image[train_rows]]]
    validation_rows = validation_rows[available[captions.image[validation_rows]]]
    if not len(validation_rows):
        images = captions.image[train_rows].unique().tolist()
        images.sort(key=lambda image: record_rng(0, "validation", captions.image_ids[image]).random())
        held = torch.isin(captions.image[train_rows], torch.tensor(images[:held_out], dtype=torch.long))
        train_rows, validation_rows = train_rows[~held], captions.measurable(train_rows[held])
    known = ", ".join(repr(name) for name in pc.unique(captions.splits).to_pylist())
    if not len(train_rows):
        raise ValueError(f"train_splits must have captions of images with features, have none: the splits are {known}")
    if not len(validation_rows):
        raise ValueError(f"validation needs captions: there is no split {validation!r} and validation_images is 0")
    return train_rows, validation_rows
