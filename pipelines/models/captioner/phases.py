"""One epoch of each of the three phases of a captioner's training; each returns data for metrics.jsonl."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from ..sampling import shuffled_batches
from ..training import optimizer_step
from .config import CaptionerConfig
from .decoding import generate_sentences, sample_by
from .generator import PaddedSentences
from .losses import (
    Rollouts,
    discriminator_loss,
    likelihood_loss,
    mean_of_others,
    policy_loss,
    sample_with_values,
)
from .model import Nets
from .training_data import TrainingData

AT_ONCE = 1024  # sentences per batch when no gradients are computed
CAPTION_KINDS = ("real", "generated", "mismatched")  # captions that the discriminator tells apart


@dataclass(frozen=True)
class Learner:
    """The state of a training: nets, optimizers by loss (likelihood, policy, discrimination), data and config."""

    nets: Nets
    optimizers: dict[str, torch.optim.Optimizer]
    data: TrainingData
    config: CaptionerConfig


@dataclass(frozen=True)
class Randomness:
    """The random generators of an epoch: `order` of captions (on the CPU) and `noise` (on the device)."""

    order: Generator
    noise: Generator

    @classmethod
    def seeded(cls, data: TrainingData, seed: int) -> Randomness:
        """Both generators, with the same seed."""
        return cls(Generator().manual_seed(seed), Generator(data.device).manual_seed(seed))


def mle_epoch(learner: Learner, seed: int) -> dict[str, Any]:
    """First phase: train the generator for one epoch by maximum likelihood of the train captions.

    Returns the mean losses per word on train and validation captions.
    """
    data, config, generator = learner.data, learner.config, learner.nets.generator
    generator.dropout.train()
    random = Randomness.seeded(data, seed)
    losses = []
    with torch.random.fork_rng(devices=[data.device] if data.device.type == "cuda" else []):
        torch.manual_seed(seed)  # of dropout
        for rows in shuffled_batches(data.train, config.batch_size, random.order):
            sentences = data.sentences(rows)
            state = generator.first_state(data.features_of(rows), normal_noise(len(rows), learner.nets, random.noise))
            loss = likelihood_loss(generator(state, sentences), sentences)
            optimizer_step(learner.optimizers["likelihood"], loss, generator.parameters(), config.clip)
            losses.append(loss.detach())
    generator.dropout.eval()
    return {"loss": torch.stack(losses).mean().item(), "validation_loss": validation_loss(learner.nets, data)}


@torch.no_grad()
def validation_loss(nets: Nets, data: TrainingData) -> float:
    """The mean negative log-likelihood per word of the validation captions, with the same noise in every call."""
    noise = Randomness.seeded(data, 0).noise
    total, words = 0.0, 0
    for rows in data.validation.split(AT_ONCE):
        sentences = data.sentences(rows)
        state = nets.generator.first_state(data.features_of(rows), normal_noise(len(rows), nets, noise))
        count = int(sentences.lengths.sum())
        total += count * likelihood_loss(nets.generator(state, sentences), sentences).item()
        words += count
    return total / words


def discriminator_epoch(learner: Learner, seed: int) -> dict[str, Any]:
    """Second phase: train the discriminator for one epoch to tell real from generated and mismatched captions.

    Returns its mean loss and its accuracy, from 0 to 1, on each of the three.
    """
    data = learner.data
    random = Randomness.seeded(data, seed)
    figures = []
    for rows in shuffled_batches(data.known, AT_ONCE, random.order):
        generated = sample(learner.nets, data.features_of(rows), data.words, random.noise)
        for part in torch.arange(len(rows)).split(learner.config.batch_size):
            if len(part) > 1:
                figures.append(discriminator_step(learner, rows[part], generated.select(part.to(data.device))))
    return _discriminator_figures(figures)


def discriminator_step(learner: Learner, rows: Tensor, generated: PaddedSentences) -> Tensor:
    """Train the discriminator on captions `rows` (B,), generated ones of the same images, and those of other images.

    Returns the loss and the accuracies on real, generated and mismatched captions, from 0 to 1: (4,).
    """
    data, config, discriminator = learner.data, learner.config, learner.nets.discriminator
    images = discriminator.images(data.features_of(rows))
    sentences = discriminator.sentences(data.sentences(rows))
    real = (images * sentences).sum(1)
    fake = discriminator(images, generated)
    other = (images * sentences.roll(1, 0)).sum(1)
    different_images = (data.image[rows] != data.image[rows].roll(1, 0)).to(data.device)
    mismatched = other[different_images] if bool(different_images.any()) else other.detach() * 0
    loss = discriminator_loss(real, fake, mismatched, config.alpha, config.beta)
    optimizer_step(learner.optimizers["discrimination"], loss, discriminator.parameters(), config.clip)
    accuracy = [(real > 0).float().mean(), (fake < 0).float().mean(), (mismatched < 0).float().mean()]
    return torch.stack([loss.detach(), *accuracy])


def gan_epoch(learner: Learner, seed: int) -> dict[str, Any]:
    """Third phase: `stages` times, `generator_steps` steps of policy gradient, then one step of the discriminator.

    Returns the mean reward, the policy's entropy per word in nats, the mean length of sampled captions, and what
    `discriminator_epoch` returns.
    """
    data, config = learner.data, learner.config
    random = Randomness.seeded(data, seed)
    generator_figures, discriminator_figures = [], []
    for _ in range(config.stages):
        for _ in range(config.generator_steps):
            rows = _sample_rows(data.train, config.batch_size, random.order)
            generator_figures.append(policy_step(learner, rows, random.noise))
        rows = _sample_rows(data.known, config.batch_size, random.order)
        generated = sample(learner.nets, data.features_of(rows), config.words, random.noise)
        discriminator_figures.append(discriminator_step(learner, rows, generated))
    reward, entropy, length = torch.stack(generator_figures).mean(0).tolist()
    return {"reward": reward, "entropy": entropy, "words": length, **_discriminator_figures(discriminator_figures)}


def policy_step(learner: Learner, rows: Tensor, noise: Generator) -> Tensor:
    """One step of policy gradient on captions sampled for the images of captions `rows` (B,).

    Returns the mean reward, the mean entropy per word in nats, and the mean length in words, (3,).
    """
    config, (generator, discriminator) = learner.config, learner.nets
    features = learner.data.features_of(rows)
    with torch.no_grad():
        images = discriminator.images(features)

    def reward(sentences: PaddedSentences, row: Tensor) -> Tensor:
        with torch.no_grad():
            return discriminator(images[row], sentences).sigmoid()

    state = generator.first_state(features, normal_noise(len(rows), learner.nets, noise))
    uniforms = torch.rand(len(rows), config.words, generator=noise, device=noise.device, dtype=torch.double)
    rollouts = Rollouts(config.positions, config.rollouts, noise)
    sentences, values, rewards = sample_with_values(generator, state, uniforms, reward, rollouts)
    scores, mask = generator(state, sentences), sentences.mask
    loss = policy_loss(scores, values, mean_of_others(values))
    optimizer_step(learner.optimizers["policy"], loss, generator.parameters(), config.clip)
    return torch.stack([rewards.mean(), scores.entropy[mask].mean(), sentences.lengths.float().mean()])


@torch.no_grad()
def sample(nets: Nets, features: Tensor, words: int, noise: Generator) -> PaddedSentences:
    """Sample a sentence of up to `words` words per image; features: (B, D); noise: the random generator to use."""
    uniforms = torch.rand(len(features), words, generator=noise, device=noise.device, dtype=torch.double)
    normal = normal_noise(len(features), nets, noise)
    return generate_sentences(nets.generator, features, normal, words, sample_by(uniforms))


def normal_noise(rows: int, nets: Nets, noise: Generator) -> Tensor:
    """Standard normal noise z for the generator, (rows, z)."""
    return torch.randn(rows, nets.generator.noise, generator=noise, device=noise.device)


def _sample_rows(captions: Tensor, count: int, order: Generator) -> Tensor:
    """`count` of the captions, with replacement."""
    return captions[torch.randint(len(captions), (count,), generator=order)]


def _discriminator_figures(steps: list[Tensor]) -> dict[str, Any]:
    loss, *accuracy = torch.stack(steps).mean(0).tolist()
    return {"discriminator_loss": loss, "accuracy": dict(zip(CAPTION_KINDS, accuracy, strict=True))}
