"""The training of the small networks beside the cloze network: the surrogate and the raters' model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from ...models.fit import Say, TrainingStep, fit, silent


class Schedule(Protocol):
    """The part of a configuration that says how long a network is trained, and how fast."""

    seed: int
    epochs: int
    batch: int
    learning_rate: float


def one_cycle(
    net: nn.Module,
    optimizer: torch.optim.Optimizer,
    rows: int,
    error: Callable[[np.ndarray], Tensor],
    schedule: Schedule,
    say: Say = silent,
) -> None:
    """Train a network in place on random batches; the learning rate rises once, then falls.

    Args:
        net: the network.
        optimizer: of its parameters.
        rows: the number of rows of the training data.
        error: the error of a batch, by the numbers of its rows.
        schedule: `learning_rate` is the highest.
        say: called with a line after each epoch.
    """
    steps = max(1, rows // schedule.batch)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimizer, schedule.learning_rate, total_steps=schedule.epochs * steps)
    order = np.random.default_rng(schedule.seed)
    fit(
        {"net": net},
        {"optimizer": optimizer},
        lambda epoch: np.array_split(order.permutation(rows), steps),
        lambda numbers, epoch: TrainingStep(error(numbers)),
        schedule.epochs,
        after_step=lambda numbers: rate.step(),
        report=lambda past: say(f"epoch {len(past)} of {schedule.epochs}: error {past[-1]['loss']:.4f}"),
    )
