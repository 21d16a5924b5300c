"""`npy:IMAGES,TEXTS`: vectors made elsewhere, in the order of the lists that `negcap score --lists` writes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..config import ScoreConfig
from ..test_set import TestSet
from .interface import Embedder

LISTS = {"images": "images.txt", "texts": "texts.txt"}
WANTED = "npy must be two files, npy:IMAGES.npy,TEXTS.npy"


class Arrays(Embedder):
    """Two memory-mapped arrays; they are vectors already, and need no image files."""

    needs_files = False
    stored = False

    def __init__(self, name: str, images: np.ndarray, texts: np.ndarray) -> None:
        self.name, self.identity = name, {}
        self._images, self._texts = images, texts

    def images(self, ids: Sequence[str], files: Sequence[Path]) -> np.ndarray:
        """All vectors of images; the arguments were compared when the arrays were opened."""
        return self._images

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        """All vectors of texts."""
        return self._texts


def load(rest: str, tests: TestSet, run: Path, config: ScoreConfig) -> Arrays:
    """Open the two arrays. Raises FileNotFoundError or ValueError naming a file that does not fit the test set."""
    paths = [Path(part) for part in rest.split(",")]
    if len(paths) != 2:
        raise ValueError(f"{WANTED}, was: {rest}")
    arrays = [
        _open(path, len(some), LISTS[what])
        for path, (what, some) in zip(paths, {"images": tests.image_ids, "texts": tests.texts}.items(), strict=True)
    ]
    wide = [array.shape[1] for array in arrays]
    if wide[0] != wide[1]:
        raise ValueError(
            f"vectors of images and texts must be equally wide, {paths[0]} has {wide[0]}, {paths[1]} {wide[1]}"
        )
    return Arrays(paths[0].stem, *arrays)


def _open(path: Path, rows: int, listed: str) -> np.ndarray:
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; {WANTED}")
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path}: must be a NumPy array, cannot be read: {error}") from None
    if not isinstance(array, np.ndarray) or array.ndim != 2 or array.dtype.kind != "f":
        raise ValueError(f"{path}: must be an array (n, d) of floats")
    if len(array) != rows:
        raise ValueError(f"{path}: must have {rows:,} rows, one per line of {listed} (--lists), has {len(array):,}")
    return array
