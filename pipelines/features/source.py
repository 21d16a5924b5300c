"""Sources of features: images in a fixed order, each with a feature or the reason why it has none; those of arrays.

Arrays have the VSE++ "precomp" layout (Faghri et al. 2018): `{split}_ims.npy` beside the captions of
`negcap.pipelines.readers.formats`. An array (N, D), pooled, or (N, R, D), with R regions, has one row per image, or
five equal rows per image, one per caption. In an array of uint8 a byte u stands for low + u / 255 * (high - low), with
`low` and `high` from `{array}_scale.npz` beside it. Arrays are memory-mapped, not loaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Protocol, Self
from zipfile import BadZipFile

import numpy as np
import pyarrow as pa
from pydantic import Field, model_validator

from ...augment.settings import AtLeastOne, NotNegative, Settings, matching
from ...schemas.features import REJECTED_IMAGES, TABLE, tensors
from ...schemas.features import features as schema_of
from ..engine.storage import sha256_file
from ..readers.files import first_line, lines
from ..readers.formats import CAPTIONS_PER_IMAGE, VSEPP_LINES, split_order
from ..readers.record import Record, Rejected, clean, excerpt
from .preprocess import CROP, RESIZE

EXPECTED_ARRAY = "a NumPy array (N, D) or (N, R, D) of floats or uint8"
_NAME = re.compile(r"[A-Za-z0-9]+")


class FeaturesConfig(Settings):
    """What to read of a source, and how."""

    array: str = Field("ims", description="arrays to read of a VSE++ folder: SPLIT_NAME.npy")
    backbone: str = Field("", description="name of the model that made the arrays, for the metadata")
    onnx: Path | None = Field(None, description="extract features of photos with this ONNX model")
    layer: str = Field("", description="output of the model to read; by default its first")
    images: Path | None = Field(None, description="folder of the photos that a run's captions name")
    grid: bool = Field(False, description="keep the regions of the output instead of their mean")
    resize: int = Field(RESIZE, description="shorter side of a photo, in pixels")
    crop: AtLeastOne = Field(CROP, description="sides of its centre that is used, in pixels")
    batch: AtLeastOne = Field(32, description="photos computed at once")
    device: Literal["cpu", "cuda"] = Field("cpu", description="where the model runs")
    threads: NotNegative = Field(0, description="threads that read photos and run the model; 0: one per core")
    dtype: Literal["", "float16", "float32"] = Field(
        "", description="type to store; by default float16 for arrays of float16 or uint8, else float32"
    )
    table: Annotated[str, matching(rf"{TABLE}(_[a-z0-9]+)?", f"{TABLE}, or {TABLE}_ and a name of a-z and 0-9")] = (
        Field(TABLE, description="table to write: features or features_NAME")
    )
    limit: AtLeastOne | None = Field(None, description="read only the first N images; none: all")
    shard_size: AtLeastOne | None = Field(
        None, description="images per Parquet file; none: what fits in 64 MiB, at most 1000"
    )
    strict: bool = Field(False, description="stop at the first bad image instead of rejecting it")

    @model_validator(mode="after")
    def _check_photos(self) -> Self:
        """Refuse a crop that is larger than the resized photo, and options of photos without a model."""
        if self.resize < self.crop:
            raise ValueError(f"resize must be >= crop ({self.crop}), was: {self.resize}")
        if self.onnx is None:
            for name in ("layer", "images", "grid"):
                if getattr(self, name):
                    raise ValueError(f"{name} is for photos: onnx must be given with it")
        return self

    @property
    def rejections(self) -> str:
        """Name of the table of images without a feature: `rejected_images`, or `rejected_images_<name>`."""
        return REJECTED_IMAGES.metadata[b"table"].decode() + self.table.removeprefix(TABLE)


class SourceImage(NamedTuple):
    """An image of a source. reason, detail: why it has no feature, "" if it has one or that is not known yet. file: the
    path of its photo, if it is one.
    """

    image_id: str
    image: str
    reason: str = ""
    detail: str = ""
    file: str = ""


class ReadFeatures(NamedTuple):
    """A part of a source: its images, now with all reasons, and the features (n, *shape) of the n without one."""

    images: list[SourceImage]
    features: np.ndarray


class FeatureSource(Protocol):
    """Where features come from: arrays, or photos and a model.

    Attributes:
        images: all of them, in a fixed order, with those reasons that are known before features are read.
        backbone: the name of the model that makes the features.
        shape, dtype: of one feature.
        inputs: for each file that is read its name and a hash.
    """

    images: list[SourceImage]
    backbone: str
    shape: tuple[int, ...]
    dtype: str
    inputs: dict[str, str]

    def read(self, start: int, stop: int) -> ReadFeatures:
        """Read the features of images[start:stop]. Raises ValueError, naming the file, when one cannot be read."""


def source_images(images: Iterable[tuple[str, str]]) -> list[SourceImage]:
    """Check the images of a source, given as pairs (image_id, path).

    An image with an unsafe path or a repeated id gets a reason; an empty id is replaced by one from the name. Ids and
    rules are those of captions, so that both tables can be joined.
    """
    checked: list[SourceImage] = []
    first_with: dict[str, str] = {}
    for given, image in images:
        record = clean(Record("", 0, image, "image"))  # the image alone is asked about
        if isinstance(record, Rejected):
            checked.append(SourceImage(given, excerpt(image), record.reason, record.detail))
            continue
        name = given or record.id
        reason = ""
        detail = ""
        if name in first_with:
            reason = "duplicate_image_id"
            detail = f"image_id must be distinct, {name} is also that of {first_with[name]}"
        first_with.setdefault(name, record.image)
        checked.append(SourceImage(name, record.image, reason, detail))
    return checked


def table_of(image_ids: list[str], numbers: np.ndarray) -> pa.Table:
    """A table of features of n images, given their ids and features (n, *shape)."""
    schema = schema_of(numbers.shape[1:], numbers.dtype.name)
    column = tensors(pa.array(numbers.reshape(-1)), numbers.shape[1:])
    return pa.table([pa.array(image_ids, pa.string()), column], schema=schema)


class Arrays:
    """A folder of `{split}_{array}.npy`, or one such file, as a source of features."""

    def __init__(self, source: Path, config: FeaturesConfig) -> None:
        """Open the arrays of all splits. Raises FileNotFoundError or ValueError naming the file and the rule."""
        self._paths = find_arrays(source, config.array)
        paths = list(self._paths.values())
        mapped = [open_array(path) for path in paths]
        first = mapped[0]
        kinds = [f"{rows.dtype} {rows.shape[1:]}" for rows in mapped]
        for path, kind in zip(paths, kinds, strict=True):
            if kind != kinds[0]:
                raise ValueError(f"{path}: must have rows of {kinds[0]} as {paths[0].name}, has {kind}")
        self.shape = tuple(int(size) for size in first.shape[1:])
        self.dtype: str = config.dtype or ("float16" if first.dtype in ("float16", "uint8") else "float32")
        array = source.stem.rpartition("_")[2] if source.is_file() else config.array
        self.backbone = config.backbone or f"precomp {array}"
        files = list(paths)
        self._scale: Scale | None = None
        if first.dtype == "uint8":
            scale_file = paths[0].with_name(f"{array}_scale.npz")
            self._scale = read_scale(scale_file, self.shape)
            files.append(scale_file)
        self.inputs = {path.name: f"sha256 {sha256_file(path)}" for path in files}
        images: list[str] = []
        self._starts = [0]  # of each array, the index of its first image in `images`; then the number of all images
        for (split, path), rows in zip(self._paths.items(), mapped, strict=True):
            images += image_names(split, len(rows), path)
            self._starts.append(len(images))
        self.images = source_images(("", image) for image in images)

    def read(self, start: int, stop: int) -> ReadFeatures:
        """The features of the images with indices start <= i < stop, and these images, see FeatureSource.

        Raises ValueError if an array has five rows for each image, as some do, and those of one image differ.
        """
        # The images may begin in one array and end in another: from each, those between start and stop are read.
        parts = []
        for path, (first, end) in zip(self._paths.values(), pairwise(self._starts), strict=True):
            low = max(start, first) - first  # images of this array, counted from its first
            high = min(stop, end) - first
            if low < high:
                parts.append(self._read_array(path, end - first, slice(low, high)))
        images = self.images[start:stop]
        has_feature = [not image.reason for image in images]
        return ReadFeatures(images, np.concatenate(parts)[has_feature])

    def _read_array(self, path: Path, images: int, chosen: slice) -> np.ndarray:
        """The features of some images, from a file that has one row for each image, or five equal ones.

        path: of the NumPy file. images: how many images it is of. chosen: those to read. The result has the shape
        (chosen images, *shape of one feature).
        """
        rows = open_array(path).reshape(images, -1, *self.shape)[chosen]  # (n, 1 or 5 rows of an image, *shape)
        # Only NaN differs from itself. It counts as equal here, and is refused later.
        is_nan = rows != rows
        is_same_number = (rows == rows[:, :1]) | is_nan
        is_same = is_same_number.reshape(len(rows), -1).all(axis=1)  # (n,)
        if not is_same.all():
            image = chosen.start + int(np.argmin(is_same))
            rule = f"must have {CAPTIONS_PER_IMAGE} equal rows per image"
            raise ValueError(f"{path}: {rule}, those of image {image} differ")
        numbers = rows[:, 0]
        if self._scale is not None:
            span = self._scale.high - self._scale.low
            numbers = self._scale.low + numbers / np.float32(255) * span
        # What is too large for the type becomes infinite, and is refused later.
        with np.errstate(over="ignore"):
            return numbers.astype(self.dtype)


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
    paths = {path.name.removesuffix(suffix): path for path in source.glob(f"?*{suffix}")}
    if not paths:
        arrays = ", ".join(sorted(path.name for path in source.glob("*.npy"))[:5]) or "no .npy files"
        raise FileNotFoundError(f"{source}: must have arrays named <split>{suffix}, has {arrays}")
    return {split: paths[split] for split in sorted(paths, key=split_order)}


def open_array(path: Path) -> np.ndarray:
    """Memory-map an array of features; pickles are refused. Raises ValueError naming the file and what was expected."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path}: must be {EXPECTED_ARRAY}, cannot be read: {first_line(error)}") from None
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{path}: must be {EXPECTED_ARRAY}, was: several arrays")
    if array.ndim not in (2, 3) or not array.size or (array.dtype.kind != "f" and array.dtype != "uint8"):
        raise ValueError(f"{path}: must be {EXPECTED_ARRAY}, was: {array.dtype} {array.shape}")
    return array


class Scale(NamedTuple):
    """What the bytes 0 and 255 stand for: float32 of a feature's shape."""

    low: np.ndarray
    high: np.ndarray


def read_scale(path: Path, shape: Sequence[int]) -> Scale:
    """The scale of arrays of uint8, broadcast to a feature's shape. Raises ValueError naming the file."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            low = np.broadcast_to(stored["low"].astype(np.float32), shape)
            high = np.broadcast_to(stored["high"].astype(np.float32), shape)
    except (ValueError, KeyError, OSError, EOFError, BadZipFile, AttributeError, TypeError) as error:
        rule = f"must hold the numbers low and high of arrays of uint8, for features of {shape}"
        raise ValueError(f"{path}: {rule}, cannot be read: {first_line(error)}") from None
    if not (np.isfinite(high - low) & (low <= high)).all():
        raise ValueError(f"{path}: low and high must be finite, low <= high")
    return Scale(low, high)


def image_names(split: str, rows: int, array: Path) -> list[str]:
    """The names of the images of an array: the lines of `{split}_images.txt`, or else `{split}_{index}` from index 0.

    rows: how many the array has. Raises ValueError unless there are one or five per image. Without names, an image has
    five lines in `{split}_caps.txt`, if there is this file.
    """
    names = array.with_name(f"{split}_images.txt")
    captions = array.with_name(f"{split}_caps.txt")
    if names.is_file():
        images = list(lines(str(names), "a list of image names"))
        rule = f"one row, or five, per line of {names.name}"
    elif captions.is_file():
        count = sum(1 for _ in lines(str(captions), VSEPP_LINES)) // CAPTIONS_PER_IMAGE
        images = [f"{split}_{index}" for index in range(count)]
        rule = f"one row per image or caption of {captions.name}"
    else:
        return [f"{split}_{index}" for index in range(rows)]
    if rows not in (len(images), len(images) * CAPTIONS_PER_IMAGE):
        raise ValueError(f"{array}: must have {rule}: {len(images)} or {len(images) * CAPTIONS_PER_IMAGE}, has {rows}")
    return images
