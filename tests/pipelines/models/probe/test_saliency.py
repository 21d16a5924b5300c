"""Saliency of words and regions."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Generator

from negcap.pipelines.models.encoders import ImageEncoder, TextEncoder, word_embedding
from negcap.pipelines.models.probe.saliency import (
    choose_shown,
    draw_saliency,
    edited_words,
    gradients,
    salient,
    summarize,
)
from negcap.pipelines.models.similarities import SIMILARITIES


def model(pooling: str = "average") -> SimpleNamespace:
    generator = Generator().manual_seed(0)
    text = TextEncoder(word_embedding(9, 5, generator, None, True), 5, 4, generator)
    return SimpleNamespace(image=ImageEncoder(6, 4, "none", generator, pooling), text=text)


def test_the_gradient_to_a_word_is_what_its_vector_changes_the_score_by() -> None:
    made = model()
    tokens, offsets = torch.tensor([1, 5, 6, 5, 2, 1, 7, 2], dtype=torch.int32), torch.tensor([0, 5, 8])
    features = torch.rand(2, 6, generator=Generator().manual_seed(1))
    scores, words, regions = gradients(made, SIMILARITIES["cosine"], tokens, offsets, features)
    assert words.shape == (2, 5) and regions is None and torch.all(words[1, 3:] == 0)
    weight = made.text.embedding.weight
    with torch.no_grad():  # the word 7 stands once: its gradient by differences
        numbers = []
        for k in range(5):
            weight[7, k] += 1e-3
            moved = (made.image(features) * made.text(tokens, offsets, torch.arange(2))).sum(1)[1]
            weight[7, k] -= 1e-3
            numbers.append(((moved - scores[1]) / 1e-3).abs())
    assert words[1, 1].item() == pytest.approx(torch.stack(numbers).mean().item(), rel=0.05)
    assert weight.grad is None and words[0, 1] != words[0, 3]  # the same word at two places


def test_regions_have_the_gradients_of_their_features() -> None:
    tokens, offsets = torch.tensor([1, 5, 2], dtype=torch.int32), torch.tensor([0, 3])
    features = torch.rand(1, 20, 6, generator=Generator().manual_seed(1))
    *_, regions = gradients(model("max"), SIMILARITIES["cosine"], tokens, offsets, features)
    assert regions is not None and regions.shape == (1, 20)
    assert 0 < (regions > 0).sum() <= 4  # only regions with the maximum of one of the 4 dimensions


def test_edited_words_are_those_that_an_edit_put_in() -> None:
    text = "Two dogs are on a couch."  # of "A dog is on a sofa."
    spans = [(0, 3), (4, 8), (9, 12), (13, 15), (16, 17), (18, 23), (23, 24)]
    edits = [(0, 1, "Two"), (2, 5, "dogs"), (6, 8, "are"), (14, 18, "couch")]
    rows = [{"start": start, "end": end, "new": new} for start, end, new in edits]
    edited = edited_words(spans, rows)
    assert [text[a:b] for (a, b), new in zip(spans, edited, strict=True) if new] == ["Two", "dogs", "are", "couch"]


@pytest.mark.usefixtures("drawn")
def test_the_share_on_edits_is_compared_with_chance_and_drawn(tmp_path: Path) -> None:
    rows = [
        ("noun", 0, [0.7, 0.2, 0.1], [True, False, False]),
        ("noun", 1, [0.5, 0.25, 0.15, 0.1], [True, True, False, False]),
        ("numeral", 1, [0.5, 0.5], [False, True]),
    ]
    found = salient(
        [(name, image, ["w"] * len(shares), shares, edited, 0.5, None) for name, image, shares, edited in rows]
    )
    noun = summarize(found, 0)["noun"]
    assert noun["negatives"] == 2
    assert noun["share"] == pytest.approx(100 * (0.7 + 0.75) / 2)
    assert noun["chance"] == pytest.approx(100 * (1 / 3 + 0.5) / 2)
    assert noun["beyond chance"] == pytest.approx(noun["share"] - noun["chance"])
    assert noun["share interval"] == pytest.approx([70, 75])
    draw_saliency(found, {}, tmp_path / "saliency.png")
    assert (tmp_path / "saliency.png").read_bytes().startswith(b"\x89PNG")
    rows = [("noun", image, ["w"] * 10, [0.1] * 10, [True] + [False] * 9, 0.5, None) for image in (0, 0, 1, 2, 3)]
    assert choose_shown(salient(rows), {})["image"].tolist() == [0, 1]
