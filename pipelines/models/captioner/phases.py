"""One epoch of each of the three phases; each returns what is logged of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn.utils import clip_grad_norm_

from negcap.pipelines.models.captioner.config import CaptionerConfig
from negcap.pipelines.models.captioner.decoding import sampled, write
from negcap.pipelines.models.captioner.generator import Sentences
from negcap.pipelines.models.captioner.losses import baseline, discriminator_loss, likelihood_loss, play, policy_loss
from negcap.pipelines.models.captioner.material import Material
from negcap.pipelines.models.captioner.model import Nets
from negcap.pipelines.models.sampling import shuffled

Optimizers = dict[str, torch.optim.Optimizer]
WRITTEN = 1024  # sentences written at once where nothing is learnt from them


def normal(rows: int, nets: Nets, noise: Generator) -> Tensor:
    """z for so many sentences, (rows, z)."""
    return torch.randn(rows, nets.generator.noise, generator=noise, device=noise.device)


def mle_epoch(nets: Nets, optimizers: Optimizers, material: Material, config: CaptionerConfig, seed: int) -> dict:
    """The first phase: the likelihood of the train captions."""
    generator = nets.generator
    generator.dropout.train()
    order, noise = _random(material, seed)
    losses = []
    with torch.random.fork_rng(devices=[material.device] if material.device.type == "cuda" else []):
        torch.manual_seed(seed)  # dropout
        for rows in shuffled(material.train, config.batch_size, order):
            sentences = material.sentences(rows)
            state = generator.begin(material.of(rows), normal(len(rows), nets, noise))
            loss = likelihood_loss(generator(state, sentences), sentences)
            _learn(optimizers["likelihood"], loss, generator.parameters(), config.clip)
            losses.append(loss.detach())
    generator.dropout.eval()
    return {"loss": _mean(losses), "validation_loss": validation_loss(nets, material)}


@torch.no_grad()
def validation_loss(nets: Nets, material: Material) -> float:
    """The mean negative log-likelihood of a word of the validation captions; the same noise each time."""
    _, noise = _random(material, 0)
    total, words = 0.0, 0
    for rows in material.validation.split(WRITTEN):
        sentences = material.sentences(rows)
        state = nets.generator.begin(material.of(rows), normal(len(rows), nets, noise))
        there = int(sentences.lengths.sum())
        total += there * likelihood_loss(nets.generator(state, sentences), sentences).item()
        words += there
    return total / words


def discriminator_epoch(
    nets: Nets, optimizers: Optimizers, material: Material, config: CaptionerConfig, seed: int
) -> dict[str, Any]:
    """The second phase: real, generated and mismatched captions told apart."""
    order, noise = _random(material, seed)
    said = []
    for rows in shuffled(material.known, WRITTEN, order):
        written = sample(nets, material.of(rows), config.words, noise)
        for some in torch.arange(len(rows)).split(config.batch_size):
            if len(some) > 1:
                here = some.to(material.device)
                said.append(discriminate(nets, optimizers, material, config, rows[some], written.of(here)))
    return _told(said)


def discriminate(
    nets: Nets, optimizers: Optimizers, material: Material, config: CaptionerConfig, rows: Tensor, written: Sentences
) -> Tensor:
    """A step of the discriminator: captions `rows` (B,), as many written of the same images, and those of others.

    Returns the loss and the shares of real, written and mismatched captions that are told right, (4,).
    """
    images = nets.discriminator.images(material.of(rows))
    sentences = nets.discriminator.sentences(material.sentences(rows))
    real = (images * sentences).sum(1)
    fake = nets.discriminator(images, written)
    other = (images * sentences.roll(1, 0)).sum(1)
    apart = (material.image[rows] != material.image[rows].roll(1, 0)).to(material.device)
    wrong = other[apart] if bool(apart.any()) else other.detach() * 0
    loss = discriminator_loss(real, fake, wrong, config.alpha, config.beta)
    _learn(optimizers["discrimination"], loss, nets.discriminator.parameters(), config.clip)
    shares = [(real > 0).float().mean(), (fake < 0).float().mean(), (wrong < 0).float().mean()]
    return torch.stack([loss.detach(), *shares])


def gan_epoch(nets: Nets, optimizers: Optimizers, material: Material, config: CaptionerConfig, seed: int) -> dict:
    """The third phase: `stages` stages of steps of the policy gradient, each then followed by one of the discriminator.

    What is logged: mean reward, the policy's entropy at a word in nats, the words of a caption, and the discriminator's
    shares.
    """
    order, noise = _random(material, seed)
    played, said = [], []
    for _ in range(config.stages):
        for _ in range(config.generator_steps):
            rows = _some(material.train, config, order)
            played.append(generate(nets, optimizers, material, config, rows, noise))
        rows = _some(material.known, config, order)
        written = sample(nets, material.of(rows), config.words, noise)
        said.append(discriminate(nets, optimizers, material, config, rows, written))
    reward, entropy, length = torch.stack(played).mean(0).tolist()
    return {"reward": reward, "entropy": entropy, "words": length, **_told(said)}


def generate(
    nets: Nets, optimizers: Optimizers, material: Material, config: CaptionerConfig, rows: Tensor, noise: Generator
) -> Tensor:
    """A step of the policy gradient on the images of captions `rows` (B,); its figures as of `gan_epoch`, (3,)."""
    generator, discriminator = nets
    features = material.of(rows)
    with torch.no_grad():
        images = discriminator.images(features)

    def reward(sentences: Sentences, row: Tensor) -> Tensor:
        with torch.no_grad():
            return discriminator(images[row], sentences).sigmoid()

    state = generator.begin(features, normal(len(rows), nets, noise))
    uniforms = torch.rand(len(rows), config.words, generator=noise, device=noise.device, dtype=torch.double)
    sentences, values, own = play(generator, state, uniforms, reward, config.positions, config.rollouts, noise)
    read, there = generator(state, sentences), sentences.there
    loss = policy_loss(read, values, baseline(values))
    _learn(optimizers["policy"], loss, generator.parameters(), config.clip)
    return torch.stack([own.mean(), read.entropy[there].mean(), sentences.lengths.float().mean()])


@torch.no_grad()
def sample(nets: Nets, features: Tensor, words: int, noise: Generator) -> Sentences:
    """A sentence of each image, features (B, D), drawn from the policy."""
    uniforms = torch.rand(len(features), words, generator=noise, device=noise.device, dtype=torch.double)
    return write(nets.generator, features, normal(len(features), nets, noise), words, sampled(uniforms))


def _random(material: Material, seed: int) -> tuple[Generator, Generator]:
    """Of the order of captions, on the CPU, and of noise, on the device."""
    return Generator().manual_seed(seed), Generator(material.device).manual_seed(seed)


def _some(captions: Tensor, config: CaptionerConfig, order: Generator) -> Tensor:
    return captions[torch.randint(len(captions), (config.batch_size,), generator=order)]


def _learn(
    optimizer: torch.optim.Optimizer, loss: Tensor, parameters: Iterable[torch.nn.Parameter], clip: float
) -> None:
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    clip_grad_norm_(parameters, clip)
    optimizer.step()


def _mean(losses: list[Tensor]) -> float:
    return torch.stack(losses).mean().item()


def _told(said: list[Tensor]) -> dict[str, Any]:
    loss, *shares = torch.stack(said).mean(0).tolist()
    return {"discriminator_loss": loss, "told": dict(zip(("real", "generated", "mismatched"), shares, strict=True))}
