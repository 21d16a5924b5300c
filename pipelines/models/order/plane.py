"""Concepts in two dimensions, with their hypernyms (Vendrov et al. 2016, Figure 2)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Generator, Tensor

from ..figures import new_figure, write_png
from ..similarities import order_penalty
from .pairs import best_threshold, pair_loss
from .taxonomy import Taxonomy, contains, keys

STEPS, RESTARTS = 500, 5
RATE = 0.2  # of Adagrad
COLOURS = {"right": "lightgray", "missing": "tab:blue", "spurious": "tab:red"}


def chosen_concepts(taxonomy: Taxonomy, names: Sequence[str]) -> list[int]:
    """The concepts with these names, which must be those of a taxonomy. Raises ValueError for an unknown one."""
    number = {name: n for n, name in enumerate(taxonomy.names)}
    for name in names:
        if name not in number:
            raise ValueError(f"concepts must be names of nouns of WordNet (dog.n.01), was: {name}")
    return [number[name] for name in names]


def related_pairs(taxonomy: Taxonomy, concepts: Sequence[int]) -> Tensor:
    """(n, n) bool: True where the first of two concepts lies below the second one."""
    n = len(concepts)
    every = np.stack(np.meshgrid(concepts, concepts, indexing="ij"), -1).reshape(-1, 2)
    known = keys(taxonomy.closure, len(taxonomy.names))
    return torch.from_numpy(contains(known, keys(every, len(taxonomy.names)))).view(n, n)


def fit_plane(related: Tensor) -> tuple[Tensor, Tensor]:
    """Points (n, 2) of the order, trained on all pairs of n concepts, and (n, n) bool, the pairs that they relate.

    related: (n, n) bool. The threshold is that with the highest accuracy on the same pairs; of several trainings with
    other initial points, that with the highest accuracy is taken.
    """
    n = len(related)
    points = torch.stack([torch.rand(n, 2, generator=Generator().manual_seed(seed)) for seed in range(RESTARTS)])
    optimizer = torch.optim.Adagrad([points.requires_grad_()], lr=RATE)
    other = ~torch.eye(n, dtype=torch.bool)
    for _ in range(STEPS):
        penalties = _penalties(points)
        optimizer.zero_grad(set_to_none=True)
        pair_loss(penalties[:, related], penalties[:, other & ~related], 1.0).backward()
        optimizer.step()
        points.data.clamp_(min=0)
    tried = []
    for of_one in _penalties(points.detach()):
        threshold = best_threshold(of_one[other], related[other])
        tried.append((of_one.double() <= threshold) & other)
    best = max(range(RESTARTS), key=lambda k: int((tried[k] == related).sum()))
    return points.detach()[best], tried[best]


def _penalties(points: Tensor) -> Tensor:
    """E of all pairs, (trainings, n, n), of points (trainings, n, 2)."""
    return order_penalty(points[:, :, None], points[:, None])


def draw_plane(taxonomy: Taxonomy, concepts: Sequence[int], path: Path) -> None:
    """Draw concepts as points of a plane, and as lines the pairs that their order gets right, misses or adds, as a PNG.

    The more general a concept, the nearer it lies to the origin.
    """
    related = related_pairs(taxonomy, concepts)
    points, told = fit_plane(related)
    figure = new_figure(9, 9)
    axes = figure.subplots()
    for label, pairs in (("right", related & told), ("missing", related & ~told), ("spurious", told & ~related)):
        for k, (below, above) in enumerate(pairs.nonzero().tolist()):
            ends = points[[below, above]]
            shown = "" if k else f"{label}: {int(pairs.sum())}"
            axes.plot(ends[:, 0], ends[:, 1], label=shown, color=COLOURS[label], linewidth=0.8, zorder=1)
    axes.scatter(points[:, 0], points[:, 1], s=14, c="black", zorder=2)
    for concept, point in zip(concepts, points.tolist(), strict=True):
        name = taxonomy.names[concept].rsplit(".", 2)[0].replace("_", " ")
        axes.annotate(name, point, xytext=(4, 4), textcoords="offset points", fontsize=9)
    axes.set(title="hypernyms in two dimensions", xlim=(-0.1, None), ylim=(-0.1, None))
    axes.legend()
    write_png(figure, path, 110)
