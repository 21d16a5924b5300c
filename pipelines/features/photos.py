"""Features of photos, all in a folder or those named in a run's captions: an output of an ONNX model."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..engine.storage import sha256_file
from ..engine.tables import has_table, read_table
from ..tables.images import Images
from .preprocess import Crops, UnreadableError, normalised
from .source import SourceImage, first_line, source_images

if TYPE_CHECKING:
    import numpy as np

PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
EXPECTED = "an ONNX model with one image input"
FLOATS = {"tensor(float)": "float32", "tensor(float16)": "float16"}
SUFFIXES = frozenset([".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm"])


class Model:
    """An image encoder in ONNX format, run by ONNX Runtime.

    path: of the model. input, output: names of the tensors. channels_last: whether images are (batch, height, width, 3)
    instead of (batch, 3, height, width). batch, size: the batch and the (height, width) that it prescribes; 0: any.
    """

    def __init__(self, path: Path, layer: str, *, grid: bool, device: str, threads: int) -> None:
        """Load a model.

        layer: the output that is the feature; empty: the first. grid: keep regions instead of their mean. device: a key
        of PROVIDERS. Raises FileNotFoundError, ValueError naming the model and the rule, ImportError without ONNX
        Runtime.
        """
        try:
            import onnxruntime
        except ImportError as error:
            raise ImportError('photos need ONNX Runtime and Pillow: pip install "negcap[features]"') from error
        if device not in PROVIDERS:
            raise ValueError(f"device must be one of {', '.join(PROVIDERS)}, was: {device}")
        if PROVIDERS[device] not in onnxruntime.get_available_providers():
            raise ValueError(f"device {device} needs an ONNX Runtime with {PROVIDERS[device]}")
        if not path.is_file():
            raise FileNotFoundError(f"{path}: no such file, expected {EXPECTED}")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.use_deterministic_compute = True
        options.log_severity_level = 4
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=[PROVIDERS[device]])
        except Exception as error:  # ONNX Runtime's own
            raise ValueError(f"{path}: must be {EXPECTED}, cannot be read: {first_line(error)}") from None
        outputs = [one.name for one in self._session.get_outputs()]
        if layer and layer not in outputs:
            raise ValueError(f"{path}: layer must be an output of the model, {', '.join(outputs)}; was: {layer}")
        self.path, self.output, self.grid = path, layer or outputs[0], grid
        self._read_input(self._session.get_inputs())

    def _read_input(self, inputs: Sequence[Any]) -> None:
        if len(inputs) != 1 or len(inputs[0].shape) != 4 or inputs[0].type not in FLOATS:
            were = ", ".join(f"{one.name} {one.type} {one.shape}" for one in inputs) or "none"
            raise ValueError(f"{self.path}: must be {EXPECTED} of floats in four dimensions, has {were}")
        self.batch, *rest = [size if isinstance(size, int) and size > 0 else 0 for size in inputs[0].shape]
        self.channels_last = rest[2] == 3 and rest[0] != 3
        if not self.channels_last and rest[0] not in (0, 3):
            raise ValueError(
                f"{self.path}: must read images of 3 colours, input {inputs[0].name} has {inputs[0].shape}"
            )
        self.input, self._dtype = inputs[0].name, FLOATS[inputs[0].type]
        self.size = tuple(rest[:2] if self.channels_last else rest[1:])

    def encode(self, images: np.ndarray) -> np.ndarray:
        """The features of images (n, 3, H, W) float32: (n, D) or, with `grid`, (n, R, D) float32.

        The regions of a feature map (C, h, w) are its h * w positions, row by row; those of a sequence (R, D) are its
        elements. Without `grid`, their mean. Raises ValueError when the output has another shape or the model cannot be
        run on such images.
        """
        import numpy as np

        given = images.transpose(0, 2, 3, 1) if self.channels_last else images
        given = np.ascontiguousarray(given, dtype=self._dtype)
        step = self.batch or len(given)
        made = np.concatenate([self._run(given[at : at + step]) for at in range(0, len(given), step)])
        made = made.astype(np.float32, copy=False)
        if made.ndim == 4:
            made = made if self.channels_last else made.transpose(0, 2, 3, 1)
            if not self.grid and made.shape[1:3] == (1, 1):
                return made[:, 0, 0]
            made = made.reshape(len(made), -1, made.shape[3])
        if made.ndim == 3:
            return made if self.grid else made.mean(axis=1, dtype="float32")
        if self.grid or made.ndim != 2:
            wanted = "a map (C, h, w) or tokens (R, D)" if self.grid else "(D,), (R, D) or (C, h, w)"
            raise ValueError(f"{self.path}: layer {self.output} must be {wanted} per image, was: {made.shape[1:]}")
        return made

    def _run(self, images: np.ndarray) -> np.ndarray:
        """The output for a batch of images, which is filled up with zeros if the model prescribes its size."""
        import numpy as np

        missing = max(0, self.batch - len(images))
        batch = np.concatenate([images, np.zeros((missing, *images.shape[1:]), images.dtype)]) if missing else images
        try:
            (made,) = self._session.run([self.output], {self.input: batch})
        except Exception as error:  # ONNX Runtime's own
            raise ValueError(
                f"{self.path}: cannot be run on images of {batch.shape[1:]}: {first_line(error)}"
            ) from None
        if made.ndim < 2 or len(made) != len(batch) or made.dtype.kind != "f":
            raise ValueError(
                f"{self.path}: layer {self.output} must be floats, one row per image, was: {made.dtype} {made.shape} "
                f"of {len(batch)} images"
            )
        return made[: len(images)]


class Photos:
    """Photo files as a Source of features: all below a folder, or those named in the captions of a run."""

    def __init__(
        self, source: Path, folder: Path | None, model: Model, how: Crops, batch: int, dtype: str, threads: int
    ) -> None:
        """List and hash the photos.

        source: a run, or a folder of photos. folder: of the photos; None: `source`. batch: photos computed at once.
        dtype: of the features; empty: float32. threads: that read photos. Raises FileNotFoundError for missing photos,
        ValueError for a crop that the model cannot be used with.
        """
        import numpy as np

        if any(size not in (0, how.crop) for size in model.size):
            raise ValueError(f"crop must be {model.size[0]} as {model.path.name} reads {model.size}, was: {how.crop}")
        self._folder, self.images, self._files = find_photos(source, folder)
        self._model, self._how, self._batch, self._threads = model, how, batch, threads
        self.backbone = f"{model.path.name}:{model.output}{' grid' if model.grid else ''}"
        self.dtype = dtype or "float32"
        blank = model.encode(np.zeros((1, 3, how.crop, how.crop), np.float32))
        self.shape = tuple(int(size) for size in blank.shape[1:])
        # exporters put weights beyond 2 GB into files that are named as the model, with something behind the name
        models = sorted(model.path.parent.glob(f"{glob.escape(model.path.name)}*"))
        self.inputs = {path.name: f"sha256 {sha256_file(path)}" for path in models}
        names = sorted({file for file in self._files if file})
        digest = hashlib.sha256()
        with ThreadPoolExecutor(threads) as pool:
            for name, found in zip(names, pool.map(lambda name: sha256_file(self._folder / name), names), strict=True):
                digest.update(f"{name}\\0{found}\n".encode(errors="surrogateescape"))
        self.inputs["photos"] = f"{len(names)} files, sha256 {digest.hexdigest()}"

    def read(self, start: int, stop: int) -> tuple[list[SourceImage], np.ndarray]:
        """Compute features, see Source. Threads decode the photos of the next batch while the model runs."""
        import numpy as np

        images = self.images[start:stop]
        readable = [at for at, image in enumerate(images) if not image.reason]
        batches = [readable[at : at + self._batch] for at in range(0, len(readable), self._batch)]
        parts = [np.empty((0, *self.shape), np.float32)]
        with ThreadPoolExecutor(self._threads) as pool:
            ahead: list[Future] = []
            for batch, following in pairwise([[], *batches, []]):
                now, ahead = ahead, [pool.submit(self._pixels, start + at) for at in following]
                pixels = []
                for at, future in zip(batch, now, strict=True):
                    try:
                        pixels.append(future.result())
                    except UnreadableError as error:
                        images[at] = images[at]._replace(reason=error.reason, detail=error.detail)
                if pixels:
                    parts.append(self._model.encode(np.stack(pixels)))
        with np.errstate(over="ignore"):
            return images, np.concatenate(parts).astype(self.dtype)

    def _pixels(self, at: int) -> np.ndarray:
        try:
            data = (self._folder / self._files[at]).read_bytes()
        except OSError as error:
            raise UnreadableError("unreadable", f"cannot be read: {error.strerror}") from None
        return normalised(data, self._how)


def find_photos(source: Path, folder: Path | None) -> tuple[Path, list[SourceImage], list[str]]:
    """The images named in the captions of run `source`, or else all photo files below `folder`, sorted by name.

    folder: of the photos; None: `source`, which must then be no run. Returns this folder, the images, with a reason if
    they cannot be used (a path out of the folder, a repeated id, a missing file), and for each its path in the folder,
    or "". Links are followed. Raises FileNotFoundError when there is no such folder or no photo can be read.
    """
    is_run = has_table(source, "captions")
    if is_run and folder is None:
        raise FileNotFoundError(f"{source} is a run: images must be the folder of its photos, is not given")
    folder = folder or source
    there = Images(folder)
    if is_run:
        named: dict[str, str] = {}
        for table in read_table(source, "captions", ("image_id", "image")):
            named.update(zip(table["image_id"].to_pylist(), table["image"].to_pylist(), strict=True))
        images = source_images(named.items())
    else:
        images = source_images(("", name) for name in sorted(_walk(folder)))
    files = [""] * len(images)
    for at, image in enumerate(images):
        if image.reason:
            continue
        try:
            files[at] = there.find(image.image) or ""
            reason, detail = "missing", "must be a file in the image folder, is missing"
        except ValueError as error:
            reason, detail = "unsafe_path", str(error)
        if not files[at]:
            images[at] = image._replace(reason=reason, detail=detail)
    if not any(files):
        first = next((f", the first: {image.image}: {image.reason}" for image in images), "")
        raise FileNotFoundError(f"{folder}: must have photos ({', '.join(sorted(SUFFIXES))}), has none to read{first}")
    return folder, images, files


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
