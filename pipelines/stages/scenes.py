"""Stages scenes: a run of synthetic scenes with their images, captions, features and facts (what is true of each); and
counterparts: scenes + captions + negatives -> pictures in which a negative is true and its caption false.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import Field

from ...augment.reproducible import record_rng
from ...augment.settings import AtLeastOne, Operators, Seed, Settings, ShareAboveZero, Splits
from ...schemas.captions import CAPTIONS, REJECTED_RECORDS
from ...schemas.features import COUNTERPARTS, SCENES, features
from ..engine.errors import require_libraries
from ..engine.lock import holds_nothing, locked
from ..engine.manifest import MANIFESTS
from ..engine.progress import Progress
from ..engine.run import Execution, run_source
from ..engine.shards import sealed, shard_path
from ..engine.stage import StageResult
from ..engine.storage import refuse_link, sha256_file, write_atomically
from ..engine.tables import Shard, has_table, read_table, shards_of
from ..features.source import table_of
from ..scenes.captions import captions
from ..scenes.counterparts import counterpart
from ..scenes.judge import scene_of, scene_row
from ..scenes.world import Scene, compose
from ..tables.columns import column_filter

Row = dict[str, Any]  # a row of a table
IMAGES = "images"
NEEDED = 'scenes need Pillow: pip install "negcap[features]"'
# By the number of the scene, so that more scenes leave the splits of the others as they are.
SPLITS = ("train",) * 15 + ("val",) * 2 + ("test",) * 3  # of every 20 images
SHARD_SIZE = 500
BATCH = 25  # pictures that are encoded together


class ScenesConfig(Settings):
    """Which scenes: 75 % get the split train, 10 % val, 15 % test."""

    images: AtLeastOne = Field(2000, description="number of scenes")
    seed: Seed = 0


def make_scenes(run: Path, config: ScenesConfig, execution: Execution) -> dict[str, int]:
    """Bring a run of scenes, with pictures in images/, up to date; returns its counters, `images` and `captions`.

    Raises OtherConfigError if the run was made with another config and is not to be overwritten, ImportError without
    Pillow, OSError when a file cannot be written.
    """
    require_libraries(NEEDED, "PIL")
    from ..scenes.draw import BACKBONE, GRID, POOLED

    starts = range(0, config.images, SHARD_SIZE)
    numbers_of_shards = [range(start, min(start + SHARD_SIZE, config.images)) for start in starts]
    schemas = {}
    for name, shape in (("features", POOLED), ("features_grid", GRID)):
        plain = features(shape, "float16")
        schemas[name] = plain.with_metadata({**(plain.metadata or {}), "shape": json.dumps(shape)})

    return run_source(
        run,
        "scenes",
        {"scenes": SCENES, **schemas, "rejected_records": REJECTED_RECORDS, "captions": CAPTIONS},
        [partial(draw_scenes, run, config, numbers, execution.progress) for numbers in numbers_of_shards],
        config,
        execution,
        metadata={"scenes_seed": str(config.seed), "backbone": BACKBONE},
        unit="images",
        intact=lambda index: pictures_are_whole(run, "scenes", index),
    )


def draw_scenes(run: Path, config: ScenesConfig, numbers: range, progress: Progress) -> StageResult:
    """Make one shard of scenes: compose, draw, caption and encode them, and write their images.

    Args:
        run: the run.
        config: of the scenes; its seed and a scene's number decide the scene.
        numbers: of the scenes.
        progress: shows how far the shard is.
    """
    from ..scenes.draw import draw, encode, png

    scenes = []
    caption_rows = []
    pictures = []
    names = [f"scene_{number:06d}" for number in numbers]
    for number, name in zip(numbers, names, strict=True):
        split = SPLITS[number % len(SPLITS)]
        # generators by name: a scene is the same whatever other scenes are made
        scene = compose(record_rng(config.seed, "scene", name))
        picture = draw(scene)
        pictures.append(picture)
        scenes.append(scene_row(name, split, scene, write_picture(run, f"{name}.png", png(picture))))
        of_image = {"image_id": name, "image": f"{name}.png", "split": split, "language": "en", "origin": "generated"}
        texts = captions(scene, record_rng(config.seed, "captions", name))
        for position, text in enumerate(texts):
            caption_rows.append({"caption_id": f"scenes:{name}:{position}", **of_image, "text": text})
        progress.advance(1, 0)
    batches = [pictures[start : start + BATCH] for start in range(0, len(pictures), BATCH)]
    encoded = [encode(batch) for batch in batches]
    pooled = np.concatenate([features.pooled for features in encoded]).astype(np.float16)  # (images, D)
    grid = np.concatenate([features.regions for features in encoded]).astype(np.float16)  # (images, regions, D)
    rows = {
        "scenes": pa.Table.from_pylist(scenes, SCENES),
        "features": table_of(names, pooled),
        "features_grid": table_of(names, grid),
        "rejected_records": REJECTED_RECORDS.empty_table(),
        "captions": pa.Table.from_pylist(caption_rows, CAPTIONS),
    }
    return StageResult(rows, {"captions": len(caption_rows), "images": len(numbers)})


def write_picture(run: Path, name: str, data: bytes) -> str:
    """Write a picture (the bytes of a PNG file) into the folder `images` of a run; returns its sha256."""
    refuse_link(run / IMAGES)
    refuse_link((run / IMAGES / name).parent).mkdir(parents=True, exist_ok=True)
    # The temporary file is in the folder of manifests, where the next run removes what an interrupted one has left.
    write_atomically(run / IMAGES / name, data, run / MANIFESTS)
    return hashlib.sha256(data).hexdigest()


def pictures_are_whole(run: Path, table: str, index: int) -> bool:
    """Whether the pictures that shard `index` of a table lists exist in the folder `images` and are unchanged."""
    shard = sealed(shard_path(run / table, index))
    if shard is None:
        return False
    columns = ("image_id", "sha256") if table == "scenes" else ("image_id", "image", "sha256")
    listed = shard.read(columns).to_pylist()
    pictures = {run / IMAGES / row.get("image", f"{row['image_id']}.png"): row["sha256"] for row in listed}
    return all(path.is_file() and sha256_file(path) == expected for path, expected in pictures.items())


NAME = "counterparts"
COLUMNS = ("negative_id", "caption_id", "image_id", "split", "family", "operator", "caption", "text")


class CounterpartsConfig(Settings):
    """For which negatives pictures are drawn: of a share of the captions, the first of each operator."""

    share: ShareAboveZero = Field(0.2, description="share of the captions that get pictures")
    seed: Seed = 0
    splits: Splits = ()
    operators: Operators = ()


def make_counterparts(run: Path, config: CounterpartsConfig, execution: Execution) -> dict[str, int]:
    """Draw the counterparts of a run of scenes into images/counterparts: pictures of which a negative is true.

    Returns the counters `negatives` (tried) and `pictures`, in all and by operator. Raises FileNotFoundError without
    scenes or negatives, and OtherConfigError for pictures by another config that are not to be overwritten.
    """
    if not has_table(run, "scenes"):
        raise FileNotFoundError(f"{run} must be a run of scenes, has none: negcap scenes makes one")
    require_libraries(NEEDED, "PIL")

    # Read only if a shard is made, and once for all shards.
    @cache
    def scenes() -> dict[str, Scene]:
        return {row["image_id"]: scene_of(row) for table in read_table(run, "scenes") for row in table.to_pylist()}

    return run_source(
        run,
        NAME,
        {NAME: COUNTERPARTS},
        [partial(draw_counterparts, run, shard, scenes, config) for shard in shards_of(run, "negatives")],
        config,
        execution,
        inputs=("scenes", "captions", "negatives"),
        intact=lambda index: pictures_are_whole(run, NAME, index),
    )


def draw_counterparts(
    run: Path, shard: Shard, scenes: Callable[[], Mapping[str, Scene]], config: CounterpartsConfig
) -> StageResult:
    """Draw the counterparts of one shard of negatives: for a negative, a scene of which it is true and its caption not.

    Args:
        run: the run, into which the pictures are written.
        shard: of the table of negatives. Only the first negative of each caption and operator is drawn.
        scenes: gives the scene of each image, by image_id; called only if there is something to draw.
        config: which splits and operators, and of what share of the captions.

    Returns:
        The rows of the table counterparts; counters of negatives tried and pictures drawn, in all and by operator.
    """
    from ..scenes.draw import draw, png

    first: dict[tuple[str, str], Row] = {}  # the first negative of each caption and operator
    wanted = column_filter({"split": config.splits, "operator": config.operators})
    for row in shard.read(COLUMNS).filter(wanted).to_pylist():
        first.setdefault((row["caption_id"], row["operator"]), row)
    rows: list[Row] = []
    counts = Counter(negatives=0, pictures=0)
    for (caption_id, name), row in first.items():
        if record_rng(config.seed, "share", caption_id).random() >= config.share:
            continue
        counts.update(("negatives", f"{name}.negatives"))
        rng = record_rng(config.seed, NAME, row["negative_id"])
        changed_scene = counterpart(scenes()[row["image_id"]], row["caption"], row["text"], rng)
        if changed_scene is not None:
            counts.update(("pictures", f"{name}.pictures"))
            image = f"{NAME}/{caption_id.replace(':', '-')}-{name}.png"
            rows.append({**row, "image": image, "sha256": write_picture(run, image, png(draw(changed_scene)))})
    return StageResult({NAME: pa.Table.from_pylist(rows, COUNTERPARTS)}, dict(counts))


def write_winoground(run: Path, folder: Path) -> int:
    """Write counterparts in Winoground's form (Thrush et al. 2022); returns how many.

    `examples.jsonl` has lines `{"id", "image_0", "image_1", "caption_0", "caption_1", "tag"}`, where image 0 is that of
    the caption and image 1 that of the negative; `images` has the pictures. Raises FileExistsError for a folder that
    holds something, LockedError for one that another command writes.
    """
    with locked(folder):
        return _write_winoground(run, folder)


def _write_winoground(run: Path, folder: Path) -> int:
    """Write the examples and copies of their images into an empty, locked folder; returns how many examples."""
    if not holds_nothing(folder):
        raise FileExistsError(f"{folder} must be empty, holds files")
    (folder / IMAGES / NAME).mkdir(parents=True)
    examples: list[Row] = []
    for table in read_table(run, NAME):
        for row in table.to_pylist():
            example = {
                "id": len(examples),
                "image_0": f"{row['image_id']}.png",
                "image_1": row["image"],
                "caption_0": row["caption"],
                "caption_1": row["text"],
                "tag": row["operator"],
            }
            for name in (example["image_0"], example["image_1"]):
                # Several negatives may be of one image.
                if not (folder / IMAGES / name).exists():
                    shutil.copyfile(run / IMAGES / name, folder / IMAGES / name)
            examples.append(example)
    write_atomically(folder / "examples.jsonl", "".join(json.dumps(example) + "\n" for example in examples).encode())
    return len(examples)
