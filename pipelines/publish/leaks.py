"""Leaks: captions and images of the train split that stand in another split too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from negcap.pipelines.engine.shards import list_shards
from negcap.pipelines.publish.selection import Example
from negcap.pipelines.tables.columns import read_columns

TRAIN = ("train", "restval")
WORDS = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Trained:
    """The captions (folded, hashed) and images of the train split."""

    texts: frozenset[bytes]
    images: frozenset[str]

    def leaks(self, example: Example, siblings: bool = False) -> Iterator[tuple[str, str, str]]:
        """The captions of an example (siblings: of its image) that the train split has, unless it is of that split.

        For each: its caption_id, whether its `image` or the `caption` itself is there, and the path or text.
        """
        if example.split in TRAIN:
            return
        for caption_id, text in [(example.caption_id, example.text), *(example.siblings if siblings else ())]:
            if example.image_id in self.images:
                yield caption_id, "image", example.image
            elif folded(text) in self.texts:
                yield caption_id, "caption", text


def folded(text: str) -> bytes:
    """A hash of a text's words and punctuation that ignores case and spacing."""
    return blake2b(" ".join(WORDS.findall(text.casefold())).encode(), digest_size=12).digest()


def trained(run: Path) -> Trained:
    """Read the train split of a run. Raises as `read_columns`."""
    texts: set[bytes] = set()
    images: set[str] = set()
    for shard in list_shards(run / "captions"):
        rows: dict[str, list[Any]] = read_columns(shard, ["image_id", "split", "text"]).to_pydict()
        for image_id, split, text in zip(rows["image_id"], rows["split"], rows["text"], strict=True):
            if split in TRAIN:
                texts.add(folded(text))
                images.add(image_id)
    return Trained(frozenset(texts), frozenset(images))
