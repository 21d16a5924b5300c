"""What a CLIP is trained on: pictures, and the tokens of captions and negatives, from a run and a folder of images."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Generator, Tensor

from ...engine.tables import has_table, read_table
from ...features.preprocess import open_images
from ...tables.images import Images
from ...tables.pairs import earlier, pair_tables
from ..batches import NegativePool, shuffled_batches
from ..data import concreteness
from .config import NEED_NEGATIVES, TRIPLET, ClipConfig
from .towers import Towers

COLUMNS = ("caption_id", "image", "text", "negative", "operator", "family", "concreteness")
WORD = re.compile(r"\w+|[^\w\s]")


class Pairs:
    """The captions of some splits that have an image file, their images, and their negatives.

    ids: (C,) caption_ids. files: one per image (I). texts: (C,) captions, in the order of their images. image: (C,) the
    index of each caption's image. negatives: (M,) texts. owner: (M,) the caption of each. operators: (M,) the name of
    its operator. family, concreteness: (M,) see `Drawn`; family: -1 for one that is not trained on. first: (M,) bool,
    the first that its operator made of the caption.

    Raises ValueError if there are no captions, FileNotFoundError if an image file is missing, naming the first.
    """

    def __init__(self, config: ClipConfig, splits: Sequence[str]) -> None:
        table = "refined" if config.refined else "negatives" if has_table(config.run, "negatives") else ""
        parts = pair_tables(config.run, (), splits, table=table, columns=COLUMNS, every_caption=True, denials=False)
        rows = pa.concat_tables(parts).combine_chunks()
        if not len(rows):
            raise ValueError(f"split must be one of the captions in {config.run}, have none of: {', '.join(splits)}")
        caption = rows["caption_id"].combine_chunks().dictionary_encode()
        owner = torch.from_numpy(caption.indices.to_numpy().astype(np.int64))
        first = rows.take(np.unique(owner.numpy(), return_index=True)[1])  # where each caption occurs first
        image = first["image"].combine_chunks().dictionary_encode()
        images = Images(config.images)
        files = {name: images.find(name) for name in image.dictionary.to_pylist()}
        if missing := [name for name, file in files.items() if file is None]:
            raise FileNotFoundError(f"images must have every image of the captions, {config.images} lacks {missing[0]}")
        made = pc.is_valid(rows["negative"])
        rows, self.owner = rows.filter(made), owner[torch.from_numpy(made.to_numpy())]
        family = pc.fill_null(pc.index_in(rows["family"], pa.array(config.negative_families, pa.string())), -1)
        self.ids, self.texts = caption.dictionary.to_pylist(), first["text"].to_pylist()
        self.files = [config.images / str(file) for file in files.values()]
        self.image = torch.from_numpy(image.indices.to_numpy().astype(np.int64))
        self.negatives, self.operators = rows["negative"].to_pylist(), rows["operator"].to_pylist()
        self.family = torch.from_numpy(family.to_numpy().astype(np.int64))
        self.concreteness, self.first = concreteness(rows), torch.from_numpy(earlier(rows) == 0)


def read_counterparts(config: ClipConfig, ids: Sequence[str]) -> tuple[list[Path], list[str], Tensor]:
    """The pictures (N) in which negatives of captions are true, these negatives (N), and the caption of each, (N,).
    ids: the caption_ids. The captions are in ascending order. Raises ValueError if there are none.
    """
    number = {id: at for at, id in enumerate(ids)}
    rows: list[tuple[int, Path, str]] = []
    for table in read_table(config.run, "counterparts") if has_table(config.run, "counterparts") else ():
        mine = (row for row in table.to_pylist() if row["caption_id"] in number)
        rows += [(number[row["caption_id"]], config.images / row["image"], row["text"]) for row in mine]
    if not rows:
        raise ValueError(f"{TRIPLET} needs pictures of negatives, {config.run} has none: run negcap counterparts")
    owner, files, texts = zip(*sorted(rows), strict=True)
    return list(files), list(texts), torch.tensor(owner)


def draw_counterparts(owner: Tensor, captions: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
    """One counterpart of each caption of a batch (B,) that has any: their numbers (n,), and where in the batch (n,).
    owner: (N,) the caption of each counterpart, in ascending order.
    """
    first, last = torch.searchsorted(owner, captions), torch.searchsorted(owner, captions, right=True)
    places = (last > first).nonzero()[:, 0]
    chance = torch.rand(len(captions), generator=generator)[places]
    return first[places] + (chance * (last - first)[places]).long(), places


class Encoded:
    """Pictures and texts as tensors on the CPU: pixels (I, 3, h, w) float16, and token ids of captions (C, T) and of
    negatives (M, T), int32. Raises ValueError naming a file that is no image.
    """

    def __init__(self, towers: Towers, files: Sequence[Path], texts: Sequence[str], negatives: Sequence[str]) -> None:
        parts = [towers.pixels(images).astype(np.float16) for images in open_images(files)]
        self.pixels = torch.from_numpy(np.concatenate(parts))
        self.captions = towers.tokens(texts).int()
        self.negatives = towers.tokens(negatives).int() if negatives else self.captions[:0]


def frequent_words(texts: Sequence[str], least: int = 2) -> list[str]:
    """The words and signs that occur at least `least` times, in lower case, sorted."""
    counts = Counter(word for text in texts for word in WORD.findall(text.lower()))
    return sorted(word for word, count in counts.items() if count >= least)


def pool_of(pairs: Pairs, config: ClipConfig) -> NegativePool | None:
    """The negatives that training samples from; None if its loss has none. Raises ValueError if there are none."""
    if config.objective not in NEED_NEGATIVES:
        return None
    wanted = torch.tensor([name in config.negative_operators for name in pairs.operators]) & (pairs.family >= 0)
    given = pairs.owner, pairs.family, pairs.concreteness, wanted, len(pairs.texts), config.negatives
    pool = NegativePool(*given)
    if not len(pool.rows):
        raise ValueError(f"{config.objective} needs negatives of the families {', '.join(config.negative_families)}")
    return pool


def batches(pairs: Pairs, config: ClipConfig, generator: Generator) -> Iterator[Tensor]:
    """Batches of captions (B,) for one epoch: of every image one random caption, the images in random order."""
    order = torch.rand(len(pairs.texts), generator=generator).argsort()
    by_image, at = pairs.image[order].sort(stable=True)
    chosen = order[at[torch.searchsorted(by_image, torch.arange(len(pairs.files)))]]
    return shuffled_batches(chosen, config.batch_size, generator)
