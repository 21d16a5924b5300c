"""The losses of the captioner: likelihood, the discriminator's, and the policy gradient with rollouts (Dai et al.)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from negcap.pipelines.models.captioner.decoding import complete, empty_sentences, sample_by
from negcap.pipelines.models.captioner.generator import Generator, LSTMState, PaddedSentences, WordScores
from negcap.pipelines.models.vocabulary import PAD_ID, UNKNOWN_ID

Reward = Callable[[PaddedSentences, Tensor], Tensor]  # sentences, the batch row of each (b,) -> rewards (b,)


def likelihood_loss(scores: WordScores, sentences: PaddedSentences) -> Tensor:
    """The mean negative log-likelihood of a word; <unk> does not count."""
    counted = sentences.mask & (sentences.words != UNKNOWN_ID)
    return -scores.log_probs.sum() / counted.sum()


def discriminator_loss(
    real: Tensor, generated: Tensor, mismatched: Tensor, alpha: float = 0.5, beta: float = 0.5
) -> Tensor:
    """-E[log r(I, S)] - α E[log(1 - r(I, S generated))] - β E[log(1 - r(I, S of another image))] (eq. 4).

    All arguments are logits of r, of any shape.
    """
    return (
        functional.softplus(-real).mean()
        + alpha * functional.softplus(generated).mean()
        + beta * functional.softplus(mismatched).mean()
    )


def policy_loss(scores: WordScores, values: Tensor, baseline: Tensor) -> Tensor:
    """A scalar whose gradient is -E[Σ_t ∇ log π(w_t | …) (V(S_1:t) - b_t)] (eq. 2); values, baseline: (B, T)."""
    return -(scores.log_probs * (values - baseline).detach()).sum() / len(values)


def mean_of_others(values: Tensor) -> Tensor:
    """A baseline b_t for each row of values (B, T): the mean of the other rows' values at t; 0 for a single row.

    As rows are sampled independently, it does not change the expectation of the gradient.
    """
    return (values.sum(0) - values) / max(len(values) - 1, 1)


@dataclass(frozen=True)
class Rollouts:
    """How prefixes are completed: `count` times each of `positions` words; noise: the generator that samples them."""

    positions: Sequence[int]
    count: int
    noise: torch.Generator


class ValuedSentences(NamedTuple):
    """Sampled sentences, the values (B, T) of their words, and their own rewards (B,)."""

    sentences: PaddedSentences
    values: Tensor
    rewards: Tensor


def sample_with_values(
    generator: Generator, state: LSTMState, uniforms: Tensor, reward: Reward, rollouts: Rollouts
) -> ValuedSentences:
    """Sample a sentence for each row, and estimate the value of each of its words (eq. 3).

    The value of a prefix, V(S_1:p), is the mean reward of sampled completions. The value of word t is that of the next
    rollout position p at or after t within the sentence, and the sentence's own reward after the last one. So there are
    fewer rollouts than words; the expectation of the gradient is the same, as p does not depend on what follows it.
    state: before the first word, (B, hidden); uniforms: (B, T) in (0, 1), on the device.
    """
    rows, most = uniforms.shape
    device = uniforms.device
    stops: list[tuple[int, Tensor, LSTMState]] = []

    def remember(step: int, unfinished: Tensor, state: LSTMState) -> None:
        if step in rollouts.positions:
            stops.append((step, unfinished, state))

    sentences = complete(generator, state, empty_sentences(rows, most, device), sample_by(uniforms), remember)
    rewards = reward(sentences, torch.arange(rows, device=device))
    values = rewards[:, None].expand(rows, most).clone()
    if stops and rollouts.count:
        count = rollouts.count
        row = torch.cat([unfinished.repeat(count) for _, unfinished, _ in stops])
        length = torch.cat([torch.full_like(unfinished, step).repeat(count) for step, unfinished, _ in stops])
        parts = zip(*(state for _, _, state in stops), strict=True)
        states = LSTMState(*(torch.cat([part.repeat(count, 1) for part in some]) for some in parts))
        positions = torch.arange(most, device=device)[None, :]
        prefixes = PaddedSentences(sentences.words[row].where(positions < length[:, None], PAD_ID), length)
        sampled = torch.rand(len(row), most, generator=rollouts.noise, device=rollouts.noise.device).to(device)
        completed = complete(generator, states, prefixes, sample_by(sampled))
        of_stops = reward(completed, row).split([len(unfinished) * count for _, unfinished, _ in stops])
        for (step, unfinished, _), some in reversed(list(zip(stops, of_stops, strict=True))):
            values[unfinished, :step] = some.view(count, -1).mean(0)[:, None].expand(-1, step)
    return ValuedSentences(sentences, values, rewards)
