"""What the training loops share: epoch seeds, an optimizer step, and reading and writing metrics.jsonl."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from ..engine.storage import write_atomically

SEED_STRIDE = 1 << 20  # more than any number of epochs, so that no two seeds share an epoch's random numbers


def epoch_seed(seed: int, epoch: int) -> int:
    """The seed of an epoch (counted from 1): a resumed training uses the random numbers of an uninterrupted one."""
    return seed * SEED_STRIDE + epoch


def optimizer_step(
    optimizer: torch.optim.Optimizer, loss: Tensor, parameters: Iterable[nn.Parameter], max_norm: float
) -> None:
    """Backpropagate a scalar loss, clip the norm of the gradients to `max_norm`, and update the parameters."""
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    clip_grad_norm_(parameters, max_norm)
    optimizer.step()


def read_history(path: Path, epochs: int) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl for the first `epochs` epochs; later ones, not yet in the weights, are dropped.

    Raises ValueError for a damaged file.
    """
    try:
        lines = path.read_text("utf-8").splitlines() if path.exists() and epochs else []
        return [line for line in map(json.loads, lines) if line["epoch"] <= epochs]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"{path} must have one JSON object with an epoch per line, is damaged: {error}") from None


def write_history(path: Path, history: list[dict[str, Any]]) -> None:
    """Write metrics.jsonl, one line per epoch, atomically."""
    write_atomically(path, "".join(json.dumps(line) + "\n" for line in history).encode())
