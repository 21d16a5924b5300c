"""A run's image features as one memory-mapped array."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ...schemas.features import TABLE
from ..engine.tables import has_table, hash_table, no_table, shards_of
from .checkpoint import ArrayWriter, JsonObject, mapped_arrays

LAYOUT = 2  # version of the array in the cache


class ImageFeatures(NamedTuple):
    """The features of I images. values: (I, D), or (I, R, D) for R regions on a grid, memory-mapped; 0 for an image
    without. backbone: the network that computed them. available: (I,) bool, True for images with features.
    """

    values: Tensor
    backbone: str
    available: Tensor


def read_features(run: Path, image_ids: Sequence[str], table: str = TABLE) -> ImageFeatures:
    """The features of these images from a table of the run, in the order of `image_ids`.

    They are copied once from the table to an array in the run's cache, in float16 or float32 as in the table. An image
    that the table lacks has zeros, and is not `available`.

    Raises:
        FileNotFoundError: the table is missing.
        ValueError: its shards differ in backbone or shape, do not state their shape, hold an image twice or values that
            are not finite; it has none of the images; or the array in the cache is damaged.
    """
    if not has_table(run, table):
        raise no_table(run, table)
    # the order of the images is part of the key: row i of the array is of image i
    ids = hashlib.sha256("\n".join(image_ids).encode()).hexdigest()
    identity = [LAYOUT, hash_table(run, table), ids]
    stored = mapped_arrays(
        run, f"{table}-", identity, partial(_write_features, run=run, image_ids=image_ids, table=table)
    )
    return ImageFeatures(stored.tensors["values"], stored.about["backbone"], stored.tensors["available"])


def _write_features(out: ArrayWriter, run: Path, image_ids: Sequence[str], table: str) -> JsonObject:
    """Write the arrays `values` and `available` of ImageFeatures, a shard at a time; returns the backbone."""
    number_of_image = {image: number for number, image in enumerate(image_ids)}
    available = np.zeros(len(image_ids), np.bool_)
    first: ShardFeatures | None = None
    seen = set[str]()
    for shard in shards_of(run, table):
        rows = shard.read()
        features = feature_values(rows, shard.name)
        first = first or features
        if not features.is_like(first):
            raise ValueError(f"{shard.name} must have the backbone and shape of the shards before it")
        wanted = []  # the rows of images that are asked for
        positions = []  # of these images among all
        for row, image in enumerate(rows["image_id"].to_pylist()):
            if image in seen:
                raise ValueError(f"{shard.name} must hold each image once, holds twice: {image}")
            seen.add(image)
            if image in number_of_image:
                wanted.append(row)
                positions.append(number_of_image[image])
        available[positions] = True
        out.place("values", positions, features.values.numpy()[wanted], len(image_ids))
    if first is None or not available.any():
        raise ValueError(f"{table} of {run} must have features of its images, has none")
    out.append(available=available)
    return {"backbone": first.backbone}


class ShardFeatures(NamedTuple):
    """The features (rows, *shape) in a shard's rows, and the network that computed them."""

    values: Tensor
    backbone: str

    def is_like(self, other: ShardFeatures) -> bool:
        """Whether both can be in one array."""
        same_rows = self.values.shape[1:] == other.values.shape[1:] and self.values.dtype == other.values.dtype
        return same_rows and self.backbone == other.backbone


def feature_values(rows: pa.Table, name: str) -> ShardFeatures:
    """The features (rows, *shape) in a shard's rows, and their backbone, both as its metadata describes them; name: the
    shard. Raises ValueError for a missing or wrong shape, or values that are not finite.
    """
    metadata = {key.decode(): value.decode() for key, value in (rows.schema.metadata or {}).items()}
    if "shape" not in metadata:
        raise ValueError(f"{name} must state its shape in its metadata")
    shape = tuple(json.loads(metadata["shape"]))
    array = rows["feature"].combine_chunks()
    # an extension type of Arrow, such as a tensor with its shape, keeps its numbers in its storage
    array = array.storage if isinstance(array, pa.ExtensionArray) else array
    if not pa.types.is_fixed_size_list(array.type) or array.type.list_size != int(np.prod(shape)):
        raise ValueError(f"{name}: feature must be lists of {int(np.prod(shape))} numbers, is: {array.type}")
    values = array.flatten().to_numpy(zero_copy_only=False).reshape(-1, *shape)
    if not np.isfinite(values).all():
        raise ValueError(f"{name}: feature must be finite, holds NaN or infinity")
    return ShardFeatures(torch.from_numpy(np.array(values)), metadata.get("backbone", ""))
