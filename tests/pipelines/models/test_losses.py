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


def by_hand(scores: Tensor, margin: float, same: Tensor, reduce: Callable[[list[float]], float]) -> float:
    n, total = len(scores), 0.0
    for k in range(n):
        others = [j for j in range(n) if j != k and not same[k, j]]
        total += reduce([max(0.0, margin + float(scores[k, j] - scores[k, k])) for j in others] or [0.0])
        total += reduce([max(0.0, margin + float(scores[j, k] - scores[k, k])) for j in others] or [0.0])
    return total


def test_the_hardest_negative_of_each_caption_costs() -> None:
    true = torch.tensor([0.9, 0.5, 0.7])
    false, owner = torch.tensor([0.8, 0.95, 0.2, 0.6]), torch.tensor([0, 0, 1, 2])
    assert intra_pair_hinges(true, false, owner, 0.2).item() == pytest.approx(0.25 + 0.0 + 0.1)


@pytest.mark.parametrize("size", [2, 3, 7, 20])
@pytest.mark.parametrize(("loss", "reduce"), [(sum_of_hinges, sum), (max_of_hinges, max)])
def test_losses_equal_a_loop(size: int, loss: Callable[..., Tensor], reduce: Callable[[list[float]], float]) -> None:
    scores = torch.rand(size, size, generator=torch.Generator().manual_seed(size))
    same = torch.eye(size, dtype=torch.bool)
    assert loss(scores, 0.2).item() == pytest.approx(by_hand(scores, 0.2, same, reduce), rel=1e-5)
    same[0, 1] = same[1, 0] = True  # two captions of one image are no negatives of each other
    assert loss(scores, 0.2, same).item() == pytest.approx(by_hand(scores, 0.2, same, reduce), rel=1e-5)


def test_shared_negatives_are_candidates_of_every_image() -> None:
    true = torch.tensor([0.9, 0.5])
    false = torch.tensor([[0.8, 0.95, 0.2], [0.25, 0.1, 0.45]])  # .25 for image 0, .15 for image 1
    assert shared_hinges(true, false, 0.2).item() == pytest.approx(0.25 + 0.15)
    assert shared_hinges(true, false[:, :0], 0.2).item() == 0


# contrastive losses

LOGITS = torch.rand(4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.double) * 5
NEGATIVES = torch.rand(4, 3, generator=torch.Generator().manual_seed(1), dtype=torch.double) * 5
SAME = torch.eye(4, dtype=torch.bool)
SAME[0, 2] = SAME[2, 0] = True  # captions 0 and 2 are of one image


def share(true: float, others: list[float]) -> float:
    return -math.log(math.exp(true) / (math.exp(true) + sum(map(math.exp, others))))


def softmax_by_hand(logits: Tensor, same: Tensor, negatives: Tensor | None) -> float:
    total = 0.0
    for i in range(len(logits)):
        others = [j for j in range(len(logits)) if j != i and not same[i, j]]
        captions = [float(logits[i, j]) for j in others] + ([] if negatives is None else negatives[i].tolist())
        total += share(float(logits[i, i]), captions) / 2
        total += share(float(logits[i, i]), [float(logits[j, i]) for j in others]) / 2
    return total


@pytest.mark.parametrize("negatives", [None, NEGATIVES])
def test_info_nce_and_negclip_equal_a_loop(negatives: Tensor | None) -> None:
    assert info_nce(LOGITS, SAME, negatives).item() == pytest.approx(softmax_by_hand(LOGITS, SAME, negatives))


def test_the_sigmoid_loss_equals_a_loop() -> None:
    signed = [-score if same else score for score, same in zip(LOGITS.flatten().tolist(), SAME.flatten(), strict=True)]
    expected = sum(math.log(1 + math.exp(score)) for score in signed)
    assert sigmoid_loss(LOGITS, SAME).item() == pytest.approx(expected)


def test_the_terms_of_ce_clip_equal_loops() -> None:
    true = LOGITS.diagonal()
    expected = sum(share(float(true[i]), NEGATIVES[i].tolist()) for i in range(4))
    assert intra_modal_loss(true, NEGATIVES).item() == pytest.approx(expected)
    false, owner = torch.tensor([1.0, 4.5, 2.0]), torch.tensor([0, 0, 3])
    thresholds = torch.tensor([0.0, 1.0, 0.5])
    hinges = [max(0.0, float(f - true[o] + t)) for f, o, t in zip(false, owner, thresholds, strict=True)]
    assert rank_loss(true, false, owner, thresholds).item() == pytest.approx(sum(hinges) / 3 * 4)
    assert rank_loss(true, false[:0], owner[:0], thresholds[:0]).item() == 0


def test_a_margin_grows_with_concreteness() -> None:
    noise = torch.Generator().manual_seed(2)
    images, false = (torch.nn.functional.normalize(torch.randn(n, 6, generator=noise)) for n in (2, 3))
    owner, concreteness = torch.tensor([1, 0, 1]), torch.tensor([0.9, 0.4, 0.0])
    drawn = SampledNegatives(torch.arange(3), owner, torch.zeros(3, dtype=torch.long), concreteness)
    every, own = negative_scores(images, false, drawn, 0.2)
    margins = torch.tensor([[0.0, 0.08, 0.0], [0.18, 0.0, 0.0]])
    assert torch.allclose(every, images @ false.T + margins)
    assert torch.allclose(own, every[owner, torch.arange(3)])


def test_thresholds_are_the_mean_distances_by_family() -> None:
    true, false, before = torch.tensor([5.0, 3.0]), torch.tensor([1.0, 2.0, 2.5]), torch.full((3,), 9.0)
    found = next_thresholds(before, true, false, torch.tensor([0, 0, 1]), torch.tensor([0, 0, 2]))
    assert found.tolist() == pytest.approx([3.5, 9.0, 0.5])
