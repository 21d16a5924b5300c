"""What a CLIP is trained on: pictures, and the tokens of captions and negatives, from a run and a folder of images."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Generator, Tensor

from ....schemas.captions import LANGUAGE
from ....schemas.negatives import POSITIVE
from ...engine.tables import has_table, no_table, read_table, shards_of
from ...features.preprocess import open_images
from ...tables.columns import read_columns, stored_splits
from ...tables.images import Images
from ..batches import build_pool
from ..data import CONCRETENESS, concreteness
from ..dual import Negatives
from .config import NEED_NEGATIVES, TRIPLET, ClipConfig
from .network import Towers

NEGATIVES = ("caption_id", "text", "family", "operator")
WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Pairs:
    """The captions of some splits that have an image file, their images, and their negatives.

    ids: (C,) caption_ids. files: one per image (I). texts: (C,) captions, in the order of their images. image: (C,) the
    index of each caption's image. negatives: (M,) texts. owner: (M,) the caption of each. family: (M,) its position in
    the config's `negative_families`. concreteness: (M,) see `Drawn`. operators: (M,) the name of its operator. first:
    (M,) bool, the first that its operator made of the caption.
    """

    ids: list[str]
    files: list[Path]
    texts: list[str]
    image: Tensor
    negatives: list[str]
    owner: Tensor
    family: Tensor
    concreteness: Tensor
    operators: list[str]
    first: Tensor


def read_pairs(config: ClipConfig, splits: Sequence[str]) -> Pairs:
    """The pairs of some splits. Raises ValueError if there are none, or an image file is missing, naming the first."""
    columns = ["caption_id", "image_id", "image", "split", "language", "text"]
    rows = pa.concat_tables(read_table(config.run, "captions", columns))
    rows = rows.filter(pc.is_in(rows["split"], pa.array(stored_splits(splits), pa.string()))).filter(
        pc.field("language") == LANGUAGE
    )
    if not len(rows):
        raise ValueError(f"split must be one of the captions in {config.run}, have none of: {', '.join(splits)}")
    there, names = Images(config.images), rows["image"].to_pylist()
    files = {image: there.find(image) for image in dict.fromkeys(names)}
    if missing := [image for image, file in files.items() if file is None]:
        raise FileNotFoundError(f"images must have every image of the captions, {config.images} lacks {missing[0]}")
    number = {image: at for at, image in enumerate(files)}
    caption = {id: at for at, id in enumerate(rows["caption_id"].to_pylist())}
    if config.refined and not has_table(config.run, "refined"):
        raise no_table(config.run, "refined")
    negatives = _negatives(config, caption) if has_table(config.run, "negatives") else None
    table = negatives.to_pydict() if negatives else {name: [] for name in NEGATIVES}
    found = concreteness(negatives) if negatives else np.zeros(0, np.float32)
    places = {name: at for at, name in enumerate(config.negative_families)}
    seen: dict[tuple[str, str], int] = {}
    keys = zip(table["caption_id"], table["operator"], strict=True)
    first = [seen.setdefault(key, number) == number for number, key in enumerate(keys)]
    return Pairs(
        list(caption),
        [config.images / str(file) for file in files.values()],
        rows["text"].to_pylist(),
        torch.tensor([number[image] for image in names]),
        table["text"],
        torch.tensor([caption[id] for id in table["caption_id"]], dtype=torch.long),
        torch.tensor([places.get(name, -1) for name in table["family"]], dtype=torch.long),
        torch.tensor(found),
        table["operator"],
        torch.tensor(first, dtype=torch.bool),
    )


def _negatives(config: ClipConfig, captions: dict[str, int]) -> pa.Table:
    shards = shards_of(config.run, "refined" if config.refined else "negatives")
    rows = pa.concat_tables(read_columns(shard, (*NEGATIVES, CONCRETENESS)) for shard in shards)
    known = pc.is_in(rows["caption_id"], pa.array(list(captions), pa.string()))
    return rows.filter(pc.and_(known, pc.not_equal(rows["family"], POSITIVE)))


@dataclass(frozen=True)
class Counterparts:
    """Pictures in which negatives are true. files: one per negative (N). texts: (N,) the negatives. owner: (N,) the
    caption of each, in ascending order.
    """

    files: list[Path]
    texts: list[str]
    owner: Tensor


def read_counterparts(config: ClipConfig, ids: Sequence[str]) -> Counterparts | None:
    """The counterparts of the captions with these caption_ids; None if the objective has none.

    Raises ValueError if there are none.
    """
    if config.objective != TRIPLET:
        return None
    number = {id: at for at, id in enumerate(ids)}
    rows: list[tuple[int, Path, str]] = []
    if has_table(config.run, "counterparts"):
        for table in read_table(config.run, "counterparts", ["caption_id", "image", "text"]):
            found = zip(*(table[name].to_pylist() for name in ("caption_id", "image", "text")), strict=True)
            rows += [(number[id], config.images / image, text) for id, image, text in found if id in number]
    if not rows:
        raise ValueError(f"{TRIPLET} needs pictures of negatives, {config.run} has none: run negcap counterparts")
    owner, files, texts = zip(*sorted(rows), strict=True)
    return Counterparts(list(files), list(texts), torch.tensor(owner))


def draw_counterparts(owner: Tensor, captions: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
    """One counterpart of each caption of a batch (B,) that has any: their numbers (n,), and where in the batch (n,).

    owner: (N,) the caption of each counterpart, in ascending order.
    """
    first, last = torch.searchsorted(owner, captions), torch.searchsorted(owner, captions, right=True)
    places = (last > first).nonzero()[:, 0]
    chance = torch.rand(len(captions), generator=generator)[places]
    return first[places] + (chance * (last - first)[places]).long(), places


class Encoded:
    """Pictures and texts as tensors on the CPU: pixels (I, 3, h, w) float16, and token ids of captions (C, T) int32.

    Also of the pairs' negatives (M, T), or none of counterparts, each a picture with its caption. Raises ValueError
    naming a file that is no image.
    """

    def __init__(self, pairs: Pairs | Counterparts, towers: Towers) -> None:
        parts = (pairs.files[start : start + 64] for start in range(0, len(pairs.files), 64))
        opened = (images for part in parts for images in open_images(part))
        self.pixels = torch.from_numpy(np.concatenate([towers.pixels(images).astype(np.float16) for images in opened]))
        self.captions = towers.tokens(pairs.texts).int()
        negatives = pairs.negatives if isinstance(pairs, Pairs) else []
        self.negatives = towers.tokens(negatives).int() if negatives else self.captions[:0]


def frequent_words(texts: Sequence[str], least: int = 2) -> list[str]:
    """The words and signs that occur at least `least` times, in lower case, sorted."""
    counts = Counter(word for text in texts for word in WORD.findall(text.lower()))
    return sorted(word for word, count in counts.items() if count >= least)


def pool_of(pairs: Pairs, config: ClipConfig) -> Negatives | None:
    """The negatives that training samples from; None if its loss has none. Raises ValueError if there are none."""
    if config.objective not in NEED_NEGATIVES:
        return None
    named = torch.tensor([name in config.negative_operators for name in pairs.operators], dtype=torch.bool)
    pool = build_pool(pairs.owner, pairs.family.clamp(min=0), named & (pairs.family >= 0), len(pairs.texts))
    if not len(pool.rows):
        raise ValueError(f"{config.objective} needs negatives of the families {', '.join(config.negative_families)}")
    return Negatives(pool, pairs.family, pairs.concreteness)


def batches(pairs: Pairs, config: ClipConfig, generator: Generator) -> Iterator[Tensor]:
    """Batches of captions (B,) for one epoch: of every image one random caption, the images in random order."""
    chance = torch.rand(len(pairs.texts), generator=generator)
    order = chance.argsort()
    image = pairs.image[order]
    by_image, at = image.sort(stable=True)
    starts = torch.searchsorted(by_image, torch.arange(len(pairs.files)))
    chosen = order[at[starts]]
    for batch in chosen[torch.randperm(len(chosen), generator=generator)].split(config.batch_size):
        if len(batch) > 1:
            yield batch
