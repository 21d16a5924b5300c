"""Stage features: arrays in the VSE++ layout, or photos and an ONNX model -> a table of image features."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path

from ...schemas.features import DTYPES, REJECTED_IMAGES, TABLE, features
from ..engine.bounds import at_least
from ..engine.places import local_path
from ..engine.progress import Progress
from ..engine.run import SourceStage, run_source
from ..engine.stage import StageResult
from ..features.source import Source, SourceImage, table_of

NAME = "features"
SHARD_BYTES = 64 << 20
MOST_IMAGES = 1_000
_TABLE = re.compile(rf"{TABLE}(_[a-z0-9]+)?")
_NOT_IDENTITY = ("images", "strict", "threads", "shard_size", "scale", "onnx")


@dataclass(frozen=True)
class FeaturesConfig:
    """What to read of a source, and how. Raises ValueError for a value that is not valid.

    Arrays of a VSE++ folder: `array` names the files, `{split}_{array}.npy`. scale: the .npz that arrays of bytes need;
    None: the one in the same folder. backbone: name of the model that made them.
    Photos: `onnx` is the model. layer: a tensor or node of it; empty: its first output. images: the folder to which the
    paths in a run's captions are relative. grid: keep regions instead of their mean. ten_crop: average ten crops
    instead of using the centre. keep_crops: keep the ten instead of their mean, see image_pooling of TrainConfig.
    resize, crop: in pixels, see Crops. batch: crops computed at once. device: cpu or cuda. threads: 0: one per core.
    Both: dtype: to store; empty: float16 for arrays of float16 or bytes, else float32. table: to write: `features`, or
    `features_<name>` to keep several. limit: read only the first N images. shard_size: images per shard; None: what
    fits in 64 MiB, at most 1,000. strict: stop at the first image without a feature.
    """

    array: str = "ims"
    scale: Path | None = None
    backbone: str = ""
    onnx: Path | None = None
    layer: str = ""
    images: Path | None = None
    grid: bool = False
    ten_crop: bool = False
    keep_crops: bool = False
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
            for name in ("layer", "images", "grid", "ten_crop", "keep_crops"):
                if getattr(self, name):
                    raise ValueError(f"{name} is for photos: onnx must be given with it")
        if self.keep_crops and not self.ten_crop:
            raise ValueError("keep_crops keeps ten crops: ten_crop must be given with it")

    @property
    def rejections(self) -> str:
        """Name of the table of images without a feature: `rejected_images`, or `rejected_images_<name>`."""
        return REJECTED_IMAGES.metadata[b"table"].decode() + self.table.removeprefix(TABLE)


def open_source(source: Path, config: FeaturesConfig) -> Source:
    """The Source of features for a folder of arrays or photos, one array file, or a run whose captions name photos.

    Raises FileNotFoundError or ValueError, with one line that names the file, when it cannot be read.
    """
    if config.onnx is None:
        from ..features.arrays import Arrays

        return Arrays(local_path(source, "source"), config.array, config.scale, config.dtype, config.backbone)
    from ..features.backbone import Backbone
    from ..features.photos import Extraction, Photos
    from ..features.preprocess import Crops

    threads = config.threads or len(os.sched_getaffinity(0))
    backbone = Backbone(config.onnx, config.layer, grid=config.grid, device=config.device, threads=threads)
    sizes = Crops(config.resize, config.crop, config.ten_crop)
    how = Extraction(sizes, config.batch, config.dtype, threads, config.keep_crops)
    return Photos(source, config.images, backbone, how)


def make_features(
    source: Path,
    run: Path,
    config: FeaturesConfig,
    *,
    metadata: Mapping[str, str],
    progress: Progress,
    overwrite: bool = False,
) -> dict[str, int]:
    """Bring the table of features of the run in folder `run` up to date with a source; returns its counters.

    Finished shards are kept, so an interrupted run continues. Counters: images, `rejected.<reason>`. metadata:
    provenance for the Parquet files. Raises FileNotFoundError or ValueError, with one line that names the file, when
    the source cannot be read, has no usable image or, with `strict`, an image without a feature; OtherConfigError when
    the table was made from something else and `overwrite` is not set; OSError when it cannot be written.
    """
    import pyarrow as pa

    opened = open_source(source, config)
    images = opened.images[: config.limit]
    refused = next((image for image in images if image.reason), None)
    if refused is not None and (config.strict or all(image.reason for image in images)):
        raise ValueError(_describe_rejected(source, refused))
    size = config.shard_size or shard_size(opened)
    starts = range(0, len(images), size)

    def make(start: int) -> StageResult:
        part = opened.read(start, min(start + size, len(images)))
        if config.strict and part.rejected:
            raise ValueError(_describe_rejected(source, part.rejected[0]))
        progress.advance(len(part.image_ids) + len(part.rejected), 0)
        bad = pa.Table.from_pylist([image._asdict() for image in part.rejected], REJECTED_IMAGES)
        counts = {"images": len(part.image_ids), **Counter(f"rejected.{image.reason}" for image in part.rejected)}
        return StageResult({config.rejections: bad, config.table: table_of(part.image_ids, part.features)}, counts)

    def check(counts: Mapping[str, int]) -> None:
        if not counts.get("images"):
            reasons = {name: count for name, count in counts.items() if count}
            raise ValueError(f"{source}: must have images that can be read, has none: {json.dumps(reasons)}")

    stage = SourceStage(
        name=NAME,
        module=__name__,
        outputs={config.rejections: REJECTED_IMAGES, config.table: features(opened.shape, opened.dtype)},
        config={
            **{name: value for name, value in vars(config).items() if name not in _NOT_IDENTITY},
            "dtype": opened.dtype,
            "shard_size": size,
        },
        inputs=opened.inputs,
        metadata={**metadata, "backbone": opened.backbone, "shape": json.dumps(opened.shape)},
        parts=lambda: (partial(make, start) for start in starts),
        shards=len(starts),
        unit="images",
        check=check,
    )
    return run_source(stage, run, progress=progress, overwrite=overwrite)


def shard_size(opened: Source) -> int:
    """Images per shard: what fits in 64 MiB, at most 1,000, so that later stages have work for every worker."""
    row = prod(opened.shape) * int(opened.dtype.removeprefix("float")) // 8
    return max(1, min(SHARD_BYTES // row, MOST_IMAGES))


def _describe_rejected(source: Path, image: SourceImage) -> str:
    return f"{source}: {image.image}: {image.reason}: {image.detail}"
