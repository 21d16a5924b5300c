"""What is trained: a CLIP of transformers or of OpenCLIP, and what losses learn beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from ..contrastive import MOST, SIGLIP_BIAS
from ..similarities import unit
from .config import ClipConfig


class Towers(Protocol):
    """A CLIP with its tokenizer and its image processor; it is a module, too."""

    @property
    def log_scale(self) -> Tensor:
        """The learned log(1/τ), one number."""
        ...

    def pixels(self, images: Sequence[Any]) -> np.ndarray:
        """What the model sees of pictures (PIL, RGB): (n, 3, height, width)."""
        ...

    def tokens(self, texts: Sequence[str]) -> Tensor:
        """The token ids of texts (n, T), cut at the model's longest, filled up to a common length."""
        ...

    def images(self, pixels: Tensor) -> Tensor:
        """Vectors (B, d) of pixels (B, 3, height, width)."""
        ...

    def texts(self, ids: Tensor) -> Tensor:
        """Vectors (B, d) of token ids (B, T)."""
        ...

    def save(self, folder: Path) -> None:
        """Write weights, tokenizer and image processor, so that their own library reads the folder."""
        ...


class Clip(nn.Module):
    """A CLIP with what contrastive losses learn beside it: SigLIP's bias, and CE-CLIP's thresholds (families,)."""

    towers: Any

    def __init__(self, towers: Towers, config: ClipConfig) -> None:
        super().__init__()
        self.towers = towers
        siglip = config.objective == "siglip"
        self.bias = nn.Parameter(torch.tensor(SIGLIP_BIAS if siglip else 0.0), requires_grad=siglip)
        self.thresholds = nn.Parameter(torch.zeros(len(config.negative_families)), requires_grad=False)

    @property
    def scale(self) -> Tensor:
        """The learned scale of the cosine, 1/τ, at most 100."""
        return self.towers.log_scale.exp().clamp(max=MOST)

    def images(self, pixels: Tensor) -> Tensor:
        """Unit vectors (B, d) of pixels (B, 3, height, width), as `Towers.pixels` makes them."""
        return unit(self.towers.images(pixels))

    def texts(self, ids: Tensor) -> Tensor:
        """Unit vectors (B, d) of token ids (B, T), as `Towers.tokens` makes them."""
        return unit(self.towers.texts(ids))


def towers(config: ClipConfig, words: Sequence[str]) -> Towers:
    """The CLIP that a config names: one from local files, or a tiny random one that knows `words`.

    Raises FileNotFoundError for files that are not there, ValueError for ones that cannot be read or are no CLIP,
    ImportError if a library is missing.
    """
    kind, _, rest = config.model.partition(":")
    if kind == "open_clip":
        from .open_clip_towers import OpenClip

        return OpenClip(rest)
    from .hugging_face import load, tiny

    return load(Path(rest)) if config.model else tiny(config, words)
