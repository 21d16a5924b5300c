"""The diversity loss in its three readings."""

import pytest
import torch
from torch import Generator, Tensor

from negcap.pipelines.models.mhad.model import HINGES, diversity_loss, head_cosines


def views(*shape: int, n: int = 2) -> list[Tensor]:
    generator = Generator().manual_seed(0)
    return [torch.randn(shape, dtype=torch.double, generator=generator) for _ in range(n)]


@pytest.mark.parametrize(
    ("reading", "same", "apart"), [("distance", 0.1, 0.0), ("similarity", 0.9, 0.0), ("printed", 0.0, 0.1)]
)
def test_the_cost_of_equal_and_of_orthogonal_heads(reading: str, same: float, apart: float) -> None:
    equal, orthogonal = torch.ones(1, 2, 3), torch.eye(3)[None, :2]
    assert diversity_loss([equal], 0.1, reading).item() == pytest.approx(2 * same)  # (1, 2) and (2, 1)
    assert diversity_loss([orthogonal], 0.1, reading).item() == pytest.approx(2 * apart)


@pytest.mark.parametrize("reading", HINGES)
def test_all_pairs_of_views_and_of_different_heads_of_an_instance_count(reading: str) -> None:
    heads = views(3, 4, 5, n=3)
    total = 0.0
    for a, one in enumerate(heads):
        for other in heads[a:]:
            for p in range(3):
                for k in range(4):
                    for r in set(range(4)) - {k}:
                        cosine = torch.cosine_similarity(one[p, k], other[p, r], dim=0)
                        total += HINGES[reading](cosine, 0.1).item()
    assert diversity_loss(heads, 0.1, reading).item() == pytest.approx(total)


def test_cosines_of_different_heads() -> None:
    heads = torch.tensor([[[2.0, 0], [1, 0]], [[0, 3], [1, 0]], [[1, 1], [-1, -1]]])
    assert torch.allclose(head_cosines(heads), torch.tensor([[1.0, 1], [0, 0], [-1, -1]]))
