"""Stage scenes: a run of synthetic scenes with their images, captions, features and facts (what is true of each)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...augment.rng import record_rng
from ...schemas.captions import CAPTIONS, REJECTED_RECORDS
from ...schemas.features import features
from ...schemas.scenes import SCENES
from ..engine.bounds import at_least
from ..engine.manifest import describe
from ..engine.progress import Progress
from ..engine.run import Parts, SourceStage, run_source
from ..engine.shards import read_receipt, shard_path
from ..engine.stage import StageResult
from ..engine.storage import remove_leftovers, sha256_file, write_atomically
from ..engine.tables import read_shard
from ..features.source import table_of

if TYPE_CHECKING:
    import pyarrow as pa
    from PIL.Image import Image

NAME = "scenes"
IMAGES = "images"
SPLITS = ("train",) * 15 + ("val",) * 2 + ("test",) * 3  # of every 20 images
SHARD_SIZE = 500
BATCH = 25


@dataclass(frozen=True)
class ScenesConfig:
    """`images` scenes from `seed`: 75 % with the split train, 10 % val, 15 % test.

    Raises ValueError for fewer than 1 image, or a seed below 0.
    """

    images: int = 2000
    seed: int = 0

    def __post_init__(self) -> None:
        at_least(self, 1, ["images"])
        at_least(self, 0, ["seed"])


def outputs() -> dict[str, pa.Schema]:
    """The schemas of the tables that make up a run of scenes, by name; the last is the primary table."""
    from ..scenes.network import GRID, POOLED

    return {
        "scenes": SCENES,
        "features": _of_shape(POOLED),
        "features_grid": _of_shape(GRID),
        "rejected_records": REJECTED_RECORDS,
        "captions": CAPTIONS,
    }


def _of_shape(shape: tuple[int, ...]) -> pa.Schema:
    schema = features(shape, "float16")
    return schema.with_metadata({**(schema.metadata or {}), "shape": json.dumps(shape)})


def make_scenes(
    run: Path, config: ScenesConfig, *, metadata: Mapping[str, str], progress: Progress, overwrite: bool = False
) -> dict[str, int]:
    """Bring a run of synthetic scenes up to date with its config; returns its counters, `images` and `captions`.

    Images are written to `run`/images. Finished shards are kept, so an interrupted run continues. metadata: provenance
    for the Parquet files. Raises OtherConfigError when the run has other captions and `overwrite` is not set,
    ImportError without Pillow, OSError when a file cannot be written.
    """
    try:
        import PIL  # noqa: F401
    except ImportError as error:
        raise ImportError('scenes need Pillow: pip install "negcap[features]"') from error
    from ..scenes.network import NAME as BACKBONE

    starts = range(0, config.images, SHARD_SIZE)

    def parts() -> Parts:
        (run / IMAGES).mkdir(parents=True, exist_ok=True)
        remove_leftovers(run / IMAGES)
        for start in starts:
            yield partial(draw_scenes, run, config, range(start, min(start + SHARD_SIZE, config.images)), progress)

    stage = SourceStage(
        name=NAME,
        module=__name__,
        outputs=outputs(),
        config=describe(config),
        inputs={},
        metadata={**metadata, "scenes_seed": str(config.seed), "backbone": BACKBONE},
        parts=parts,
        shards=len(starts),
        unit="images",
        intact=lambda index: pictures_are_whole(run, index),
    )
    return run_source(stage, run, progress=progress, overwrite=overwrite)


def name_of(number: int) -> str:
    """The image_id of a scene, given its number: 17 -> scene_000017."""
    return f"scene_{number:06d}"


def draw_scenes(run: Path, config: ScenesConfig, numbers: range, progress: Progress) -> StageResult:
    """Make the scenes with these numbers, one shard: compose, draw, caption and encode them, and write their images."""
    import pyarrow as pa

    from ..scenes.captions import captions
    from ..scenes.draw import draw, png
    from ..scenes.layout import compose
    from ..scenes.table import row

    scenes: list[dict[str, Any]] = []
    lines: list[dict[str, str]] = []
    pictures = []
    for number in numbers:
        name, split = name_of(number), SPLITS[number % len(SPLITS)]
        scene = compose(record_rng(config.seed, "scene", name))
        pictures.append(draw(scene))
        data = png(pictures[-1])
        write_atomically(run / IMAGES / f"{name}.png", data)
        scenes.append(row(name, split, scene, hashlib.sha256(data).hexdigest()))
        for at, text in enumerate(captions(scene, record_rng(config.seed, "captions", name))):
            shared = {"image_id": name, "image": f"{name}.png", "split": split, "language": "en", "origin": "generated"}
            lines.append({"caption_id": f"scenes:{name}:{at}", **shared, "text": text})
        progress.advance(1, 0)
    rows = {
        "scenes": pa.Table.from_pylist(scenes, SCENES),
        **_encode([name_of(number) for number in numbers], pictures),
        "rejected_records": REJECTED_RECORDS.empty_table(),
        "captions": pa.Table.from_pylist(lines, CAPTIONS),
    }
    return StageResult(rows, {"captions": len(lines), "images": len(numbers)})


def _encode(names: list[str], pictures: list[Image]) -> dict[str, pa.Table]:
    import numpy as np

    from ..scenes.network import encode

    parts = [encode(pictures[at : at + BATCH]) for at in range(0, len(pictures), BATCH)]
    pooled, grid = (np.concatenate(numbers).astype(np.float16) for numbers in zip(*parts, strict=True))
    return {"features": table_of(names, pooled), "features_grid": table_of(names, grid)}


def pictures_are_whole(run: Path, index: int) -> bool:
    """Whether the images of all scenes in shard `index` exist and are unchanged."""
    shard = shard_path(run / "scenes", index)
    receipt = read_receipt(shard)
    if receipt is None:
        return False
    drawn = read_shard(shard, ("image_id", "sha256"), sha256=receipt.sha256)
    for name, expected in zip(*drawn.to_pydict().values(), strict=True):
        picture = run / IMAGES / f"{name}.png"
        if not picture.is_file() or sha256_file(picture) != expected:
            return False
    return True
