"""Ranks of the longer of two captions, and compositions of two words, where the answer is known."""

import pytest
import torch

from negcap.pipelines.models.order.lengths import Split, composed_scores, length_ranks, object_pairs
from negcap.pipelines.models.similarities import SIMILARITIES

ORDER = SIMILARITIES["order"]


def test_the_longer_caption_lies_below_the_shorter() -> None:
    """Two images with two captions each; the shorter caption's coordinates are below those of the longer one."""
    images = torch.tensor([[1.0, 1, 0, 0], [0, 0, 1, 1]])
    captions = torch.tensor([[0.5, 0, 0, 0], [0.9, 0.9, 0, 0], [0, 0, 0.5, 0], [0, 0, 0.4, 0.9]])
    split = Split(images, captions, torch.tensor([0, 0, 1, 1]), torch.tensor([2, 9, 3, 5]))
    assert length_ranks(split, ORDER, 100) == {"pairs": 2, "image": 1.0, "longer": 1.0}
    assert length_ranks(split, ORDER, 1) == {"pairs": 1, "image": 1.0, "longer": 1.0}
    far = split._replace(images=images.flip(0))
    assert length_ranks(far, ORDER, 100)["image"] == 2
    captions[1] = torch.tensor([0, 0, 0.9, 0.9])  # as far from caption 0 as the others; below caption 2
    assert length_ranks(split, ORDER, 100)["longer"] == 2.5
    with pytest.raises(ValueError, match="two captions of different length, has none"):
        length_ranks(split._replace(words=torch.ones(4, dtype=torch.long)), ORDER, 100)


def test_compositions_are_maxima_under_the_order_and_sums_under_the_cosine() -> None:
    images = torch.tensor([[1.0, 1, 0], [1, 0, 0], [0, 1, 1]])
    vectors = {"dog": torch.tensor([0.6, 0, 0]), "car": torch.tensor([0.0, 0.6, 0])}
    scores = composed_scores([("car", "dog")], vectors, images, ORDER)
    assert scores[0].tolist() == pytest.approx([0, -0.36, -0.36])
    scores = composed_scores([("car", "dog")], vectors, images, SIMILARITIES["cosine"])
    assert scores[0].tolist() == pytest.approx([2**0.5, 0.5**0.5, 0.5**0.5])
    pairs, true = object_pairs([{"dog"}, {"car"}, {"dog", "tree"}, {"car", "dog"}], [0, 0, 1, 2], 3, 2)
    assert pairs == [("car", "dog")] and true.tolist() == [[True, False, True]]
