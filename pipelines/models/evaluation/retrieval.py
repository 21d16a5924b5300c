"""Ranks of true images and captions, recalls and their confidence intervals, computed in bounded memory.

A rank is 1 + the number of false candidates with a score as high or higher. So a tie counts against the model: one that
maps everything to the same vector is last, not first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from ..similarities import COSINE, Similarity

TIE = 1e-6  # scores this close count as equal: the accuracy of scores of unit vectors in float32
BLOCK = 1 << 23  # scores computed at a time: 32 MiB in float32
TOP = (1, 5, 10)  # the k of R@k
RESAMPLES = 2000  # of the bootstrap


class Ranks(NamedTuple):
    """The ranks, from 1, of a retrieval in both directions.

    images: (I,) the rank of each image's best caption among all captions. captions: (C,) the rank of each caption's
    image among all images. best: (I,) the score of each image's best caption.
    """

    images: Tensor
    captions: Tensor
    best: Tensor


def own_scores(images: Tensor, sentences: Tensor, owner: Tensor, similarity: Similarity = COSINE) -> Tensor:
    """The similarity (C,) of each sentence (C, d) with its image; owner: (C,) its index among images (I, d).

    Raises ValueError for vectors that are not finite.
    """
    blocks = max(1, BLOCK // images.shape[1])
    pairs = zip(sentences.split(blocks), owner.split(blocks), strict=True)
    scores = (
        torch.cat([similarity.pairs(images[at], part) for part, at in pairs]) if len(owner) else images.new_empty(0)
    )
    if not scores.isfinite().all():
        raise ValueError("the model's vectors must be finite, hold NaN or infinity")
    return scores


def rank(images: Tensor, captions: Tensor, owner: Tensor, similarity: Similarity = COSINE) -> Ranks:
    """Rank all captions (C, d) for every image (I, d), and all images for every caption.

    owner: (C,) the index of each caption's image; every image must have a caption. Raises ValueError for vectors that
    are not finite.
    """
    own = own_scores(images, captions, owner, similarity)
    best = own.new_full((len(images),), -torch.inf).scatter_reduce(0, owner, own, "amax")
    above = torch.zeros(len(images), dtype=torch.long, device=images.device)
    ranks = []
    for part, at, true in zip(*(x.split(_rows(images)) for x in (captions, owner, own)), strict=True):
        scores = similarity.by_text(part, images)
        scores[torch.arange(len(at), device=at.device), at] = -torch.inf
        ranks.append(1 + (scores > true[:, None] - TIE).sum(1))
        above += (scores > best - TIE).sum(0)
    return Ranks(1 + above, torch.cat(ranks), best)


def count_outranking(images: Tensor, best: Tensor, sentences: Tensor, similarity: Similarity = COSINE) -> Tensor:
    """For each image (I, d), how many false sentences (n, d) score at least as high as its best caption: (I,).

    best: (I,) the score of each image's best caption; scores within TIE of it count as equal.
    """
    above = torch.zeros(len(images), dtype=torch.long, device=images.device)
    for part in sentences.split(_rows(images)):
        above += (similarity.by_text(part, images) > best - TIE).sum(0)
    return above


def _rows(images: Tensor) -> int:
    return max(1, BLOCK // len(images))


def recall_metrics(ranks: Tensor) -> dict[str, float]:
    """R@1, R@5 and R@10 in %, the median rank (rounded down) and the mean rank; ranks: (n,), from 1."""
    found = {f"R@{k}": 100.0 * (ranks <= k).double().mean().item() for k in TOP}
    ordered = ranks.sort().values
    middle = (ordered[(len(ranks) - 1) // 2] + ordered[len(ranks) // 2]).item() // 2
    return {**found, "median rank": float(middle), "mean rank": ranks.double().mean().item()}


def retrieval_metrics(ranks: Ranks) -> dict[str, float]:
    """The metrics of both directions, "i2t R@1" … "t2i mean rank", and rsum, the sum of their six recalls in %."""
    metrics = {f"i2t {name}": value for name, value in recall_metrics(ranks.images).items()}
    metrics |= {f"t2i {name}": value for name, value in recall_metrics(ranks.captions).items()}
    metrics["rsum"] = sum(value for name, value in metrics.items() if "R@" in name)
    return metrics


def mean_over_folds(
    images: Tensor, captions: Tensor, owner: Tensor, size: int = 1000, similarity: Similarity = COSINE
) -> dict[str, float]:
    """The means of the metrics over consecutive folds of `size` images, as is customary on COCO's 5,000 test images.

    images: (I, d). captions: (C, d). owner: (C,) the index of each caption's image. Images beyond the last full fold
    are left out. Raises ValueError for fewer than `size` images.
    """
    if len(images) < size:
        raise ValueError(f"a fold must have {size} images, there are: {len(images)}")
    folds = []
    for start in range(0, len(images) - size + 1, size):
        inside = (owner >= start) & (owner < start + size)
        ranks = rank(images[start : start + size], captions[inside], owner[inside] - start, similarity)
        folds.append(retrieval_metrics(ranks))
    return {name: sum(fold[name] for fold in folds) / len(folds) for name in folds[0]}


def count_hits(ranks: Tensor, owner: Tensor, images: int) -> Tensor:
    """Per image, the number of its queries with rank <= 1, <= 5 and <= 10, and the number of its queries: (I, 4).

    ranks: (n,) of queries, from 1. owner: (n,) the image index of each query. images: I.
    """
    values = torch.stack([*((ranks <= k).double() for k in TOP), torch.ones(len(ranks), device=ranks.device)], 1)
    return torch.zeros(images, 4, dtype=torch.double, device=ranks.device).index_add(0, owner, values.double())


def bootstrap_samples(tables: Sequence[Tensor], seed: int = 0) -> list[Tensor]:
    """RESAMPLES bootstrap samples of ratios in %, over images and trainings.

    tables: each (S, I, k + 1): for S trainings and I images, k counts and their denominator, as `count_hits` returns
    them. Every sample draws I images and S trainings with replacement, the same for all tables, and for every call with
    the same I, S and seed: samples of two models may be subtracted one by one (a paired bootstrap). Returns (RESAMPLES,
    k) per table, the ratios of the sums over the images and trainings drawn.
    """
    trainings, images = tables[0].shape[:2]
    of_images, of_trainings = (Generator().manual_seed(seed) for _ in range(2))
    samples: list[list[Tensor]] = [[] for _ in tables]
    for size in [100] * (RESAMPLES // 100):
        image_weights = _drawn(size, images, of_images)
        training_weights = _drawn(size, trainings, of_trainings)
        for table, values in zip(tables, samples, strict=True):
            per_training = torch.einsum("ri,sik->rsk", image_weights, table.cpu())
            sums = torch.einsum("rs,rsk->rk", training_weights, per_training)
            values.append(100 * sums[:, :-1] / sums[:, -1:].clamp(min=1))
    return [torch.cat(values) for values in samples]


def _drawn(samples: int, n: int, generator: Generator) -> Tensor:
    """How often each of n is drawn in n draws with replacement: (samples, n)."""
    chosen = torch.randint(n, (samples, n), generator=generator)
    counts = torch.zeros(samples, n, dtype=torch.double)
    return counts.scatter_add(1, chosen, torch.ones(samples, n, dtype=torch.double))


def interval(samples: Tensor) -> tuple[float, float]:
    """The 95 % interval, (low, high), of bootstrap samples (n,)."""
    low, high = samples.quantile(torch.tensor([0.025, 0.975], dtype=torch.double)).tolist()
    return low, high


def bootstrap_intervals(tables: Sequence[Tensor], seed: int = 0) -> list[list[tuple[float, float]]]:
    """95 % bootstrap intervals over images, as (low, high), of ratios in %.

    tables: each (I, k + 1), see `bootstrap_samples`. Returns one list per table: the intervals of its k ratios and of
    their sum; for several tables, a last list with the interval of the sum over all tables.
    """
    ratios = bootstrap_samples([table[None] for table in tables], seed)
    samples = [torch.cat([values, values.sum(1, keepdim=True)], 1) for values in ratios]
    if len(ratios) > 1:
        samples.append(torch.cat(ratios, 1).sum(1, keepdim=True))
    return [[interval(column) for column in values.T] for values in samples]
