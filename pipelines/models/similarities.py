"""Similarities of images and texts: the cosine, and the penalty of order-embeddings (Vendrov et al. 2016).

Order-embeddings have coordinates >= 0. A vector x lies below y, that is, x is more specific, if every coordinate of x
is at least that of y. E(x, y) = ‖max(0, y - x)‖² measures how far this is from being so (eq. 2): it is 0 exactly where
x lies below y. An image is more specific than its caption, so the similarity is -E(image, text).

VSE++'s released code (Faghri et al. 2018) lets the coordinates have any sign for its "Order++", so that vectors can be
farther apart than orthogonal ones; `order-signed` does so, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

BLOCK = {"cpu": 1 << 18, "cuda": 1 << 25}  # differences of coordinates computed at a time; those of a CPU fit its cache


class VectorSimilarity(NamedTuple):
    """How vectors are made and compared, differentiably; more similar is larger. finish: an encoder's output (…, d) to
    vectors (…, d). pairs: images (n, d) and texts (n, d) to (n,). matrix: (I, d) and (C, d) to (I, C).
    """

    finish: Callable[[Tensor], Tensor]
    pairs: Callable[[Tensor, Tensor], Tensor]
    matrix: Callable[[Tensor, Tensor], Tensor]

    def by_text(self, texts: Tensor, images: Tensor) -> Tensor:
        """The scores (C, I) of texts (C, d) with images (I, d)."""
        return self.matrix(images, texts).T


def unit_vectors(vectors: Tensor) -> Tensor:
    """Vectors (…, d) scaled to length 1, float32 (float64 stays)."""
    return functional.normalize(vectors if vectors.dtype == torch.double else vectors.float(), dim=-1)


def absolute_unit_vectors(vectors: Tensor) -> Tensor:
    """The absolute values of vectors (…, d) scaled to length 1: points of the order, without negative coordinates."""
    return unit_vectors(vectors).abs()


def order_penalty(below: Tensor, above: Tensor) -> Tensor:
    """E(below, above) = ‖max(0, above - below)‖², (…,), of vectors (…, d): 0 where `below` is the more specific."""
    return (above - below).clamp(min=0).square().sum(-1)


def order_penalties(below: Tensor, above: Tensor) -> Tensor:
    """E of all pairs, (m, n), of vectors below (m, d) and above (n, d). The (m, n, d) differences are computed in
    blocks, and again for the gradient, so that they are never all in memory.
    """
    return _OrderPenalties.apply(below, above)


class _OrderPenalties(torch.autograd.Function):
    """See `order_penalties`. dE/dabove = 2 max(0, above - below), and dE/dbelow is its negative."""

    @staticmethod
    def forward(ctx: Any, below: Tensor, above: Tensor) -> Tensor:
        ctx.save_for_backward(below, above)
        penalties = below.new_empty(len(below), len(above))
        for rows, columns, excess in _blocks(below, above):
            penalties[rows, columns] = excess.square_().sum(-1)
        return penalties

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        below, above = ctx.saved_tensors
        of_below = torch.zeros_like(below)
        of_above = torch.zeros_like(above)
        for rows, columns, excess in _blocks(below, above):
            weighted = excess.mul_(2 * gradient[rows, columns, None])
            of_below[rows] -= weighted.sum(1)
            of_above[columns] += weighted.sum(0)
        return of_below, of_above


def _blocks(below: Tensor, above: Tensor) -> Iterator[tuple[slice, slice, Tensor]]:
    """Rows and columns of a matrix (m, n), and max(0, above - below) of these (rows, columns, d), at most BLOCK."""
    vectors = max(1, BLOCK[below.device.type] // max(1, below.shape[1]))
    width = max(1, min(len(above), vectors))
    height = max(1, vectors // width)
    for row, column in product(range(0, len(below), height), range(0, len(above), width)):
        rows = slice(row, row + height)
        columns = slice(column, column + width)
        yield rows, columns, (above[None, columns] - below[rows, None]).clamp_(min=0)


COSINE = VectorSimilarity(
    unit_vectors, lambda images, texts: (images * texts).sum(-1), lambda images, texts: images @ texts.T
)
ORDER = VectorSimilarity(
    absolute_unit_vectors, lambda *both: -order_penalty(*both), lambda *both: -order_penalties(*both)
)
REVERSED = VectorSimilarity(
    absolute_unit_vectors, lambda *both: ORDER.pairs(*both[::-1]), lambda images, texts: ORDER.by_text(images, texts)
)
SIGNED = ORDER._replace(finish=unit_vectors)
SIMILARITIES = {"cosine": COSINE, "order": ORDER, "order-signed": SIGNED, "order-reversed": REVERSED}
