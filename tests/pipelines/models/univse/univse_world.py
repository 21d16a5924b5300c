"""The artificial world with components and grid features: of four regions, one shows the object and its colour."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from negcap.augment.language.parse import parse_table
from negcap.pipelines.stages.components import ComponentsConfig, add_counts, choose, count_shard, find_exclusions, read
from negcap.schemas.negatives import NEGATIVES
from tests.pipelines.models.trainer_world import (
    COLOURS,
    NOUNS,
    NUMBERS,
    SLOTS,
    write_features,
    write_table,
    write_world,
)

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
    made = {"operator": "object", "family": "object"}
    for row in [row for row in rows if row["operator"] == "noun"]:
        rows.append({**row, **made, "negative_id": row["negative_id"].replace("#noun", "#object")})
    rows.sort(key=lambda row: row["caption_id"])
    write_table(run, "negatives", pa.Table.from_pylist(rows, NEGATIVES))
    texts = dict(zip(captions["image_id"].to_pylist(), captions["text"].to_pylist(), strict=True))
    write_features(
        run, list(texts), np.stack([grid(name, text) for name, text in texts.items()]), table="features_grid"
    )
    return run


def add_components(run: Path, parses: pa.Table) -> None:
    config = ComponentsConfig(min_count=2)
    components = read(parses, config).tables["components"]
    vocabulary = choose(add_counts([count_shard(components, config)], config), config).tables["component_vocabulary"]
    excluded = find_exclusions(parses, config, TableInMemory(vocabulary)).tables["component_exclusions"]  # type: ignore[arg-type]
    tables = {"components": components, "component_vocabulary": vocabulary, "component_exclusions": excluded}
    for name, table in tables.items():
        write_table(run, name, table)


def region_of(image: str) -> int:
    """The index of the region that shows the image's object."""
    return int(image[-1]) % 4


def grid(image: str, text: str) -> np.ndarray:
    words = text.lower().replace(".", "").split()
    true = {word for word in (*NUMBERS, *COLOURS, *NOUNS) if {word, f"{word}s"} & set(words)}
    made = np.random.default_rng([7, *map(ord, image)]).uniform(0, 0.1, (4, sum(map(len, SLOTS))))
    at = 0
    for slot, local in zip(SLOTS, LOCAL, strict=True):
        for word in slot:
            if word in true or (not local and word in text):
                made[slice(None) if not local else region_of(image), at] += 1
            at += 1
    return made.astype(np.float16)
