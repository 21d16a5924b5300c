"""A CLIP of OpenCLIP to train."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .open_clip_files import CONFIG, LOCAL, locate, read

WEIGHTS = "open_clip_model.safetensors"
BESIDE = (".json", ".txt", ".model")  # files of a tokenizer in a saved folder


class OpenClip(nn.Module):
    """A CLIP of OpenCLIP, with its tokenizer and image transform; see `negcap.pipelines.models.clip.network`."""

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
