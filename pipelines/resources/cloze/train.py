"""Train a cloze model by sampled softmax: the softmax over a large vocabulary, estimated from a sample of it."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ....augment.cloze.states import SPECIAL
from .network import UNKNOWN_UNIT, Cloze, Sizes, log_frequencies

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
        for name, least in (("epochs", 1), ("batch", 1), ("warm_up", 1), ("samples", 1), ("fixed_point", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be >= {least}, was: {getattr(self, name)}")
        if self.learning_rate <= 0:
            raise ValueError(f"learning_rate must be > 0, was: {self.learning_rate}")


def sampled_loss(
    net: Cloze, contexts: Tensor, targets: Tensor, drawn: Tensor, log_chance: Tensor
) -> tuple[Tensor, Tensor]:
    """The mean loss of the targets in nats, and the mean squared log of the sum of all probabilities.

    With s(w) for the score of unit w in a context, t for its target, D for the drawn units and q(w) for the chance that
    w is among them, the sum of all probabilities is estimated as Z = exp s(t) + sum of exp s(w) / q(w) over D without
    t, and the loss is log Z - s(t): Jean, Cho, Memisevic and Bengio, "On Using Very Large Target Vocabulary for Neural
    Machine Translation", 2015. If D is the whole vocabulary, this is the softmax.

    contexts: (n, words). targets: (n,). drawn: (samples,), distinct. log_chance: log q, (units,).
    """
    vectors = net.vectors
    true = (contexts * vectors[targets]).sum(-1) + net.bias[targets]
    others = contexts @ vectors[drawn].T + net.bias[drawn] - log_chance[drawn]
    others = others.masked_fill(drawn[None] == targets[:, None], -torch.inf)
    total = torch.logaddexp(true, torch.logsumexp(others, -1))
    return (total - true).mean(), (total**2).mean()


class Drawing(NamedTuple):
    """How the words are drawn that a batch's targets are told from: each by itself, with a chance of its own.

    rates: (units,), float64. The chance of a unit is 1 - exp(-rate); log_chance, (units,), is its logarithm.
    """

    rates: Tensor
    log_chance: Tensor

    def draw(self, generator: torch.Generator) -> Tensor:
        """Some distinct units, in ascending order."""
        keys = torch.empty_like(self.rates).exponential_(generator=generator)
        return (keys < self.rates).nonzero()[:, 0]


def drawing(counts: np.ndarray, samples: int) -> Drawing:
    """Draw units in proportion to count^0.75, such that `samples` of them are expected; never the special ones.

    counts: of each unit, (units,); a unit without occurrences is drawn as one that occurs once.
    """
    weights = torch.from_numpy(np.maximum(counts, 1).astype(np.float64) ** 0.75)
    weights[: len(SPECIAL)] = 0.0
    samples = min(samples, len(weights) - len(SPECIAL))
    low, high = 0.0, 1e12
    for _ in range(200):
        scale = (low + high) / 2
        expected = float((1 - torch.exp(-weights * scale)).sum())
        low, high = (scale, high) if expected < samples else (low, scale)
    chance = 1 - torch.exp(-weights * low)
    return Drawing(weights * low, torch.log(chance.clamp_min(1e-12)).float())


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


@torch.random.fork_rng(devices=[])
def new_network(counts: np.ndarray, sizes: Sizes, config: TrainingConfig) -> Cloze:
    """A network with random weights, whose biases are the logs of the units' relative frequencies.

    counts: of each unit, (units,).
    """
    torch.manual_seed(config.seed)
    net = Cloze(len(counts), sizes, config.dropout)
    with torch.no_grad():
        net.bias.copy_(log_frequencies(counts))
    return net


@torch.random.fork_rng(devices=[])
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
    torch.manual_seed(config.seed)  # of dropout, which takes no generator
    order, generator = np.random.default_rng(config.seed), torch.Generator().manual_seed(config.seed)
    sampling = drawing(counts, config.samples)
    optimizer = torch.optim.AdamW(
        net.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay, betas=(0.9, 0.98)
    )
    steps = config.epochs * len(batches(captions, config.batch, np.random.default_rng(0)))
    average = copy.deepcopy(net)
    step, started = 0, time.monotonic()
    for epoch in range(1, config.epochs + 1):
        net.train()
        net.fixed_point = average.fixed_point = epoch > config.epochs - config.fixed_point
        sums = np.zeros(3)  # of the loss and the squared log over the targets of this epoch, and their number
        for batch in batches(captions, config.batch, order):
            if (batch[:, 1:-1] == UNKNOWN_UNIT).all():
                continue  # nothing to predict
            optimizer.param_groups[0]["lr"] = config.learning_rate * rate(step, steps, config.warm_up)
            loss, normal, words = _losses(net, torch.from_numpy(batch).long(), sampling, config, generator)
            optimizer.zero_grad(set_to_none=True)
            (loss + config.normalise * normal).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            step += 1
            decay = min(config.average, (1 + step) / (10 + step))
            with torch.no_grad():
                for mean, value in zip(average.parameters(), net.parameters(), strict=True):
                    mean.lerp_(value, 1 - decay)
            sums += np.array([loss.item() * words, normal.item() * words, words])
            if step % REPORT_EVERY == 0:
                minutes = (time.monotonic() - started) / step * (steps - step) / 60
                report(
                    f"epoch {epoch}, step {step}/{steps}: loss {sums[0] / sums[2]:.3f}, squared log of the sum "
                    f"{sums[1] / sums[2]:.3f}, {minutes:.0f} min left"
                )
        after_epoch(average, epoch)
    net.load_state_dict(average.state_dict())
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
