"""Stage features: arrays in the VSE++ layout, or photos and an ONNX model -> a table of image features."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from math import prod
from pathlib import Path

import numpy as np
import pyarrow as pa

from ...schemas.features import REJECTED_IMAGES, features
from ..engine.places import local_path
from ..engine.run import Execution, run_source
from ..engine.stage import StageResult
from ..features.photos import Photos
from ..features.source import Arrays, FeaturesConfig, FeatureSource, SourceImage, table_of

NAME = "features"
SHARD_BYTES = 64 << 20  # of the features in a shard, about
MOST_IMAGES = 1_000  # in a shard
# Settings that decide no number: files of photos and of the model count by their content, as inputs.
_NOT_IDENTITY = ("images", "strict", "threads", "shard_size", "onnx")


def make_features(source: Path, run: Path, config: FeaturesConfig, execution: Execution) -> dict[str, int]:
    """Bring a run's table of features up to date with a source; returns its counters: images, `rejected.<reason>`.

    Args:
        source: a folder of arrays, or photos if the config has a network.
        run: the folder of the run.
        config: what is read, and the name of the table.
        execution: where shards are made.

    Raises:
        FileNotFoundError, ValueError: the source cannot be read, has no usable image or, with `strict`, one without a
            feature; the file is named.
        OtherConfigError: the table is there, made from something else, and `execution` does not overwrite.
        OSError: the table cannot be written.
    """
    if config.onnx is None:
        opened: FeatureSource = Arrays(local_path(source, "source"), config)
    else:
        opened = Photos(source, config)
    # What can be known without reading a feature is refused first, before anything is written.
    images = opened.images[: config.limit]
    refused = next((image for image in images if image.reason), None)
    if refused is not None and (config.strict or all(image.reason for image in images)):
        raise ValueError(_describe_rejected(source, refused))
    bytes_of_row = prod(opened.shape) * int(opened.dtype.removeprefix("float")) // 8
    # not more than MOST_IMAGES even of small ones, so that later stages have work for every worker
    size = config.shard_size or max(1, min(SHARD_BYTES // bytes_of_row, MOST_IMAGES))

    def make(start: int) -> StageResult:
        """The features of the shard whose first image has the index `start`, and the images of it that are rejected."""
        part = opened.read(start, min(start + size, len(images)))
        is_finite = np.isfinite(part.features).all(axis=tuple(range(1, part.features.ndim)))  # of each feature
        checked = _with_reason_not_finite(part.images, is_finite, opened.dtype)
        bad = [image for image in checked if image.reason]
        # Stable: images that could not be read come first.
        bad.sort(key=lambda image: image.reason == "not_finite")
        if config.strict and bad:
            raise ValueError(_describe_rejected(source, bad[0]))
        execution.progress.advance(len(checked), 0)
        ids = [image.image_id for image in checked if not image.reason]
        counts = {"images": len(ids), **Counter(f"rejected.{image.reason}" for image in bad)}
        rejected = pa.Table.from_pylist([image._asdict() for image in bad], REJECTED_IMAGES)
        rows = table_of(ids, part.features[is_finite])
        return StageResult({config.rejections: rejected, config.table: rows}, counts)

    def check(counts: Mapping[str, int]) -> None:
        """Raise ValueError when no image was read; counts: {"images": 0, "missing": 5, ...}, of the whole stage."""
        if not counts.get("images"):
            reasons = {name: count for name, count in counts.items() if count}
            raise ValueError(f"{source}: must have images that can be read, has none: {json.dumps(reasons)}")

    described = {name: value for name, value in vars(config).items() if name not in _NOT_IDENTITY}
    return run_source(
        run,
        NAME,
        {config.rejections: REJECTED_IMAGES, config.table: features(opened.shape, opened.dtype)},
        [partial(make, start) for start in range(0, len(images), size)],
        {**described, "dtype": opened.dtype, "shard_size": size},
        execution,
        inputs=opened.inputs,
        metadata={"backbone": opened.backbone, "shape": json.dumps(opened.shape)},
        unit="images",
        check=check,
    )


def _with_reason_not_finite(images: Sequence[SourceImage], is_finite: np.ndarray, dtype: str) -> list[SourceImage]:
    """The images, with a reason of rejection for those whose feature is not finite.

    Args:
        images: of a shard; some have a reason already, and no feature.
        is_finite: (n,) whether each feature is finite, of the n images without a reason, in their order.
        dtype: of the features, for the message.
    """
    detail = f"a feature must be finite in {dtype}, has nan or infinity"
    finite_of_next = iter(is_finite)
    checked = []
    for image in images:
        is_usable = bool(image.reason) or next(finite_of_next)
        checked.append(image if is_usable else image._replace(reason="not_finite", detail=detail))
    return checked


def _describe_rejected(source: Path, image: SourceImage) -> str:
    """ "photos/: 12.jpg: unreadable: no image" """
    return f"{source}: {image.image}: {image.reason}: {image.detail}"
