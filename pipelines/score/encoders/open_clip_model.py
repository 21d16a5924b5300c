"""`open_clip:ARCHITECTURE:WEIGHTS`: a model of OpenCLIP with weights from a file; `open_clip:FOLDER`: a saved one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from negcap.pipelines.engine.manifest import hash_path
from negcap.pipelines.features.preprocess import open_images
from negcap.pipelines.score.config import ScoreConfig
from negcap.pipelines.score.encoders.compute import Compute, vectors
from negcap.pipelines.score.encoders.interface import Embedder
from negcap.pipelines.score.test_set import TestSet

NEEDED = "models of OpenCLIP need open_clip and a torchvision that fits PyTorch: pip install open-clip-torch"
CONFIG = "open_clip_config.json"
LOCAL = "local-dir:"  # before the folder of a saved model, in OpenCLIP's own names


class OpenClip(Embedder):
    """A model of OpenCLIP; it is loaded when the first vector is asked for."""

    def __init__(self, architecture: str, weights: Path, config: ScoreConfig) -> None:
        self.compute = Compute(config)
        self.architecture, self.weights = architecture, weights
        self.name = weights.name if architecture.startswith(LOCAL) else architecture
        files = hash_path(weights)
        self.identity = {"architecture": self.name, "files": files, "precision": self.compute.precision}

    @cached_property
    def loaded(self) -> tuple[Any, Any, Any]:
        """The model, its image transform and its tokenizer. Raises ValueError if one cannot be made from the files."""
        import open_clip

        pretrained = None if self.architecture.startswith(LOCAL) else str(self.weights)
        try:
            model, _, transform = open_clip.create_model_and_transforms(
                self.architecture, pretrained=pretrained, device=self.compute.device, weights_only=True
            )
            tokenizer = open_clip.get_tokenizer(self.architecture)
        except Exception as error:  # of many types, by the library that reads the file
            why = next(iter(str(error).splitlines()), type(error).__name__)
            raise ValueError(f"open_clip cannot make {self.architecture} from {self.weights}: {why}") from error
        return model.eval(), transform, tokenizer

    def images(self, ids: Sequence[str], files: Sequence[Path]) -> np.ndarray:
        """Vectors of image files, with the model's own transform."""
        import torch

        model, transform, _ = self.loaded
        pixels = torch.stack([transform(image) for image in open_images(files)]).to(self.compute.device)
        with self.compute.inference():
            return vectors(model.encode_image(pixels))

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of texts, with the model's own tokenizer."""
        model, _, tokenizer = self.loaded
        with self.compute.inference():
            return vectors(model.encode_text(tokenizer(list(texts)).to(self.compute.device)))


def load(rest: str, tests: TestSet, run: Path, config: ScoreConfig) -> OpenClip:
    """Check names and files; raises FileNotFoundError, ValueError, or ImportError if open_clip cannot be imported."""
    folder = Path(rest)
    if folder.is_dir() and not (folder / CONFIG).is_file():
        raise FileNotFoundError(f"open_clip must be a folder with {CONFIG}, {folder} has none")
    architecture, colon, path = rest.partition(":")
    weights = folder if folder.is_dir() else Path(path)
    if not folder.is_dir() and not colon:
        raise ValueError(f"open_clip must be open_clip:ARCHITECTURE:WEIGHTS or open_clip:FOLDER, was: {rest}")
    if not weights.is_dir() and not weights.is_file():
        raise FileNotFoundError(f"{weights}: no such file of weights")
    try:
        import open_clip
    except (ImportError, RuntimeError) as error:  # RuntimeError: torchvision was built for another PyTorch
        raise ImportError(f"{NEEDED} ({next(iter(str(error).splitlines()), '')})") from error
    if not folder.is_dir() and architecture not in open_clip.list_models():
        from difflib import get_close_matches

        near = get_close_matches(architecture, open_clip.list_models(), 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"open_clip has no architecture {architecture}{hint}")
    return OpenClip(f"{LOCAL}{folder}" if folder.is_dir() else architecture, weights, config)
