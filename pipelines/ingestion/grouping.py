"""Bring the captions of each image together, and refuse what an image cannot have twice, or too much of, with DuckDB.

It sorts and groups, in a small memory and else on disk, the keys of rows alone: where they stand, their image and their
number. The rows themselves are fetched by their positions when the shards are written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...schemas.captions import CAPTIONS
from ..readers.record import MAX_CAPTIONS, Rejected, excerpt
from .rows import KEPT, IngestConfig

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

COLUMNS = ("image_id", "image", "number", "keys")  # of rows, that decide what is kept
LEAST, SHARDS, MOST_MB = 1_000, 2_048, 1
MEMORY, MEMORY_OF_KEY = 48_000_000, 5  # bytes: DuckDB fails with much less
DIFFERENCES = {"duplicate_text": "case and punctuation", "near_duplicate_text": "a few letters"}

# home: the position of the first row of the image, which the shard is of. again: a number that the image has already.
# before: how many captions of the image come before. Rows that were rejected when they were read have no image_id.
GROUPS = f"""
CREATE TABLE rows AS SELECT position, image_id, hash(image) AS image, number, keys FROM found;
CREATE TABLE repeated AS
    WITH keyed AS (SELECT position, unnest(keys) AS key, generate_subscripts(keys, 1) > 1 AS near FROM rows),
    firsts AS (SELECT *, min(position) OVER (PARTITION BY key) AS first FROM keyed)
    SELECT position, CASE WHEN min(near) THEN 'near_duplicate_text' ELSE 'duplicate_text' END AS reason
    FROM firsts WHERE position > first GROUP BY position;
CREATE TABLE placed AS
    WITH named AS (
        SELECT *, first_value(position) OVER image AS home, image != first_value(image) OVER image AS ambiguous
        FROM rows ANTI JOIN repeated USING (position) WHERE image_id IS NOT NULL
        WINDOW image AS (PARTITION BY image_id ORDER BY position)
    ), numbered AS (
        SELECT *, number IS NOT NULL
            AND row_number() OVER (PARTITION BY home, image, number ORDER BY position) > 1 AS again
        FROM named
    ), counted AS (
        SELECT *, count(*) FILTER (NOT ambiguous AND NOT again) OVER (
            PARTITION BY home ORDER BY position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
        FROM numbered
    )
    SELECT home, position, coalesce(number, before) AS number, CASE
        WHEN ambiguous THEN 'ambiguous_image'
        WHEN before >= {MAX_CAPTIONS} THEN 'too_many_captions'
        WHEN again THEN 'duplicate_caption_id' END AS reason
    FROM counted;
CREATE VIEW kept AS SELECT home, position, number FROM placed WHERE reason IS NULL;
CREATE VIEW refused AS
    SELECT position, reason, home FROM placed WHERE reason IS NOT NULL
    UNION ALL SELECT position, reason, position FROM repeated
    UNION ALL SELECT position, NULL, position FROM rows WHERE image_id IS NULL;
"""


@contextmanager
def grouped(blocks: Iterable[pa.RecordBatch], rows: int = 0, folder: Path | None = None) -> Iterator[Any]:
    """A connection with two views, to be sorted by all columns: `kept`, the `home`, `position` and final `number` of
    each caption, and `refused`, the `position`, `reason` (null: that of reading) and `home` of each rejected record.

    blocks: `position` and COLUMNS of all rows. rows: how many keys there are. folder: for what does not fit into the
    memory, which grows little with them; None: take as much memory as there is. Raises OSError if the disk is full.
    """
    import duckdb
    import pyarrow as pa

    settings: dict[str, Any] = {"threads": 1, "preserve_insertion_order": False, "temp_directory": ""}
    if folder is not None:
        settings |= {"temp_directory": str(folder), "memory_limit": f"{MEMORY + MEMORY_OF_KEY * rows}B"}
    types = [pa.int64(), pa.string(), pa.string(), pa.int64(), pa.list_(pa.uint64())]
    found = pa.RecordBatchReader.from_batches(
        pa.schema(list(zip(("position", *COLUMNS), types, strict=True))), iter(blocks)
    )
    with duckdb.connect(config=settings) as connection:
        connection.register("found", found)
        connection.execute(GROUPS)
        yield connection


def reject(rows: pa.Table, reasons: Sequence[str | None], images: Sequence[str | None]) -> list[Rejected]:
    """Rows as rejected records; reasons: those of `refused`. images: the first image of each row's image_id."""
    found = []
    for row, reason, image in zip(rows.to_pylist(), reasons, images, strict=True):
        detail = row["detail"]
        if reason in DIFFERENCES:
            detail = f"caption must differ from every earlier one in more than {DIFFERENCES[reason]}"
        elif reason == "ambiguous_image":
            detail = f"image_id {row['image_id']} must be of one image, {image}, was: {row['image']}"
        elif reason == "too_many_captions":
            detail = f"an image must have <= {MAX_CAPTIONS:,} captions, has more: {row['image']}"
        elif reason == "duplicate_caption_id":
            detail = f"caption number must be unique in its image, was again: {row['image']}#{row['number']}"
        text = row["text"] if reason is None else excerpt(row["text"])
        found.append(Rejected(row["source"], row["line"], reason or row["reason"], detail, text))
    return found


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


def image_sizes(home: np.ndarray) -> list[int]:
    """The number of captions of each image, in the order of `home`: for each caption, the position of its image's first
    caption.
    """
    import numpy as np

    return np.unique(home, return_counts=True)[1].tolist()


def shards_of_ranges(kept: Path, starts: Sequence[int], shard_size: int) -> list[int]:
    """The number of shards that the images of each range of positions fill; kept: the file of the table `kept`, starts:
    of the ranges.
    """
    import numpy as np
    import pyarrow.parquet as pq

    shards, last = [0] * len(starts), 0
    homes: list[np.ndarray] = []
    for batch in pq.ParquetFile(kept).iter_batches(1 << 17, columns=["home"], use_threads=False):
        home = batch["home"].to_numpy()
        ranges = np.searchsorted(starts, home, "right") - 1
        for index in np.unique(ranges).tolist():
            homes = [*homes, home[ranges == index]] if index == last else [home[ranges == index]]
            last = index
            shards[index] = len(shard_sizes(image_sizes(np.concatenate(homes)), shard_size))
    return shards


def images_in_two_splits(home: np.ndarray, rows: pa.Table) -> int:
    """The number of images with captions in more than one split; rows: captions, home: of each."""
    import pyarrow as pa

    pairs = pa.table({"home": home, "split": rows["split"]}).group_by(["home", "split"]).aggregate([])
    return sum(size > 1 for size in image_sizes(pairs["home"].to_numpy()))


def captions(rows: pa.Table, number: np.ndarray, source_name: str) -> pa.Table:
    """The table captions (negcap.schemas.captions) of rows and their final caption numbers. source_name: the first part
    of every caption_id.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    text = pa.string()
    columns = {
        "caption_id": pc.binary_join_element_wise(source_name, rows["image_id"], pa.array(number).cast(text), ":"),
        "origin": pa.repeat(pa.scalar("human", text), rows.num_rows),
    }
    arrays = [columns[name] if name in columns else rows[name] for name in CAPTIONS.names]
    return pa.table(arrays, schema=CAPTIONS).combine_chunks()


def source_columns(rows: pa.Table, built: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table source_columns, with the columns of the source to keep of rows; built: the table captions made of
    them.
    """
    import pyarrow as pa

    keys = [built[name] for name in schema.names[:2]]
    return pa.table([*keys, *(rows[KEPT + name] for name in schema.names[2:])], schema=schema).combine_chunks()
