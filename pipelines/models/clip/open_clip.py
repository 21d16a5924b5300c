"""Models of OpenCLIP in local files: an architecture with weights, or a saved folder. Imports no torch."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

NEEDED = "models of OpenCLIP need open_clip and a torchvision that fits PyTorch: pip install open-clip-torch"
CONFIG = "open_clip_config.json"
LOCAL = "local-dir:"  # before the folder of a saved model, in OpenCLIP's own names


class Loaded(NamedTuple):
    """A model of OpenCLIP, its image transform without augmentation, and its tokenizer."""

    model: Any
    transform: Any
    tokenizer: Any


def locate(rest: str) -> tuple[str, Path]:
    """The architecture, as OpenCLIP names it, and the path of the weights in `ARCHITECTURE:WEIGHTS` or `FOLDER`.

    Raises FileNotFoundError for files that are not there, ValueError for an unknown architecture, ImportError if
    open_clip cannot be imported.
    """
    folder = Path(rest)
    if folder.is_dir():
        if not (folder / CONFIG).is_file():
            raise FileNotFoundError(f"open_clip must be a folder with {CONFIG}, {folder} has none")
        _library()
        return f"{LOCAL}{folder}", folder
    architecture, colon, path = rest.partition(":")
    if not colon:
        raise ValueError(f"open_clip must be open_clip:ARCHITECTURE:WEIGHTS or open_clip:FOLDER, was: {rest}")
    if not Path(path).exists():
        raise FileNotFoundError(f"{path}: no such file of weights")
    known = _library().list_models()
    if architecture not in known:
        near = get_close_matches(architecture, known, 1)
        raise ValueError(
            f"open_clip has no architecture {architecture}" + (f"; did you mean {near[0]}?" if near else "")
        )
    return architecture, Path(path)


def read(architecture: str, weights: Path, device: Any = "cpu") -> Loaded:
    """Load what `locate` found; pickled code in it is never run. Raises ValueError if it cannot be read."""
    open_clip = _library()
    pretrained = None if architecture.startswith(LOCAL) else str(weights)
    try:
        model, _, transform = open_clip.create_model_and_transforms(
            architecture, pretrained=pretrained, device=device, weights_only=True
        )
        return Loaded(model.eval(), transform, open_clip.get_tokenizer(architecture))
    except Exception as error:  # of many types, by the library that reads the file
        why = next(iter(str(error).splitlines()), type(error).__name__)
        raise ValueError(f"open_clip cannot make {architecture} from {weights}: {why}") from error


def _library() -> Any:
    try:
        import open_clip
    except (ImportError, RuntimeError) as error:  # RuntimeError: torchvision was built for another PyTorch
        raise ImportError(f"{NEEDED} ({next(iter(str(error).splitlines()), '')})") from error
    return open_clip


WEIGHTS = "open_clip_model.safetensors"
BESIDE = (".json", ".txt", ".model")  # files of a tokenizer in a saved folder


class OpenClip(nn.Module):
    """A CLIP of OpenCLIP, with its tokenizer and image transform; it has the methods of `network.HuggingFace`."""

    clip: Any

    def __init__(self, rest: str) -> None:
        """Load `ARCHITECTURE:WEIGHTS` or `FOLDER`. Raises as `locate` and `read`."""
        super().__init__()
        self.architecture, self.source = locate(rest)
        self.clip, self.transform, self.tokenizer = read(self.architecture, self.source)

    @property
    def log_scale(self) -> Tensor:
        """The learned log(1/τ)."""
        return self.clip.logit_scale

    def pixels(self, images: Sequence[Any]) -> np.ndarray:
        """Pictures (PIL) as the model's transform makes them, (n, 3, height, width)."""
        return torch.stack([self.transform(image) for image in images]).numpy()

    def tokens(self, texts: Sequence[str]) -> Tensor:
        """The token ids of texts (n, T), T the model's context length."""
        return self.tokenizer(list(texts))

    def images(self, pixels: Tensor) -> Tensor:
        """Vectors (B, d) of pixels."""
        return self.clip.encode_image(pixels)

    def texts(self, ids: Tensor) -> Tensor:
        """Vectors (B, d) of token ids (B, T)."""
        return self.clip.encode_text(ids)

    def save(self, folder: Path) -> None:
        """Write what OpenCLIP reads as `local-dir:FOLDER`: its config, weights, and the tokenizer's files if any."""
        import open_clip
        from safetensors.torch import save_file

        folder.mkdir(parents=True, exist_ok=True)
        if self.architecture.startswith(LOCAL):
            for file in self.source.iterdir():
                if file.suffix in BESIDE:
                    shutil.copyfile(file, folder / file.name)
        else:
            about = {"model_cfg": open_clip.get_model_config(self.architecture)}
            about["preprocess_cfg"] = open_clip.get_model_preprocess_cfg(self.clip)
            (folder / CONFIG).write_text(json.dumps(about, indent=1) + "\n", "utf-8")
        state = {name: value.detach().cpu().contiguous().clone() for name, value in self.clip.state_dict().items()}
        save_file(state, folder / WEIGHTS)
