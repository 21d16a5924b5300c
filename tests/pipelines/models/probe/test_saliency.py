"""Saliency of words and regions."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Generator

from negcap.pipelines.models.encoders import ImageEncoder, TextEncoder, word_embedding
from negcap.pipelines.models.probe.saliency import (
    SalientNegative,
    choose_shown,
    draw_saliency,
    edited_words,
    gradients,
    saliency_table,
    summarize,
)
from negcap.pipelines.models.similarities import SIMILARITIES


def model(pooling: str = "average") -> SimpleNamespace:
    generator = Generator().manual_seed(0)
    text = TextEncoder(word_embedding(9, 5, generator, None, True), 5, 4, generator)
    return SimpleNamespace(image=ImageEncoder(6, 4, "none", generator, pooling), text=text)


def test_the_gradient_to_a_word_is_what_its_vector_changes_the_score_by() -> None:
    net = model()
    tokens, offsets = torch.tensor([1, 5, 6, 5, 2, 1, 7, 2], dtype=torch.int32), torch.tensor([0, 5, 8])
    features = torch.rand(2, 6, generator=Generator().manual_seed(1))
    scores, words, regions = gradients(net, SIMILARITIES["cosine"], tokens, offsets, features)
    assert words.shape == (2, 5) and regions is None and torch.all(words[1, 3:] == 0)
    weight = net.text.embedding.weight
    with torch.no_grad():  # the word 7 stands once: its gradient by differences
        differences = []
        for k in range(5):
            weight[7, k] += 1e-3
            moved = (net.image(features) * net.text(tokens, offsets, torch.arange(2))).sum(1)[1]
            weight[7, k] -= 1e-3
            differences.append(((moved - scores[1]) / 1e-3).abs())
    assert words[1, 1].item() == pytest.approx(torch.stack(differences).mean().item(), rel=0.05)
    assert weight.grad is None and words[0, 1] != words[0, 3]  # the same word at two places


def test_regions_have_the_gradients_of_their_features() -> None:
    tokens, offsets = torch.tensor([1, 5, 2], dtype=torch.int32), torch.tensor([0, 3])
    features = torch.rand(1, 20, 6, generator=Generator().manual_seed(1))
    regions = gradients(model("max"), SIMILARITIES["cosine"], tokens, offsets, features).regions
    assert regions is not None and regions.shape == (1, 20)
    assert 0 < (regions > 0).sum() <= 4  # only regions with the maximum of one of the 4 dimensions


def test_edited_words_are_those_that_an_edit_put_in() -> None:
    text = "Two dogs are on a couch."  # of "A dog is on a sofa."
    spans = [(0, 3), (4, 8), (9, 12), (13, 15), (16, 17), (18, 23), (23, 24)]
    edits = [(0, 1, "Two"), (2, 5, "dogs"), (6, 8, "are"), (14, 18, "couch")]
    edited = edited_words(spans, [{"start": start, "end": end, "new": new} for start, end, new in edits])
    assert [text[a:b] for (a, b), new in zip(spans, edited, strict=True) if new] == ["Two", "dogs", "are", "couch"]


@pytest.mark.usefixtures("drawn")
def test_the_share_on_edits_is_compared_with_chance_and_drawn(tmp_path: Path) -> None:
    def negative(operator: str, image: int, *shares: float, edits: int) -> SalientNegative:
        edited = [n < edits for n in range(len(shares))]
        return SalientNegative(operator, image, ["w"] * len(shares), [*shares], edited, 0.5, torch.rand(4))

    negatives = saliency_table(
        [
            negative("noun", 0, 0.7, 0.2, 0.1, edits=1),
            negative("noun", 1, 0.5, 0.25, 0.15, 0.1, edits=2),
            negative("numeral", 1, 0.5, 0.5, edits=1),
        ]
    )
    noun = summarize(negatives, 0)["noun"]
    assert noun["negatives"] == 2
    assert noun["share"] == pytest.approx(100 * (0.7 + 0.75) / 2)
    assert noun["chance"] == pytest.approx(100 * (1 / 3 + 0.5) / 2)
    assert noun["beyond chance"] == pytest.approx(noun["share"] - noun["chance"])
    assert noun["share interval"] == pytest.approx([70, 75])
    draw_saliency(negatives, {}, tmp_path / "saliency.png")
    assert (tmp_path / "saliency.png").read_bytes().startswith(b"\x89PNG")
    many = saliency_table([negative("noun", image, *[0.1] * 10, edits=1) for image in (0, 0, 1, 2, 3)])
    assert choose_shown(many, {})["image"].tolist() == [0, 1]
