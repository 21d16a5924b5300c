"""Features in the VSE++ "precomp" layout: `{split}_ims.npy` beside the captions that `readers.formats.vsepp` reads.

Faghri et al. 2018. An array (N, D), pooled, or (N, R, D), with R regions, has one row per image, or five equal rows per
image, one per caption. Arrays of bytes (uint8) need `{array}_scale.npz` with `low` and `high`: a byte u stands for the
number low + u / 255 * (high - low). Arrays are memory-mapped, not loaded.
"""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from ..engine.storage import sha256_file
from ..readers.files import lines
from ..readers.formats import CAPTIONS_PER_IMAGE, VSEPP_LINES, split_order
from .source import Part, finite_part, source_images

if TYPE_CHECKING:
    import numpy as np

EXPECTED_ARRAY = "a NumPy array (N, D) or (N, R, D) of numbers"
_NAME = re.compile(r"[A-Za-z0-9]+")


@dataclass(frozen=True)
class Array:
    """The array file of one split. images: number of images. rows: rows per image, 1 or 5."""

    path: Path
    images: int
    rows: int

    def map(self) -> np.ndarray:
        """The memory-mapped array. Raises ValueError, naming the file, when it cannot be read."""
        return open_array(self.path)


class Arrays:
    """A folder of `{split}_{array}.npy`, or one such file, as a Source of features."""

    def __init__(
        self, source: Path, array: str = "ims", scale: Path | None = None, dtype: str = "", backbone: str = ""
    ) -> None:
        """Open the arrays of all splits.

        scale: the .npz for arrays of bytes; None: `{array}_scale.npz` in the same folder. dtype: of the features; "":
        float16 for float16 and bytes, else float32. backbone: name of the model that made the arrays. Raises
        FileNotFoundError or ValueError naming the file and the rule.
        """
        import numpy as np

        paths = find_arrays(source, array)
        if source.is_file():
            array = source.stem.rpartition("_")[2]
        mapped = {split: open_array(path) for split, path in paths.items()}
        (first_split, first), *_ = mapped.items()
        for split, rows in mapped.items():
            if rows.shape[1:] != first.shape[1:] or rows.dtype != first.dtype:
                raise ValueError(
                    f"{paths[split]}: must have rows of {first.dtype} {first.shape[1:]} as {paths[first_split].name}, "
                    f"has {rows.dtype} {rows.shape[1:]}"
                )
        self.shape = tuple(int(size) for size in first.shape[1:])
        self.dtype = dtype or ("float16" if first.dtype in (np.uint8, np.float16) else "float32")
        self.backbone = backbone or f"precomp {array}"
        self.inputs = {path.name: f"sha256 {sha256_file(path)}" for path in paths.values()}
        self._scale: tuple[np.ndarray, np.ndarray] | None = None
        if first.dtype == np.uint8:
            beside = scale or paths[first_split].with_name(f"{array}_scale.npz")
            self._scale = read_scale(beside, paths[first_split], self.shape)
            self.inputs[beside.name] = f"sha256 {sha256_file(beside)}"
        names: list[tuple[str, str]] = []
        self._arrays = []
        for split, path in paths.items():
            images = image_names(path.parent, split, len(mapped[split]), path)
            self._arrays.append(Array(path, len(images), len(mapped[split]) // len(images) if images else 1))
            names += [("", image) for image in images]
        self.images = source_images(names)
        self._starts = [0, *accumulate(one.images for one in self._arrays)]

    def read(self, start: int, stop: int) -> Part:
        """Read features, see Source. Raises ValueError when the five rows of an image differ."""
        import numpy as np

        parts = []
        for array, first in zip(self._arrays, self._starts, strict=False):
            low, high = max(start - first, 0), min(stop - first, array.images)
            if low < high:
                parts.append(self._numbers(array, low, high))
        features = np.concatenate(parts)
        images = self.images[start:stop]
        kept = [at for at, image in enumerate(images) if not image.reason]
        rejected = [image for image in images if image.reason]
        return finite_part([images[at] for at in kept], features if not rejected else features[kept], rejected)

    def _numbers(self, array: Array, low: int, high: int) -> np.ndarray:
        import numpy as np

        rows = np.asarray(array.map()[low * array.rows : high * array.rows])
        if array.rows > 1:
            grouped = rows.reshape(high - low, array.rows, *self.shape)
            same = (grouped == grouped[:, :1]) | (grouped != grouped)
            if not same.all():
                image = low + int(np.argmin(same.reshape(high - low, -1).all(axis=1)))
                raise ValueError(
                    f"{array.path}: must have {CAPTIONS_PER_IMAGE} equal rows per image, those of image {image} differ"
                )
            rows = grouped[:, 0]
        if self._scale is not None:
            bottom, top = self._scale
            rows = bottom + rows.astype(np.float32) / np.float32(255) * (top - bottom)
        with np.errstate(over="ignore"):
            return rows.astype(self.dtype)


def find_arrays(source: Path, array: str) -> dict[str, Path]:
    """The array files by split, in reading order: all `{split}_{array}.npy` of a folder, or `source` itself.

    Raises ValueError for a wrong name, FileNotFoundError when there are no arrays.
    """
    if not _NAME.fullmatch(array):
        raise ValueError(f"array must be letters and digits, as ims in train_ims.npy, was: {array}")
    if source.is_file():
        split, _, kind = source.stem.rpartition("_")
        if source.suffix != ".npy" or not split or not _NAME.fullmatch(kind):
            raise ValueError(f"{source}: must be a folder, or a file named <split>_<array>.npy")
        return {split: source}
    if not source.is_dir():
        raise FileNotFoundError(f"{source}: no such file or folder")
    suffix = f"_{array}.npy"
    found = {path.name.removesuffix(suffix): path for path in source.glob(f"?*{suffix}")}
    if not found:
        arrays = ", ".join(sorted(path.name for path in source.glob("*.npy"))[:5]) or "no .npy files"
        raise FileNotFoundError(f"{source}: must have arrays named <split>{suffix}, has {arrays}")
    return {split: found[split] for split in sorted(found, key=split_order)}


def open_array(path: Path) -> np.ndarray:
    """Memory-map an array of features; pickles are refused. Raises ValueError naming the file and what was expected."""
    import numpy as np

    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path}: must be {EXPECTED_ARRAY}, cannot be read: {_first_line(error)}") from None
    if not isinstance(array, np.ndarray) or array.ndim not in (2, 3) or not array.size:
        was = array.shape if isinstance(array, np.ndarray) else "several arrays"
        raise ValueError(f"{path}: must be {EXPECTED_ARRAY}, was: {was}")
    if array.dtype.kind != "f" and array.dtype != np.uint8:
        raise ValueError(f"{path}: must be {EXPECTED_ARRAY}, floats or uint8, was: {array.dtype}")
    return array


def read_scale(path: Path, array: Path, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The numbers that the bytes 0 (`low`) and 255 (`high`) stand for, from the .npz `path`.

    array: the file that they are for. shape: of one feature, to which both must be broadcastable. Raises ValueError,
    naming the file, when it is missing, unreadable, has another shape, or not low <= high.
    """
    import numpy as np

    if not path.is_file():
        raise ValueError(f"{array}: uint8 needs {path.name} with low and high beside it, there is none")
    try:
        with np.load(path, allow_pickle=False) as stored:
            low, high = (np.asarray(stored[name], np.float32) for name in ("low", "high"))
        np.broadcast_to(low, shape), np.broadcast_to(high, shape)
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile, AttributeError, TypeError) as error:
        reason = _first_line(error)
        raise ValueError(f"{path}: must hold low and high for features of {shape}: {reason}") from None
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low <= high).all()):
        raise ValueError(f"{path}: low and high must be finite, low <= high")
    return low, high


def image_names(folder: Path, split: str, rows: int, array: Path) -> list[str]:
    """The names of the images of an array: the lines of `{split}_images.txt`, or else `{split}_{index}` from index 0.

    rows: of the array; there must be one, or five, per image (per five lines of `{split}_caps.txt` if only that file
    exists). Otherwise raises ValueError.
    """
    names, captions = folder / f"{split}_images.txt", folder / f"{split}_caps.txt"
    if names.is_file():
        found = list(lines(str(names), "a list of image names"))
        count, rule = len(found), f"one row, or five, per line of {names.name}"
    elif captions.is_file():
        count = sum(1 for _ in lines(str(captions), VSEPP_LINES)) // CAPTIONS_PER_IMAGE
        found, rule = [f"{split}_{index}" for index in range(count)], f"one row per image or caption of {captions.name}"
    else:
        return [f"{split}_{index}" for index in range(rows)]
    if rows not in (count, count * CAPTIONS_PER_IMAGE):
        raise ValueError(f"{array}: must have {rule}: {count} or {count * CAPTIONS_PER_IMAGE}, has {rows}")
    return found


def _first_line(error: BaseException) -> str:
    return (str(error.args[0]) if error.args else str(error)).strip().split("\n")[0].rstrip(".") or type(error).__name__
