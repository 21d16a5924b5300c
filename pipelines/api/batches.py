"""Captions with negatives as batches for PyTorch, straight from the shards of a run.

    >>> from negcap import Negatives
    >>> batches = Negatives("outputs/mine", negatives=8, batch_size=256, images="photos", transform=preprocess)
    >>> loader = torch.utils.data.DataLoader(batches, batch_size=None, collate_fn=batches.collate, num_workers=2)
    >>> for epoch in range(10):
    ...     batches.set_epoch(epoch)
    ...     for batch in loader: ...

What is in a batch depends on seed, epoch and batch size only: any number of workers, and of ranks together, gives the
same batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import torch
from torch.utils.data import IterableDataset, get_worker_info

from ..tables.images import Images
from ..tables.pairs import pair_tables

if TYPE_CHECKING:
    import pyarrow as pa


__all__ = ["Batch", "Negatives"]

SHUFFLE, CHOOSE = 0, 1  # what random numbers are for


class Batch(TypedDict, total=False):
    """B captions, each with its image and k negatives.

    image_id: B ids. image: B paths of image files or, with a transform, a tensor (B, …); absent without a folder of
    images. caption: B texts, or a tensor (B, …) of a tokenizer. negatives: B lists of k texts, or a tensor (B, k, …).
    """

    image_id: list[str]
    image: list[Path] | torch.Tensor
    caption: list[str] | torch.Tensor
    negatives: list[list[str]] | torch.Tensor


class Negatives(IterableDataset[Batch]):
    """The captions of a run that have negatives, in random order, as batches (see `Batch`).

    Use it with `DataLoader(batches, batch_size=None, collate_fn=batches.collate, num_workers=…)`.

    Args:
        run: the folder of a run with captions and negatives.
        negatives: k, negatives per caption: a random choice, new in every epoch. A caption with fewer gets all it has,
            some of them several times.
        batch_size: B, captions per batch.
        split: only captions of these splits.
        operators: only negatives of these operators; all if empty.
        refined: only negatives that `negcap refine` kept.
        images: the folder of the image files, or None if only ids are wanted.
        transform: makes a tensor of an image (PIL, RGB); the tensors of a batch must have equal shapes.
        tokenize: makes a tensor (n, …) of n texts.
        seed: equal seeds give equal batches.
        shuffle: whether each epoch has its own random order; otherwise it is the order of the run.
        drop_last: leave out a last batch that is smaller, and batches that not every rank would get one of.
        rank: the number of this process, from 0; None: that of torch.distributed if it is initialized, else 0. A rank
            gets every batch whose number is `rank` modulo `ranks`.
        ranks: the number of all processes; None: that of torch.distributed if it is initialized, else 1.

    Raises:
        FileNotFoundError: the run has no captions or negatives, or an image file is missing.
        ValueError: a number is below 1, or no caption is left.

    Examples:
        >>> batches = Negatives(run, negatives=2, batch_size=4, split=())
        >>> first = next(iter(batches))
        >>> len(first["caption"]), [len(some) for some in first["negatives"]]
        (4, [2, 2, 2, 2])
    """

    def __init__(
        self,
        run: str | PathLike[str],
        *,
        negatives: int = 8,
        batch_size: int = 256,
        split: str | Sequence[str] = "train",
        operators: str | Sequence[str] = (),
        refined: bool = False,
        images: str | PathLike[str] | None = None,
        transform: Callable[[Any], torch.Tensor] | None = None,
        tokenize: Callable[[list[str]], torch.Tensor] | None = None,
        seed: int = 0,
        shuffle: bool = True,
        drop_last: bool = True,
        rank: int | None = None,
        ranks: int | None = None,
    ) -> None:
        super().__init__()
        for name, value in (("negatives", negatives), ("batch_size", batch_size)):
            if value < 1:
                raise ValueError(f"{name} must be >= 1, was: {value}")
        if transform is not None and images is None:
            raise ValueError("a transform needs the image files: images=FOLDER")
        distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
        self.ranks = (torch.distributed.get_world_size() if distributed else 1) if ranks is None else ranks
        self.rank = (torch.distributed.get_rank() if distributed else 0) if rank is None else rank
        if not 0 <= self.rank < self.ranks:
            raise ValueError(f"rank must be from 0 to {self.ranks - 1}, was: {self.rank}")
        self.negatives, self.batch_size, self.seed = negatives, batch_size, seed
        self.shuffle, self.drop_last = shuffle, drop_last
        self.transform, self.tokenize = transform, tokenize
        splits, chosen = ((some,) if isinstance(some, str) else tuple(some) for some in (split, operators))
        table = "refined" if refined else "negatives"
        self._captions, self._texts, self._offsets = _read(Path(run), splits, chosen, table)
        self._paths = None if images is None else _paths(Images(Path(images)), self._captions["image"])
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()  # workers that persist see it change

    @staticmethod
    def collate(batch: Batch) -> Batch:
        """The batch as it is. Without it a DataLoader looks at every text, which takes longer than making the batch."""
        return batch

    def set_epoch(self, epoch: int) -> None:
        """Choose the order and the negatives of an epoch; also for workers that are kept from one to the next."""
        self._epoch.fill_(epoch)

    @property
    def captions(self) -> int:
        """The number of captions that have negatives, on all ranks together."""
        return len(self._offsets) - 1

    def __len__(self) -> int:
        """The number of batches of this rank in an epoch."""
        return len(range(self.rank, self._batches(), self.ranks))

    def _batches(self) -> int:
        whole = self.captions // self.batch_size
        if self.drop_last:
            return whole - whole % self.ranks
        return -(-self.captions // self.batch_size)

    def __iter__(self) -> Iterator[Batch]:
        """The batches of this rank and, in a worker of a DataLoader, of this worker."""
        worker = get_worker_info()
        number, workers = (0, 1) if worker is None else (worker.id, worker.num_workers)
        epoch = int(self._epoch)
        order = np.arange(self.captions)
        if self.shuffle:
            order = np.random.default_rng([self.seed, SHUFFLE, epoch]).permutation(self.captions)
        for n in range(self.rank + number * self.ranks, self._batches(), self.ranks * workers):
            rows = order[n * self.batch_size : (n + 1) * self.batch_size]
            yield self._batch(rows, np.random.default_rng([self.seed, CHOOSE, epoch, n]))

    def _batch(self, rows: np.ndarray, rng: np.random.Generator) -> Batch:
        k = self.negatives
        wanted = self._captions.take(rows)
        false = self._texts.take(_choose(self._offsets, rows, k, rng).ravel()).to_pylist()
        batch: Batch = {"image_id": wanted["image_id"].to_pylist()}
        if self._paths is not None:
            paths = [self._paths[row] for row in rows.tolist()]
            batch["image"] = paths if self.transform is None else torch.stack([*map(self._picture, paths)])
        true = wanted["text"].to_pylist()
        if self.tokenize is None:
            batch["caption"] = true
            batch["negatives"] = [false[at : at + k] for at in range(0, len(false), k)]
        else:
            tokens = self.tokenize([*true, *false])
            batch["caption"] = tokens[: len(true)]
            batch["negatives"] = tokens[len(true) :].unflatten(0, (len(true), k))
        return batch

    def _picture(self, path: Path) -> torch.Tensor:
        from ..features.preprocess import UnreadableError, decode

        assert self.transform is not None
        try:
            return self.transform(decode(path.read_bytes()))
        except UnreadableError as error:
            raise ValueError(f"{path}: {error.detail}") from error


def _choose(offsets: np.ndarray, rows: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """(B, k) indices of negatives: for each caption of `rows` (B,) a random choice, repeated if it has fewer than k."""
    sizes = offsets[rows + 1] - offsets[rows]
    keys = rng.random((len(rows), int(sizes.max())))
    keys[np.arange(keys.shape[1]) >= sizes[:, None]] = 2.0  # beyond the last negative of the caption
    drawn = np.argsort(keys, axis=1)
    return offsets[rows][:, None] + np.take_along_axis(drawn, np.arange(k) % sizes[:, None], axis=1)


def _read(
    run: Path, splits: Sequence[str], operators: Sequence[str], table: str
) -> tuple[pa.Table, pa.Array, np.ndarray]:
    """The captions (C rows) that have negatives, the texts of all negatives, and where those of each begin (C + 1,)."""
    import pyarrow as pa

    columns = ("caption_id", "image_id", "image", "text", "negative")
    captions, texts, sizes = [], [], [np.zeros(1, np.int64)]
    for rows in pair_tables(run, operators, splits, table=table, columns=columns, denials=False):
        caption = rows["caption_id"].combine_chunks().dictionary_encode().indices.to_numpy()
        first = np.flatnonzero(np.diff(caption, prepend=-1))
        captions.append(rows.select(["image_id", "image", "text"]).take(first))
        texts += rows["negative"].cast(pa.large_string()).chunks
        sizes.append(np.diff(np.append(first, len(caption))))
    if not texts:
        of = f" of split {', '.join(splits)}" if splits else ""
        raise ValueError(
            f"{run} must have captions{of} with negatives{' of these operators' * bool(operators)}, has none"
        )
    return pa.concat_tables(captions).combine_chunks(), pa.concat_arrays(texts), np.cumsum(np.concatenate(sizes))


def _paths(images: Images, names: pa.ChunkedArray) -> list[Path]:
    """The path of each caption's image file. Raises FileNotFoundError naming one that is missing."""
    found = {name: images.find(name) for name in names.unique().to_pylist()}
    if missing := [name for name, file in found.items() if file is None]:
        raise FileNotFoundError(f"{missing[0]} is not in {images.folder}")
    return [images.folder / str(found[name]) for name in names.to_pylist()]
