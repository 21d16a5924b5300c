"""The choice of a device, copies of tensors to it, and reproducible computation on it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

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


@contextmanager
def deterministic(device: torch.device) -> Iterator[None]:
    """A context in which the same computation on a GPU gives the same bits; on a CPU it changes nothing.

    On a GPU, sums over indices (`index_add`, `scatter_add`) use atomic operations, in an order that changes from run to
    run. Here torch uses deterministic algorithms in their place, and warns of an operation for which it has none.
    """
    if device.type == "cpu":
        yield
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # as cuBLAS and cuDNN's recurrent nets need it
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
