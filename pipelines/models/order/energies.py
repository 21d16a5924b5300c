"""Penalties of pairs, their losses and thresholds: the rows of Table 1 of Vendrov et al. (2016).

A penalty E (below, above) is low where the first concept lies below the second one. Each module maps two tensors of
concepts (n,) to penalties (n,), all differentiable; it looks up both at once, as each look-up has a gradient of the
size of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from ..similarities import order_penalty

VARIANCES = (0.05, 5.0)  # bounds of a Gaussian's variances


class Energy(nn.Module):
    """The penalties E, and free vectors of any sign for N concepts, uniform in [-0.1, 0.1] at first. concepts: N. dim:
    of the vectors.
    """

    def __init__(self, concepts: int, dim: int, generator: Generator) -> None:
        super().__init__()
        self.points = _table((torch.rand(concepts, dim, generator=generator) - 0.5) / 5)

    def constrain(self) -> None:
        """Bring the vectors into their bounds, if there are any; called after each step."""


class Symmetric(Energy):
    """E = 1 - cosine: which of the two lies below is not told."""

    def forward(self, below: Tensor, above: Tensor) -> Tensor:
        """The penalties (n,)."""
        return 1 - functional.cosine_similarity(*self.points(torch.stack([below, above])))


class Bilinear(Energy):
    """E = -uᵀ W v, with a matrix W (dim, dim), the identity at first."""

    def __init__(self, concepts: int, dim: int, generator: Generator) -> None:
        super().__init__(concepts, dim, generator)
        self.matrix = nn.Parameter(torch.eye(dim))

    def forward(self, below: Tensor, above: Tensor) -> Tensor:
        """The penalties (n,)."""
        lower, upper = self.points(torch.stack([below, above]))
        return -((lower @ self.matrix) * upper).sum(-1)


class Order(Energy):
    """E = ‖max(0, above - below)‖², of vectors with coordinates >= 0 (eq. 2), max(0, N(0, 1)) at first."""

    def __init__(self, concepts: int, dim: int, generator: Generator) -> None:
        nn.Module.__init__(self)
        self.points = _table(torch.randn(concepts, dim, generator=generator).clamp(min=0))

    def forward(self, below: Tensor, above: Tensor) -> Tensor:
        """The penalties (n,)."""
        return order_penalty(*self.points(torch.stack([below, above])))

    @torch.no_grad()
    def constrain(self) -> None:
        """Clamp the coordinates to >= 0."""
        self.points.weight.clamp_(min=0)


class Gaussians(Energy):
    """word2gauss (Vilnis and McCallum 2015): E = KL(below ‖ above) of Gaussians with diagonal covariances. The
    variances are kept in [0.05, 5]; they are 1 at first, and the means uniform in [-0.1, 0.1].
    """

    def __init__(self, concepts: int, dim: int, generator: Generator) -> None:
        nn.Module.__init__(self)
        self.means = _table((torch.rand(concepts, dim, generator=generator) - 0.5) / 5)
        self.logs = _table(torch.zeros(concepts, dim))

    def forward(self, below: Tensor, above: Tensor) -> Tensor:
        """The penalties (n,): ½ Σ (σ₁² / σ₂² + (μ₂ - μ₁)² / σ₂² - 1 + ln σ₂² - ln σ₁²)."""
        (one, other), (lower, upper) = (table(torch.stack([below, above])) for table in (self.logs, self.means))
        apart = (upper - lower).square()
        return 0.5 * ((one - other).exp() + apart * (-other).exp() - 1 + other - one).sum(-1)

    @torch.no_grad()
    def constrain(self) -> None:
        """Keep the variances in their bounds."""
        self.logs.weight.clamp_(*torch.tensor(VARIANCES).log().tolist())


def _table(vectors: Tensor) -> nn.Embedding:
    return nn.Embedding.from_pretrained(vectors, freeze=False)


def pair_loss(true: Tensor, false: Tensor, margin: float) -> Tensor:
    """Σ_true E + Σ_false max(0, α - E): the loss of Vendrov et al. (2016), eq. 3, a scalar. true, false: (n,) and (m,)
    penalties E of related and of unrelated pairs. margin: α.
    """
    return true.sum() + (margin - false).clamp(min=0).sum()


def max_margin_loss(true: Tensor, false: Tensor, margin: float) -> Tensor:
    """Σ max(0, α + E_true - E_false) over pairs and a false pair made of each, a scalar; true, false: (n,)."""
    return (margin + true - false).clamp(min=0).sum()


Loss = Callable[[Tensor, Tensor, float], Tensor]
# The penalty, the loss and the margin of a row. Losses without a lower bound, or with a margin between a true and a
# false pair, are taken pair by pair.
ENERGIES: Mapping[str, tuple[type[Energy], Loss, float]] = {
    "word2gauss": (Gaussians, max_margin_loss, 7.0),
    "symmetric": (Symmetric, pair_loss, 1.0),
    "bilinear": (Bilinear, max_margin_loss, 1.0),
    "order": (Order, pair_loss, 1.0),
}


def best_threshold(penalties: Tensor, related: Tensor) -> float:
    """The threshold t with the highest accuracy of "related if E <= t"; halfway between two penalties. penalties: (n,).
    related: (n,) bool. Among equal accuracies the lowest threshold is taken; -inf relates no pair.
    """
    values, order = penalties.double().sort(stable=True)
    right = torch.cat([values.new_zeros(1), (2 * related[order].double() - 1).cumsum(0)])  # of the first k as related
    right[1:-1][values[:-1] == values[1:]] = -torch.inf  # equal penalties are decided alike
    k = int(right.argmax())
    if k == 0:
        return float("-inf")
    return float(values[k - 1 : k + 1].mean())


def accuracy(penalties: Tensor, related: Tensor, threshold: float) -> float:
    """The share, in %, of pairs whose relation "E <= threshold" tells; penalties: (n,), related: (n,) bool."""
    return 100 * ((penalties.double() <= threshold) == related).double().mean().item()
