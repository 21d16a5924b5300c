"""An artificial world as a run: scenes (number, colour, noun, place) with captions, negatives and features."""

import json
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa

from negcap.schemas.captions import CAPTIONS
from negcap.schemas.negatives import NEGATIVES
from tests.tables import write_table

NOUNS = ("dog", "cat", "horse", "bird", "car", "boat", "ball", "tree")
COLOURS = ("red", "blue", "green", "white", "black")
NUMBERS = ("one", "two", "three")
PLACES = ("on the hill", "under the bridge", "near the lake", "behind the barn", "in the yard", "by the road")
SLOTS = (NUMBERS, COLOURS, NOUNS, PLACES)
FAMILY = {0: ("numeral", "numeral"), 2: ("noun", "noun"), 3: ("relation", "preposition")}


def write_world(run: Path, images: Sequence[tuple[str, int]] = (("train", 300), ("test", 60)), seed: int = 0) -> Path:
    """Write captions (2 per image), negatives and features of distinct scenes; images: pairs (split, number)."""
    random = Random(seed)
    scenes = list(product(*SLOTS))
    random.shuffle(scenes)
    splits = [split for split, number in images for _ in range(number)]
    captions, negatives = [], []
    for number, (split, scene) in enumerate(zip(splits, scenes, strict=False)):
        image = f"scene{number:04d}"
        for n, text in enumerate((caption(scene), f"A photo: {caption(scene)}")):
            key = {"caption_id": f"world:{image}:{n}", "image_id": image, "split": split, "origin": "human"}
            captions.append({**key, "image": f"{image}.png", "language": "en", "text": text})
            negatives += negatives_of(key, text, scene, random)
    write_table(run, "captions", pa.Table.from_pylist(captions, CAPTIONS))
    write_table(run, "negatives", pa.Table.from_pylist(negatives, NEGATIVES))
    names = [f"scene{number:04d}" for number in range(len(splits))]
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
