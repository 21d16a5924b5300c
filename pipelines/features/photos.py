"""Features of photos, all in a folder or those named in a run's captions: an output of an ONNX model."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..engine.errors import require_libraries
from ..engine.storage import sha256_file
from ..engine.tables import has_table, read_table
from ..readers.files import first_line
from ..tables.images import Images
from .preprocess import UnreadableError, normalised
from .source import FeaturesConfig, SourceImage, source_images

PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
EXPECTED = "an ONNX model with one image input"
FLOATS = {"tensor(float)": "float32", "tensor(float16)": "float16"}
SUFFIXES = frozenset([".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm"])


class Photos:
    """Photo files as a source of features: all below a folder, or those named in the captions of a run."""

    def __init__(self, source: Path, config: FeaturesConfig) -> None:
        """Load the model, list and hash the photos. source: a run, or a folder of photos. Raises FileNotFoundError for
        a missing model or photos, ValueError naming the model and the rule, ImportError without ONNX Runtime.
        """
        self._config = config
        self._threads = config.threads or len(os.sched_getaffinity(0))
        self._path = model = config.onnx or Path()
        self._session = _session(model, config.device, self._threads)
        outputs = [one.name for one in self._session.get_outputs()]
        self._layer = config.layer or outputs[0]
        if self._layer not in outputs:
            raise ValueError(f"{model}: layer must be an output of the model, {', '.join(outputs)}; was: {self._layer}")
        given = self._session.get_inputs()
        shape = given[0].shape if len(given) == 1 and len(given[0].shape) == 4 and given[0].type in FLOATS else [0] * 4
        self._channels_last = shape[3] == 3 and shape[1] != 3
        if isinstance(shape[1], int) and shape[1] != 3 and not self._channels_last:
            were = ", ".join(f"{one.name} {one.type} {one.shape}" for one in given) or "none"
            raise ValueError(f"{model}: must be {EXPECTED}, floats (batch, 3, height, width) or (…, 3), has {were}")
        self._input = given[0].name
        self._dtype = FLOATS[given[0].type]
        self._prescribed = shape[0] if isinstance(shape[0], int) else 0  # the batch, 0: any
        size = shape[1:3] if self._channels_last else shape[2:]
        if any(isinstance(side, int) and side != config.crop for side in size):
            raise ValueError(f"crop must be {size[0]} as {model.name} reads {tuple(size)}, was: {config.crop}")
        self._folder, self.images = find_photos(source, config.images)
        self.backbone = f"{model.name}:{self._layer}{' grid' if self._config.grid else ''}"
        self.dtype = config.dtype or "float32"
        self.shape = self._encode(np.zeros((1, 3, config.crop, config.crop), np.float32)).shape[1:]
        # exporters put weights beyond 2 GB into files that are named as the model, with something behind the name
        models = sorted(model.parent.glob(f"{glob.escape(model.name)}*"))
        self.inputs = {path.name: f"sha256 {sha256_file(path)}" for path in models}
        names = sorted({image.file for image in self.images if image.file})
        digest = hashlib.sha256()
        with ThreadPoolExecutor(self._threads) as pool:
            for name, found in zip(names, pool.map(lambda name: sha256_file(self._folder / name), names), strict=True):
                digest.update(f"{name}\0{found}\n".encode(errors="surrogateescape"))
        self.inputs["photos"] = f"{len(names)} files, sha256 {digest.hexdigest()}"

    def read(self, start: int, stop: int) -> tuple[list[SourceImage], np.ndarray]:
        """Compute features, see `.source`. Threads decode the photos of the next batch while the model runs."""
        images = self.images[start:stop]
        readable = [at for at, image in enumerate(images) if not image.reason]
        step = self._config.batch
        batches = [readable[at : at + step] for at in range(0, len(readable), step)]
        parts = [np.empty((0, *self.shape), np.float32)]
        with ThreadPoolExecutor(self._threads) as pool:
            ahead: list[Future] = []
            for batch, following in pairwise([[], *batches, []]):
                now = ahead
                ahead = [pool.submit(self._pixels, images[at].file) for at in following]
                pixels = []
                for at, future in zip(batch, now, strict=True):
                    try:
                        pixels.append(future.result())
                    except UnreadableError as error:
                        images[at] = images[at]._replace(reason=error.reason, detail=error.detail)
                if pixels:
                    parts.append(self._encode(np.stack(pixels)))
        with np.errstate(over="ignore"):
            return images, np.concatenate(parts).astype(self.dtype)

    def _pixels(self, file: str) -> np.ndarray:
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
        given = images.transpose(0, 2, 3, 1) if self._channels_last else images
        step = self._prescribed or len(given)
        missing = -len(given) % step  # a prescribed batch is full
        given = np.pad(given, [(0, missing), (0, 0), (0, 0), (0, 0)]).astype(self._dtype)
        try:
            starts = range(0, len(given), step)
            run = (self._session.run([self._layer], {self._input: given[at : at + step]}) for at in starts)
            made = np.concatenate([output for (output,) in run])
        except Exception as error:  # ONNX Runtime's own
            shape = given.shape[1:]
            raise ValueError(f"{self._path}: cannot be run on images of {shape}: {first_line(error)}") from None
        said = f"{self._path}: layer {self._layer} must be"
        if made.ndim not in (2, 3, 4) or len(made) != len(given) or made.dtype.kind != "f":
            was = f"{made.dtype} {made.shape} of {len(images)} images"
            raise ValueError(f"{said} floats, one row per image, was: {was}")
        made = made[: len(images)].astype(np.float32, copy=False)
        if made.ndim == 4:
            made = made if self._channels_last else made.transpose(0, 2, 3, 1)
            made = made.reshape(len(made), -1, made.shape[3])
        if made.ndim == 2 and self._config.grid:
            raise ValueError(f"{said} a map (C, h, w) or tokens (R, D) per image, was: {made.shape[1:]}")
        return made if made.ndim == 2 or self._config.grid else made.mean(axis=1, dtype="float32")


def _session(model: Path, device: str, threads: int) -> Any:
    require_libraries('photos need ONNX Runtime and Pillow: pip install "negcap[features]"', "onnxruntime", "PIL")
    import onnxruntime

    if PROVIDERS[device] not in onnxruntime.get_available_providers():
        raise ValueError(f"device {device} needs an ONNX Runtime with {PROVIDERS[device]}")
    if not model.is_file():
        raise FileNotFoundError(f"{model}: no such file, expected {EXPECTED}")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.use_deterministic_compute = True
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(str(model), options, providers=[PROVIDERS[device]])
    except Exception as error:  # ONNX Runtime's own
        raise ValueError(f"{model}: must be {EXPECTED}, cannot be read: {first_line(error)}") from None


def find_photos(source: Path, folder: Path | None) -> tuple[Path, list[SourceImage]]:
    """The images named in the captions of run `source`, or else all photo files below `folder`, sorted by name.

    folder: of the photos; None: `source`, which must then be no run. Returns this folder and the images, each with its
    file, or with the reason why it has none (a path out of the folder, a repeated id, a missing file). Links are
    followed. Raises FileNotFoundError when there is no such folder or no photo can be read.
    """
    is_run = has_table(source, "captions")
    if is_run and folder is None:
        raise FileNotFoundError(f"{source} is a run: images must be the folder of its photos, is not given")
    there = Images(folder or source)
    named: dict[str, str] = {}
    for table in read_table(source, "captions", ("image_id", "image")) if is_run else ():
        named.update(zip(table["image_id"].to_pylist(), table["image"].to_pylist(), strict=True))
    images = source_images(named.items() if is_run else (("", name) for name in sorted(_walk(there.folder))))
    for at, image in enumerate(images):
        if not image.reason:
            try:
                file = there.find(image.image) or ""
                reason = "missing"
                detail = "must be a file in the image folder, is missing"
            except ValueError as error:
                file = ""
                reason = "unsafe_path"
                detail = str(error)
            images[at] = image._replace(file=file) if file else image._replace(reason=reason, detail=detail)
    if all(image.reason for image in images):
        first = f", the first: {images[0].image}: {images[0].reason}" if images else ""
        listed = ", ".join(sorted(SUFFIXES))
        raise FileNotFoundError(f"{there.folder}: must have photos ({listed}), has none to read{first}")
    return there.folder, images


def _walk(folder: Path) -> Iterator[str]:
    """The paths of the photo files below a folder, relative to it."""
    seen: set[str] = set()
    for where, folders, names in os.walk(folder, followlinks=True):
        place = os.path.realpath(where)
        if place in seen:  # a link to a folder above
            folders.clear()
            continue
        seen.add(place)
        paths = (Path(where, name) for name in names)
        yield from (path.relative_to(folder).as_posix() for path in paths if path.suffix.lower() in SUFFIXES)
