"""Image to word: which objects does an image show? A linear classifier over frozen vectors (VSE-C, Tables 5 and 6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from ..evaluation.retrieval import bootstrap_samples, interval
from ..evaluation.unified_retrieval import average_precision
from .objects import Objects


@dataclass(frozen=True)
class ImageToWordConfig:
    """How the classifier is trained; the defaults are those of VSE-C's released code.

    epochs: in each, an image has one random object that it shows and one that it does not. learning_rate: of SGD, a
    tenth after each third of the epochs. dropout: the share of the numbers of the outer product of word and image that
    are set to 0; here both are dropped apart, so that this share of their products is. seed: of the initial weights, of
    what is drawn, and of the bootstrap.
    """

    epochs: int = 15
    batch_size: int = 128
    learning_rate: float = 0.01
    dropout: float = 0.5
    seed: int = 0


class Precision(NamedTuple):
    """The mean average precision in % over images, its 95 % interval, and the AP (n,) of every image, 0 to 1."""

    mean: float
    interval: tuple[float, float]
    per_image: Tensor


class Classifier(nn.Module):
    """logit_k = wᵀ A_k x + b_k for k = shown or not: a linear layer on the outer product of w (e,) and x (D,)."""

    def __init__(self, words: int, features: int, generator: Generator) -> None:
        super().__init__()
        bound = (words * features) ** -0.5
        self.weight = nn.Parameter(torch.empty(2, words, features).uniform_(-bound, bound, generator=generator))
        self.bias = nn.Parameter(torch.zeros(2))

    def forward(self, words: Tensor, features: Tensor) -> Tensor:
        """The logits (n, 2) of pairs of a word (n, e) and an image (n, D)."""
        return torch.stack([((words @ weight) * features).sum(1) for weight in self.weight], 1) + self.bias

    def scores(self, words: Tensor, features: Tensor) -> Tensor:
        """The logits (I, W) of being shown, of all pairs of images (I, D) and words (W, e)."""
        return features @ (words @ self.weight[1]).T + self.bias[1]


def train_classifier(words: Tensor, features: Tensor, objects: Objects, config: ImageToWordConfig) -> Classifier:
    """A classifier trained on images (I, D) and the vectors (O, e) of their objects, neither of which change.

    Images that show no object, or all of them, are left out.
    """
    generator = Generator().manual_seed(config.seed)
    classifier = Classifier(words.shape[1], features.shape[1], generator)
    optimizer = torch.optim.SGD(classifier.parameters(), lr=config.learning_rate)
    decay = torch.optim.lr_scheduler.StepLR(optimizer, max(1, config.epochs // 3))
    usable = (objects.present.any(1) & objects.absent.any(1)).nonzero()[:, 0]
    keep = (1 - config.dropout) ** 0.5
    for _ in range(config.epochs):
        order = usable[torch.randperm(len(usable), generator=generator)]
        for rows in order.split(config.batch_size):
            shown, other = (_one_each(flags[rows], generator) for flags in (objects.present, objects.absent))
            w, x = words[torch.cat([shown, other])], features[rows].repeat(2, 1)
            w, x = (part * (torch.rand(part.shape, generator=generator) < keep) / keep for part in (w, x))
            labels = torch.cat([torch.ones_like(shown), torch.zeros_like(other)])
            optimizer.zero_grad(set_to_none=True)
            functional.cross_entropy(classifier(w, x), labels).backward()
            optimizer.step()
        decay.step()
    return classifier


def _one_each(flags: Tensor, generator: Generator) -> Tensor:
    """A random column (n,) of each row of flags (n, O) that is True there."""
    return (torch.rand(flags.shape, generator=generator) * flags).argmax(1)


def mean_average_precision(
    scores: Callable[[Tensor], Tensor], features: Tensor, objects: Objects, seed: int
) -> Precision:
    """How well objects are ranked by image (I, D); objects that are neither shown nor absent are left out.

    scores: maps features (n, D) to scores (n, O). The interval is by the bootstrap over images. Images without either
    kind of objects are left out; ties count against.
    """
    usable = (objects.present.any(1) & objects.absent.any(1)).nonzero()[:, 0]
    with torch.inference_mode():
        found = []
        for rows in usable.split(512):
            present = objects.present[rows]
            ranked = scores(features[rows]).masked_fill(~(present | objects.absent[rows]), -torch.inf)
            found.append(average_precision(ranked, present))
    per_image = torch.cat(found)
    table = torch.stack([per_image, torch.ones_like(per_image)], 1)
    (samples,) = bootstrap_samples([table[None]], seed)
    return Precision(100 * per_image.mean().item(), interval(samples[:, 0]), per_image)


def most_frequent(objects: Objects) -> Tensor:
    """Scores (O,) that rank objects by the number of images that show them, whatever the image: a baseline."""
    return objects.present.sum(0).double()
