"""Ranks of true images and captions, and the recalls of them, by matrix operations in bounded memory.

A rank is 1 + the number of false candidates that score as high as the true one or higher. So a tie counts against the
model, and one that maps everything to a point is last and not first.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Generator, Tensor

TIE = 1e-6  # inner products of unit vectors in float32 are not known better
BLOCK = 1 << 23  # scores at a time: 32 MiB
TOP = (1, 5, 10)
RESAMPLES = 2000


class Ranks(NamedTuple):
    """Of each image its best caption's rank and that caption's score, (I,); of each caption its image's rank, (C,)."""

    images: Tensor
    captions: Tensor
    best: Tensor


def own_scores(images: Tensor, sentences: Tensor, owner: Tensor) -> Tensor:
    """Similarity of each sentence (C, d) with its image, owner (C,) among images (I, d): (C,). Raises ValueError."""
    blocks = max(1, BLOCK // images.shape[1])
    pairs = zip(sentences.split(blocks), owner.split(blocks), strict=True)
    scores = torch.cat([(images[at] * some).sum(1) for some, at in pairs]) if len(owner) else images.new_empty(0)
    if not scores.isfinite().all():
        raise ValueError("the model's vectors must be finite, hold NaN or infinity")
    return scores


def rank(images: Tensor, captions: Tensor, owner: Tensor) -> Ranks:
    """Rank all captions (C, d) for every image (I, d), and all images for every caption; owner: (C,), of the image.

    Every image must have a caption. Raises ValueError for vectors that are not finite.
    """
    own = own_scores(images, captions, owner)
    best = own.new_full((len(images),), -torch.inf).scatter_reduce(0, owner, own, "amax")
    above = torch.zeros(len(images), dtype=torch.long, device=images.device)
    found = []
    for some, at, true in zip(*(x.split(_rows(images)) for x in (captions, owner, own)), strict=True):
        scores = some @ images.T
        scores[torch.arange(len(at), device=at.device), at] = -torch.inf
        found.append(1 + (scores > true[:, None] - TIE).sum(1))
        above += (scores > best - TIE).sum(0)
    return Ranks(1 + above, torch.cat(found), best)


def outranking(images: Tensor, best: Tensor, sentences: Tensor) -> Tensor:
    """Of each image (I, d), how many of some false sentences (n, d) score as high as its `best` caption (I,): (I,)."""
    above = torch.zeros(len(images), dtype=torch.long, device=images.device)
    for some in sentences.split(_rows(images)):
        above += (some @ images.T > best - TIE).sum(0)
    return above


def _rows(images: Tensor) -> int:
    return max(1, BLOCK // len(images))


def recalls(ranks: Tensor) -> dict[str, float]:
    """R@1, R@5 and R@10 in %, the median rank (rounded down) and the mean rank."""
    found = {f"R@{k}": 100.0 * (ranks <= k).double().mean().item() for k in TOP}
    ordered = ranks.sort().values
    middle = (ordered[(len(ranks) - 1) // 2] + ordered[len(ranks) // 2]).item() // 2
    return {**found, "median rank": float(middle), "mean rank": ranks.double().mean().item()}


def retrieval(ranks: Ranks) -> dict[str, float]:
    """All metrics of both directions by name, and rsum, the sum of the six recalls."""
    metrics = {f"i2t {name}": value for name, value in recalls(ranks.images).items()}
    metrics |= {f"t2i {name}": value for name, value in recalls(ranks.captions).items()}
    metrics["rsum"] = sum(value for name, value in metrics.items() if "R@" in name)
    return metrics


def folds(images: Tensor, captions: Tensor, owner: Tensor, size: int = 1000) -> dict[str, float]:
    """The metrics as means over consecutive folds of `size` images, as is the custom with 5,000 test images.

    Images that do not fill a last fold are left out. Raises ValueError for fewer than `size` images.
    """
    if len(images) < size:
        raise ValueError(f"a fold must have {size} images, there are: {len(images)}")
    made = []
    for start in range(0, len(images) - size + 1, size):
        inside = (owner >= start) & (owner < start + size)
        made.append(retrieval(rank(images[start : start + size], captions[inside], owner[inside] - start)))
    return {name: sum(fold[name] for fold in made) / len(made) for name in made[0]}


def hits(ranks: Tensor, owner: Tensor, images: int) -> Tensor:
    """Of each image, how many of its queries' ranks are within 1, 5, 10, and how many queries it has: (I, 4)."""
    values = torch.stack([*((ranks <= k).double() for k in TOP), torch.ones(len(ranks), device=ranks.device)], 1)
    return torch.zeros(images, 4, dtype=torch.double, device=ranks.device).index_add(0, owner, values.double())


def intervals(tables: list[Tensor], seed: int = 0) -> list[list[tuple[float, float]]]:
    """95 % bootstrap intervals over images of the ratios of `hits` tables (I, k + 1), in %.

    Of each table k intervals, then one of their sum; last, where there are several tables, one of the sum of all.
    All tables are resampled together, 2,000 times.
    """
    generator = Generator().manual_seed(seed)
    images = len(tables[0])
    drawn: list[list[Tensor]] = [[] for _ in tables]
    for size in [100] * (RESAMPLES // 100):
        chosen = torch.randint(images, (size, images), generator=generator)
        weights = torch.zeros(size, images, dtype=torch.double).scatter_add(
            1, chosen, torch.ones(size, images, dtype=torch.double)
        )
        for table, values in zip(tables, drawn, strict=True):
            sums = weights @ table.cpu()
            values.append(100 * sums[:, :-1] / sums[:, -1:].clamp(min=1))
    ratios = [torch.cat(values) for values in drawn]
    made = [torch.cat([values, values.sum(1, keepdim=True)], 1) for values in ratios]
    if len(ratios) > 1:
        made.append(torch.cat(ratios, 1).sum(1, keepdim=True))
    edges = torch.tensor([0.025, 0.975], dtype=torch.double)
    return [[(low, high) for low, high in values.quantile(edges, dim=0).T.tolist()] for values in made]
