"""`open_clip:ARCHITECTURE:WEIGHTS`: a model of OpenCLIP with weights from a file; `open_clip:FOLDER`: a saved one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np

from ...engine.manifest import hash_path
from ...features.preprocess import open_images
from ...models.clip.open_clip import LOCAL, Loaded, locate, read
from ..config import ScoreConfig
from ..test_set import TestSet
from .compute import Compute, vectors
from .interface import Embedder


class OpenClip(Embedder):
    """A model of OpenCLIP; it is loaded when the first vector is asked for."""

    def __init__(self, architecture: str, weights: Path, config: ScoreConfig) -> None:
        self.compute = Compute(config)
        self.architecture, self.weights = architecture, weights
        self.name = weights.name if architecture.startswith(LOCAL) else architecture
        files = hash_path(weights)
        self.identity = {"architecture": self.name, "files": files, "precision": self.compute.precision}

    @cached_property
    def loaded(self) -> Loaded:
        """The model, its image transform and its tokenizer. Raises ValueError if one cannot be made from the files."""
        return read(self.architecture, self.weights, self.compute.device)

    def images(self, ids: Sequence[str], files: Sequence[Path]) -> np.ndarray:
        """Vectors of image files, with the model's own transform."""
        import torch

        model, transform, _ = self.loaded
        images = chain.from_iterable(open_images(files))
        pixels = torch.stack([transform(image) for image in images]).to(self.compute.device)
        with self.compute.inference():
            return vectors(model.encode_image(pixels))

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of texts, with the model's own tokenizer."""
        model, _, tokenizer = self.loaded
        with self.compute.inference():
            return vectors(model.encode_text(tokenizer(list(texts)).to(self.compute.device)))


def load(rest: str, tests: TestSet, run: Path, config: ScoreConfig) -> OpenClip:
    """Check names and files; raises as `locate` of `negcap.pipelines.models.clip.open_clip`."""
    return OpenClip(*locate(rest), config)
