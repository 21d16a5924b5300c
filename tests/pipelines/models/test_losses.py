from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from negcap.pipelines.models.losses import intra_pair_hinges, max_of_hinges, shared_hinges, sum_of_hinges

SCORES = torch.tensor([[0.9, 0.8, 0.1], [0.3, 0.5, 0.6], [0.2, 0.4, 0.7]])


def by_hand(scores: Tensor, margin: float, same: Tensor, reduce: Callable[[list[float]], float]) -> float:
    n, total = len(scores), 0.0
    for k in range(n):
        others = [j for j in range(n) if j != k and not same[k, j]]
        total += reduce([max(0.0, margin + float(scores[k, j] - scores[k, k])) for j in others] or [0.0])
        total += reduce([max(0.0, margin + float(scores[j, k] - scores[k, k])) for j in others] or [0.0])
    return total


def test_losses_equal_a_computation_by_hand() -> None:
    # image 0: caption 1 costs .1; image 1: caption 2 .3; caption 1: image 0 .5, image 2 .1; caption 2: image 1 .1
    assert sum_of_hinges(SCORES, 0.2).item() == pytest.approx(0.1 + 0.3 + 0.5 + 0.1 + 0.1)
    assert max_of_hinges(SCORES, 0.2).item() == pytest.approx(0.1 + 0.3 + 0.5 + 0.1)
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


def test_separated_pairs_cost_nothing() -> None:
    scores = torch.eye(4)
    assert sum_of_hinges(scores, 0.2).item() == max_of_hinges(scores, 0.2).item() == 0
    assert intra_pair_hinges(torch.ones(3), torch.empty(0), torch.empty(0, dtype=torch.long), 0.2).item() == 0


def test_loss_gradients() -> None:
    scores = torch.rand(5, 5, dtype=torch.double, generator=torch.Generator().manual_seed(1), requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: sum_of_hinges(s, 0.2), scores)
    assert torch.autograd.gradcheck(lambda s: max_of_hinges(s, 0.2), scores)
    owner = torch.tensor([0, 0, 2, 2, 4])
    assert torch.autograd.gradcheck(lambda s: intra_pair_hinges(s[0], s[1], owner, 0.2), scores)


def test_only_the_hardest_negative_of_a_pair_counts() -> None:
    false = torch.tensor([0.5, 0.6, 0.1], requires_grad=True)
    intra_pair_hinges(torch.tensor([0.5]), false, torch.zeros(3, dtype=torch.long), 0.2).backward()
    assert false.grad is not None and false.grad.tolist() == [0.0, 1.0, 0.0]
