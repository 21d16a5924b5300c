"""Ranks of the longer of two captions, and compositions of words and images, where the answer is known."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from negcap.pipelines.models.order.lengths import compositions, length_ranks, named_objects
from negcap.pipelines.models.similarities import SIMILARITIES

ORDER = SIMILARITIES["order"]


def test_the_longer_caption_lies_below_the_shorter() -> None:
    """Two images with two captions each; the shorter caption's coordinates are below those of the longer one."""
    images = torch.tensor([[1.0, 1, 0, 0], [0, 0, 1, 1]])
    captions = torch.tensor([[0.5, 0, 0, 0], [0.9, 0.9, 0, 0], [0, 0, 0.5, 0], [0, 0, 0.4, 0.9]])
    split: Any = SimpleNamespace(
        image_vectors=images,
        caption_vectors=captions,
        image_of_caption=torch.tensor([0, 0, 1, 1]),
        model=SimpleNamespace(similarity=ORDER),
    )
    words = torch.tensor([2, 9, 3, 5])
    assert length_ranks(split, words, 100) == {"pairs": 2, "image": 1.0, "longer": 1.0}
    assert length_ranks(split, words, 1) == {"pairs": 1, "image": 1.0, "longer": 1.0}
    split.image_vectors = images.flip(0)
    assert length_ranks(split, words, 100)["image"] == 2
    captions[1] = torch.tensor([0, 0, 0.9, 0.9])  # as far from caption 0 as the others; below caption 2
    assert length_ranks(split, words, 100)["longer"] == 2.5
    with pytest.raises(ValueError, match="two captions of different length, has none"):
        length_ranks(split, torch.ones(4, dtype=torch.long), 100)


def test_maxima_compose_and_minima_abstract_under_the_order_and_the_cosine_has_sums() -> None:
    images = torch.tensor([[1.0, 1, 0], [1, 0, 0], [0, 1, 1]])
    captions = [{"dog"}, {"car"}, {"dog", "tree"}, {"car", "dog"}, {"dog"}, {"car"}]
    names, named, pairs = named_objects(captions, [0, 0, 1, 2, 0, 2], 3, 2)
    assert names == ["car", "dog"] and pairs.tolist() == [[0, 1]]
    assert named.tolist() == [[True, False, True], [True, True, True]]
    vectors = torch.tensor([[0.0, 0.6, 0], [0.6, 0.1, 0]])
    named[1, 2] = False  # so that a car can be alone
    found = compositions(vectors, named, pairs, images, ORDER)
    assert [true[0].tolist() for _, true in found.values()] == [
        [True, False, False],
        [True, True, True],
        [True, False, False],
    ]
    expected = [[0, -0.36, -0.36], [0, -0.01, 0], [-1, -2, -torch.inf]]  # the last: image 2, and a dog
    for (scores, _), its in zip(found.values(), expected, strict=True):
        assert scores[0].tolist() == pytest.approx(its, abs=1e-6)
    scores, _ = compositions(vectors, named, pairs, images, SIMILARITIES["cosine"])["both of two objects"]
    assert scores[0].tolist() == pytest.approx((images @ torch.tensor([0.6, 0.7, 0]) / 0.85**0.5).tolist())
    assert not len(compositions(vectors, named[[1, 1]], pairs, images, ORDER)["an image and an object"][0])
