"""Models that map images and texts to vectors: a function per kind of model, from what follows `kind:` in its name to
an Encoder. Each raises FileNotFoundError or ValueError for what is no such model, ImportError without its library. They
read local files, never run code in them, and load a model when its first vector is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..engine.errors import require_libraries
from ..engine.manifest import hash_path
from ..features.preprocess import open_images
from ..models.clip import pretrained
from ..models.scorer import reading, require_files
from .test_set import ScoreConfig

Images = Callable[[Sequence[Path]], np.ndarray]  # the vectors (n, d) of n image files
Texts = Callable[[Sequence[str]], np.ndarray]  # the vectors (n, d) of n texts


class Encoder(NamedTuple):
    """A model whose score of a pair is the cosine of its vectors. identity: plain JSON that determines them (hashes of
    the model's files, the precision). images, texts: compute them; ValueError for a model that cannot be read.
    """

    name: str
    identity: Mapping[str, str]
    images: Images
    texts: Texts

    @classmethod
    def loaded(cls, name: str, identity: Mapping[str, str], load: Callable[[], tuple[Images, Texts]]) -> Encoder:
        """A model that is loaded when its first vector is asked for."""
        once = cache(load)
        return cls(name, identity, lambda files: once()[0](files), lambda texts: once()[1](texts))


class Torch(NamedTuple):
    """Where PyTorch computes (a torch.device), and in what precision."""

    device: Any
    precision: str

    @classmethod
    def of(cls, config: ScoreConfig) -> Torch:
        """As a config says. Raises ValueError for cuda without a GPU."""
        import torch

        from ..models.device import choose_device

        device = choose_device(config.device)
        if config.threads:
            torch.set_num_threads(config.threads)
        default = "bfloat16" if device.type == "cuda" else "float32"
        return cls(device, default if config.precision == "auto" else config.precision)

    def vectors(self, function: Callable[..., Any], *given: Any, **named: Any) -> np.ndarray:
        """The vectors (n, d), float32, of a model's function, without gradients, in mixed precision if asked."""
        import torch

        type = None if self.precision == "float32" else getattr(torch, self.precision)
        with torch.inference_mode(), torch.autocast(self.device.type, type, enabled=type is not None):
            output = function(*given, **named)
        found: np.ndarray = getattr(output, "pooler_output", output).float().cpu().numpy()
        return found

    def identity(self, path: Path) -> dict[str, str]:
        """What determines the vectors of the model in `path`."""
        return {"files": hash_path(path), "precision": self.precision}


LONGEST = 512  # tokens of a text, where neither the model nor its tokenizer sets a limit
PADDED = ("siglip",)  # models trained on texts that are padded to their full length


def hugging_face(rest: str, config: ScoreConfig) -> Encoder:
    """`hf:FOLDER`, or a name on the hub: a dual encoder of transformers (CLIP, SigLIP …) with its own processors."""
    path = pretrained.locate_hugging_face(rest)
    torch = Torch.of(config)

    def load() -> tuple[Images, Texts]:
        from torch import concatenate

        model, processor, tokenizer = pretrained.read_hugging_face(path)
        model = model.eval().to(torch.device)
        longest = getattr(model.config.get_text_config(), "max_position_embeddings", None) or LONGEST
        padding = "max_length" if model.config.model_type.startswith(PADDED) else True
        cut = {"truncation": True, "max_length": min(tokenizer.model_max_length, longest)}

        def images(files: Sequence[Path]) -> np.ndarray:
            parts = [processor(images=opened, return_tensors="pt") for opened in open_images(files)]
            batch = {name: concatenate([part[name] for part in parts]).to(torch.device) for name in parts[0]}
            return torch.vectors(model.get_image_features, **batch)

        def texts(texts: Sequence[str]) -> np.ndarray:
            batch = tokenizer(list(texts), padding=padding, return_tensors="pt", **cut)
            return torch.vectors(model.get_text_features, **batch.to(torch.device))

        return images, texts

    return Encoder.loaded(Path(rest).name, torch.identity(path), load)


def open_clip(rest: str, config: ScoreConfig) -> Encoder:
    """`open_clip:ARCHITECTURE:WEIGHTS` (a file, or a name on the hub) or `open_clip:FOLDER`: a model of OpenCLIP."""
    found = pretrained.locate_open_clip(rest)
    torch = Torch.of(config)
    name = found.weights.name if found.architecture.startswith(pretrained.LOCAL) else found.architecture

    settings = {key: str(value) for key, value in found.settings.items()}

    def load() -> tuple[Images, Texts]:
        from torch import stack

        model, transform, tokenizer = pretrained.read_open_clip(found, torch.device)

        def images(files: Sequence[Path]) -> np.ndarray:
            pixels = stack([transform(image) for image in chain.from_iterable(open_images(files))])
            return torch.vectors(model.encode_image, pixels.to(torch.device))

        return images, lambda texts: torch.vectors(model.encode_text, tokenizer(list(texts)).to(torch.device))

    return Encoder.loaded(name, {**torch.identity(found.weights), "architecture": name, **settings}, load)


def sentence_transformers(rest: str, config: ScoreConfig) -> Encoder:
    """`sentence-transformers:FOLDER`: a model of sentence-transformers that embeds images and texts."""
    path = Path(rest)
    require_files("sentence-transformers", path, ("modules.json", "config.json"), ("**/*.safetensors",))
    needed = "models of sentence-transformers need that library: pip install sentence-transformers"
    require_libraries(needed, "sentence_transformers")
    torch = Torch.of(config)

    def load() -> tuple[Images, Texts]:
        from sentence_transformers import SentenceTransformer

        with reading(path, "model"):
            model = SentenceTransformer(str(path), device=torch.device.type, local_files_only=True)

        def vectors(items: Sequence[Any]) -> np.ndarray:  # the model tells images from texts
            given = {"batch_size": config.batch, "convert_to_tensor": True, "show_progress_bar": False}
            return torch.vectors(model.encode, list(items), **given)

        return lambda files: np.concatenate([vectors(images) for images in open_images(files)]), vectors

    return Encoder.loaded(path.name, torch.identity(path), load)


ENCODERS: dict[str, Callable[[str, ScoreConfig], Encoder]] = {
    "hf": hugging_face,
    "open_clip": open_clip,
    "sentence-transformers": sentence_transformers,
}
