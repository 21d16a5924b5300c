"""A run's captions: texts, splits and images, and the selection of those for training and for evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from ...augment.reproducible import record_rng
from ...schemas.captions import LANGUAGE
from ..engine.tables import read_table
from ..tables.columns import UNSPLIT, check_splits, stored_splits


class Captions(NamedTuple):
    """The C captions of a run in some languages, in the run's order.

    ids, texts, splits: one entry per caption. image_ids: one per image (I). image: (C,) the index into image_ids of
    each caption's image. human: (C,) bool, True for a caption written by a person. language: (C,) the index into
    `languages`, ISO 639 codes, of each caption's language. extra: the number of captions, at the end, that come from
    the table `extra` (see `read_captions`).
    """

    ids: list[str]
    texts: pa.Array
    splits: pa.Array
    image_ids: list[str]
    image: Tensor
    human: Tensor
    language: Tensor
    languages: tuple[str, ...]
    extra: int = 0

    def in_language(self, captions: Tensor, language: str) -> Tensor:
        """Those of the captions (n,), indices, that are in this language."""
        return captions[self.language[captions] == self.languages.index(language)]

    def require_every_language(self, captions: Tensor, what: str) -> None:
        """Raise ValueError, naming the first such image, if the captions (n,) of an image lack one of the languages.

        what: the role of the captions, for the message.
        """
        there = torch.zeros(len(self.image_ids), len(self.languages), dtype=torch.bool)
        there[self.image[captions], self.language[captions]] = True
        lacking = (there.any(1) & ~there.all(1)).nonzero()[:, 0]
        if len(lacking):
            first = int(lacking[0])
            missing = self.languages[int(there[first].long().argmin())]
            count = f"{len(lacking):,} of {int(there.any(1).sum()):,} images lack a language"
            raise ValueError(
                f"every image {what} must have captions in {' and '.join(self.languages)}, "
                f"{self.image_ids[first]} has none in: {missing} ({count})"
            )

    def of_splits(self, splits: Sequence[str]) -> Tensor:
        """The indices of the captions in these splits, in ascending order; empty if there are none."""
        return torch.from_numpy(np.flatnonzero(pc.is_in(self.splits, pa.array(stored_splits(splits), pa.string()))))

    def of_split(self, split: str) -> Tensor:
        """The indices of the captions in this split. Raises ValueError, listing the splits, if there are none."""
        check_splits([split], self.splits.unique().to_pylist(), "captions")
        return self.of_splits([split])

    def for_metrics(self, captions: Tensor) -> Tensor:
        """Those of the captions (n,) that metrics may be computed on, as indices.

        Captions of the extra table are left out, and generated captions too unless that leaves none.
        """
        captions = captions[~self.are_extra(captions)]
        human = captions[self.human[captions]]
        return human if len(human) else captions

    def to_evaluate(
        self, split: str, available: Tensor, limit: int | None, per_image: int | None = None, language: str = LANGUAGE
    ) -> Tensor:
        """The indices (n,) of the captions in a language that an evaluation on a split uses.

        available: (I,) bool, images with features. limit: use only this many first images; None: all. per_image: use
        only this many first captions of each image; None: all. Raises ValueError for an unknown split, or one without
        captions of images with features.
        """
        chosen = self.for_metrics(self.in_language(self.of_split(split), language))
        chosen = chosen[available[self.image[chosen]]]
        if not len(chosen):
            spoken = f" in {language}" if len(self.languages) > 1 else ""
            raise ValueError(f"split {split!r} must have captions{spoken} of images with features, has none")
        if limit:
            chosen = chosen[torch.isin(self.image[chosen], self.image[chosen].unique()[:limit])]
        return self.first_of_images(chosen, per_image) if per_image else chosen

    def first_of_images(self, captions: Tensor, n: int) -> Tensor:
        """Those of the captions (m,), indices, that are among the first n of their image; in the same order."""
        image, order = self.image[captions].sort(stable=True)
        first = torch.searchsorted(image, image)  # where each image begins
        return captions[order[torch.arange(len(image)) - first < n].sort().values]

    def are_extra(self, captions: Tensor) -> Tensor:
        """Which of the captions (n,), indices, come from the table `extra`; (n,) bool."""
        return captions >= len(self.ids) - self.extra


def read_captions(run: Path, extra: str = "", languages: tuple[str, ...] = (LANGUAGE,)) -> Captions:
    """Read the captions of a run in these languages, followed by those of its table `extra` if the name is not empty.

    Raises FileNotFoundError for a missing table, ValueError for an extra table without the columns of captions, or a
    language of which the run has no captions.
    """
    columns = ["caption_id", "image_id", "split", "language", "origin", "text"]
    tables = [pa.concat_tables(read_table(run, name, columns)) for name in ("captions", extra) if name]
    lacking = [name for table in tables for name in columns if name not in table.column_names]
    if lacking:
        raise ValueError(f"extra must be a table of captions, {extra} lacks: {', '.join(lacking)}")
    there = tables[0]["language"].unique().to_pylist()
    if missing := [language for language in languages if language not in there]:
        known = ", ".join(sorted(there)) or "none"
        raise ValueError(f"languages must be of the captions in {run}, {known}, were: {', '.join(missing)}")
    tables = [rows.filter(pc.is_in(rows["language"], pa.array(languages))) for rows in tables]
    rows = pa.concat_tables(rows.replace_schema_metadata() for rows in tables).combine_chunks()
    images = rows["image_id"].combine_chunks().dictionary_encode()
    return Captions(
        rows["caption_id"].to_pylist(),
        rows["text"].combine_chunks(),
        rows["split"].combine_chunks(),
        images.dictionary.to_pylist(),
        torch.from_numpy(images.indices.to_numpy().astype(np.int64)),
        torch.from_numpy(pc.equal(rows["origin"], "human").to_numpy()),
        torch.from_numpy(pc.index_in(rows["language"], pa.array(languages)).to_numpy().astype(np.int64)),
        languages,
        sum(len(table) for table in tables[1:]),
    )


def split_captions(
    captions: Captions, train: Sequence[str], validation: str, held_out: int, available: Tensor
) -> tuple[Tensor, Tensor]:
    """The indices of the captions to train on, and of those to validate on.

    train: the splits to train on. validation: the split to validate on; if the run has no captions in it, `held_out`
    images of the train splits are validated on instead, chosen by a hash of their ids. available: (I,) bool, images
    with features; captions of other images are left out. Raises ValueError if either result is empty.
    """
    train_rows, validation_rows = captions.of_splits(train), captions.for_metrics(captions.of_splits([validation]))
    train_rows = train_rows[available[captions.image[train_rows]]]
    validation_rows = validation_rows[available[captions.image[validation_rows]]]
    if not len(validation_rows):
        images = captions.image[train_rows].unique().tolist()
        images.sort(key=lambda image: record_rng(0, "validation", captions.image_ids[image]).random())
        held = torch.isin(captions.image[train_rows], torch.tensor(images[:held_out], dtype=torch.long))
        train_rows, validation_rows = train_rows[~held], captions.for_metrics(train_rows[held])
    known = ", ".join(repr(name or UNSPLIT) for name in pc.unique(captions.splits).to_pylist())
    if not len(train_rows):
        raise ValueError(f"train_splits must have captions of images with features, have none: the splits are {known}")
    if not len(validation_rows):
        raise ValueError(f"validation needs captions: there is no split {validation!r} and validation_images is 0")
    return train_rows, validation_rows
