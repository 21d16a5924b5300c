"""Losses of the captioner: likelihood, discrimination, and the policy gradient with rollouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from negcap.pipelines.models.captioner.decoding import complete, nothing, sampled
from negcap.pipelines.models.captioner.generator import PAD_ID, UNKNOWN_ID, Generator, Read, Sentences, State

Reward = Callable[[Sentences, Tensor], Tensor]  # sentences, the row each is of (b,) -> rewards (b,)


def likelihood_loss(read: Read, sentences: Sentences) -> Tensor:
    """Mean negative log-likelihood of a word; unknown words do not count."""
    counted = sentences.there & (sentences.words != UNKNOWN_ID)
    return -read.logarithms.sum() / counted.sum()


def discriminator_loss(
    real: Tensor, generated: Tensor, mismatched: Tensor, alpha: float = 0.5, beta: float = 0.5
) -> Tensor:
    """-E[log r(I, S)] - α E[log(1 - r(I, S generated))] - β E[log(1 - r(I, S of another image))] (eq. 4).

    All of scores before σ, any shapes.
    """
    return (
        functional.softplus(-real).mean()
        + alpha * functional.softplus(generated).mean()
        + beta * functional.softplus(mismatched).mean()
    )


def policy_loss(read: Read, values: Tensor, baseline: Tensor) -> Tensor:
    """Whose gradient is -E[Σ_t ∇ log π(w_t | …) (V(S_1:t) - b_t)] (eq. 2): read.logarithms, values, baseline (B, T)."""
    return -(read.logarithms * (values - baseline).detach()).sum() / len(values)


def baseline(values: Tensor) -> Tensor:
    """b_t of each row: the mean of the other rows' values there, (B, T) -> (B, T). It changes no gradient's mean.

    For rows are drawn each by itself. 0 for a row alone.
    """
    return (values.sum(0) - values) / max(len(values) - 1, 1)


def play(
    generator: Generator,
    state: State,
    uniforms: Tensor,
    reward: Reward,
    positions: Sequence[int],
    rollouts: int,
    noise: torch.Generator,
) -> tuple[Sentences, Tensor, Tensor]:
    """Sample a sentence a row, and what each of its words is worth (eq. 3).

    V(S_1:p) is the mean reward of `rollouts` sentences that go on from the first p words, for p in `positions`. Word t
    is worth V of the first such p >= t that lies within the sentence, and the sentence's own reward behind the last:
    fewer rollouts than words, and the gradient's mean is the same, as p does not hang on what comes after it.
    state: before the first word, (B, hidden); uniforms: (B, T) on the device; noise: draws the rollouts' numbers.
    Returns the sentences, values (B, T) and the sentences' own rewards (B,).
    """
    rows, most = uniforms.shape
    device = uniforms.device
    stops: list[tuple[int, Tensor, State]] = []

    def watch(step: int, going: Tensor, state: State) -> None:
        if step in positions:
            stops.append((step, going, state))

    sentences = complete(generator, state, nothing(rows, most, device), sampled(uniforms), watch)
    own = reward(sentences, torch.arange(rows, device=device))
    values = own[:, None].expand(rows, most).clone()
    if stops and rollouts:
        row = torch.cat([going.repeat(rollouts) for _, going, _ in stops])
        length = torch.cat([torch.full_like(going, step).repeat(rollouts) for step, going, _ in stops])
        begun = State(*(torch.cat([part.repeat(rollouts, 1) for part in parts]) for parts in
                        zip(*(state for _, _, state in stops), strict=True)))  # fmt: skip
        places = torch.arange(most, device=device)[None, :]
        words = sentences.words[row].where(places < length[:, None], PAD_ID)
        drawn = torch.rand(len(row), most, generator=noise, device=noise.device).to(device)
        ends = complete(generator, begun, Sentences(words, length), sampled(drawn))
        rewards = iter(reward(ends, row).split([len(going) * rollouts for _, going, _ in stops]))
        for (step, going, _), some in reversed(list(zip(stops, rewards, strict=True))):
            values[going, :step] = some.view(rollouts, -1).mean(0)[:, None].expand(-1, step)
    return sentences, values, own
