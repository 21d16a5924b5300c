import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from negcap.pipelines.models.config import configure
from negcap.pipelines.models.contrastive import (
    Drawn,
    compare,
    info_nce,
    intra_modal_loss,
    next_thresholds,
    rank_loss,
    sigmoid_loss,
)
from negcap.pipelines.models.corpus import SampledNegatives

LOGITS = torch.rand(4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.double) * 5
NEGATIVES = torch.rand(4, 3, generator=torch.Generator().manual_seed(1), dtype=torch.double) * 5
SAME = torch.eye(4, dtype=torch.bool)
SAME[0, 2] = SAME[2, 0] = True  # captions 0 and 2 are of one image


def share(true: float, others: list[float]) -> float:
    return -math.log(math.exp(true) / (math.exp(true) + sum(map(math.exp, others))))


def by_hand(logits: Tensor, same: Tensor, negatives: Tensor | None) -> float:
    total = 0.0
    for i in range(len(logits)):
        others = [j for j in range(len(logits)) if j != i and not same[i, j]]
        captions = [float(logits[i, j]) for j in others] + ([] if negatives is None else negatives[i].tolist())
        total += share(float(logits[i, i]), captions) / 2
        total += share(float(logits[i, i]), [float(logits[j, i]) for j in others]) / 2
    return total


@pytest.mark.parametrize("negatives", [None, NEGATIVES])
def test_info_nce_and_negclip_equal_a_loop(negatives: Tensor | None) -> None:
    assert info_nce(LOGITS, SAME, negatives).item() == pytest.approx(by_hand(LOGITS, SAME, negatives))


def test_the_sigmoid_loss_equals_a_loop() -> None:
    expected = sum(
        math.log(1 + math.exp(-float(LOGITS[i, j]) if SAME[i, j] else float(LOGITS[i, j])))
        for i in range(4)
        for j in range(4)
    )
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
    images, captions, false = (torch.nn.functional.normalize(torch.randn(n, 6, generator=noise)) for n in (2, 2, 3))
    owner, concreteness = torch.tensor([1, 0, 1]), torch.tensor([0.9, 0.4, 0.0])
    drawn = Drawn(SampledNegatives(torch.arange(3), owner), torch.zeros(3, dtype=torch.long), concreteness)
    found = compare(images, captions, false, drawn, torch.tensor(10.0), torch.eye(2, dtype=torch.bool), 0.2)
    for image in range(2):
        for number in range(3):
            margin = 0.2 * concreteness[number] if owner[number] == image else 0.0
            expected = 10 * (float(images[image] @ false[number]) + float(margin))
            assert found.every[image, number].item() == pytest.approx(expected, abs=1e-5)
    assert found.own.tolist() == pytest.approx([found.every[o, n].item() for n, o in enumerate(owner.tolist())])
    assert torch.equal(found.between, 10 * captions @ false.T)
    with pytest.raises(ValueError, match="concreteness_margin is for negclip and ce-clip, the model was: infonce"):
        configure(Path("run"), Path("model"), model="infonce", concreteness_margin=0.1)


def test_thresholds_are_the_mean_distances_by_family() -> None:
    true, false = torch.tensor([5.0, 3.0]), torch.tensor([1.0, 2.0, 2.5])
    found = next_thresholds(
        torch.tensor([9.0, 9.0, 9.0]), true, false, torch.tensor([0, 0, 1]), torch.tensor([0, 0, 2])
    )
    assert found.tolist() == pytest.approx([3.5, 9.0, 0.5])


def test_the_papers_recipe_reads_the_last_word_and_draws_one_negative() -> None:
    for model, negatives in (("infonce", 8), ("siglip", 8), ("negclip", 1), ("ce-clip", 8)):
        paper = configure(Path("run"), Path("model"), model, "paper")
        assert (paper.pooling, paper.dropout, paper.transform, paper.negatives) == ("last", 0.0, "l2", negatives)
        assert configure(Path("run"), Path("model"), model).pooling == "max"


def test_contrastive_models_need_the_cosine_and_those_with_negatives_families() -> None:
    with pytest.raises(ValueError, match="similarity must be cosine for infonce, was: order"):
        configure(Path("run"), Path("model"), model="infonce", similarity="order")
    with pytest.raises(ValueError, match="negative_families must not be empty"):
        configure(Path("run"), Path("model"), model="ce-clip", negative_families=())
