"""Features of photos, all in a folder or those named in a run's captions, computed by an ONNX model."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..engine.storage import sha256_file
from ..engine.tables import has_table, read_table
from ..tables.images import Images
from .backbone import Backbone
from .preprocess import Crops, UnreadableError, crops
from .source import Part, SourceImage, finite_part, source_images

if TYPE_CHECKING:
    import numpy as np

SUFFIXES = frozenset([".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm"])


@dataclass(frozen=True)
class Extraction:
    """How features are computed.

    crops: of a photo. batch: crops computed at once. dtype: of the features; empty: float32. threads: that read photos.
    keep: whether to keep the features of a photo's crops instead of their mean.
    """

    crops: Crops
    batch: int = 32
    dtype: str = ""
    threads: int = 1
    keep: bool = False


class Photos:
    """Photo files as a Source of features: all below a folder, or those named in the captions of a run."""

    def __init__(self, source: Path, folder: Path | None, backbone: Backbone, how: Extraction) -> None:
        """List and hash the photos.

        source: a run, or a folder of photos. folder: of the photos; None: `source`. Raises FileNotFoundError for
        missing photos, ValueError for settings that the model cannot be used with.
        """
        fixed = (backbone.input.height, backbone.input.width)
        if any(size not in (0, how.crops.crop) for size in fixed):
            raise ValueError(f"crop must be {fixed[0]} as {backbone.path.name} reads {fixed}, was: {how.crops.crop}")
        if how.crops.ten and backbone.grid:
            raise ValueError("ten crops and grid exclude each other: ten crops have no common regions")
        self._backbone, self._how = backbone, how
        self._folder = photo_folder(source, folder)
        self.images, self._files = find_photos(source, self._folder)
        self.backbone = backbone.name
        self.dtype = how.dtype or "float32"
        self.inputs = {**backbone.inputs(), "photos": hash_photos(self._folder, self._files, how.threads)}
        blank = self.encode_crops([_blank(how.crops)])
        self.shape = tuple(int(size) for size in blank.shape[1:])

    def encode_crops(self, photos: Sequence[np.ndarray]) -> np.ndarray:
        """The features (n, *shape) of n photos, given the crops (1 or 10, 3, H, W) of each.

        They are means over the crops, or those of all crops, (n, 10, D), if these are kept.
        """
        import numpy as np

        made = self._backbone.encode(np.concatenate(photos))
        if self._how.crops.count == 1:
            return made
        made = made.reshape(len(photos), self._how.crops.count, *made.shape[1:])
        return made if self._how.keep else made.mean(axis=1, dtype=np.float32)

    def read(self, start: int, stop: int) -> Part:
        """Compute features, see Source. Threads decode the next photos while the model runs."""
        import numpy as np

        rejected = {at for at in range(start, stop) if self.images[at].reason}
        unread: dict[int, SourceImage] = {}
        wanted = [at for at in range(start, stop) if at not in rejected]
        kept: list[int] = []
        parts = [np.empty((0, *self.shape), np.float32)]
        with ThreadPoolExecutor(self._how.threads) as pool:
            size = max(1, self._how.batch // self._how.crops.count)
            for positions, futures in _ahead(pool, self._crops, _cut(wanted, size)):
                photos = []
                for at, future in zip(positions, futures, strict=True):
                    try:
                        photos.append(future.result())
                        kept.append(at)
                    except UnreadableError as error:
                        unread[at] = self.images[at]._replace(reason=error.reason, detail=error.detail)
                if photos:
                    parts.append(self.encode_crops(photos))
        with np.errstate(over="ignore"):
            features = np.concatenate(parts).astype(self.dtype)
        missing = [unread.get(at, self.images[at]) for at in sorted(rejected | set(unread))]
        return finite_part([self.images[at] for at in kept], features, missing)

    def _crops(self, at: int) -> np.ndarray:
        try:
            data = (self._folder / self._files[at]).read_bytes()
        except OSError as error:
            raise UnreadableError("unreadable", f"cannot be read: {error.strerror}") from None
        return crops(data, self._how.crops)


def photo_folder(source: Path, folder: Path | None) -> Path:
    """The folder of the photos: `folder`, or `source` if it is None.

    Raises FileNotFoundError if this is not a folder, or if `source` is a run and `folder` is None.
    """
    if is_run(source) and folder is None:
        raise FileNotFoundError(f"{source} is a run: images must be the folder of its photos, is not given")
    found = folder or source
    if not found.is_dir():
        raise FileNotFoundError(f"images must be a folder, was: {found}")
    return found


def is_run(source: Path) -> bool:
    """Whether a folder is a run with captions, in which the images are named."""
    return has_table(source, "captions")


def find_photos(source: Path, folder: Path) -> tuple[list[SourceImage], list[str]]:
    """The images named in the captions of run `source`, or else all photo files below `folder`, sorted by name.

    Returns the images, with a reason if they cannot be used (a path out of the folder, a repeated id, a missing file),
    and for each its path in `folder`, or "". Links are followed. Raises FileNotFoundError when no photo can be read.
    """
    if is_run(source):
        named: dict[str, str] = {}
        for table in read_table(source, "captions", ("image_id", "image")):
            named.update(zip(table["image_id"].to_pylist(), table["image"].to_pylist(), strict=True))
        images = source_images(named.items())
    else:
        images = source_images(("", name) for name in sorted(_walk(folder)))
    there = Images(folder)
    files = []
    for at, image in enumerate(images):
        file = None
        if not image.reason:
            try:
                file = there.find(image.image)
                reason, detail = "missing", "must be a file in the image folder, is missing"
            except ValueError as error:
                reason, detail = "unsafe_path", str(error)
            if file is None:
                images[at] = image._replace(reason=reason, detail=detail)
        files.append(file or "")
    if not any(files):
        first = next((f", the first: {image.image}: {image.reason}" for image in images), "")
        raise FileNotFoundError(f"{folder}: must have photos ({', '.join(sorted(SUFFIXES))}), has none to read{first}")
    return images, files


def _walk(folder: Path) -> Iterator[str]:
    seen: set[str] = set()
    for where, folders, names in os.walk(folder, followlinks=True):
        place = os.path.realpath(where)
        if place in seen:  # a link to a folder above
            folders.clear()
            continue
        seen.add(place)
        for name in names:
            path = Path(where, name)
            if path.suffix.lower() in SUFFIXES:
                yield path.relative_to(folder).as_posix()


def hash_photos(folder: Path, files: Sequence[str], threads: int) -> str:
    """The number of distinct files and one sha256 over their names and bytes, in any order: `60 files, sha256 …`."""
    names = sorted({file for file in files if file})
    digest = hashlib.sha256()
    with ThreadPoolExecutor(threads) as pool:
        for name, found in zip(names, pool.map(lambda name: sha256_file(folder / name), names), strict=True):
            digest.update(f"{name}\0{found}\n".encode(errors="surrogateescape"))
    return f"{len(names)} files, sha256 {digest.hexdigest()}"


def _cut(positions: list[int], size: int) -> list[list[int]]:
    return [positions[at : at + size] for at in range(0, len(positions), size)]


def _ahead(
    pool: ThreadPoolExecutor, function: object, batches: list[list[int]]
) -> Iterator[tuple[list[int], list[Future]]]:
    """Yield batches with their futures; the next batch is submitted before one is yielded."""
    submitted: list[tuple[list[int], list[Future]]] = []
    for batch in batches:
        submitted.append((batch, [pool.submit(function, at) for at in batch]))  # type: ignore[arg-type]
        if len(submitted) > 1:
            yield submitted.pop(0)
    yield from submitted


def _blank(how: Crops) -> np.ndarray:
    import numpy as np

    return np.zeros((how.count, 3, how.crop, how.crop), np.float32)
