"""Stage scenes: a run of synthetic scenes with their images, captions, features and facts (what is true of each)."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from pydantic import Field

from ...augment.reproducible import record_rng
from ...augment.settings import AtLeastOne, Seed, Settings
from ...schemas.captions import CAPTIONS, REJECTED_RECORDS
from ...schemas.features import SCENES, features
from ..engine.errors import require_libraries
from ..engine.progress import Progress
from ..engine.run import Execution, run_source
from ..engine.shards import sealed, shard_path
from ..engine.stage import StageResult
from ..engine.storage import remove_leftovers, sha256_file, write_atomically
from ..features.source import table_of
from ..scenes.captions import captions
from ..scenes.judge import row
from ..scenes.world import compose

IMAGES, NEEDED = "images", 'scenes need Pillow: pip install "negcap[features]"'
SPLITS = ("train",) * 15 + ("val",) * 2 + ("test",) * 3  # of every 20 images
SHARD_SIZE = 500
BATCH = 25


class ScenesConfig(Settings):
    """Which scenes: 75 % get the split train, 10 % val, 15 % test."""

    images: AtLeastOne = Field(2000, description="number of scenes")
    seed: Seed = 0


def make_scenes(run: Path, config: ScenesConfig, execution: Execution) -> dict[str, int]:
    """Bring a run of scenes, with pictures in images/, up to date; returns its counters, `images` and `captions`.
    Raises OtherConfigError for other captions unless `overwrite`, ImportError without Pillow, OSError when a file
    cannot be written.
    """
    require_libraries(NEEDED, "PIL")
    from ..scenes.draw import BACKBONE, GRID, POOLED

    ends = (range(start, min(start + SHARD_SIZE, config.images)) for start in range(0, config.images, SHARD_SIZE))
    schemas = {}
    for name, shape in (("features", POOLED), ("features_grid", GRID)):
        plain = features(shape, "float16")
        schemas[name] = plain.with_metadata({**(plain.metadata or {}), "shape": json.dumps(shape)})

    return run_source(
        run,
        "scenes",
        {"scenes": SCENES, **schemas, "rejected_records": REJECTED_RECORDS, "captions": CAPTIONS},
        [partial(draw_scenes, run, config, numbers, execution.progress) for numbers in ends],
        config,
        execution,
        metadata={"scenes_seed": str(config.seed), "backbone": BACKBONE},
        unit="images",
        intact=lambda index: pictures_are_whole(run, "scenes", index),
    )


def draw_scenes(run: Path, config: ScenesConfig, numbers: range, progress: Progress) -> StageResult:
    """Make the scenes with these numbers, one shard: compose, draw, caption and encode them, and write their images."""
    from ..scenes.draw import draw, encode, png

    (run / IMAGES).mkdir(parents=True, exist_ok=True)
    remove_leftovers(run / IMAGES)
    scenes, lines, pictures = [], [], []
    names = [f"scene_{number:06d}" for number in numbers]
    for number, name in zip(numbers, names, strict=True):
        split = SPLITS[number % len(SPLITS)]
        scene = compose(record_rng(config.seed, "scene", name))
        pictures.append(draw(scene))
        data = png(pictures[-1])
        write_atomically(run / IMAGES / f"{name}.png", data)
        scenes.append(row(name, split, scene, hashlib.sha256(data).hexdigest()))
        shared = {"image_id": name, "image": f"{name}.png", "split": split, "language": "en", "origin": "generated"}
        texts = captions(scene, record_rng(config.seed, "captions", name))
        lines += [{"caption_id": f"scenes:{name}:{at}", **shared, "text": text} for at, text in enumerate(texts)]
        progress.advance(1, 0)
    encoded = [encode(pictures[at : at + BATCH]) for at in range(0, len(pictures), BATCH)]
    pooled, grid = (np.concatenate(numbers).astype(np.float16) for numbers in zip(*encoded, strict=True))
    rows = {
        "scenes": pa.Table.from_pylist(scenes, SCENES),
        "features": table_of(names, pooled),
        "features_grid": table_of(names, grid),
        "rejected_records": REJECTED_RECORDS.empty_table(),
        "captions": pa.Table.from_pylist(lines, CAPTIONS),
    }
    return StageResult(rows, {"captions": len(lines), "images": len(numbers)})


def pictures_are_whole(run: Path, table: str, index: int) -> bool:
    """Whether the pictures that shard `index` of a table lists exist in the folder `images` and are unchanged."""
    shard = sealed(shard_path(run / table, index))
    if shard is None:
        return False
    columns = ("image_id", "sha256") if table == "scenes" else ("image_id", "image", "sha256")
    listed = shard.read(columns).to_pylist()
    pictures = {run / IMAGES / row.get("image", f"{row['image_id']}.png"): row["sha256"] for row in listed}
    return all(path.is_file() and sha256_file(path) == expected for path, expected in pictures.items())
