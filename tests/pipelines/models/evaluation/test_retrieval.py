import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor
from torch.nn.functional import normalize

from negcap.pipelines.models.evaluation import retrieval
from negcap.pipelines.models.evaluation.retrieval import (
    bootstrap_intervals,
    count_hits,
    count_outranking,
    mean_over_folds,
    rank,
    recall_metrics,
)


def space(images: int, captions: int, seed: int, noise: float = 0.6) -> tuple[Tensor, Tensor, Tensor]:
    """Random unit vectors of captions near their images, at least one per image, and the image of each."""
    generator = Generator().manual_seed(seed)
    vectors = normalize(torch.randn(images, 4, generator=generator), dim=1)
    owner = torch.cat([torch.arange(images), torch.randint(images, (captions - images,), generator=generator)])
    near = vectors[owner] + noise * torch.randn(captions, 4, generator=generator)
    return vectors, normalize(near, dim=1), owner


def naive(images: Tensor, captions: Tensor, owner: Tensor) -> tuple[list[int], list[int]]:
    """Ranks of images and captions by walking down each sorted list."""
    of_images, of_captions = [], []
    for i in range(len(images)):
        order = sorted(range(len(captions)), key=lambda j: -float(images[i] @ captions[j]))
        false = 0
        for j in order:
            if owner[j] == i:
                break
            false += 1
        of_images.append(1 + false)
    for j in range(len(captions)):
        order = sorted(range(len(images)), key=lambda i: -float(images[i] @ captions[j]))
        of_captions.append(1 + order.index(int(owner[j])))
    return of_images, of_captions


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 9), st.integers(0, 20), st.integers(0, 999), st.sampled_from([4, 1 << 23]))
def test_ranks_equal_those_of_a_walk_down_sorted_lists(images: int, more: int, seed: int, block: int) -> None:
    before, retrieval.BLOCK = retrieval.BLOCK, block
    try:
        vectors, captions, owner = space(images, images + more, seed)
        ranks = rank(vectors, captions, owner)
    finally:
        retrieval.BLOCK = before
    assert (ranks.images.tolist(), ranks.captions.tolist()) == naive(vectors, captions, owner)
    best = [max(float(vectors[i] @ c) for c, o in zip(captions, owner, strict=True) if o == i) for i in range(images)]
    assert ranks.best.tolist() == pytest.approx(best, abs=1e-5)


def test_a_tie_counts_against_the_model() -> None:
    point = torch.ones(3, 2) / 2**0.5
    ranks = rank(point, point.repeat(2, 1), torch.arange(3).repeat(2))
    assert ranks.images.tolist() == [5, 5, 5]  # 4 captions of other images
    assert ranks.captions.tolist() == [3] * 6


def test_count_outranking() -> None:
    vectors, captions, owner = space(5, 12, 0)
    ranks = rank(vectors, captions, owner)
    _, others, _ = space(5, 40, 1)
    expected = [sum(float(vectors[i] @ o) >= float(ranks.best[i]) for o in others) for i in range(5)]
    assert count_outranking(vectors, ranks.best, others).tolist() == expected
    assert count_outranking(vectors, ranks.best, others[:0]).tolist() == [0] * 5


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        ([1], (100, 100, 100, 1, 1)),
        ([1, 2, 6, 11], (25, 50, 75, 4, 5)),
        ([3, 1, 5], (100 / 3, 100, 100, 3, 3)),
        ([20, 2], (0, 50, 50, 11, 11)),
    ],
)
def test_recall_metrics(ranks: list[int], expected: tuple[float, ...]) -> None:
    assert tuple(recall_metrics(torch.tensor(ranks)).values()) == pytest.approx(expected)


def test_fold_metrics_are_means_over_consecutive_images() -> None:
    vectors, captions, owner = space(25, 60, 2)
    made = mean_over_folds(vectors, captions, owner, 10)
    parts = []
    for start in (0, 10):
        inside = [j for j in range(60) if start <= owner[j] < start + 10]
        parts.append(
            retrieval.retrieval_metrics(rank(vectors[start : start + 10], captions[inside], owner[inside] - start))
        )
    assert made == pytest.approx({name: (parts[0][name] + parts[1][name]) / 2 for name in parts[0]})
    with pytest.raises(ValueError, match="a fold must have 100 images, there are: 25"):
        mean_over_folds(vectors, captions, owner, 100)


def test_intervals_contain_the_value_and_shrink_with_more_images() -> None:
    widths = []
    for images in (50, 1250):
        ranks = rank(*space(images, 2 * images, 3, noise=0.1))
        owner = space(images, 2 * images, 3, noise=0.1)[2]
        tables = [count_hits(ranks.images, torch.arange(images), images), count_hits(ranks.captions, owner, images)]
        first, second, both = bootstrap_intervals(tables)
        metrics = retrieval.retrieval_metrics(ranks)
        for bounds, way in ((first, "i2t"), (second, "t2i")):
            for (low, high), k in zip(bounds, (1, 5, 10), strict=False):
                assert low <= metrics[f"{way} R@{k}"] <= high
        assert both[0][0] < metrics["rsum"] < both[0][1]
        assert bootstrap_intervals(tables) == [first, second, both] != bootstrap_intervals(tables, seed=1)
        widths.append(first[0][1] - first[0][0])
    share = retrieval.recall_metrics(ranks.images)["R@1"] / 100
    assert widths[1] == pytest.approx(
        2 * 196 * (share * (1 - share) / 1250) ** 0.5, rel=0.15
    )  # of the normal distribution
    assert widths[0] > 2 * widths[1]
