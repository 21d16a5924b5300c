"""Penalties of pairs of concepts, with the vectors of the concepts: the rows of Table 1 of Vendrov et al. (2016).

A penalty E (below, above) is low where the first concept lies below the second one. Each module maps two tensors of
concepts (n,) to penalties (n,), all differentiable. Its tables have sparse gradients.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from ..similarities import order_penalty

VARIANCES = (0.05, 5.0)  # bounds of a Gaussian's variances


class Order(nn.Module):
    """E = ‖max(0, above - below)‖², of free vectors with coordinates >= 0 (eq. 2).

    concepts: N. dim: of the vectors, uniform in [0, 1] at first. root: take the root of E, as the released code does.
    absolute: take absolute values of the coordinates, which may have any sign, instead of clamping them to >= 0.
    """

    def __init__(
        self, concepts: int, dim: int, generator: Generator, *, root: bool = False, absolute: bool = False
    ) -> None:
        super().__init__()
        self.root, self.absolute = root, absolute
        self.points = _table(torch.rand(concepts, dim, generator=generator))

    def vectors(self, concepts: Tensor) -> Tensor:
        """The vectors (n, dim), with coordinates >= 0, of concepts (n,)."""
        points: Tensor = self.points(concepts)
        return points.abs() if self.absolute else points

    def forward(self, below: Tensor, above: Tensor) -> Tensor:
        """The penalties (n,)."""
        penalties = order_penalty(self.vectors(below), self.vectors(above))
        return (penalties + 1e-12).sqrt() if self.root else penalties

    @torch.no_grad()
    def constrain(self, concepts: Tensor) -> None:
        """Clamp the coordinates of concepts (n,) to >= 0; called after each step."""
        if not self.absolute:
            self.points.weight[concepts] = self.points.weight[concepts].clamp(min=0)


class Symmetric(nn.Module):
    """E = 1 - cosine, of free vectors of any sign: which of the two lies below is not told."""

    def __init__(self, concepts: int, dim: int, generator: Generator) -> None:
        super().__init__()
        self.points = _table((torch.rand(concepts, dim, generator=generator) - 0.5) / 5)

    def forward(self, below: Tensor, above: Tensor) -> Tensor:
        """The penalties (n,)."""
        return 1 - functional.cosine_similarity(self.points(below), self.points(above))

    def constrain(self, concepts: Tensor) -> None:
        """Nothing: the coordinates are free."""


class Bilinear(nn.Module):
    """E = -uᵀ W v, with a matrix W (dim, dim), the identity at first, and free vectors u, v."""

    def __init__(self, concepts: int, dim: int, generator: Generator) -> None:
        super().__init__()
        self.points = _table((torch.rand(concepts, dim, generator=generator) - 0.5) / 5)
        self.matrix = nn.Parameter(torch.eye(dim))

    def forward(self, below: Tensor, above: Tensor) -> Tensor:
        """The penalties (n,)."""
        return -((self.points(below) @ self.matrix) * self.points(above)).sum(-1)

    def constrain(self, concepts: Tensor) -> None:
        """Nothing: the coordinates are free."""


class Gaussians(nn.Module):
    """word2gauss (Vilnis and McCallum 2015): E = KL(below ‖ above) of Gaussians with diagonal covariances.

    The variances are kept in [0.05, 5]; they are 1 at first, and the means uniform in [-0.1, 0.1].
    """

    def __init__(self, concepts: int, dim: int, generator: Generator) -> None:
        super().__init__()
        self.means = _table((torch.rand(concepts, dim, generator=generator) - 0.5) / 5)
        self.logs = _table(torch.zeros(concepts, dim))

    def forward(self, below: Tensor, above: Tensor) -> Tensor:
        """The penalties (n,): ½ Σ (σ₁² / σ₂² + (μ₂ - μ₁)² / σ₂² - 1 + ln σ₂² - ln σ₁²)."""
        one, other = self.logs(below), self.logs(above)
        apart = (self.means(above) - self.means(below)).square()
        return 0.5 * ((one - other).exp() + apart * (-other).exp() - 1 + other - one).sum(-1)

    @torch.no_grad()
    def constrain(self, concepts: Tensor) -> None:
        """Keep the variances of concepts (n,) in their bounds; called after each step."""
        low, high = torch.tensor(VARIANCES).log().tolist()
        self.logs.weight[concepts] = self.logs.weight[concepts].clamp(low, high)


def _table(vectors: Tensor) -> nn.Embedding:
    return nn.Embedding.from_pretrained(vectors, freeze=False, sparse=True)


Energy = Order | Symmetric | Bilinear | Gaussians
ENERGIES: Mapping[str, type[Energy]] = {
    "word2gauss": Gaussians,
    "symmetric": Symmetric,
    "bilinear": Bilinear,
    "order": Order,
}
