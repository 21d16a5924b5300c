"""A run's image features as tensors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from negcap.pipelines.engine.shards import list_shards, read_shard
from negcap.schemas.features import TABLE


class Features(NamedTuple):
    """The features of I images.

    values: (I, D), or (I, R, D) for R regions on a grid; 0 for images without features. backbone: the network that
    computed them. available: (I,) bool, images with features.
    """

    values: Tensor
    backbone: str
    available: Tensor


def read_features(run: Path, image_ids: Sequence[str], table: str = TABLE) -> Features:
    """Read the features of these images from a table of the run.

    Raises FileNotFoundError if the table is missing; ValueError if its shards differ in backbone or shape, do not state
    their shape, hold an image twice or values that are not finite, or if it has none of the images.
    """
    shards = list_shards(run / table)
    if not shards:
        raise FileNotFoundError(f"{run} has no {table}: run negcap features first")
    number = {image: n for n, image in enumerate(image_ids)}
    available = torch.zeros(len(image_ids), dtype=torch.bool)
    values, kind, seen = torch.empty(0), None, set[str]()
    for shard in shards:
        rows = read_shard(shard)
        found, backbone = feature_values(rows, f"{table}/{shard.name}")
        if kind and kind != (backbone, found.shape[1:]):
            raise ValueError(f"{table}/{shard.name} must have the backbone and shape of the shards before it")
        kind = (backbone, found.shape[1:])
        if not len(values):
            values = torch.zeros(len(image_ids), *found.shape[1:], dtype=found.dtype)
        for row, image in enumerate(rows["image_id"].to_pylist()):
            if image in seen:
                raise ValueError(f"{table}/{shard.name} must hold each image once, holds twice: {image}")
            seen.add(image)
            if image in number:
                values[number[image]], available[number[image]] = found[row], True
    if not available.any():
        raise ValueError(f"{table} of {run} must have features of its images, has none")
    return Features(values, backbone, available)


def feature_values(rows: pa.Table, name: str) -> tuple[Tensor, str]:
    """The features (rows, *shape) in a shard's rows, and their backbone, both as its metadata describes them.

    name: the shard, for error messages. Raises ValueError for a missing or wrong shape, or values that are not finite.
    """
    metadata = {key.decode(): value.decode() for key, value in (rows.schema.metadata or {}).items()}
    if "shape" not in metadata:
        raise ValueError(f"{name} must state its shape in its metadata")
    values = _tensor(rows["feature"], tuple(json.loads(metadata["shape"])), name)
    return values, metadata.get("backbone", "")


def _tensor(column: pa.ChunkedArray, shape: tuple[int, ...], name: str) -> Tensor:
    """A column of fixed-size lists or tensors as a tensor (rows, *shape)."""
    array = column.combine_chunks()
    array = array.storage if isinstance(array, pa.ExtensionArray) else array
    if not pa.types.is_fixed_size_list(array.type) or array.type.list_size != int(np.prod(shape)):
        raise ValueError(f"{name}: feature must be lists of {int(np.prod(shape))} numbers, is: {array.type}")
    values = array.flatten().to_numpy(zero_copy_only=False).reshape(-1, *shape)
    if not np.isfinite(values).all():
        raise ValueError(f"{name}: feature must be finite, holds NaN or infinity")
    return torch.from_numpy(np.array(values))
