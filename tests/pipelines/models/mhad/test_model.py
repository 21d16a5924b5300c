"""Attention heads, the encoder of regions that ends in them, and the diversity loss in its three readings."""

from itertools import combinations_with_replacement, permutations
from pathlib import Path

import pytest
import torch
from torch import Generator

from negcap.pipelines.models.config import configure
from negcap.pipelines.models.encoders import AttentionHeads
from negcap.pipelines.models.mhad import HINGES, RegionEncoder, diversity_loss, head_cosines

CONFIG = configure(Path(), Path(), "mha-d", joint=4, attention_dim=4, heads=2, transform="root", region_tanh=True)


def random_numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.double, generator=Generator().manual_seed(seed))


def test_weights_are_those_of_the_equation() -> None:
    heads = AttentionHeads(4, 6, 2, Generator().manual_seed(0)).double()
    states = random_numbers(1, 3, 4)
    attended = heads(states, torch.ones(1, 3, dtype=torch.bool))
    for k in range(2):
        query = torch.tanh(heads.of_context[k] @ heads.context[k])
        scores = torch.stack([query @ torch.tanh(heads.of_state[k] @ state) for state in states[0]])
        weights = torch.exp(scores) / torch.exp(scores).sum()
        assert torch.allclose(attended.weights[0, k], weights, atol=1e-6)
        assert torch.allclose(attended.vectors[0, k], weights @ states[0], atol=1e-6)


def test_padding_changes_no_image() -> None:
    encoder = RegionEncoder(CONFIG, 5, Generator().manual_seed(0))
    features = random_numbers(2, 3, 5).float()
    padded = torch.cat([features, torch.zeros(2, 4, 5)], 1)
    assert torch.allclose(encoder(features), encoder(padded), atol=1e-6)
    assert encoder.attend(padded).weights[:, :, 3:].eq(0).all()
    assert encoder(torch.zeros(1, 3, 5)).isfinite().all()  # an image without features
    assert torch.allclose(encoder(features[:, 0]), encoder(features[:, :1]))


def test_the_readings_of_the_diversity_loss() -> None:
    equal, orthogonal = torch.ones(1, 2, 3), torch.eye(3)[None, :2]
    for reading, same, apart in (("distance", 0.1, 0.0), ("similarity", 0.9, 0.0), ("printed", 0.0, 0.1)):
        assert diversity_loss([equal], 0.1, reading).item() == pytest.approx(2 * same)  # (1, 2) and (2, 1)
        assert diversity_loss([orthogonal], 0.1, reading).item() == pytest.approx(2 * apart)
    heads = torch.tensor([[[2.0, 0], [1, 0]], [[0, 3], [1, 0]], [[1, 1], [-1, -1]]])
    assert torch.allclose(head_cosines(heads), torch.tensor([[1.0, 1], [0, 0], [-1, -1]]))


@pytest.mark.parametrize("reading", HINGES)
def test_all_pairs_of_views_and_of_different_heads_of_an_instance_count(reading: str) -> None:
    views = [random_numbers(3, 4, 5, seed=seed) for seed in range(3)]
    total = 0.0
    for first, second in combinations_with_replacement(views, 2):
        for p in range(3):
            for k, r in permutations(range(4), 2):
                total += HINGES[reading](torch.cosine_similarity(first[p, k], second[p, r], dim=0), 0.1).item()
    assert diversity_loss(views, 0.1, reading).item() == pytest.approx(total)
