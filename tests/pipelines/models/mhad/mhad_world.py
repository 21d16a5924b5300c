"""The world of trainer_world with German captions and a grid: each region of an image shows one word of its scene."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from negcap.schemas.captions import CAPTIONS
from tests.pipelines.models.trainer_world import SLOTS, write_features, write_world
from tests.tables import write_table

GERMAN = (
    ("ein", "zwei", "drei"),
    ("roter", "blauer", "grüner", "weißer", "schwarzer"),
    ("hund", "kater", "gaul", "vogel", "wagen", "kahn", "ball", "baum"),
    ("auf dem hügel", "unter der brücke", "am see", "hinter der scheune", "im hof", "an der straße"),
)


def write_german_world(run: Path, images: Sequence[tuple[str, int]], seed: int = 0) -> Path:
    """Captions (2 English and 2 German per image), negatives of the English ones, and features_grid (4, 22)."""
    write_world(run, images, seed)
    rows = pa.concat_tables(map(pq.read_table, sorted((run / "captions").glob("*.parquet")))).to_pylist()
    scenes = list(product(*SLOTS))
    Random(seed).shuffle(scenes)
    scene = dict(zip(dict.fromkeys(row["image_id"] for row in rows), scenes, strict=False))
    words = [pair for english, german in zip(SLOTS, GERMAN, strict=True) for pair in zip(english, german, strict=True)]
    german = dict(words)
    captions = []
    for n, row in enumerate(rows):
        captions.append(row)
        if n % 2:
            said = " ".join(german[word] for word in scene[row["image_id"]])
            for k, text in ((2, f"Da ist {said}."), (3, f"{said}.")):
                key = {"caption_id": f"world:{row['image_id']}:{k}", "language": "de", "text": text}
                captions.append({**row, **key})
    write_table(run, "captions", pa.Table.from_pylist(captions, CAPTIONS))
    values = [grid(said, seed) for said in scene.values()]
    write_features(run, list(scene), np.array(values), table="features_grid")
    return run


def grid(words: Sequence[str], seed: int) -> np.ndarray:
    """The features (4, 22) of a scene: region k has 1 for the k-th word, and all have a little noise."""
    shown = np.array([[word == said for kind in SLOTS for word in kind] for said in words])
    noise = np.random.default_rng([seed, *map(ord, "".join(words))]).uniform(0.01, 0.1, shown.shape)
    return (shown + noise).astype(np.float16)
