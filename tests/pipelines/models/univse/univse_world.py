"""The artificial world with components and grid features: of four regions, one shows the object and its colour."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from negcap.augment.language.parse import parse_table
from negcap.pipelines.stages.components import ComponentsConfig, add_counts, choose, count_shard, find_exclusions, read
from negcap.schemas.negatives import NEGATIVES
from tests.pipelines.models.trainer_world import SLOTS, write_features, write_table, write_world

LOCAL = (True, True, True, False)  # number, colour and noun are visible in one region, the place in all


class TableInMemory:
    """A WholeTable that holds its rows in memory."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def read(self) -> pa.Table:
        return self.table


def write_univse_world(run: Path, images: Sequence[tuple[str, int]]) -> Path:
    """`write_world` with parses, components, UniVSE's object attack, and features_grid, (4, 22) per image."""
    write_world(run, images)
    captions = pq.read_table(run / "captions")
    parses = parse_table(captions)
    write_table(run, "parses", parses)
    add_components(run, parses)
    rows = pq.read_table(run / "negatives").to_pylist()
    for row in [row for row in rows if row["operator"] == "noun"]:
        negative_id = row["negative_id"].replace("#noun", "#object")
        rows.append({**row, "operator": "object", "family": "object", "negative_id": negative_id})
    rows.sort(key=lambda row: row["caption_id"])
    write_table(run, "negatives", pa.Table.from_pylist(rows, NEGATIVES))
    texts = dict(zip(captions["image_id"].to_pylist(), captions["text"].to_pylist(), strict=True))
    values = np.stack([grid(image, text) for image, text in texts.items()])
    write_features(run, list(texts), values, table="features_grid")
    return run


def add_components(run: Path, parses: pa.Table) -> None:
    config = ComponentsConfig(min_count=2)
    components = read(parses, config).tables["components"]
    vocabulary = choose(add_counts([count_shard(components, config)], config), config).tables["component_vocabulary"]
    excluded = find_exclusions(parses, config, TableInMemory(vocabulary)).tables["component_exclusions"]  # type: ignore[arg-type]
    write_table(run, "components", components)
    write_table(run, "component_vocabulary", vocabulary)
    write_table(run, "component_exclusions", excluded)


def region_of(image: str) -> int:
    """The index of the region that shows the image's object."""
    return int(image[-1]) % 4


def grid(image: str, text: str) -> np.ndarray:
    said = text.lower().replace(".", "").split()
    values = np.random.default_rng([7, *map(ord, image)]).uniform(0, 0.1, (4, sum(map(len, SLOTS))))
    words = [(word, local) for slot, local in zip(SLOTS, LOCAL, strict=True) for word in slot]
    for column, (word, local) in enumerate(words):
        if local and {word, f"{word}s"} & set(said):
            values[region_of(image), column] += 1
        elif not local and word in text:
            values[:, column] += 1
    return values.astype(np.float16)
