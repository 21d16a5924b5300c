"""features: from arrays in the VSE++ layout, or from photos through an ONNX backbone, to shards of image features."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from negcap.pipelines.engine import manifest
from negcap.pipelines.engine.bounds import at_least
from negcap.pipelines.engine.code import code_of
from negcap.pipelines.engine.shards import Receipt, check_folder, current_receipts, remove_temporary, write_shard
from negcap.pipelines.engine.stage import Progress
from negcap.pipelines.features.source import Listed, Part, Source
from negcap.schemas.features import DTYPES, REJECTED_IMAGES, TABLE, features, tensors

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

NAME = "features"
SHARD_BYTES = 64 << 20
MOST_IMAGES = 1_000
_TABLE = re.compile(rf"{TABLE}(_[a-z0-9]+)?")
_NOT_IDENTITY = ("images", "strict", "threads", "shard_size", "scale", "onnx")


@dataclass(frozen=True)
class FeaturesConfig:
    """What to take of a source, and how.

    array: of a VSE++ folder, the arrays `{split}_{array}.npy`; scale: the .npz that bytes need, if it is not beside
    them; backbone: what made the arrays. onnx: the model for photos; layer: a tensor or node of it, empty: its first
    output; images: the folder that a run's captions are relative to; grid: regions instead of their mean; ten_crop: the
    mean of ten crops instead of the centre; resize, crop: pixels; batch: crops at once; device: cpu or cuda; threads:
    0 is one a core. dtype: empty: float16 of float16 and bytes, else float32. table: `features`, or `features_<name>`
    to keep several. limit: the first N images. shard_size: images a shard; None: 64 MiB, at most 1,000. strict: stop
    at the first image without a feature. Raises ValueError for a value that breaks its rule.
    """

    array: str = "ims"
    scale: Path | None = None
    backbone: str = ""
    onnx: Path | None = None
    layer: str = ""
    images: Path | None = None
    grid: bool = False
    ten_crop: bool = False
    resize: int = 256
    crop: int = 224
    batch: int = 32
    device: str = "cpu"
    threads: int = 0
    dtype: str = ""
    table: str = TABLE
    limit: int | None = None
    shard_size: int | None = None
    strict: bool = False

    def __post_init__(self) -> None:
        at_least(self, 1, ("batch", "limit", "shard_size"))
        at_least(self, 0, ["threads"])
        if self.dtype and self.dtype not in DTYPES:
            raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, was: {self.dtype}")
        if not _TABLE.fullmatch(self.table):
            raise ValueError(f"table must be {TABLE}, or {TABLE}_ and a name of a-z and 0-9, was: {self.table}")
        if self.onnx is None:
            for name in ("layer", "images", "grid", "ten_crop"):
                if getattr(self, name):
                    raise ValueError(f"{name} is for photos: onnx must be given with it")

    @property
    def rejections(self) -> str:
        """The table of images without a feature: `rejected_images`, or with the name of the table."""
        return REJECTED_IMAGES.metadata[b"table"].decode() + self.table.removeprefix(TABLE)


def open_source(source: Path, config: FeaturesConfig) -> Source:
    """The images that `source` has, and how to get their features. Raises as `make_features`."""
    if config.onnx is None:
        from negcap.pipelines.features.arrays import Arrays

        return Arrays(source, config.array, config.scale, config.dtype, config.backbone)
    from negcap.pipelines.features.backbone import Backbone
    from negcap.pipelines.features.photos import Photos
    from negcap.pipelines.features.preprocess import Crops

    threads = config.threads or len(os.sched_getaffinity(0))
    backbone = Backbone(config.onnx, config.layer, grid=config.grid, device=config.device, threads=threads)
    how = Crops(config.resize, config.crop, config.ten_crop)
    return Photos(source, config.images, backbone, how, batch=config.batch, dtype=config.dtype, threads=threads)


def make_features(
    source: Path,
    run: Path,
    config: FeaturesConfig,
    *,
    metadata: Mapping[str, str],
    progress: Progress,
    overwrite: bool = False,
) -> dict[str, int]:
    """Bring a run's table of features up to date with a source; returns its counters.

    Shards that are done are kept, so an interrupted run goes on. Counters: images, `rejected.<reason>`. Raises
    FileNotFoundError or ValueError, in one line that names the file, for a source that cannot be read, has no image
    that can or, with `strict`, one that cannot; OtherConfigError when the table was made from something else and
    `overwrite` is not given; OSError when it cannot be written.
    """
    check_folder(run)
    opened = open_source(source, config)
    identity = identify(opened, config, metadata)
    folder = run / config.table
    images = opened.images[: config.limit]
    refused = next((image for image in images if image.reason), None)
    if refused is not None and (config.strict or all(image.reason for image in images)):
        raise ValueError(_strictly(source, refused))
    manifest.prepare(folder, identity, overwrite=overwrite)
    tables = (config.rejections, config.table)
    for table in tables:
        remove_temporary(run / table)
    size = identity.config["shard_size"]
    parts = [(at, min(at + size, len(images))) for at in range(0, len(images), size)]
    key = identity.key()
    made = {index: found for index in range(len(parts)) if (found := current_receipts(run, tables, index, key))}
    progress.begin(NAME, len(parts), len(made), unit="images")
    try:
        for index, (start, stop) in enumerate(parts):
            if index not in made:
                part = opened.read(start, stop)
                if config.strict and part.rejected:
                    raise ValueError(_strictly(source, part.rejected[0]))
                made[index] = _write(run, config, part, index, opened, identity)
                progress.advance(stop - start)
    finally:
        progress.end()
    receipts = [made[index] for index in range(len(parts))]
    if not any(shard[config.table].rows for shard in receipts):
        reasons = sum((Counter(shard[config.table].counts) for shard in receipts), Counter())
        raise ValueError(f"{source}: must have images that can be read, has none: {json.dumps(reasons)}")
    return dict(manifest.finish(run, tables, identity, receipts).counts)


def identify(opened: Source, config: FeaturesConfig, metadata: Mapping[str, str]) -> manifest.Identity:
    """All that decides the tables' bytes: the content of arrays, model and photos, not where they lie; the config."""
    described = {name: value for name, value in vars(config).items() if name not in _NOT_IDENTITY}
    described |= {"dtype": opened.dtype, "shard_size": config.shard_size or shard_size(opened)}
    schema = features(opened.shape, opened.dtype)
    return manifest.Identity(
        stage=NAME,
        config=described,
        metadata={**metadata, "backbone": opened.backbone, "shape": json.dumps(opened.shape)},
        schemas={
            config.rejections: manifest.hash_schema(REJECTED_IMAGES),
            config.table: manifest.hash_schema(schema),
        },
        code=code_of(__name__).sha256,
        inputs=dict(opened.inputs),
    )


def shard_size(opened: Source) -> int:
    """Images a shard: 64 MiB, at most 1,000, so that what reads them has work for every worker."""
    row = prod(opened.shape) * int(opened.dtype.removeprefix("float")) // 8
    return max(1, min(SHARD_BYTES // row, MOST_IMAGES))


def table_of(image_ids: list[str], numbers: np.ndarray) -> pa.Table:
    """A table of features from ids and numbers (n, *shape)."""
    import pyarrow as pa

    schema = features(numbers.shape[1:], numbers.dtype.name)
    column = tensors(pa.array(numbers.reshape(-1)), numbers.shape[1:])
    return pa.table([pa.array(image_ids, pa.string()), column], schema=schema)


def _write(
    run: Path, config: FeaturesConfig, part: Part, index: int, opened: Source, identity: manifest.Identity
) -> dict[str, Receipt]:
    import pyarrow as pa

    key, provenance = identity.key(), identity.provenance()
    bad = pa.Table.from_pylist([image._asdict() for image in part.rejected], REJECTED_IMAGES)
    counts = {"images": len(part.image_ids), **Counter(f"rejected.{image.reason}" for image in part.rejected)}
    refused = write_shard(bad, run / config.rejections, index, key, REJECTED_IMAGES, provenance)
    table = table_of(part.image_ids, part.features)
    schema = features(opened.shape, opened.dtype)
    kept = write_shard(table, run / config.table, index, key, schema, provenance, counts)
    return {config.rejections: refused, config.table: kept}


def _strictly(source: Path, image: Listed) -> str:
    return f"{source}: {image.image}: {image.reason}: {image.detail}"
