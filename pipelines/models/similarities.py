"""Similarities of images and texts: the cosine, and the penalty of order-embeddings (Vendrov et al. 2016).

Order-embeddings have coordinates >= 0. A vector x lies below y, that is, x is more specific, if every coordinate of x
is at least that of y. E(x, y) = ‖max(0, y - x)‖² measures how far this is from true (eq. 2): it is 0 exactly where x
lies below y. An image is more specific than its caption, so the similarity is -E(image, text).

VSE++'s released code (Faghri et al. 2018) lets the coordinates have any sign for its "Order++", so that vectors can be
farther apart than orthogonal ones; `order-signed` does so, too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx
from torch.nn import functional

BLOCK = {"cpu": 1 << 18, "cuda": 1 << 25}  # differences of coordinates computed at a time; those of a CPU fit its cache


class VectorSimilarity(ABC):
    """How vectors of images and texts are made and compared, differentiably; more similar is larger."""

    @abstractmethod
    def finish(self, output: Tensor) -> Tensor:
        """Vectors (…, d) of an encoder's output (…, d)."""

    @abstractmethod
    def pairs(self, images: Tensor, texts: Tensor) -> Tensor:
        """The scores (…,) of images (…, d), each with one text (…, d)."""

    @abstractmethod
    def matrix(self, images: Tensor, texts: Tensor) -> Tensor:
        """The scores (I, C) of all images (I, d) with all texts (C, d)."""

    def by_text(self, texts: Tensor, images: Tensor) -> Tensor:
        """The scores (C, I) of texts (C, d) with images (I, d)."""
        return self.matrix(images, texts).T


def unit_vectors(vectors: Tensor) -> Tensor:
    """Vectors (…, d) scaled to length 1, float32 (float64 stays)."""
    return functional.normalize(vectors if vectors.dtype == torch.double else vectors.float(), dim=-1)


class CosineSimilarity(VectorSimilarity):
    """The cosine: the inner product of unit vectors."""

    def finish(self, output: Tensor) -> Tensor:
        """Unit vectors (…, d)."""
        return unit_vectors(output)

    def pairs(self, images: Tensor, texts: Tensor) -> Tensor:
        """The cosine (…,) of each pair."""
        return (images * texts).sum(-1)

    def matrix(self, images: Tensor, texts: Tensor) -> Tensor:
        """The cosines (I, C) of all pairs."""
        return images @ texts.T


class OrderSimilarity(VectorSimilarity):
    """The negative penalty of an image that does not lie below its text.

    signed: coordinates may be negative; else unit vectors are replaced by their absolute values.
    """

    def __init__(self, *, signed: bool = False) -> None:
        self.signed = signed

    def finish(self, output: Tensor) -> Tensor:
        """Points of the order (…, d)."""
        return unit_vectors(output) if self.signed else unit_vectors(output).abs()

    def pairs(self, images: Tensor, texts: Tensor) -> Tensor:
        """-E(image, text) (…,) of each pair."""
        return -order_penalty(images, texts)

    def matrix(self, images: Tensor, texts: Tensor) -> Tensor:
        """-E(image, text) (I, C) of all pairs."""
        return -order_penalties(images, texts)


class ReversedOrderSimilarity(OrderSimilarity):
    """The order with the text as the more specific one, which is to lie below its image."""

    def pairs(self, images: Tensor, texts: Tensor) -> Tensor:
        """-E(text, image) (…,) of each pair."""
        return -order_penalty(texts, images)

    def matrix(self, images: Tensor, texts: Tensor) -> Tensor:
        """-E(text, image) (I, C) of all pairs."""
        return -order_penalties(texts, images).T


COSINE = CosineSimilarity()
SIMILARITIES: dict[str, VectorSimilarity] = {
    "cosine": COSINE,
    "order": OrderSimilarity(),
    "order-signed": OrderSimilarity(signed=True),
    "order-reversed": ReversedOrderSimilarity(),
}


def order_penalty(below: Tensor, above: Tensor) -> Tensor:
    """E(below, above) = ‖max(0, above - below)‖², (…,), of vectors (…, d): 0 where `below` is the more specific."""
    return (above - below).clamp(min=0).square().sum(-1)


def order_penalties(below: Tensor, above: Tensor) -> Tensor:
    """E of all pairs, (m, n), of vectors below (m, d) and above (n, d). The (m, n, d) differences are computed in
    blocks, and again for the gradient, so that they are never all in memory.
    """
    # plain autograd would keep (m, n, d) numbers for the gradient: 128 x 1,152 texts of 1,024 dimensions are 600 MB
    return _OrderPenalties.apply(below, above)


class _OrderPenalties(torch.autograd.Function):
    """See `order_penalties`. dE/dabove = 2 max(0, above - below), and dE/dbelow is its negative."""

    @staticmethod
    def forward(ctx: FunctionCtx, below: Tensor, above: Tensor) -> Tensor:
        """E(below, above) of all pairs, (m, n), block by block: `excess` is max(0, above - below) of a block."""
        ctx.save_for_backward(below, above)
        penalties = below.new_empty(len(below), len(above))
        for block in _blocks(below, above):
            penalties[block.rows, block.columns] = block.excess.square_().sum(-1)
        return penalties

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients of below (m, d) and above (n, d) by that of the penalties (m, n).

        E = Σ max(0, above − below)², so the excess e = max(0, above − below) gives −2e for below and 2e for above.
        """
        below, above = ctx.saved_tensors  # type: ignore[attr-defined]
        of_below = torch.zeros_like(below)
        of_above = torch.zeros_like(above)
        for block in _blocks(below, above):
            # in place, as blocks are computed anew for the gradient anyhow
            weighted = block.excess.mul_(2 * gradient[block.rows, block.columns, None])
            of_below[block.rows] -= weighted.sum(1)
            of_above[block.columns] += weighted.sum(0)
        return of_below, of_above


class _Block(NamedTuple):
    """Rows and columns of a matrix (m, n) of pairs, and max(0, above - below) of these, (rows, columns, d)."""

    rows: slice
    columns: slice
    excess: Tensor


def _blocks(below: Tensor, above: Tensor) -> Iterator[_Block]:
    """The matrix (m, n) in blocks of at most BLOCK differences: whole rows, or parts of a row that is too long."""
    pairs = max(1, BLOCK[below.device.type] // max(1, below.shape[1]))
    width = max(1, min(len(above), pairs))
    height = max(1, pairs // width)
    for first_row, first_column in product(range(0, len(below), height), range(0, len(above), width)):
        rows = slice(first_row, first_row + height)
        columns = slice(first_column, first_column + width)
        yield _Block(rows, columns, (above[None, columns] - below[rows, None]).clamp_(min=0))
