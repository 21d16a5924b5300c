"""Where and in what precision a PyTorch model computes its vectors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ..config import ScoreConfig

if TYPE_CHECKING:
    import torch


class Compute:
    """The device, threads and precision of a ScoreConfig. Raises ValueError for cuda without a GPU."""

    def __init__(self, config: ScoreConfig) -> None:
        import torch

        from ...models.device import choose_device

        self.device = choose_device(config.device)
        if config.threads:
            torch.set_num_threads(config.threads)
        default = "bfloat16" if self.device.type == "cuda" else "float32"
        self.precision = default if config.precision == "auto" else config.precision

    @contextmanager
    def inference(self) -> Iterator[None]:
        """A context without gradients, and with automatic mixed precision unless the precision is float32."""
        import torch

        type = None if self.precision == "float32" else getattr(torch, self.precision)
        with torch.inference_mode(), torch.autocast(self.device.type, type, enabled=type is not None):
            yield

    def place(self, batch: Any) -> dict[str, torch.Tensor]:
        """The tensors of a processor's output, on the device."""
        return {name: tensor.to(self.device) for name, tensor in batch.items()}


def vectors(output: Any) -> np.ndarray:
    """A model's vectors (n, d) as float32 on the CPU, from a tensor or from an output object that pools them."""
    found = output if hasattr(output, "detach") else output.pooler_output
    array: np.ndarray = found.detach().float().cpu().numpy()
    return array
