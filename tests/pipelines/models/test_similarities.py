"""Similarities: pairs and matrices agree, gradients are right, memory stays small, and the order is the paper's."""

import pytest
import torch
from torch import Generator, Tensor

from negcap.pipelines.models.similarities import BLOCK, SIMILARITIES, order_penalties


def vectors(rows: int, d: int, seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(rows, d, generator=Generator().manual_seed(seed), dtype=dtype)


# the last two have several blocks: of rows, and of parts of a row
SHAPES = [(5, 4, 6), (3, 200, BLOCK["cpu"] // 400), (2, 5, BLOCK["cpu"] // 3)]


@pytest.mark.parametrize("name", SIMILARITIES)
@pytest.mark.parametrize(("rows", "columns", "d"), SHAPES)
def test_matrices_have_the_scores_and_the_gradients_of_pairs(name: str, rows: int, columns: int, d: int) -> None:
    similarity = SIMILARITIES[name]
    images = similarity.finish(vectors(rows, d, 0, torch.double)).requires_grad_()
    texts = similarity.finish(vectors(columns, d, 1, torch.double)).requires_grad_()
    of_pairs = similarity.pairs(images[:, None], texts[None])
    towards = vectors(rows, columns, 2, torch.double)
    gradients = torch.autograd.grad((of_pairs * towards).sum(), (images, texts))
    for matrix in (similarity.matrix(images, texts), similarity.by_text(texts, images).T):
        assert torch.allclose(matrix, of_pairs, atol=1e-6)
        for found, right in zip(torch.autograd.grad((matrix * towards).sum(), (images, texts)), gradients, strict=True):
            assert torch.allclose(found, right)
    assert similarity.matrix(images[:0], texts).shape == (0, columns)
    assert similarity.matrix(images, texts[:0]).shape == (rows, 0)


def test_the_order_is_that_of_the_paper() -> None:
    """E(x, y) = ‖max(0, y - x)‖²: an image below its caption in every coordinate has no penalty (eq. 2)."""
    image, caption = torch.tensor([[0.6, 0.8]]), torch.tensor([[0.5, 0.1]])
    order, reverse = SIMILARITIES["order"], SIMILARITIES["order-reversed"]
    assert order.pairs(image, caption).item() == 0
    assert order.pairs(caption, image).item() == pytest.approx(-(0.1**2 + 0.7**2))
    assert reverse.pairs(image, caption).item() == order.pairs(caption, image).item()
    points = order.finish(vectors(20, 5, 0))
    assert (points >= 0).all() and torch.allclose(points.norm(dim=1), torch.ones(20))
    assert (SIMILARITIES["order-signed"].finish(vectors(20, 5, 0)) < 0).any()


def test_differences_are_not_kept() -> None:
    """Of 40 · 50 pairs in 64 dimensions autograd keeps the two inputs only."""
    kept: list[int] = []
    below, above = (vectors(rows, 64, rows).requires_grad_() for rows in (40, 50))

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        order_penalties(below, above).sum().backward()
    assert sorted(kept) == [40 * 64, 50 * 64]
