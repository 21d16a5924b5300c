"""Similarities and losses, each compared with a plain computation."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor

from negcap.pipelines.models import losses
from negcap.pipelines.models.batches import SampledNegatives
from negcap.pipelines.models.similarities import BLOCK, SIMILARITIES, unit_vectors


@pytest.mark.parametrize("size", [2, 7])
@pytest.mark.parametrize(("loss", "reduce"), [(losses.sum_of_hinges, sum), (losses.max_of_hinges, max)])
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
    assert losses.intra_pair_hinges(true, false, owner, 0.2).item() == pytest.approx(0.25 + 0.0 + 0.1)
    shared = torch.tensor([[0.8, 0.95, 0.2], [0.25, 0.1, 0.45], [0.4, 0.1, 0.3]])  # .25 for image 0, .15 for image 1
    assert losses.shared_hinges(true, shared, 0.2).item() == pytest.approx(0.25 + 0.15 + 0.0)
    assert losses.shared_hinges(true, shared[:, :0], 0.2).item() == 0


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
    assert losses.info_nce(LOGITS, SAME, negatives).item() == pytest.approx(expected)


def test_the_losses_of_siglip_and_ce_clip_equal_loops() -> None:
    signed = torch.where(SAME, -LOGITS, LOGITS).flatten().tolist()
    expected = sum(math.log(1 + math.exp(score)) for score in signed)
    assert losses.sigmoid_loss(LOGITS, SAME).item() == pytest.approx(expected)
    true = LOGITS.diagonal()
    expected = sum(surprise(float(true[i]), NEGATIVES[i].tolist()) for i in range(4))
    assert losses.intra_modal_loss(true, NEGATIVES).item() == pytest.approx(expected)
    false, owner, thresholds = torch.tensor([1.0, 4.5, 2.0]), torch.tensor([0, 0, 3]), torch.tensor([0.0, 1.0, 0.5])
    hinges = [max(0.0, float(false[k] - true[owner[k]] + thresholds[k])) for k in range(3)]
    assert losses.rank_loss(true, false, owner, thresholds).item() == pytest.approx(sum(hinges) / 3 * 4)
    assert losses.rank_loss(true, false[:0], owner[:0], thresholds[:0]).item() == 0
    scores, families = torch.tensor([1.0, 2.0, 2.5]), torch.tensor([0, 0, 2])
    before, of_captions = torch.full((3,), 9.0), torch.tensor([5.0, 3.0])
    moved = losses.next_thresholds(before, of_captions, scores, torch.tensor([0, 0, 1]), families)
    assert moved.tolist() == pytest.approx([3.5, 9.0, 0.5])  # the mean distance of each family that there is


def test_negatives_of_concrete_words_have_a_margin() -> None:
    images, false = (unit_vectors(vectors(rows, 5, rows)) for rows in (3, 2))
    owner, concreteness = torch.tensor([2, 0]), torch.tensor([0.5, 0.0])
    negatives = SampledNegatives(torch.tensor([7, 9]), owner, torch.tensor([1, 0]), concreteness)
    plain, raised = (losses.negative_scores(images, false, negatives, margin) for margin in (0.0, 0.4))
    assert (raised.with_own_image - plain.with_own_image).tolist() == pytest.approx([0.2, 0.0])
    assert (raised.with_every_image - plain.with_every_image).flatten().tolist() == pytest.approx([0, 0, 0, 0, 0.2, 0])


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
