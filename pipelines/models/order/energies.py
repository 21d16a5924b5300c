"""Penalties of pairs, their losses and thresholds: the rows of Table 1 and Figure 2 of Vendrov et al. (2016).

A penalty E (below, above) is low where the first concept lies below the second one. Each module maps two tensors of
concepts (n,) to penalties (n,), all differentiable. Its tables have sparse gradients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from ..figures import new_figure, write_png
from ..similarities import order_penalty
from .taxonomy import Taxonomy, keys

VARIANCES = (0.05, 5.0)  # bounds of a Gaussian's variances


class Energy(nn.Module):
    """The penalties E, and free vectors of any sign for N concepts, uniform in [-0.1, 0.1] at first.

    concepts: N. dim: of the vectors.
    """

    def __init__(self, concepts: int, dim: int, generator: Generator) -> None:
        super().__init__()
        self.points = _table((torch.rand(concepts, dim, generator=generator) - 0.5) / 5)

    def constrain(self, concepts: Tensor) -> None:
        """Bring the vectors of concepts (n,) into their bounds, if there are any; called after each step."""


class Symmetric(Energy):
    """E = 1 - cosine: which of the two lies below is not told."""

    def forward(self, below: Tensor, above: Tensor) -> Tensor:
        """The penalties (n,)."""
        return 1 - functional.cosine_similarity(self.points(below), self.points(above))


class Bilinear(Energy):
    """E = -uᵀ W v, with a matrix W (dim, dim), the identity at first."""

    def __init__(self, concepts: int, dim: int, generator: Generator) -> None:
        super().__init__(concepts, dim, generator)
        self.matrix = nn.Parameter(torch.eye(dim))

    def forward(self, below: Tensor, above: Tensor) -> Tensor:
        """The penalties (n,)."""
        return -((self.points(below) @ self.matrix) * self.points(above)).sum(-1)


class Order(Energy):
    """E = ‖max(0, above - below)‖², of vectors with coordinates >= 0 (eq. 2), uniform in [0, 1] at first.

    root: take the root of E, as the released code does. absolute: take absolute values of the coordinates, which may
    have any sign, instead of clamping them to >= 0.
    """

    def __init__(
        self, concepts: int, dim: int, generator: Generator, *, root: bool = False, absolute: bool = False
    ) -> None:
        nn.Module.__init__(self)
        self.root, self.absolute = root, absolute
        self.points = _table(torch.rand(concepts, dim, generator=generator))

    def forward(self, below: Tensor, above: Tensor) -> Tensor:
        """The penalties (n,)."""
        points = (self.points(concepts) for concepts in (below, above))
        penalties = order_penalty(*(part.abs() if self.absolute else part for part in points))
        return (penalties + 1e-12).sqrt() if self.root else penalties

    @torch.no_grad()
    def constrain(self, concepts: Tensor) -> None:
        """Clamp the coordinates of concepts (n,) to >= 0."""
        if not self.absolute:
            self.points.weight[concepts] = self.points.weight[concepts].clamp(min=0)


class Gaussians(Energy):
    """word2gauss (Vilnis and McCallum 2015): E = KL(below ‖ above) of Gaussians with diagonal covariances.

    The variances are kept in [0.05, 5]; they are 1 at first, and the means uniform in [-0.1, 0.1].
    """

    def __init__(self, concepts: int, dim: int, generator: Generator) -> None:
        nn.Module.__init__(self)
        self.means = _table((torch.rand(concepts, dim, generator=generator) - 0.5) / 5)
        self.logs = _table(torch.zeros(concepts, dim))

    def forward(self, below: Tensor, above: Tensor) -> Tensor:
        """The penalties (n,): ½ Σ (σ₁² / σ₂² + (μ₂ - μ₁)² / σ₂² - 1 + ln σ₂² - ln σ₁²)."""
        one, other = self.logs(below), self.logs(above)
        apart = (self.means(above) - self.means(below)).square()
        return 0.5 * ((one - other).exp() + apart * (-other).exp() - 1 + other - one).sum(-1)

    @torch.no_grad()
    def constrain(self, concepts: Tensor) -> None:
        """Keep the variances of concepts (n,) in their bounds."""
        low, high = torch.tensor(VARIANCES).log().tolist()
        self.logs.weight[concepts] = self.logs.weight[concepts].clamp(low, high)


def _table(vectors: Tensor) -> nn.Embedding:
    return nn.Embedding.from_pretrained(vectors, freeze=False, sparse=True)


ENERGIES: Mapping[str, type[Energy]] = {
    "word2gauss": Gaussians,
    "symmetric": Symmetric,
    "bilinear": Bilinear,
    "order": Order,
}


def pair_loss(true: Tensor, false: Tensor, margin: float) -> Tensor:
    """Σ_true E + Σ_false max(0, α - E): the loss of Vendrov et al. (2016), eq. 3, a scalar.

    true, false: (n,) and (m,) penalties E of related and of unrelated pairs. margin: α.
    """
    return true.sum() + (margin - false).clamp(min=0).sum()


def max_margin_loss(true: Tensor, false: Tensor, margin: float) -> Tensor:
    """Σ max(0, α + E_true - E_false) over pairs and a false pair made of each, a scalar; true, false: (n,)."""
    return (margin + true - false).clamp(min=0).sum()


def best_threshold(penalties: Tensor, related: Tensor) -> float:
    """The threshold t with the highest accuracy of "related if E <= t"; halfway between two penalties.

    penalties: (n,). related: (n,) bool. Among equal accuracies the lowest threshold is taken; -inf relates no pair.
    """
    values, order = penalties.double().sort(stable=True)
    right = torch.cat([values.new_zeros(1), (2 * related[order].double() - 1).cumsum(0)])  # of the first k as related
    right[1:-1][values[:-1] == values[1:]] = -torch.inf  # equal penalties are decided alike
    k = int(right.argmax())
    if k == 0:
        return float("-inf")
    return float(values[k - 1]) if k == len(values) else float((values[k - 1] + values[k]) / 2)


def accuracy(penalties: Tensor, related: Tensor, threshold: float) -> float:
    """The share, in %, of pairs whose relation "E <= threshold" tells; penalties: (n,), related: (n,) bool."""
    return 100 * ((penalties.double() <= threshold) == related).double().mean().item()


STEPS, RESTARTS = 500, 5
RATE = 0.2  # of Adagrad
COLOURS = {"right": "lightgray", "missing": "tab:blue", "spurious": "tab:red"}


def chosen_concepts(taxonomy: Taxonomy, names: Sequence[str]) -> list[int]:
    """The concepts with these names, which must be those of a taxonomy. Raises ValueError for an unknown one."""
    number = {name: n for n, name in enumerate(taxonomy.names)}
    if unknown := [name for name in names if name not in number]:
        raise ValueError(f"concepts must be names of nouns of WordNet (dog.n.01), was: {unknown[0]}")
    return [number[name] for name in names]


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
        penalties = order_penalty(points[:, :, None], points[:, None])
        optimizer.zero_grad(set_to_none=True)
        pair_loss(penalties[:, related], penalties[:, other & ~related], 1.0).backward()
        optimizer.step()
        points.data.clamp_(min=0)
    tried = []
    points = points.detach()
    for of_one in order_penalty(points[:, :, None], points[:, None]):
        threshold = best_threshold(of_one[other], related[other])
        tried.append((of_one.double() <= threshold) & other)
    best = max(range(RESTARTS), key=lambda k: int((tried[k] == related).sum()))
    return points[best], tried[best]


def draw_plane(taxonomy: Taxonomy, concepts: Sequence[int], path: Path) -> None:
    """Draw concepts as points of a plane, and as lines the pairs that their order gets right, misses or adds, as a PNG.

    The more general a concept, the nearer it lies to the origin.
    """
    every, n = np.stack(np.meshgrid(concepts, concepts, indexing="ij"), -1).reshape(-1, 2), len(taxonomy.names)
    related = torch.from_numpy(np.isin(keys(every, n), keys(taxonomy.closure, n))).view(len(concepts), -1)
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
