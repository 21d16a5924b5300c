"""A run's image features as one memory-mapped array."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ...schemas.features import TABLE
from ..engine.tables import has_table, hash_table, no_table, shards_of
from .checkpoint import StoredTensors, cache_file, cached_arrays

LAYOUT = 1  # version of the array in the cache


class ImageFeatures(NamedTuple):
    """The features of I images: values (I, D), or (I, R, D) for R regions on a grid, memory-mapped, 0 for images
    without; backbone, the network that computed them; available (I,) bool, images with features.
    """

    values: Tensor
    backbone: str
    available: Tensor


def read_features(run: Path, image_ids: Sequence[str], table: str = TABLE) -> ImageFeatures:
    """The features of these images from a table of the run, in the order of `image_ids`.

    They are copied once from the table to an array in `RUN/encoded`, in float16 or float32 as in the table. Raises
    FileNotFoundError if the table is missing; ValueError if its shards differ in backbone or shape, do not state their
    shape, hold an image twice or values that are not finite, if it has none of the images, or for a damaged array.
    """
    if not has_table(run, table):
        raise no_table(run, table)
    # the order of the images is part of the key: row i of the array is of image i
    ids = hashlib.sha256("\n".join(image_ids).encode()).hexdigest()
    identity = [LAYOUT, hash_table(run, table), ids]
    path = cache_file(run, f"{table}-", identity, "npy")
    stored = cached_arrays(run, f"{table}-", identity, lambda: _store(run, image_ids, table, path))
    try:
        # copy on write: torch takes only writable arrays, and what is written never reaches the file
        values = np.load(path, mmap_mode="c")
    except (OSError, ValueError, EOFError) as error:
        kept = path.with_suffix(".safetensors")
        raise ValueError(f"{path} is damaged ({error}): delete {kept}, and it is computed again") from None
    return ImageFeatures(torch.from_numpy(values), stored.about["backbone"], stored.tensors["available"])


def _store(run: Path, image_ids: Sequence[str], table: str, path: Path) -> StoredTensors:
    """Write the images' features to `path`, npy, a shard at a time; returns what else is kept."""
    number = {image: n for n, image in enumerate(image_ids)}
    available = torch.zeros(len(image_ids), dtype=torch.bool)
    first: ShardFeatures | None = None
    seen = set[str]()
    start = 0  # of the array in the file, behind its header
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:  # not through a map, where a full disk would be no error but a crash
            for shard in shards_of(run, table):
                rows = shard.read()
                read = feature_values(rows, shard.name)
                values = read.values.numpy()
                if first is None:
                    first = read
                    header = {"descr": values.dtype.str, "fortran_order": False}
                    np.lib.format.write_array_header_1_0(file, {**header, "shape": (len(number), *values.shape[1:])})
                    start = file.tell()
                elif not read.is_like(first):
                    raise ValueError(f"{shard.name} must have the backbone and shape of the shards before it")
                for row, image in enumerate(rows["image_id"].to_pylist()):
                    if image in seen:
                        raise ValueError(f"{shard.name} must hold each image once, holds twice: {image}")
                    seen.add(image)
                    if image in number:
                        available[number[image]] = True
                        file.seek(start + number[image] * values[row].nbytes)
                        file.write(values[row].data)
                file.truncate(start + len(number) * values[:1].nbytes)  # zeros for images behind the last one written
        if first is None or not available.any():
            raise ValueError(f"{table} of {run} must have features of its images, has none")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return StoredTensors({"available": available}, {"backbone": first.backbone})


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
