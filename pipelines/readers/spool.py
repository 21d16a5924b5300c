"""Group captions by image on disk: written as they are read, given back image by image. Memory holds only the images.

COCO's annotations are not grouped by image. Rows are written to one Arrow file as they come. If the captions of some
image were not adjacent, the rows are then distributed to buckets, one per range of images, and each bucket is sorted in
memory.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from negcap.pipelines.readers.record import MAX_CAPTIONS, Record, Rejected, image_id, reject

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

BATCH_ROWS = 8192
BUCKET_ROWS = 131_072
MAX_BUCKETS = 512
COLUMNS = ("image", "number", "split", "language", "text")


class Spool:
    """Rows (image, number, split, language, text) in a file of `folder`; the first four are integers.

    images, image_ids, splits, languages: what the integers of a column stand for (indices from 0), in order of first
    appearance. sizes: captions kept, per image. grouped: whether the captions of each image were adjacent. full:
    whether a record was dropped because of the limit. in_two_splits: images with captions in more than one split.
    """

    def __init__(self, folder: Path, limit: int | None = None) -> None:
        """Open an empty file in `folder`, which must exist. limit: images to keep, the first ones; None: all."""
        import pyarrow as pa

        self.images: list[str] = []
        self.image_ids: list[str] = []
        self.sizes = array("q")
        self.grouped = True
        self.full = False
        self.in_two_splits: set[int] = set()
        self._limit, self._folder = limit, folder
        self._indexes: dict[str, int] = {}
        self._taken: list[int] = []  # per image, its next caption number; if records have numbers, a bit mask of them
        self._image, self._index = "", -1
        self._splits: dict[str, int] = {}
        self._split_of = array("l")
        self._languages: dict[str, int] = {}
        integer = pa.int32()
        types = (integer, integer, integer, integer, pa.string())
        self.schema = pa.schema(list(zip(COLUMNS, types, strict=True)))
        self._rows: tuple[list, ...] = ([], [], [], [], [])
        self._writer = pa.ipc.new_file(str(folder / "captions.arrow"), self.schema)

    @property
    def splits(self) -> list[str]:
        """The splits; the integers in the column `split` are indices into them."""
        return list(self._splits)

    @property
    def languages(self) -> list[str]:
        """The languages; the integers in the column `language` are indices into them."""
        return list(self._languages)

    def add(self, record: Record) -> Rejected | None:
        """Add a clean record; returns the record rejected, with the reason, if it cannot be kept, or else None.

        A record of an image beyond the limit is dropped, and `full` is set.
        """
        if record.image != self._image:
            index = self._find(record.image)
            if index is None:
                self.full = True
                return None
            if self.images[index] != record.image:
                name = self.image_ids[index]
                detail = f"image_id {name} must be of one image, {self.images[index]}, was: {record.image}"
                return reject(record, "ambiguous_image", detail)
            self.grouped = self.grouped and index >= self._index
            self._image, self._index = record.image, index
        index, number = self._index, record.number
        if self.sizes[index] == MAX_CAPTIONS:
            detail = f"an image must have <= {MAX_CAPTIONS:,} captions, has more: {record.image}"
            return reject(record, "too_many_captions", detail)
        if number is None:
            number = self._taken[index]
            self._taken[index] += 1
        elif self._taken[index] >> number & 1:
            detail = f"caption number must be unique in its image, was again: {record.image}#{number}"
            return reject(record, "duplicate_caption_id", detail)
        else:
            self._taken[index] |= 1 << number
        split = self._splits.setdefault(record.split, len(self._splits))
        if not self.sizes[index]:
            self._split_of[index] = split
        elif self._split_of[index] != split:
            self.in_two_splits.add(index)
        self.sizes[index] += 1
        images, numbers, splits, languages, texts = self._rows
        images.append(index)
        numbers.append(number)
        splits.append(split)
        languages.append(self._languages.setdefault(record.language, len(self._languages)))
        texts.append(record.text)
        if len(texts) >= BATCH_ROWS:
            self._flush()
        return None

    def close(self) -> None:
        """Finish writing; further calls have no effect."""
        if self._rows[0]:
            self._flush()
        self._writer.close()

    def in_order(self) -> Iterator[pa.RecordBatch]:
        """All rows of the closed spool: images in order of first appearance, the captions of each in source order."""
        import pyarrow as pa

        batches = _batches(self._folder / "captions.arrow")
        if self.grouped:
            yield from batches
            return
        import numpy as np

        sizes = np.frombuffer(self.sizes, dtype=np.int64)
        buckets = min(-(-int(sizes.sum()) // BUCKET_ROWS), MAX_BUCKETS)
        rows_before = np.cumsum(sizes) - sizes
        bucket_of = rows_before * buckets // max(int(sizes.sum()), 1)
        if buckets > 1:
            _deal(batches, bucket_of, [self._bucket(index) for index in range(buckets)], self.schema)
        for index in range(buckets):
            dealt = _batches(self._bucket(index)) if buckets > 1 else batches
            table = pa.Table.from_batches(list(dealt), self.schema)
            order = np.argsort(table["image"].to_numpy(), kind="stable")
            yield from table.take(pa.array(order)).to_batches()
            if buckets > 1:
                self._bucket(index).unlink()

    def _bucket(self, index: int) -> Path:
        return self._folder / f"bucket-{index}.arrow"

    def _find(self, image: str) -> int | None:
        """The index of an image, which is added if it is new; None if it is beyond the limit."""
        name = image_id(image)
        index = self._indexes.get(name)
        if index is None:
            index = len(self.images)
            if index == self._limit:
                return None
            self._indexes[name] = index
            self.images.append(image)
            self.image_ids.append(name)
            self.sizes.append(0)
            self._taken.append(0)
            self._split_of.append(0)
        return index

    def _flush(self) -> None:
        import pyarrow as pa

        columns = [pa.array(values, type=of.type) for values, of in zip(self._rows, self.schema, strict=True)]
        self._writer.write_batch(pa.record_batch(columns, schema=self.schema))
        self._rows = ([], [], [], [], [])


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


def cut(batches: Iterator[pa.RecordBatch], sizes: Sequence[int]) -> Iterator[pa.Table]:
    """The rows of `batches` as tables of the given numbers of rows, which add up to all rows."""
    import pyarrow as pa

    rest: pa.RecordBatch | None = None
    for size in sizes:
        parts, missing = [], size
        while missing:
            batch = next(batches) if rest is None else rest
            part = batch.slice(0, missing)
            rest = batch.slice(missing) if batch.num_rows > missing else None
            missing -= part.num_rows
            parts.append(part)
        yield pa.Table.from_batches(parts)


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
        for index in range(reader.num_record_batches):
            yield reader.get_batch(index)


def _deal(batches: Iterator[pa.RecordBatch], bucket_of: np.ndarray, paths: Sequence[Path], schema: pa.Schema) -> None:
    """Write each row to the bucket of its image, in order. bucket_of (images,): indices into `paths`."""
    import numpy as np
    import pyarrow as pa

    with ExitStack() as stack:
        writers = [stack.enter_context(pa.ipc.new_file(str(path), schema)) for path in paths]
        for batch in batches:
            buckets = bucket_of[batch.column("image").to_numpy()]
            order = np.argsort(buckets, kind="stable")
            ends = np.cumsum(np.bincount(buckets, minlength=len(paths)))
            dealt = batch.take(pa.array(order))
            for writer, start, end in zip(writers, [0, *ends[:-1]], ends, strict=True):
                if end > start:
                    writer.write_batch(dealt.slice(start, end - start))
