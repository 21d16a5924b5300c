"""The two nets of a captioner, and how they are built and loaded."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from .. import checkpoint
from ..encoders import TRANSFORMS
from ..vocabulary import WordVocabulary
from .config import RESUMABLE, CaptionerConfig
from .discriminator import Discriminator
from .generator import Generator, GeneratorShape

IMAGES = 1024  # whose features are transformed at a time
MLE, GAN = PHASES = ("mle", "gan")  # names of the generator's weights after the first and the last phase


class Nets(NamedTuple):
    """The generator and the discriminator."""

    generator: Generator
    discriminator: Discriminator


class Captioner(NamedTuple):
    """A trained captioner; features, backbone: the size of an image's feature vector and the network it is from."""

    nets: Nets
    vocabulary: WordVocabulary
    config: CaptionerConfig
    features: int
    backbone: str

    def require_features(self, values: Tensor, backbone: str) -> None:
        """Raise ValueError for features (…, D) of another size or backbone than those of the training."""
        if values.shape[-1] != self.features or backbone != self.backbone:
            raise ValueError(
                f"features must be {self.features} numbers of {self.backbone!r} as the captioner's, "
                f"are {values.shape[-1]} of {backbone!r}"
            )


def build_nets(config: CaptionerConfig, features: int, words: int) -> Nets:
    """New nets, whose initial weights depend only on the config.

    features: the size of an image's feature vector. words: the size of the vocabulary.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        shape = GeneratorShape(config.word_dim, config.hidden, config.noise, config.dropout)
        generator = Generator(features, words, shape)
        discriminator = Discriminator(features, words, word_dim=config.word_dim, joint=config.joint)
        return Nets(generator, discriminator)


def transform_features(features: Tensor, transform: str) -> Tensor:
    """Features for both nets, (I, D) float32: transformed; a grid (I, R, D) is first averaged over its regions.

    transform: a key of TRANSFORMS. A block of images is read at a time.
    """
    parts = []
    for part in features.split(IMAGES):
        values = part.float()
        parts.append(TRANSFORMS[transform](values.mean(1) if values.dim() == 3 else values))
    return torch.cat(parts)


def weights_file(folder: Path, phase: str) -> Path:
    """The weights file of a phase, "mle" or "gan".

    Raises ValueError for another phase, FileNotFoundError if the folder holds no captioner or not yet this file.
    """
    if phase not in PHASES:
        raise ValueError(f"phase must be one of {', '.join(PHASES)}, was: {phase}")
    checkpoint.read_identity(folder, "captioner")
    path = folder / f"{phase}.safetensors"
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: the training has not reached this phase (negcap captioner)")
    return path


def load_captioner(weights: Path, device: torch.device) -> Captioner:
    """A captioner with the generator in the file `weights` (see `weights_file`) and its folder's latest discriminator.

    Raises FileNotFoundError or ValueError for a folder without a captioner, or damaged files.
    """
    folder = weights.parent
    identity, vocabulary = checkpoint.read_identity(folder, "captioner")
    try:
        if "mle_epochs" not in identity["config"]:
            raise KeyError("mle_epochs")
        config = checkpoint.restore_config(CaptionerConfig, folder, identity, RESUMABLE)
        features = int(identity["features"])
        nets = build_nets(config, features, len(vocabulary))
    except (KeyError, TypeError, AttributeError, RuntimeError) as error:
        why = checkpoint.first_line(error)
        raise ValueError(f"{folder / checkpoint.CONFIG} must be what negcap captioner wrote, lacks: {why}") from None
    state = checkpoint.restore(folder, weights.stem, {"generator": nets.generator}, entries={"vocabulary": str})
    if state["vocabulary"] != vocabulary.sha256:
        raise ValueError(f"{weights} must match the vocabulary in its folder, is from another training")
    checkpoint.restore(folder, checkpoint.LAST, {"discriminator": nets.discriminator})
    for net in nets:
        net.to(device).eval()
    return Captioner(nets, vocabulary, config, features, identity["backbone"])
