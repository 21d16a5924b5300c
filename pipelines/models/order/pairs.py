"""Pairs of which the first lies below the second: losses of their penalties, and telling them by a threshold."""

from __future__ import annotations

import torch
from torch import Tensor


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
