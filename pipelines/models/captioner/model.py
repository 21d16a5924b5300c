"""A captioner's nets, and its folder."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import torch

from negcap.pipelines.models.captioner.config import NOT_IDENTITY, CaptionerConfig
from negcap.pipelines.models.captioner.discriminator import Discriminator
from negcap.pipelines.models.captioner.generator import Generator
from negcap.pipelines.models.checkpoint import LAST, read_told, restore
from negcap.pipelines.models.vocabulary import Vocabulary

MLE, GAN = PHASES = ("mle", "gan")  # names of weights: after the first phase, after the last


class Nets(NamedTuple):
    """The generator and the discriminator."""

    generator: Generator
    discriminator: Discriminator


class Captioner(NamedTuple):
    """A trained captioner as it is written with."""

    nets: Nets
    vocabulary: Vocabulary
    config: CaptionerConfig
    features: int
    backbone: str


def build(config: CaptionerConfig, features: int, words: int) -> Nets:
    """New nets; the weights hang on the seed alone. features: size of an image's; words: of the vocabulary."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        generator = Generator(
            features,
            words,
            word_dim=config.word_dim,
            hidden=config.hidden,
            noise=config.noise,
            dropout=config.dropout,
        )
        discriminator = Discriminator(features, words, word_dim=config.word_dim, joint=config.joint)
        return Nets(generator, discriminator)


def weights_file(folder: Path, phase: str) -> Path:
    """The weights of a phase. Raises ValueError for one that is none, FileNotFoundError where they are not yet."""
    if phase not in PHASES:
        raise ValueError(f"phase must be one of {', '.join(PHASES)}, was: {phase}")
    read_told(folder, "captioner")
    path = folder / f"{phase}.safetensors"
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: the training has not come so far (negcap captioner)")
    return path


def load(weights: Path, device: torch.device) -> Captioner:
    """The captioner whose generator's weights are this file of its folder; the discriminator is the last one.

    Raises FileNotFoundError and ValueError for a folder that is no captioner's, or is damaged.
    """
    folder = weights.parent
    told, vocabulary = read_told(folder, "captioner")
    known = {item.name for item in fields(CaptionerConfig)} - set(NOT_IDENTITY)
    try:
        given: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in told["config"].items()
            if name in known
        }
        config = CaptionerConfig(run=Path(), output=folder, **given)
        features = int(told["features"])
        if "mle_epochs" not in given:
            raise KeyError("mle_epochs")
    except (KeyError, TypeError) as error:
        raise ValueError(f"{folder} must be what negcap captioner wrote, lacks: {error}") from None
    nets = build(config, features, len(vocabulary))
    state = restore(folder, weights.stem, {"generator": nets.generator})
    if state["vocabulary"] != vocabulary.sha256:
        raise ValueError(f"{weights} must be of the vocabulary beside it, is of another")
    restore(folder, LAST, {"discriminator": nets.discriminator})
    for net in nets:
        net.to(device).eval()
    return Captioner(nets, vocabulary, config, features, told["backbone"])
