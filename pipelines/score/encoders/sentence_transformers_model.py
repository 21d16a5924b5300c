"""`sentence-transformers:FOLDER`: a model of sentence-transformers that embeds images and texts, from a folder."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ...engine.manifest import hash_path
from ...features.preprocess import open_images
from ...models.scorer import reading
from ..config import ScoreConfig
from ..test_set import TestSet
from .compute import Compute
from .interface import Embedder

NEEDED = "models of sentence-transformers need that library: pip install sentence-transformers"
FILES = ("modules.json", "config.json")


class SentenceTransformers(Embedder):
    """A model of sentence-transformers; it is loaded when the first vector is asked for."""

    def __init__(self, path: Path, config: ScoreConfig) -> None:
        self.path, self.name, self.compute, self.batch = path, path.name, Compute(config), config.batch
        self.identity = {"files": hash_path(path), "precision": self.compute.precision}

    @cached_property
    def model(self) -> Any:
        """The model, on the device. Raises ValueError if it cannot be read."""
        from sentence_transformers import SentenceTransformer

        with reading(self.path, "model"):
            return SentenceTransformer(str(self.path), device=self.compute.device.type, local_files_only=True)

    def images(self, ids: Sequence[str], files: Sequence[Path]) -> np.ndarray:
        """Vectors of image files."""
        return np.concatenate([self._encode(images) for images in open_images(files)])

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of texts."""
        return self._encode(list(texts))

    def _encode(self, items: list[Any]) -> np.ndarray:
        with self.compute.inference():
            found = self.model.encode(items, batch_size=self.batch, convert_to_tensor=True, show_progress_bar=False)
        vectors: np.ndarray = found.float().cpu().numpy()
        return vectors


def load(rest: str, tests: TestSet, run: Path, config: ScoreConfig) -> SentenceTransformers:
    """Check the folder. Raises FileNotFoundError if it holds no model, ImportError without the library."""
    path = Path(rest)
    if not any((path / name).is_file() for name in FILES):
        raise FileNotFoundError(f"sentence-transformers must be a folder with {' or '.join(FILES)}, {path} has none")
    if not any(path.rglob("*.safetensors")):
        raise FileNotFoundError(f"sentence-transformers must be a folder with *.safetensors, {path} has none")
    try:
        import sentence_transformers  # noqa: F401
    except ImportError as error:
        raise ImportError(NEEDED) from error
    return SentenceTransformers(path, config)
