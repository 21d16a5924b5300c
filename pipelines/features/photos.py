"""Features of photos, all in a folder or those named in a run's captions: an output of an ONNX model."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..engine.errors import require_libraries
from ..engine.storage import sha256_file
from ..engine.tables import has_table
from ..readers.files import first_line
from ..tables.columns import image_paths
from ..tables.images import Images
from .preprocess import UnreadableError, normalised
from .source import FeaturesConfig, ReadFeatures, SourceImage, source_images

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
EXPECTED = "an ONNX model with one image input"
FLOATS = {"tensor(float)": "float32", "tensor(float16)": "float16"}
SUFFIXES = frozenset([".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm"])


class ModelInput(NamedTuple):
    """What an ONNX model reads: the name of its input, its type, and where the channels are.

    Attributes:
        name: of the input.
        dtype: float32 or float16.
        channels_last: images are (height, width, 3), not (3, height, width).
        batch: how many images it reads at once; 0: any number.
        size: height and width in pixels; where any will do, a name instead of a number.
    """

    name: str
    dtype: str
    channels_last: bool
    batch: int
    size: tuple[int | str | None, ...]


class Photos:
    """Photo files as a source of features: all below a folder, or those named in the captions of a run."""

    def __init__(self, source: Path, config: FeaturesConfig) -> None:
        """Load the model, list and hash the photos. source: a run, or a folder of photos. Raises FileNotFoundError for
        a missing model or photos, ValueError naming the model and the rule, ImportError without ONNX Runtime.
        """
        model = config.onnx or Path()
        self._config = config
        self._threads = config.threads or len(os.sched_getaffinity(0))
        self._path = model
        self._session = _load_session(model, config.device, self._threads)
        outputs = [output.name for output in self._session.get_outputs()]
        self._layer = config.layer or outputs[0]
        if self._layer not in outputs:
            raise ValueError(f"{model}: layer must be an output of the model, {', '.join(outputs)}; was: {self._layer}")
        self._input = _image_input(self._session, model)
        if any(isinstance(side, int) and side != config.crop for side in self._input.size):
            size = self._input.size
            raise ValueError(f"crop must be {size[0]} as {model.name} reads {size}, was: {config.crop}")
        found = find_photos(source, config.images)
        self._folder = found.folder
        self.images = found.images
        self.backbone = f"{model.name}:{self._layer}{' grid' if self._config.grid else ''}"
        self.dtype: str = config.dtype or "float32"
        # A black image tells the shape: models need not state that of their outputs.
        self.shape = self._encode(np.zeros((1, 3, config.crop, config.crop), np.float32)).shape[1:]
        # If one of these changes, features that are on the disk already are computed anew.
        self.inputs = {**_hashes_of_model(model), "photos": self._hash_of_photos()}

    def _hash_of_photos(self) -> str:
        """The number of photos, and a hash of their names and contents."""
        # Sorted, so that the hash does not depend on the order in which captions name their images.
        names = sorted({image.file for image in self.images if image.file})
        digest = hashlib.sha256()
        with ThreadPoolExecutor(self._threads) as pool:
            hashes = pool.map(lambda name: sha256_file(self._folder / name), names)
            for name, sha256 in zip(names, hashes, strict=True):
                digest.update(f"{name}\0{sha256}\n".encode(errors="surrogateescape"))
        return f"{len(names)} files, sha256 {digest.hexdigest()}"

    def read(self, start: int, stop: int) -> ReadFeatures:
        """The features of the images with indices start <= i < stop, and these images, see FeatureSource.

        Threads decode the photos of the next batch while the model runs.
        """
        images = self.images[start:stop]
        # Only images without a reason are batched, so that a missing file makes no batch smaller.
        readable = [position for position, image in enumerate(images) if not image.reason]
        step = self._config.batch
        batches = [readable[first : first + step] for first in range(0, len(readable), step)]
        parts = [np.empty((0, *self.shape), np.float32)]
        with ThreadPoolExecutor(self._threads) as pool:
            decoding: list[Future[np.ndarray]] = []  # the photos that are being decoded
            # The pool is one batch ahead of the model: first [] and batch 1, then 1 and 2, …, at last the last and [].
            for batch, next_batch in pairwise([[], *batches, []]):
                current = decoding
                decoding = [pool.submit(self._pixels, images[position].file) for position in next_batch]
                pixels = []
                for position, future in zip(batch, current, strict=True):
                    try:
                        pixels.append(future.result())
                    except UnreadableError as error:
                        images[position] = images[position]._replace(reason=error.reason, detail=error.detail)
                if pixels:
                    parts.append(self._encode(np.stack(pixels)))
        # What is too large for the type becomes infinite, and is refused later.
        with np.errstate(over="ignore"):
            return ReadFeatures(images, np.concatenate(parts).astype(self.dtype))

    def _pixels(self, file: str) -> np.ndarray:
        """A photo as the model reads it, (3, H, W) float32. Raises UnreadableError if it cannot be read."""
        try:
            data = (self._folder / file).read_bytes()
        except OSError as error:
            raise UnreadableError("unreadable", f"cannot be read: {error.strerror}") from None
        return normalised(data, self._config.resize, self._config.crop)

    def _encode(self, images: np.ndarray) -> np.ndarray:
        """The features of images (n, 3, H, W) float32: (n, D) or, with `grid`, (n, R, D) float32.

        The regions of a feature map (C, h, w) are its h * w positions, row by row; those of a sequence (R, D) are its
        elements. Without `grid`, their mean. Raises ValueError when the output has another shape or the model cannot be
        run on such images.
        """
        pixels = images.transpose(0, 2, 3, 1) if self._input.channels_last else images
        step = self._input.batch or len(pixels)
        # The last batch is filled up with black images, where the model wants full ones.
        missing = -len(pixels) % step
        pixels = np.pad(pixels, [(0, missing), (0, 0), (0, 0), (0, 0)]).astype(self._input.dtype)
        outputs = []
        try:
            for start in range(0, len(pixels), step):
                [output] = self._session.run([self._layer], {self._input.name: pixels[start : start + step]})
                outputs.append(output)
            output = np.concatenate(outputs)
        except Exception as error:  # ONNX Runtime's own
            shape = pixels.shape[1:]
            raise ValueError(f"{self._path}: cannot be run on images of {shape}: {first_line(error)}") from None
        layer = f"{self._path}: layer {self._layer} must be"
        if output.ndim not in (2, 3, 4) or len(output) != len(pixels) or output.dtype.kind != "f":
            was = f"{output.dtype} {output.shape} of {len(images)} images"
            raise ValueError(f"{layer} floats, one row per image, was: {was}")
        features = output[: len(images)].astype(np.float32, copy=False)
        if features.ndim == 4:  # a map: (n, C, h, w), or (n, h, w, C) -> (n, h * w, C)
            features = features if self._input.channels_last else features.transpose(0, 2, 3, 1)
            features = features.reshape(len(features), -1, features.shape[3])
        if features.ndim == 2 and self._config.grid:
            raise ValueError(f"{layer} a map (C, h, w) or tokens (R, D) per image, was: {features.shape[1:]}")
        return features if features.ndim == 2 or self._config.grid else features.mean(axis=1, dtype="float32")


def _image_input(session: InferenceSession, model: Path) -> ModelInput:
    """The only input of a model. Raises ValueError if it is not one of images in floats."""
    inputs = session.get_inputs()
    if len(inputs) == 1 and len(inputs[0].shape) == 4 and inputs[0].type in FLOATS:
        shape = inputs[0].shape  # a name stands for any number, as does batch=0 below
        channels_last = shape[3] == 3 and shape[1] != 3
        if channels_last or shape[1] == 3 or not isinstance(shape[1], int):
            return ModelInput(
                name=inputs[0].name,
                dtype=FLOATS[inputs[0].type],
                channels_last=channels_last,
                batch=shape[0] if isinstance(shape[0], int) else 0,
                size=tuple(shape[1:3] if channels_last else shape[2:]),
            )
    were = ", ".join(f"{given.name} {given.type} {given.shape}" for given in inputs) or "none"
    raise ValueError(f"{model}: must be {EXPECTED}, floats (batch, 3, height, width) or (…, 3), has {were}")


def _hashes_of_model(model: Path) -> dict[str, str]:
    """The hashes of a model's files, by their names.

    There are several where weights are beyond 2 GB: exporters put these into files whose names begin with the model's.
    """
    files = sorted(model.parent.glob(f"{glob.escape(model.name)}*"))
    return {path.name: f"sha256 {sha256_file(path)}" for path in files}


def _load_session(model: Path, device: str, threads: int) -> InferenceSession:
    """Load a model. Raises ImportError without the libraries, FileNotFoundError, ValueError naming what is wrong."""
    require_libraries('photos need ONNX Runtime and Pillow: pip install "negcap[features]"', "onnxruntime", "PIL")
    import onnxruntime

    if PROVIDERS[device] not in onnxruntime.get_available_providers():
        raise ValueError(f"device {device} needs an ONNX Runtime with {PROVIDERS[device]}")
    if not model.is_file():
        raise FileNotFoundError(f"{model}: no such file, expected {EXPECTED}")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # The same photos are to give the same features again.
    options.use_deterministic_compute = True
    # Errors are raised, too: the library's own lines on stderr would say them a second time.
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(str(model), options, providers=[PROVIDERS[device]])
    except Exception as error:  # ONNX Runtime's own
        raise ValueError(f"{model}: must be {EXPECTED}, cannot be read: {first_line(error)}") from None


class FoundPhotos(NamedTuple):
    """The folder of photos, and its images: each with its file, or with the reason why it has none."""

    folder: Path
    images: list[SourceImage]


def find_photos(source: Path, folder: Path | None) -> FoundPhotos:
    """The images named in the captions of run `source`, or else all photo files below `folder`, sorted by name.

    An image whose path leads out of the folder, whose id is repeated, or whose file is missing, stays in the list: its
    `reason` says why it has no file. Links are followed. Raises FileNotFoundError when there is no such folder or no
    photo can be read.

    Args:
        source: a run, or a folder of photos.
        folder: of the photos. None: `source`, which must then be no run.
    """
    is_run = has_table(source, "captions")
    if is_run and folder is None:
        raise FileNotFoundError(f"{source} is a run: images must be the folder of its photos, is not given")
    photos = Images(folder or source)
    if is_run:
        # Only what the captions name: other photos in the folder would be features that nobody asks for.
        images = source_images(image_paths(source).items())
    else:
        images = source_images(("", name) for name in sorted(_photo_files_below(photos.folder)))
    images = [image if image.reason else _with_file(image, photos) for image in images]
    if all(image.reason for image in images):
        first = f", the first: {images[0].image}: {images[0].reason}" if images else ""
        listed = ", ".join(sorted(SUFFIXES))
        raise FileNotFoundError(f"{photos.folder}: must have photos ({listed}), has none to read{first}")
    return FoundPhotos(photos.folder, images)


def _with_file(image: SourceImage, photos: Images) -> SourceImage:
    """The image with its file, or with the reason why it has none."""
    try:
        file = photos.find(image.image)
    except ValueError as error:
        return image._replace(reason="unsafe_path", detail=str(error))
    if not file:
        return image._replace(reason="missing", detail="must be a file in the image folder, is missing")
    return image._replace(file=file)


def _photo_files_below(folder: Path) -> Iterator[str]:
    """The paths of the photo files below a folder, relative to it. Links to folders are followed, each folder once."""
    seen: set[str] = set()
    for where, folders, names in os.walk(folder, followlinks=True):
        real_folder = os.path.realpath(where)
        if real_folder in seen:  # a link to a folder above
            folders.clear()
            continue
        seen.add(real_folder)
        for name in names:
            path = Path(where, name)
            if path.suffix.lower() in SUFFIXES:
                yield path.relative_to(folder).as_posix()
