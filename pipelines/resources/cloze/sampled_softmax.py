"""The softmax over a large vocabulary, estimated from a sample of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ....augment.cloze.states import SPECIAL
from .network import Cloze


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
