"""Artificial worlds as runs: scenes (number, colour, noun, place) with captions, negatives and features.

`write_world` has what VSE-C reads, `write_univse_world` components and features of regions as well, and
`write_german_world` German captions and features of regions.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import chain, product
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from negcap.augment.language.parse import parse_table
from negcap.pipelines.stages.components import (
    ComponentsConfig,
    add_counts,
    choose,
    count_shard,
    find_exclusions,
    read_components,
)
from negcap.schemas.captions import CAPTIONS
from negcap.schemas.negatives import NEGATIVES
from tests.tables import TableInMemory, write_table

NOUNS = ("dog", "cat", "horse", "bird", "car", "boat", "ball", "tree")
COLOURS = ("red", "blue", "green", "white", "black")
NUMBERS = ("one", "two", "three")
PLACES = ("on the hill", "under the bridge", "near the lake", "behind the barn", "in the yard", "by the road")
SLOTS = (NUMBERS, COLOURS, NOUNS, PLACES)
FAMILY = {0: ("numeral", "numeral"), 2: ("noun", "noun"), 3: ("relation", "preposition")}


def shuffled_scenes(random: Random) -> list[tuple[str, ...]]:
    """All scenes, in the order in which images show them."""
    scenes = list(product(*SLOTS))
    random.shuffle(scenes)
    return scenes


def write_world(run: Path, images: Sequence[tuple[str, int]] = (("train", 300), ("test", 60)), seed: int = 0) -> Path:
    """Write captions (2 per image), negatives and features of distinct scenes; images: pairs (split, number)."""
    random = Random(seed)
    scenes = shuffled_scenes(random)
    splits = [split for split, number in images for _ in range(number)]
    names = [f"scene{number:04d}" for number in range(len(splits))]
    captions, negatives = [], []
    for image, split, scene in zip(names, splits, scenes, strict=False):
        for n, text in enumerate((caption(scene), f"A photo: {caption(scene)}")):
            key = {"caption_id": f"world:{image}:{n}", "image_id": image, "split": split, "origin": "human"}
            captions.append({**key, "image": f"{image}.png", "language": "en", "text": text})
            negatives += negatives_of(key, text, scene, random)
    write_table(run, "captions", pa.Table.from_pylist(captions, CAPTIONS))
    write_table(run, "negatives", pa.Table.from_pylist(negatives, NEGATIVES))
    write_features(run, names, np.array([scene_features(scene, seed) for scene in scenes[: len(names)]]))
    return run


def caption(scene: Sequence[str]) -> str:
    number, colour, noun, place = scene
    return f"{number} {colour} {noun}{'' if number == 'one' else 's'} {place}."


def negatives_of(key: dict[str, str], text: str, scene: Sequence[str], random: Random) -> Iterator[dict[str, object]]:
    start = text.index(scene[0])
    for slot, (family, operator) in FAMILY.items():
        others = [word for word in SLOTS[slot] if word != scene[slot]]
        for k, word in enumerate(random.sample(others, min(4, len(others)))):
            false = caption([word if n == slot else old for n, old in enumerate(scene)])
            yield {
                **{**key, "negative_id": f"{key['caption_id']}#{operator}:{k}", "family": family, "operator": operator},
                **{"caption": text, "draw": k, "text": text[:start] + false},
                "edits": [{"start": start, "end": len(text), "old": text[start:], "new": false}],
                **{"replaced": scene[slot], "replacement": word},
                **{"replaced_synset": None, "replacement_synset": None},
            }


def scene_features(scene: Sequence[str], seed: int) -> np.ndarray:
    """Features of a scene: 1 for each word that is true of it, 0 for the others, plus a little noise."""
    true = np.concatenate([[word == said for word in words] for words, said in zip(SLOTS, scene, strict=True)])
    noise = np.random.default_rng([seed, *map(ord, "".join(scene))]).uniform(0, 0.1, len(true))
    return (true + noise).astype(np.float16)


def write_features(
    run: Path, images: Sequence[str], values: np.ndarray, backbone: str = "made up", table: str = "features",
    index: int = 0,
) -> None:  # fmt: skip
    shape = list(values.shape[1:])
    feature = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), int(np.prod(shape)))
    schema = pa.schema(
        [pa.field("image_id", pa.string(), nullable=False), pa.field("feature", feature.type, nullable=False)],
        {"table": "features", "schema_version": "1", "backbone": backbone, "shape": json.dumps(shape)},
    )
    write_table(run, table, pa.Table.from_arrays([pa.array(images), feature], schema=schema), index)


# UniVSE: of four regions, one shows the object, its number and its colour

LOCAL = (True, True, True, False)  # number, colour and noun are visible in one region, the place in all


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
    values = [grid_of_object(image, text) for image, text in texts.items()]
    write_features(run, list(texts), np.stack(values), table="features_grid")
    return run


def add_components(run: Path, parses: pa.Table) -> None:
    config = ComponentsConfig(min_count=2)
    components = read_components(parses, config).tables["components"]
    vocabulary = choose(add_counts([count_shard(components, config)], config), config).tables["component_vocabulary"]
    excluded = find_exclusions(parses, config, TableInMemory(vocabulary)).tables["component_exclusions"]  # type: ignore[arg-type]
    write_table(run, "components", components)
    write_table(run, "component_vocabulary", vocabulary)
    write_table(run, "component_exclusions", excluded)


def grid_of_object(image: str, text: str) -> np.ndarray:
    said = text.lower().replace(".", "").split()
    values = np.random.default_rng([7, *map(ord, image)]).uniform(0, 0.1, (4, sum(map(len, SLOTS))))
    words = [(word, local) for slot, local in zip(SLOTS, LOCAL, strict=True) for word in slot]
    for column, (word, local) in enumerate(words):
        if local and {word, f"{word}s"} & set(said):
            values[int(image[-1]) % 4, column] += 1  # the region that shows the object
        elif not local and word in text:
            values[:, column] += 1
    return values.astype(np.float16)


# MHA-D: each region shows one word of its scene

GERMAN = (
    ("ein", "zwei", "drei"),
    ("roter", "blauer", "grüner", "weißer", "schwarzer"),
    ("hund", "kater", "gaul", "vogel", "wagen", "kahn", "ball", "baum"),
    ("auf dem hügel", "unter der brücke", "am see", "hinter der scheune", "im hof", "an der straße"),
)


def write_german_world(run: Path, images: Sequence[tuple[str, int]], seed: int = 0) -> Path:
    """Captions (2 English and 2 German per image), negatives of the English ones, and features_grid (4, 22)."""
    write_world(run, images, seed)
    rows = pq.read_table(run / "captions").to_pylist()
    scenes = shuffled_scenes(Random(seed))[: len(rows) // 2]
    german = dict(zip(chain(*SLOTS), chain(*GERMAN), strict=True))
    captions = []
    for n, scene in enumerate(scenes):
        first, second = rows[2 * n : 2 * n + 2]
        said = " ".join(german[word] for word in scene)
        captions += [first, second]
        for k, text in ((2, f"Da ist {said}."), (3, f"{said}.")):
            key = {"caption_id": f"world:{second['image_id']}:{k}", "language": "de", "text": text}
            captions.append({**second, **key})
    write_table(run, "captions", pa.Table.from_pylist(captions, CAPTIONS))
    values = [grid_of_words(scene, seed) for scene in scenes]
    write_features(run, [row["image_id"] for row in rows[::2]], np.array(values), table="features_grid")
    return run


def grid_of_words(words: Sequence[str], seed: int) -> np.ndarray:
    """The features (4, 22) of a scene: region k has 1 for the k-th word, and all have a little noise."""
    shown = np.array([[word == said for kind in SLOTS for word in kind] for said in words])
    noise = np.random.default_rng([seed, *map(ord, "".join(words))]).uniform(0.01, 0.1, shown.shape)
    return (shown + noise).astype(np.float16)
