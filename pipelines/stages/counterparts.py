"""Stage counterparts: scenes + captions + negatives -> pictures in which a negative is true and its caption false."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import Field

from ...augment.reproducible import record_rng
from ...augment.settings import Operators, Seed, Settings, ShareAboveZero, Splits
from ...schemas.features import COUNTERPARTS
from ..engine.errors import require_libraries
from ..engine.run import Execution, run_source
from ..engine.stage import StageResult
from ..engine.storage import write_atomically
from ..engine.tables import Shard, has_table, read_table, shards_of
from ..scenes.counterparts import counterpart
from ..scenes.judge import scene_of
from ..scenes.world import Scene
from ..tables.columns import having
from .scenes import IMAGES, NEEDED, pictures_are_whole

NAME = "counterparts"
COLUMNS = ("negative_id", "caption_id", "image_id", "split", "family", "operator", "caption", "text")


class CounterpartsConfig(Settings):
    """For which negatives pictures are drawn: of a share of the captions, the first of each operator."""

    share: ShareAboveZero = Field(0.2, description="share of the captions that get pictures")
    seed: Seed = 0
    splits: Splits = ()
    operators: Operators = ()


def make_counterparts(run: Path, config: CounterpartsConfig, execution: Execution) -> dict[str, int]:
    """Draw the counterparts of a run of scenes into images/counterparts; returns its counters, `negatives` tried and
    `pictures`, also by operator. Raises FileNotFoundError without scenes or negatives, and as `run_source`.
    """
    if not has_table(run, "scenes"):
        raise FileNotFoundError(f"{run} must be a run of negcap scenes, has no table scenes")
    require_libraries(NEEDED, "PIL")

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
    """The counterparts of one shard of negatives, whose pictures are written."""
    from ..scenes.draw import draw, png

    (run / IMAGES / NAME).mkdir(parents=True, exist_ok=True)
    first: dict[tuple[str, str], dict[str, Any]] = {}  # the first negative of each caption and operator
    wanted = having({"split": config.splits, "operator": config.operators})
    for row in shard.read(COLUMNS).filter(wanted).to_pylist():
        first.setdefault((row["caption_id"], row["operator"]), row)
    rows: list[dict[str, Any]] = []
    counts = Counter(negatives=0, pictures=0)
    for (caption_id, name), row in first.items():
        if record_rng(config.seed, "share", caption_id).random() >= config.share:
            continue
        counts.update(("negatives", f"{name}.negatives"))
        rng = record_rng(config.seed, NAME, row["negative_id"])
        other = counterpart(scenes()[row["image_id"]], row["caption"], row["text"], rng)
        if other is not None:
            counts.update(("pictures", f"{name}.pictures"))
            data = png(draw(other))
            image = f"{NAME}/{caption_id.replace(':', '-')}-{name}.png"
            write_atomically(run / IMAGES / image, data)
            rows.append({**row, "image": image, "sha256": hashlib.sha256(data).hexdigest()})
    return StageResult({NAME: pa.Table.from_pylist(rows, COUNTERPARTS)}, dict(counts))


def write_winoground(run: Path, folder: Path) -> int:
    """Write counterparts in Winoground's form (image 0: of the caption); returns how many. FileExistsError."""
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} must be empty, holds files")
    (folder / IMAGES / NAME).mkdir(parents=True)
    lines: list[dict[str, Any]] = []
    for table in read_table(run, NAME):
        for row in table.to_pylist():
            names = f"{row['image_id']}.png", row["image"]
            for name in names:
                if not (folder / IMAGES / name).exists():
                    shutil.copyfile(run / IMAGES / name, folder / IMAGES / name)
            example = {"id": len(lines), "image_0": names[0], "image_1": names[1]}
            lines.append({**example, "caption_0": row["caption"], "caption_1": row["text"], "tag": row["operator"]})
    write_atomically(folder / "examples.jsonl", "".join(json.dumps(line) + "\n" for line in lines).encode())
    return len(lines)
