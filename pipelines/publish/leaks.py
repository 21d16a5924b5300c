"""Leaks: captions and images of the train split that are in another split too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from ..engine.tables import shards_of
from ..tables.columns import read_columns
from ..tables.examples import Example

TRAIN = ("train", "restval")
WORDS = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class TrainSplit:
    """The captions (as hashes by `text_hash`) and the image_ids of the train split."""

    texts: frozenset[bytes]
    images: frozenset[str]

    def leaks(self, example: Example, siblings: bool = False) -> Iterator[tuple[str, str, str]]:
        """Which captions of an example are in the train split too; nothing for an example of the train split itself.

        siblings: check the other captions of its image too. Yields caption_id, "image" or "caption" (what of it is in
        the train split), and the image's path or the caption's text.
        """
        if example.split in TRAIN:
            return
        for caption_id, text in [(example.caption_id, example.text), *(example.siblings if siblings else ())]:
            if example.image_id in self.images:
                yield caption_id, "image", example.image
            elif text_hash(text) in self.texts:
                yield caption_id, "caption", text


def text_hash(text: str) -> bytes:
    """A hash of a text's words and punctuation that ignores case and spacing."""
    return blake2b(" ".join(WORDS.findall(text.casefold())).encode(), digest_size=12).digest()


def read_train_split(run: Path) -> TrainSplit:
    """Read the train split (`train` and `restval`) of a run's captions. Raises what `read_columns` raises."""
    texts: set[bytes] = set()
    images: set[str] = set()
    for shard in shards_of(run, "captions"):
        rows: dict[str, list[Any]] = read_columns(shard, ["image_id", "split", "text"]).to_pydict()
        for image_id, split, text in zip(rows["image_id"], rows["split"], rows["text"], strict=True):
            if split in TRAIN:
                texts.add(text_hash(text))
                images.add(image_id)
    return TrainSplit(frozenset(texts), frozenset(images))
