"""The captioner's losses: likelihood, the discriminator's, and the policy gradient with rollouts (Dai et al. 2017).

Equation numbers are those of Chen et al. (2019). Their equations 2 and 3, as printed, weight each word with the sum of
the rewards of all prefixes, Σ_t ∇ log π(w_t | …) · Σ_t r(S_1:t). They follow Dai et al. (2017), who weight a word with
the expected reward of the sentences that begin so, less a baseline; so do `policy_loss` and `sample_with_values`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from ..vocabulary import PAD_ID, UNKNOWN_ID
from .generate import complete, empty_sentences
from .model import Generator, LSTMState, PaddedSentences

Reward = Callable[[PaddedSentences, Tensor], Tensor]  # sentences, the batch row of each (b,) -> rewards (b,)


def likelihood_loss(log_probs: Tensor, sentences: PaddedSentences) -> Tensor:
    """The mean negative log-likelihood per word, a scalar; <unk> is not counted. log_probs: (B, T) of the words of
    sentences.
    """
    counted = sentences.mask & (sentences.words != UNKNOWN_ID)
    return -log_probs.sum() / counted.sum()


def discriminator_loss(
    real: Tensor, generated: Tensor, mismatched: Tensor, alpha: float = 1.0, beta: float = 1.0
) -> Tensor:
    """-E[log r(I, S)] - α E[log(1 - r(I, S_generated))] - β E[log(1 - r(I, S_other_image))], a scalar (eq. 4).

    r(I, S) is the probability that a person wrote sentence S about image I. real, generated, mismatched: its logits, of
    any shape. In equation 4, α = β = 1, and S_other_image is printed as "semantic-matched", surely meant as mismatched.
    """
    return (
        functional.softplus(-real).mean()
        + alpha * functional.softplus(generated).mean()
        + beta * functional.softplus(mismatched).mean()
    )


def policy_loss(log_probs: Tensor, values: Tensor, baseline: Tensor) -> Tensor:
    """A scalar whose gradient is that of the policy, -E[Σ_t ∇ log π(w_t | …) (V(S_1:t) - b_t)] (eq. 2). log_probs: (B,
    T) log π of the sampled words w_t. values: (B, T) the values V. baseline: (B, T) the baselines b_t.
    """
    return -(log_probs * (values - baseline).detach()).sum() / len(values)


def mean_of_others(values: Tensor) -> Tensor:
    """Baselines b_t (B, T) for values (B, T): the mean of the other rows' values at t; 0 for a single row. As rows are
    sampled independently, this does not change the expectation of the gradient.
    """
    return (values.sum(0) - values) / max(len(values) - 1, 1)


def sample_with_values(
    generator: Generator,
    state: LSTMState,
    uniforms: Tensor,
    reward: Reward,
    positions: Sequence[int],
    count: int,
    noise: torch.Generator,
) -> tuple[PaddedSentences, Tensor, Tensor]:
    """Sample one sentence per row, and estimate the value of each of its words (eq. 3).

    The value V(S_1:p) of the first p words is the mean reward of `count` sampled completions, at rollout positions p.
    Word t gets the value of the next rollout position p >= t within the sentence; words after the last such position
    get the reward of the sentence itself. So there are fewer rollouts than words; the expectation of the gradient is
    the same, as p does not depend on what follows it. state: of the generator before the first word, (B, hidden).
    uniforms: (B, T) in (0, 1), on the device. noise: to sample completions. Returns the sentences, the values (B, T) of
    their words, and the rewards (B,) of whole sentences.
    """
    rows, max_words = uniforms.shape
    device = uniforms.device
    sentences, stops = complete(generator, state, empty_sentences(rows, max_words, device), uniforms, positions)
    rewards = reward(sentences, torch.arange(rows, device=device))
    values = rewards[:, None].expand(rows, max_words).clone()
    if stops and count:
        row = torch.cat([some.repeat(count) for _, some, _ in stops])
        length = torch.cat([torch.full_like(some, position).repeat(count) for position, some, _ in stops])
        parts = zip(*(state for *_, state in stops), strict=True)
        states = LSTMState(*(torch.cat([part.repeat(count, 1) for part in some]) for some in parts))
        inside = torch.arange(max_words, device=device)[None, :] < length[:, None]
        prefixes = PaddedSentences(sentences.words[row].where(inside, PAD_ID), length)
        sampled = torch.rand(len(row), max_words, generator=noise, device=noise.device).to(device)
        completed, _ = complete(generator, states, prefixes, sampled)
        of_stops = reward(completed, row).split([len(some) * count for _, some, _ in stops])
        for (position, some, _), its in reversed(list(zip(stops, of_stops, strict=True))):
            values[some, :position] = its.view(count, -1).mean(0)[:, None].expand(-1, position)
    return sentences, values, rewards
