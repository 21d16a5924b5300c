"""Train a cloze model by sampled softmax, and measure its perplexity."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import torch
from torch import Tensor, nn

from negcap.pipelines.resources.cloze.network import Cloze

UNKNOWN = 2


@dataclass(frozen=True)
class TrainingConfig:
    """The schedule of one training run.

    samples: words that a batch's targets are told from, drawn by count^0.75. normalise: weight of the squared log of
    the (estimated) sum of all probabilities, which makes scores log-probabilities without a sum over the vocabulary.
    forget: share of the words read that are replaced by UNKNOWN. average: decay of the moving average of the weights.
    half: whether products are computed in bfloat16, which processors with such instructions do in two thirds of the time.
    """

    seed: int = 1
    epochs: int = 10
    batch: int = 256
    learning_rate: float = 2e-3
    warm_up: int = 500
    weight_decay: float = 0.02
    dropout: float = 0.15
    forget: float = 0.03
    samples: int = 2000
    normalise: float = 0.05
    average: float = 0.999
    half: bool = True


def batches(captions: list[np.ndarray], size: int, generator: np.random.Generator) -> list[np.ndarray]:
    """Captions of equal length in batches of at most `size`, in random order: each (captions, length)."""
    order = generator.permutation(len(captions))
    order = order[np.argsort([len(captions[i]) for i in order], kind="stable")]
    made = []
    for _, group in groupby(order, key=lambda i: len(captions[i])):
        numbers = list(group)
        words = size * 13 // len(captions[numbers[0]])  # about as many words in every batch
        made += [
            np.stack([captions[i] for i in numbers[at : at + max(words, 8)]])
            for at in range(0, len(numbers), max(words, 8))
        ]
    return [made[i] for i in generator.permutation(len(made))]


def sampled_loss(
    net: Cloze, contexts: Tensor, targets: Tensor, drawn: Tensor, log_expected: Tensor
) -> tuple[Tensor, Tensor]:
    """The mean loss of the targets in nats, and the mean squared log of the sum of all probabilities.

    contexts: (n, words). targets: (n,). drawn: (samples,) distinct units; log_expected: (units,), the log of how often
    a unit is expected among them, by which their scores are corrected. A target's own score is left out of its row's
    drawn ones.
    """
    true = (contexts * net.embedding(targets)).sum(-1) + net.bias[targets]
    others = net.scores(contexts, drawn) - log_expected[drawn]
    others = others.masked_fill(drawn[None] == targets[:, None], -torch.inf)
    total = torch.logaddexp(true, torch.logsumexp(others, -1))
    return (total - true).mean(), (total**2).mean()


def train(
    net: Cloze,
    captions: list[np.ndarray],
    counts: np.ndarray,
    config: TrainingConfig,
    report: Callable[[str], None],
    save: Callable[[Cloze, int], None] = lambda net, epoch: None,
) -> Cloze:
    """Train `net` in place on encoded captions and return the moving average of its weights.

    counts: of each unit, (units,). save(net, epoch) is called with the average after each epoch.
    """
    generator, torch_generator = np.random.default_rng(config.seed), torch.Generator().manual_seed(config.seed)
    torch.manual_seed(config.seed)
    frequencies = torch.from_numpy(counts / counts[3:].sum()).clamp_min(1e-9)
    with torch.no_grad():
        net.bias.copy_(frequencies.log())
    weights = torch.from_numpy(counts.astype(np.float64) ** 0.75)
    weights[:3] = 0.0
    samples = min(config.samples, int((weights > 0).sum()))
    # drawn without replacement by exponential keys: the chance to be among them is 1 - exp(-weight * time)
    low, high = 0.0, 1e12
    for _ in range(200):
        rate = (low + high) / 2
        low, high = (rate, high) if float((1 - torch.exp(-weights * rate)).sum()) < samples else (low, rate)
    chance = 1 - torch.exp(-weights * low)
    log_expected = torch.log(chance.clamp_min(1e-12)).float()
    optimizer = torch.optim.AdamW(
        net.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay, betas=(0.9, 0.98)
    )
    steps_of_epoch = len(batches(captions, config.batch, np.random.default_rng(0)))
    total_steps = steps_of_epoch * config.epochs
    averaged = {name: value.detach().clone() for name, value in net.state_dict().items()}
    step, started = 0, time.monotonic()
    for epoch in range(1, config.epochs + 1):
        net.train()
        losses, sums, words = 0.0, 0.0, 0
        for batch in batches(captions, config.batch, generator):
            rate = min((step + 1) / config.warm_up, (total_steps - step) / max(total_steps - config.warm_up, 1))
            for group in optimizer.param_groups:
                group["lr"] = config.learning_rate * rate
            units = torch.from_numpy(batch).long()
            read = units
            if config.forget:
                forgotten = torch.rand(units.shape, generator=torch_generator) < config.forget
                forgotten[:, [0, -1]] = False
                read = units.masked_fill(forgotten, UNKNOWN)
            targets = units[:, 1:-1].flatten()
            known = targets != UNKNOWN
            keys = torch.empty(len(weights), dtype=torch.float64).exponential_(generator=torch_generator)
            drawn = (keys < weights * low).nonzero()[:, 0]
            with torch.autocast("cpu", torch.bfloat16, enabled=config.half):
                contexts = net.contexts(read).flatten(0, 1)
                loss, normal = sampled_loss(net, contexts[known], targets[known], drawn, log_expected)
            optimizer.zero_grad(set_to_none=True)
            (loss + config.normalise * normal).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            step += 1
            decay = min(config.average, (1 + step) / (10 + step))
            with torch.no_grad():
                for name, value in net.state_dict().items():
                    averaged[name].lerp_(value, 1 - decay)
            count = int(known.sum())
            losses += loss.item() * count
            sums += normal.item() * count
            words += count
            if step % 200 == 0:
                speed = step / (time.monotonic() - started)
                report(
                    f"epoch {epoch}, step {step}/{total_steps}: loss {losses / words:.3f}, squared log of the sum "
                    f"{sums / words:.3f}, {(total_steps - step) / speed / 60:.0f} min left"
                )
        live = {name: value.detach().clone() for name, value in net.state_dict().items()}
        net.load_state_dict(averaged)
        save(net, epoch)
        if epoch < config.epochs:
            net.load_state_dict(live)
    return net


@torch.no_grad()
def perplexity(net: Cloze, captions: list[np.ndarray]) -> tuple[float, float]:
    """Perplexity per known word over the whole vocabulary, and the mean log of the sum of all probabilities."""
    net.eval()
    loss, log_sum, words = 0.0, 0.0, 0
    for batch in _plain_batches(captions):
        units = torch.from_numpy(batch).long()
        contexts = net.contexts(units).flatten(0, 1)
        targets = units[:, 1:-1].flatten()
        contexts, targets = contexts[targets != UNKNOWN], targets[targets != UNKNOWN]
        scores = contexts @ net.embedding.weight.T + net.bias
        scores[:, :3] = -torch.inf
        total = torch.logsumexp(scores, -1)
        loss += float((total - scores.gather(1, targets[:, None])[:, 0]).sum())
        log_sum += float(total.sum())
        words += len(targets)
    return math.exp(loss / max(words, 1)), log_sum / max(words, 1)


def _plain_batches(captions: list[np.ndarray]) -> Iterator[np.ndarray]:
    ordered = sorted(captions, key=len)
    for _, group in groupby(ordered, key=len):
        rows = list(group)
        for at in range(0, len(rows), 256):
            yield np.stack(rows[at : at + 256])
