"""Train a cloze model by sampled softmax."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import torch
from torch import Tensor, nn

from ....augment.cloze.states import SPECIAL, UNKNOWN
from .network import Cloze, Sizes
from .sampled_softmax import Drawing, drawing, sampled_loss

UNKNOWN_UNIT = SPECIAL.index(UNKNOWN)
MEAN_LENGTH = 13  # of a caption in units, with START and END: what turns a batch of captions into one of words
SMALLEST_BATCH = 8
REPORT_EVERY = 200  # steps


def has_bfloat16() -> bool:
    """Whether the processor has instructions for products in bfloat16; without them it is slower than single precision.

    False with a version of PyTorch that cannot tell.
    """
    capabilities: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)()
    return any(capabilities.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))


@dataclass(frozen=True)
class TrainingConfig:
    """The schedule of one training run.

    batch: the number of captions of usual length in a batch. learning_rate: rises for `warm_up` steps, or a tenth of
    all if that is less, then falls linearly to zero. forget: share of the words read that are replaced by UNKNOWN.
    samples: words that a batch's targets are told from, drawn by count^0.75. normalise: weight of the squared log of
    the (estimated) sum of all probabilities, which makes scores log-probabilities without a sum over the vocabulary.
    average: decay of the moving average of the weights. fixed_point: number of epochs, the last ones, that are trained
    with the rounding of the file in the loop, in single precision. half: whether the products of the others are
    computed in bfloat16, which processors with such instructions do in two thirds of the time. Raises ValueError if
    there is nothing to train.
    """

    seed: int = 1
    epochs: int = 14
    batch: int = 256
    learning_rate: float = 2e-3
    warm_up: int = 500
    weight_decay: float = 0.02
    dropout: float = 0.15
    forget: float = 0.03
    samples: int = 2000
    normalise: float = 0.05
    average: float = 0.999
    fixed_point: int = 1
    half: bool = field(default_factory=has_bfloat16)

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "warm_up", "samples"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be >= 1, was: {getattr(self, name)}")
        if self.fixed_point < 0:
            raise ValueError(f"fixed_point must be >= 0, was: {self.fixed_point}")
        if self.learning_rate <= 0:
            raise ValueError(f"learning_rate must be > 0, was: {self.learning_rate}")


def batches(captions: list[np.ndarray], size: int, generator: np.random.Generator) -> list[np.ndarray]:
    """Captions of equal length in batches of about `size` times MEAN_LENGTH units, in random order.

    Each batch is (captions, length).
    """
    order = generator.permutation(len(captions))
    order = order[np.argsort([len(captions[i]) for i in order], kind="stable")]
    made = []
    for length, group in groupby(order, key=lambda i: len(captions[i])):
        numbers, rows = list(group), max(size * MEAN_LENGTH // length, SMALLEST_BATCH)
        made += [np.stack([captions[i] for i in numbers[at : at + rows]]) for at in range(0, len(numbers), rows)]
    return [made[i] for i in generator.permutation(len(made))]


def new_network(counts: np.ndarray, sizes: Sizes, config: TrainingConfig) -> Cloze:
    """A network with random weights, whose biases are the logs of the units' relative frequencies.

    counts: of each unit, (units,).
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        net = Cloze(len(counts), sizes, config.dropout)
    with torch.no_grad():
        net.bias.copy_(log_frequencies(counts))
    return net


def log_frequencies(counts: np.ndarray) -> Tensor:
    """The log of each unit's share of the occurrences of all units but the special ones: (units,)."""
    return torch.from_numpy(counts / counts[len(SPECIAL) :].sum()).clamp_min(1e-9).log()


def train(
    net: Cloze,
    captions: list[np.ndarray],
    counts: np.ndarray,
    config: TrainingConfig,
    report: Callable[[str], None],
    after_epoch: Callable[[Cloze, int], None] = lambda net, epoch: None,
) -> Cloze:
    """Train `net` in place on encoded captions, and return it with the moving average of its weights.

    counts: of each unit, (units,). report: called with lines of progress. after_epoch(net, epoch): called with the
    average after each epoch. The same arguments give the same weights on the same machine with the same number of
    threads.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)  # of dropout, which takes no generator
        return _train(net, captions, counts, config, report, after_epoch)


def _train(
    net: Cloze,
    captions: list[np.ndarray],
    counts: np.ndarray,
    config: TrainingConfig,
    report: Callable[[str], None],
    after_epoch: Callable[[Cloze, int], None],
) -> Cloze:
    order, generator = np.random.default_rng(config.seed), torch.Generator().manual_seed(config.seed)
    sampling = drawing(counts, config.samples)
    optimizer = torch.optim.AdamW(
        net.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay, betas=(0.9, 0.98)
    )
    steps = config.epochs * len(batches(captions, config.batch, np.random.default_rng(0)))
    average = {name: value.detach().clone() for name, value in net.state_dict().items()}
    step, started = 0, time.monotonic()
    for epoch in range(1, config.epochs + 1):
        net.train()
        net.fixed_point = epoch > config.epochs - config.fixed_point
        sums = np.zeros(3)  # of the loss and the squared log over the targets of this epoch, and their number
        for batch in batches(captions, config.batch, order):
            if (batch[:, 1:-1] == UNKNOWN_UNIT).all():
                continue  # nothing to predict
            for group in optimizer.param_groups:
                group["lr"] = config.learning_rate * rate(step, steps, config.warm_up)
            loss, normal, words = _losses(net, torch.from_numpy(batch).long(), sampling, config, generator)
            optimizer.zero_grad(set_to_none=True)
            (loss + config.normalise * normal).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            step += 1
            _move(average, net, min(config.average, (1 + step) / (10 + step)))
            sums += np.array([loss.item() * words, normal.item() * words, words])
            if step % REPORT_EVERY == 0:
                minutes = (time.monotonic() - started) / step * (steps - step) / 60
                report(
                    f"epoch {epoch}, step {step}/{steps}: loss {sums[0] / sums[2]:.3f}, squared log of the sum "
                    f"{sums[1] / sums[2]:.3f}, {minutes:.0f} min left"
                )
        with _weights(net, average):
            after_epoch(net, epoch)
    net.load_state_dict(average)
    return net


def rate(step: int, steps: int, warm_up: int) -> float:
    """The share of the learning rate at a step, from 0: it rises for `warm_up` steps or a tenth of all, then falls."""
    warm_up = min(warm_up, steps // 10)
    return min((step + 1) / max(warm_up, 1), (steps - step) / max(steps - warm_up, 1))


def _losses(
    net: Cloze, units: Tensor, sampling: Drawing, config: TrainingConfig, generator: torch.Generator
) -> tuple[Tensor, Tensor, int]:
    """What `sampled_loss` returns for a batch of captions, (captions, length), and the number of targets."""
    read = units
    if config.forget:
        forgotten = torch.rand(units.shape, generator=generator) < config.forget
        forgotten[:, [0, -1]] = False
        read = units.masked_fill(forgotten, UNKNOWN_UNIT)
    targets = units[:, 1:-1].flatten()
    known = targets != UNKNOWN_UNIT
    drawn = sampling.draw(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=config.half and not net.fixed_point):
        contexts = net.contexts(read).flatten(0, 1)
        loss, normal = sampled_loss(net, contexts[known], targets[known], drawn, sampling.log_chance)
    return loss, normal, int(known.sum())


@torch.no_grad()
def _move(average: dict[str, Tensor], net: Cloze, decay: float) -> None:
    """Move the average of the weights towards the present ones."""
    for name, value in net.state_dict().items():
        average[name].lerp_(value, 1 - decay)


@contextmanager
def _weights(net: Cloze, weights: dict[str, Tensor]) -> Iterator[None]:
    """Temporarily give a network these weights."""
    own = {name: value.detach().clone() for name, value in net.state_dict().items()}
    net.load_state_dict(weights)
    try:
        yield
    finally:
        net.load_state_dict(own)
