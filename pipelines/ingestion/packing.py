"""Rows of whole images -> shards of captions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...schemas.captions import CAPTIONS
from .config import IngestConfig
from .rows import KEPT

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

LEAST, SHARDS, MOST_MB = 1_000, 2_048, 1


def captions_per_shard(config: IngestConfig, captions: int, characters: int) -> int:
    """How many captions a shard may have, given the number of those that were read and of their characters.

    As the config says; else LEAST, or so many that there are at most SHARDS shards, but no more than MOST_MB of text:
    a core of one machine has work from a small source on, and a cluster does not get millions of files.
    """
    per_mb = 1_000_000 * captions / max(1, characters)
    if config.shard_mb is not None:
        return max(1, int(config.shard_mb * per_mb))
    return config.shard_size or max(LEAST, min(captions // SHARDS, int(MOST_MB * per_mb)))


def shard_sizes(sizes: Sequence[int], shard_size: int) -> list[tuple[int, int]]:
    """Distribute images, given their numbers of captions, to shards: (captions, images) of each shard, in order.

    A shard has up to `shard_size` captions, of whole images, and at least one image: shard_sizes([5, 5, 5], 12) ->
    [(10, 2), (5, 1)].
    """
    shards = []
    captions = images = 0
    for size in sizes:
        if images and captions + size > shard_size:
            shards.append((captions, images))
            captions = images = 0
        captions += size
        images += 1
    return [*shards, (captions, images)] if images else shards


def image_sizes(home: np.ndarray) -> np.ndarray:
    """The number of captions of each image, in the order of `home`: for each caption, the position of its image's first
    caption.
    """
    import numpy as np

    return np.unique(home, return_counts=True)[1]


def in_order(rows: pa.Table) -> pa.Table:
    """Captions sorted by `home`, the position of their image's first caption; those of one image must be in order
    already.
    """
    import numpy as np
    import pyarrow as pa

    return rows.take(pa.array(np.argsort(rows["home"].to_numpy(), kind="stable"))).combine_chunks()


def images_in_two_splits(rows: pa.Table) -> int:
    """The number of images with captions in more than one split; rows: captions, those of an image adjacent."""
    pairs = rows.group_by(["home", "split"]).aggregate([])
    return int((image_sizes(pairs["home"].to_numpy()) > 1).sum())


def captions(rows: pa.Table, source_name: str) -> pa.Table:
    """The table captions (negcap.schemas.captions) of rows of `Grouped.kept`. source_name: the first part of every
    caption_id.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    text = pa.string()
    columns = {
        "caption_id": pc.binary_join_element_wise(source_name, rows["image_id"], rows["number"].cast(text), ":"),
        "origin": pa.repeat(pa.scalar("human", text), rows.num_rows),
    }
    arrays = [columns[name] if name in columns else rows[name] for name in CAPTIONS.names]
    return pa.table(arrays, schema=CAPTIONS).combine_chunks()


def source_columns(rows: pa.Table, built: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table source_columns, with the columns of the source to keep; rows: of `Grouped.kept`; built: the table
    captions made of them.
    """
    import pyarrow as pa

    keys = [built[name] for name in schema.names[:2]]
    return pa.table([*keys, *(rows[KEPT + name] for name in schema.names[2:])], schema=schema).combine_chunks()
