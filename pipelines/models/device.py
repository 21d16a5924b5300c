"""The choice of a device, and copies of tensors to it."""

from __future__ import annotations

import torch
from torch import Tensor


def choose_device(name: str) -> torch.device:
    """The torch device: auto (a GPU if there is one), cpu or cuda. Raises ValueError for cuda without a GPU."""
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("device must be auto or cpu: this torch sees no GPU")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """A CPU tensor copied to a device; a copy to a GPU is asynchronous, from pinned memory."""
    return tensor if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)
