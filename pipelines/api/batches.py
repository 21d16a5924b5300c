"""Captions with negatives as batches for PyTorch, straight from the shards of a run.

    >>> from negcap import Negatives
    >>> batches = Negatives("outputs/mine", negatives=8, batch_size=256, images="photos", transform=preprocess)
    >>> loader = torch.utils.data.DataLoader(batches, batch_size=None, collate_fn=batches.collate, num_workers=2)
    >>> for epoch in range(10):
    ...     batches.set_epoch(epoch)
    ...     for batch in loader: ...

What is in a batch depends on seed, epoch and batch size only: any number of workers, and of ranks together, gives the
same batches. `NegativesByKey` joins negatives to samples that something else reads, such as the tars of a WebDataset.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypedDict

import numpy as np
import pyarrow as pa
import torch
from torch import Generator, distributed
from torch.utils.data import IterableDataset, get_worker_info

from ...schemas.negatives import POSITIVE
from ..engine.tables import Shard, shards_of
from ..features.preprocess import open_image
from ..models.sampling import NegativePool, sample_of_each
from ..readers.record import Record, Rejected, clean
from ..tables.columns import UNSPLIT, splits_of
from ..tables.images import Images
from ..tables.pairs import CaptionsWithNegatives, captions_with_negatives, join_shards

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["CaptionBatch", "Negatives", "NegativesByKey"]

# The uses of random numbers: each has its own stream, so that shuffling changes no choice of negatives.
SHUFFLE = 0
CHOOSE = 1
SHARDS = 16  # shards of negatives that `NegativesByKey` keeps in memory
FIRST = 1000  # of so many first samples of `NegativesByKey`, one must have negatives

Tokenize = Callable[[list[str]], torch.Tensor]
Sample: TypeAlias = Any  # an entry of a sample that something else reads: a text, a picture, a tensor …


class CaptionBatch(TypedDict, total=False):
    """A dictionary of B captions, each with its image and up to k negatives.

    Attributes:
        image_id: B ids.
        image: B paths of image files or, with a transform, a tensor (B, …); absent without a folder of images.
        caption: B texts, or a tensor (B, …) of a tokenizer.
        negatives: B lists of k texts, or a tensor (B, k, …). The empty text stands where a caption has fewer.
        mask: a tensor (B, k) of bool, False where the empty text stands.
    """

    image_id: list[str]
    image: list[Path] | torch.Tensor
    caption: list[str] | torch.Tensor
    negatives: list[list[str]] | torch.Tensor
    mask: torch.Tensor


class Process(NamedTuple):
    """The number of this process, from 0, and of all."""

    rank: int
    processes: int


def this_process() -> Process:
    """The rank of this process, and how many there are: (0, 1) without torch.distributed."""
    if distributed.is_available() and distributed.is_initialized():
        return Process(distributed.get_rank(), distributed.get_world_size())
    return Process(0, 1)


class Negatives(IterableDataset[CaptionBatch]):
    """The English captions of a run, with negatives or without, in random order, as batches (see `CaptionBatch`).

    Use it with `DataLoader(batches, batch_size=None, collate_fn=batches.collate, num_workers=…)`.

    Args:
        run: the folder of a run with captions and negatives.
        negatives: k, negatives per caption, drawn anew for each epoch that `set_epoch` sets. A caption with fewer gets
            all it has, and the batch's mask is False for the rest.
        batch_size: B, captions per batch.
        split: only captions of these splits; all if empty or, with a warning, if the run has no splits.
        operators: only negatives of these operators; all if empty.
        refined: only negatives that `negcap refine` kept.
        images: the folder of the image files, or None if only ids are wanted.
        transform: makes a tensor of an image (PIL, RGB); the tensors of a batch must have equal shapes.
        tokenize: makes a tensor (n, …) of n texts.
        seed: equal seeds give equal batches.
        shuffle: whether each epoch has its own random order; otherwise it is the order of the run.
        drop_last: leave out a last batch that is smaller, and the last batches if there is not one for every rank.
        rank: the number of this process, from 0; None: that of torch.distributed if it is initialized, else 0. A rank
            gets every batch whose number is `rank` modulo `ranks`.
        ranks: the number of all processes; None: that of torch.distributed if it is initialized, else 1.

    Raises:
        FileNotFoundError: the run has no captions or negatives, or an image file is missing.
        ValueError: a number is below 1, or no caption with negatives is left.

    Examples:
        >>> batches = Negatives(run, negatives=2, batch_size=4, split=())
        >>> first = next(iter(batches))
        >>> len(first["caption"]), [len(texts) for texts in first["negatives"]], first["mask"].shape
        (4, [2, 2, 2, 2], torch.Size([4, 2]))
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
        transform: Callable[[Image], torch.Tensor] | None = None,
        tokenize: Tokenize | None = None,
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
        process = this_process()
        self.ranks = process.processes if ranks is None else ranks
        self.rank = process.rank if rank is None else rank
        if not 0 <= self.rank < self.ranks:
            raise ValueError(f"rank must be from 0 to {self.ranks - 1}, was: {self.rank}")
        self.negatives = negatives
        self.batch_size = batch_size
        self.seed = seed
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.transform = transform
        self.tokenize = tokenize
        table = "refined" if refined else "negatives"
        # All are in memory as Arrow, which forked workers share; Python strings are made only for a batch at a time.
        self._captions, rows, starts = _read_captions(Path(run), _as_names(split), _as_names(operators), table)
        # The negatives of caption i are rows starts[i] to starts[i + 1] of `_texts`; its last text, "", stands for a
        # negative that a caption lacks.
        texts = rows["negative"].cast(pa.large_string()).chunks
        self._texts = pa.concat_arrays([*texts, pa.array([""], pa.large_string())])
        self._pool = NegativePool(torch.from_numpy(starts), negatives)
        self._images = None if images is None else Path(images)
        if self._images is None:
            self._captions = self._captions.drop_columns(["image"])
        else:
            files = _find_files(Images(self._images), self._captions["image"])
            self._captions = self._captions.set_column(1, "image", files)
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()  # workers that persist see it change

    @staticmethod
    def collate(batch: CaptionBatch) -> CaptionBatch:
        """The batch as it is. Without it a DataLoader looks at every text, which takes longer than making the batch."""
        return batch

    def set_epoch(self, epoch: int) -> None:
        """Choose the order and the negatives of an epoch, 0 at first.

        Call it before each epoch with its number, else all epochs are alike. It also reaches persistent workers.
        """
        self._epoch.fill_(epoch)

    @property
    def captions(self) -> int:
        """The number of captions, on all ranks together."""
        return len(self._captions)

    @property
    def with_negatives(self) -> int:
        """The number of captions that have negatives, on all ranks together."""
        return int(self._pool.starts.diff().count_nonzero())

    def __len__(self) -> int:
        """The number of batches of this rank in an epoch."""
        return len(range(self.rank, self._batches(), self.ranks))

    def _batches(self) -> int:
        """The number of batches of all ranks in an epoch."""
        if not self.drop_last:
            return math.ceil(self.captions / self.batch_size)
        whole = self.captions // self.batch_size
        return whole - whole % self.ranks  # ranks wait for each other in each step, so each has equally many

    def __iter__(self) -> Iterator[CaptionBatch]:
        """The batches of this rank and, in a worker of a DataLoader, of this worker."""
        worker = get_worker_info()
        worker_number = 0 if worker is None else worker.id
        workers = 1 if worker is None else worker.num_workers
        epoch = int(self._epoch)
        order = np.arange(self.captions)
        if self.shuffle:
            order = np.random.default_rng([self.seed, SHUFFLE, epoch]).permutation(self.captions)
        # Batch i is of rank i % ranks, and the workers of a rank take its batches in turn. A batch has its own seed, so
        # that its negatives are the same whichever worker makes it.
        first = self.rank + worker_number * self.ranks
        for number in range(first, self._batches(), self.ranks * workers):
            rows = order[number * self.batch_size : (number + 1) * self.batch_size]
            (seed,) = np.random.SeedSequence([self.seed, CHOOSE, epoch, number]).generate_state(1, np.uint64)
            yield self._make_batch(rows, Generator().manual_seed(int(seed >> 1)))  # PyTorch's seeds have a sign

    def _make_batch(self, rows: np.ndarray, generator: Generator) -> CaptionBatch:
        """The batch of B rows of `_captions`."""
        wanted = self._captions.take(rows)
        chosen, mask = self._pool.sample(torch.from_numpy(rows), generator)  # (B, k) each
        text_rows = np.where(mask.numpy(), chosen.numpy(), len(self._texts) - 1)
        negatives = self._texts.take(pa.array(text_rows.ravel())).to_pylist()  # B k texts, those of a caption together
        # Without a transform the paths are the images, so that a loop of one's own can open them as it likes.
        batch: CaptionBatch = {"image_id": wanted["image_id"].to_pylist(), "mask": mask}
        if self._images is not None:
            paths = [self._images / name for name in wanted["image"].to_pylist()]
            batch["image"] = paths
            if self.transform is not None:
                batch["image"] = torch.stack([self.transform(open_image(path)) for path in paths])
        captions = wanted["text"].to_pylist()
        k = self.negatives
        if self.tokenize is None:
            batch["caption"] = captions
            batch["negatives"] = [negatives[start : start + k] for start in range(0, len(negatives), k)]
        else:
            tokens = self.tokenize([*captions, *negatives])
            batch["caption"] = tokens[: len(captions)]
            batch["negatives"] = tokens[len(captions) :].unflatten(0, mask.shape)
        return batch


class NegativesByKey:
    """Joins negatives to samples by their keys: a map function for `webdataset`, `datasets`, or a loop of one's own.

    A sample is a dict with `__key__`, the id of its image in the run, and its caption. It is returned with `negatives`,
    k texts in random order or a tensor (k, …) of a tokenizer, and `mask`, (k,) bool. Where the caption has fewer, the
    empty text stands in `negatives`, and `mask` is False. Which of a caption's negatives are taken is drawn by
    PyTorch's random numbers, which differ in each epoch and worker.

    In memory are 12 bytes per image, and the last 16 shards of negatives that were asked for: samples should come as
    the run's source has them, so join before shuffling.

    Args:
        run: the folder of a run with negatives.
        negatives: k, negatives per sample.
        text: the entry of a sample with its caption, a str or UTF-8: its negatives are those that were made of it.
        operators: only negatives of these operators; all if empty.
        refined: only negatives that `negcap refine` kept.
        tokenize: makes a tensor (k, …) of k texts.

    Raises:
        FileNotFoundError: the run has no negatives.
        ValueError: a number is below 1, a sample lacks an entry, or of the first 1,000 samples none has negatives.

    Examples:
        >>> join = NegativesByKey(run, negatives=2)
        >>> pipeline = webdataset.WebDataset("photos/{00000..00099}.tar").decode("pil").map(join)
    """

    def __init__(
        self,
        run: str | PathLike[str],
        *,
        negatives: int = 8,
        text: str = "txt",
        operators: str | Sequence[str] = (),
        refined: bool = False,
        tokenize: Tokenize | None = None,
    ) -> None:
        if negatives < 1:
            raise ValueError(f"negatives must be >= 1, was: {negatives}")
        self.negatives = negatives
        self.text = text
        self.tokenize = tokenize
        self._run = run
        self._operators = _as_names(operators)
        self._shards = shards_of(Path(run), "refined" if refined else "negatives")
        # An index of images: their hashes, ascending, and the number of the shard of each, (n,). If two ids had one
        # hash, one would not be found, but no caption would get another's negatives: `_negatives_by_caption` has ids.
        of_shards = [_hash_ids(shard.read(["image_id"])["image_id"].unique().to_pylist()) for shard in self._shards]
        hashes = np.concatenate([*of_shards, _hash_ids([])])  # the empty array is for a table without shards
        shard_numbers = np.repeat(np.arange(len(of_shards), dtype=np.int32), [len(of_shard) for of_shard in of_shards])
        order = np.argsort(hashes, kind="stable")
        self._image_hashes = hashes[order]
        self._shard_of_image = shard_numbers[order]
        self._recent: dict[int, dict[tuple[str, str], list[str]]] = {}  # by shard, see `_negatives_by_caption`
        self._misses = 0  # samples without negatives, until one has some; -1 from then on

    def __call__(self, sample: Mapping[str, Sample]) -> dict[str, Sample]:
        """The entries of a sample, with `negatives` and `mask`."""
        if missing := [name for name in ("__key__", self.text) if name not in sample]:
            raise ValueError(f"samples must have {missing[0]}, one has: {', '.join(map(str, sample))}")
        negatives = self._negatives_of(sample["__key__"], sample[self.text])
        if negatives or self._misses < 0:
            self._misses = -1
        else:
            self._misses += 1
        if self._misses == FIRST:
            raise ValueError(
                f"{self.text} must be the captions of {self._run}: of {FIRST:,} samples none has negatives"
            )
        (numbers,), (mask,) = sample_of_each(torch.tensor([len(negatives)]), self.negatives)
        chosen = [negatives[number] for number in numbers[mask].tolist()]
        texts = chosen + [""] * (self.negatives - len(chosen))
        return {**sample, "negatives": texts if self.tokenize is None else self.tokenize(texts), "mask": mask}

    def _negatives_of(self, key: str, text: str | bytes) -> Sequence[str]:
        """The negatives of a caption; none if the run does not have it."""
        if isinstance(text, bytes):
            text = text.decode("utf-8", "surrogateescape")
        caption = clean(Record("", 0, key, text, id=key))  # as the run has it
        if isinstance(caption, Rejected):
            return ()
        [image_hash] = _hash_ids([caption.id])
        position = int(np.searchsorted(self._image_hashes, image_hash))
        if position == len(self._image_hashes) or self._image_hashes[position] != image_hash:
            return ()
        shard = int(self._shard_of_image[position])
        if shard not in self._recent:
            while len(self._recent) >= SHARDS:
                oldest = next(iter(self._recent))  # a dict has its keys in the order of their insertion
                del self._recent[oldest]
            self._recent[shard] = _negatives_by_caption(self._shards[shard], self._operators)
        return self._recent[shard].get((caption.id, caption.text), ())


def _as_names(given: str | Sequence[str]) -> tuple[str, ...]:
    """One name or several as a tuple."""
    return (given,) if isinstance(given, str) else tuple(given)


def _hash_ids(ids: Sequence[str]) -> np.ndarray:
    """64 bits of each id, (n,) uint64."""
    from pandas.util import hash_array

    return hash_array(np.array(ids, object), categorize=False)


def _negatives_by_caption(shard: Shard, operators: Sequence[str]) -> dict[tuple[str, str], list[str]]:
    """The negatives of each caption in a shard, by image_id and text."""
    negatives: dict[tuple[str, str], dict[str, None]] = {}  # several operators may make one text
    columns = shard.read(("image_id", "caption", "text", "operator", "family"))
    for image, caption, text, operator, family in zip(*columns.to_pydict().values(), strict=True):
        if family != POSITIVE and (not operators or operator in operators):
            negatives.setdefault((image, caption), {})[text] = None
    return {key: [*texts] for key, texts in negatives.items()}


def _read_captions(run: Path, splits: Sequence[str], operators: Sequence[str], table: str) -> CaptionsWithNegatives:
    """Read the captions of some splits, with their negatives by some operators; () for all of them.

    A text that several operators made of a caption is read once. table: the table of negatives, such as `refined`.
    Raises ValueError if none of the captions has a negative.
    """
    if "train" in splits and splits_of(run) == (UNSPLIT,):
        warnings.warn(f"{run} has no splits: all its captions are taken", stacklevel=3)
        splits = ()
    of_captions = ("image_id", "image", "text")
    captions = join_shards(
        captions_with_negatives(run, operators, splits, table=table, of_captions=of_captions, distinct=True)
    )
    if not len(captions.negatives):
        of_splits = f" of split {', '.join(splits)}" if splits else ""
        of_operators = " of these operators" if operators else ""
        raise ValueError(f"{run} must have captions{of_splits} with negatives{of_operators}, has none")
    return captions


def _find_files(images: Images, names: pa.ChunkedArray) -> pa.Array:
    """The image file of each caption, in its folder. Raises FileNotFoundError naming one that is missing."""
    # Each name once: several captions have one image, and finding its file asks the disk.
    encoded = names.combine_chunks().dictionary_encode()
    files = {name: images.find(name) for name in encoded.dictionary.to_pylist()}
    if missing := [name for name, file in files.items() if file is None]:
        raise FileNotFoundError(f"{missing[0]} is not in {images.folder}")
    return pa.array(files.values(), pa.string()).take(encoded.indices)
