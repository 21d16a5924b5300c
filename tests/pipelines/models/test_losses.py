"""Losses, each compared with a loop over its formula."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from negcap.pipelines.models.batches import SampledNegatives
from negcap.pipelines.models.losses import (
    info_nce,
    intra_modal_loss,
    intra_pair_hinges,
    max_of_hinges,
    negative_scores,
    next_thresholds,
    rank_loss,
    shared_hinges,
    sigmoid_loss,
    sum_of_hinges,
)


@pytest.mark.parametrize("size", [2, 7])
@pytest.mark.parametrize(("loss", "reduce"), [(sum_of_hinges, sum), (max_of_hinges, max)])
def test_losses_equal_a_loop(size: int, loss: Callable[..., Tensor], reduce: Callable[[list[float]], float]) -> None:
    scores = torch.rand(size, size, generator=torch.Generator().manual_seed(size))
    same = torch.eye(size, dtype=torch.bool)

    def by_hand() -> float:
        total = 0.0
        for k in range(size):
            others = [j for j in range(size) if not same[k, j]]
            total += reduce([max(0.0, 0.2 + float(scores[k, j] - scores[k, k])) for j in others] or [0.0])
            total += reduce([max(0.0, 0.2 + float(scores[j, k] - scores[k, k])) for j in others] or [0.0])
        return total

    assert loss(scores, 0.2).item() == pytest.approx(by_hand(), rel=1e-5)
    same[0, 1] = same[1, 0] = True  # two captions of one image are no negatives of each other
    assert loss(scores, 0.2, same).item() == pytest.approx(by_hand(), rel=1e-5)


def test_the_hardest_negative_of_a_caption_or_of_all_costs() -> None:
    true = torch.tensor([0.9, 0.5, 0.7])
    false, owner = torch.tensor([0.8, 0.95, 0.2, 0.6]), torch.tensor([0, 0, 1, 2])
    assert intra_pair_hinges(true, false, owner, 0.2).item() == pytest.approx(0.25 + 0.0 + 0.1)
    shared = torch.tensor([[0.8, 0.95, 0.2], [0.25, 0.1, 0.45]])  # .25 for image 0, .15 for image 1
    assert shared_hinges(true[:2], shared, 0.2).item() == pytest.approx(0.25 + 0.15)
    assert shared_hinges(true[:2], shared[:, :0], 0.2).item() == 0


# contrastive losses

LOGITS = torch.rand(4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.double) * 5
NEGATIVES = torch.rand(4, 3, generator=torch.Generator().manual_seed(1), dtype=torch.double) * 5
SAME = torch.eye(4, dtype=torch.bool)
SAME[0, 2] = SAME[2, 0] = True  # captions 0 and 2 are of one image


def surprise(true: float, others: list[float]) -> float:
    return -math.log(math.exp(true) / (math.exp(true) + sum(map(math.exp, others))))


@pytest.mark.parametrize("negatives", [None, NEGATIVES])
def test_info_nce_and_negclip_equal_a_loop(negatives: Tensor | None) -> None:
    expected = 0.0
    for i in range(4):
        others = [j for j in range(4) if not SAME[i, j]]
        captions = [float(LOGITS[i, j]) for j in others] + ([] if negatives is None else negatives[i].tolist())
        expected += surprise(float(LOGITS[i, i]), captions) / 2
        expected += surprise(float(LOGITS[i, i]), [float(LOGITS[j, i]) for j in others]) / 2
    assert info_nce(LOGITS, SAME, negatives).item() == pytest.approx(expected)


def test_the_losses_of_siglip_and_ce_clip_equal_loops() -> None:
    signed = torch.where(SAME, -LOGITS, LOGITS).flatten().tolist()
    assert sigmoid_loss(LOGITS, SAME).item() == pytest.approx(sum(math.log(1 + math.exp(score)) for score in signed))
    true = LOGITS.diagonal()
    expected = sum(surprise(float(true[i]), NEGATIVES[i].tolist()) for i in range(4))
    assert intra_modal_loss(true, NEGATIVES).item() == pytest.approx(expected)
    false, owner, thresholds = torch.tensor([1.0, 4.5, 2.0]), torch.tensor([0, 0, 3]), torch.tensor([0.0, 1.0, 0.5])
    hinges = [max(0.0, float(false[k] - true[owner[k]] + thresholds[k])) for k in range(3)]
    assert rank_loss(true, false, owner, thresholds).item() == pytest.approx(sum(hinges) / 3 * 4)
    assert rank_loss(true, false[:0], owner[:0], thresholds[:0]).item() == 0
    moved = next_thresholds(
        torch.full((3,), 9.0), torch.tensor([5.0, 3.0]), torch.tensor([1.0, 2.0, 2.5]), torch.tensor([0, 0, 1]),
        torch.tensor([0, 0, 2]),
    )  # fmt: skip
    assert moved.tolist() == pytest.approx([3.5, 9.0, 0.5])  # the mean distance of each family that there is


def test_a_margin_grows_with_concreteness() -> None:
    noise = torch.Generator().manual_seed(2)
    images, false = (torch.nn.functional.normalize(torch.randn(n, 6, generator=noise)) for n in (2, 3))
    owner, concreteness = torch.tensor([1, 0, 1]), torch.tensor([0.9, 0.4, 0.0])
    sampled = SampledNegatives(torch.arange(3), owner, torch.zeros(3, dtype=torch.long), concreteness)
    scores = negative_scores(images, false, sampled, 0.2)
    margins = torch.tensor([[0.0, 0.08, 0.0], [0.18, 0.0, 0.0]])
    assert torch.allclose(scores.with_all, images @ false.T + margins)
    assert torch.allclose(scores.with_own, scores.with_all[owner, torch.arange(3)])
