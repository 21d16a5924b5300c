"""Similarities: pairs and matrices agree, gradients are right, memory stays small, and the cosine is what it was."""

import pytest
import torch
from torch import Generator, Tensor

from negcap.pipelines.models import similarities
from negcap.pipelines.models.similarities import SIMILARITIES, order_penalties


def vectors(rows: int, d: int, seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(rows, d, generator=Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("name", SIMILARITIES)
@pytest.mark.parametrize("block", [1, 7, 60, 1 << 18])
def test_matrices_hold_the_scores_of_pairs(name: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(similarities.BLOCK, "cpu", block)
    (finish, pairs, matrix), by_text = SIMILARITIES[name], SIMILARITIES[name].by_text
    images, texts = finish(vectors(5, 6, 0)), finish(vectors(4, 6, 1))
    expected = torch.stack([pairs(images[i].expand(4, -1), texts) for i in range(5)])
    assert torch.allclose(matrix(images, texts), expected, atol=1e-6)
    assert torch.allclose(by_text(texts, images), expected.T, atol=1e-6)
    assert matrix(images[:0], texts).shape == (0, 4) and matrix(images, texts[:0]).shape == (5, 0)


def test_the_order_is_that_of_the_paper() -> None:
    """E(x, y) = ‖max(0, y - x)‖²: an image below its caption in every coordinate has no penalty (eq. 2)."""
    image, caption = torch.tensor([[0.6, 0.8]]), torch.tensor([[0.5, 0.1]])
    order, reverse = SIMILARITIES["order"], SIMILARITIES["order-reversed"]
    assert order.pairs(image, caption).item() == 0 and order.matrix(image, caption).item() == 0
    assert order.pairs(caption, image).item() == pytest.approx(-(0.1**2 + 0.7**2))
    assert reverse.pairs(image, caption).item() == order.pairs(caption, image).item()
    points = order.finish(vectors(20, 5, 0))
    assert (points >= 0).all() and torch.allclose(points.norm(dim=1), torch.ones(20))
    assert torch.equal(order.matrix(points, points).diagonal(), torch.zeros(20))
    assert (order.matrix(points, order.finish(vectors(20, 5, 1))) <= 0).all()


@pytest.mark.parametrize("name", SIMILARITIES)
def test_gradients(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(similarities.BLOCK, "cpu", 8)
    (finish, pairs, matrix), by_text = SIMILARITIES[name], SIMILARITIES[name].by_text
    images = vectors(3, 4, 0, torch.double).requires_grad_()
    texts = vectors(3, 4, 1, torch.double).requires_grad_()
    for compare in (pairs, matrix, by_text):
        assert torch.autograd.gradcheck(lambda a, b, use=compare: use(finish(a), finish(b)), (images, texts))


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
