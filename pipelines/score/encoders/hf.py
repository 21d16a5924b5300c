"""`hf:PATH`: a model of transformers with vectors of images and of texts (CLIP, SigLIP, ALIGN …), from a folder."""

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
from .compute import Compute, vectors
from .interface import Embedder

NEEDED = 'models of Hugging Face need PyTorch, transformers and Pillow: pip install "negcap[score]"'
LONGEST = 512  # tokens of a text, where neither the model nor its tokenizer sets a limit
PADDED = ("siglip",)  # models trained on texts that are padded to their full length


class HuggingFace(Embedder):
    """A dual encoder of transformers; it is loaded when the first vector is asked for."""

    def __init__(self, path: Path, config: ScoreConfig) -> None:
        self.path, self.compute, self.name = path, Compute(config), path.name
        self.identity = {"files": hash_path(path), "precision": self.compute.precision}

    @cached_property
    def model(self) -> Any:
        """The model, in float32, on the device. Raises ValueError for weights that cannot be read or are incomplete."""
        import transformers

        with reading(self.path, "weights"):
            model, found = transformers.AutoModel.from_pretrained(
                self.path, local_files_only=True, use_safetensors=True, output_loading_info=True
            )
        if missing := sorted(found["missing_keys"]):
            raise ValueError(f"the weights in {self.path} must be those of the whole model, lack: {missing[0]}")
        if not hasattr(model, "get_image_features") or not hasattr(model, "get_text_features"):
            kind = type(model).__name__
            raise ValueError(f"hf must be a model with vectors of images and texts, as CLIP, {self.path} is: {kind}")
        return model.float().eval().to(self.compute.device)

    @cached_property
    def processor(self) -> Any:
        """The folder's image processor; the one that computes with Pillow, since others need torchvision."""
        import transformers

        with reading(self.path, "image processor"):
            return transformers.AutoImageProcessor.from_pretrained(self.path, local_files_only=True, use_fast=False)

    @cached_property
    def tokenizer(self) -> Any:
        """The tokenizer in the model's folder. Raises ValueError if it cannot be read."""
        import transformers

        with reading(self.path, "tokenizer"):
            return transformers.AutoTokenizer.from_pretrained(self.path, local_files_only=True)

    def images(self, ids: Sequence[str], files: Sequence[Path]) -> np.ndarray:
        """Vectors (n, d) of n image files, resized and normalised by the image processor in the model's folder."""
        import torch

        parts = [self.processor(images=images, return_tensors="pt") for images in open_images(files)]
        batch = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
        with self.compute.inference():
            return vectors(self.model.get_image_features(**self.compute.place(batch)))

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of texts, cut at the length that the model reads."""
        about = self.model.config
        longest = getattr(about.get_text_config(), "max_position_embeddings", None) or LONGEST
        batch = self.tokenizer(
            list(texts),
            padding="max_length" if about.model_type.startswith(PADDED) else True,
            truncation=True,
            max_length=min(self.tokenizer.model_max_length, longest),
            return_tensors="pt",
        )
        with self.compute.inference():
            return vectors(self.model.get_text_features(**self.compute.place(batch)))


def load(rest: str, tests: TestSet, run: Path, config: ScoreConfig) -> HuggingFace:
    """Load a model folder; code in it is never run.

    Raises FileNotFoundError for a folder without a model, ValueError for one that cannot be read or has no vectors of
    images and texts, ImportError if a library is missing.
    """
    path = Path(rest)
    for names in (("config.json",), ("preprocessor_config.json", "processor_config.json"), ("*.safetensors",)):
        if not any(file for name in names for file in path.glob(name)):
            raise FileNotFoundError(f"hf must be a folder with {' or '.join(names)}, {path} has none")
    try:
        import torch  # noqa: F401
        import transformers  # noqa: F401
        from PIL import Image  # noqa: F401
    except ImportError as error:
        raise ImportError(NEEDED) from error
    return HuggingFace(path, config)
