"""Encoders of images, words and sentences, compared with plain computations."""

from functools import partial
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor

from negcap.pipelines.models import encoders
from negcap.pipelines.models.config import configure
from negcap.pipelines.models.similarities import SIMILARITIES

SENTENCES = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), min_size=1, max_size=7)


def flat(sentences: list[list[int]]) -> tuple[Tensor, Tensor]:
    offsets = torch.tensor([0, *map(len, sentences)]).cumsum(0)
    return torch.tensor([word for sentence in sentences for word in sentence], dtype=torch.int32), offsets


@pytest.mark.parametrize("pooling", ["max", "last"])
@pytest.mark.parametrize("bidirectional", [True, False])
@settings(deadline=None, max_examples=20)
@given(sentences=SENTENCES)
def test_packed_and_prefix_tree_states_agree(sentences: list[list[int]], bidirectional: bool, pooling: str) -> None:
    generator = Generator().manual_seed(0)
    embedding = encoders.word_embedding(4, 5, generator, None, True)
    encoder = encoders.TextEncoder(embedding, 5, 6, generator, bidirectional=bidirectional, pooling=pooling).double()
    tokens, offsets = flat(sentences)
    rows = torch.arange(len(sentences)).flip(0)
    towards = torch.randn(len(rows), 6, dtype=torch.double, generator=generator)
    results = []
    for run in (encoders.run_prefix_tree, encoders.run_packed):
        encoder.zero_grad()
        pooled = run(encoder.net, encoder.embedding, pooling, tokens, offsets, rows)
        (pooled * towards).sum().backward()
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in encoder.parameters()]
        results.append([pooled.detach(), *gradients])
    for shared, packed in zip(*results, strict=True):
        assert torch.allclose(shared, packed, atol=1e-12)


@pytest.mark.parametrize(("name", "pooling"), [("gru", "last"), ("gru", "max"), ("lstm", "max"), ("attention", "max")])
def test_every_text_encoder_gives_a_vector_that_depends_only_on_the_sentence(name: str, pooling: str) -> None:
    config = configure(Path(), Path(), text_encoder=name, pooling=pooling, joint=12, attention_dim=4)
    embedding = partial(encoders.word_embedding, 9, 5, vectors=None, tune=True)
    encoder = encoders.build_encoders(config, 6, embedding, 5, SIMILARITIES["order"]).text
    tokens, offsets = flat([[1, 2, 3], [1, 2, 4, 5], [8]])
    together = encoder(tokens, offsets, torch.arange(3))
    assert together.shape == (3, 12) and torch.allclose(together.norm(dim=1), torch.ones(3)) and together.ge(0).all()
    for row in range(3):
        assert torch.allclose(encoder(tokens, offsets, torch.tensor([row]))[0], together[row], atol=1e-6)


@pytest.mark.parametrize(("pooling", "highest"), [("max", 1), ("max-k", 10)])
def test_regions_are_mapped_before_pooling(pooling: str, highest: int) -> None:
    encoder = encoders.ImageEncoder(6, 4, "none", Generator().manual_seed(0), pooling)
    grid = torch.randn(3, 12, 6, generator=Generator().manual_seed(1))
    regions = grid @ encoder.linear.weight.T + encoder.linear.bias
    pooled = regions.sort(dim=1, descending=True).values[:, :highest].mean(1)
    vectors = encoder.with_regions(grid)
    assert torch.allclose(vectors.images, torch.nn.functional.normalize(pooled, dim=-1), atol=1e-6)
    assert torch.allclose(vectors.regions, torch.nn.functional.normalize(regions, dim=-1))
    assert torch.allclose(encoder(grid), vectors.images) and encoder(grid[:, :2]).shape == (3, 4)  # fewer than k


@pytest.mark.parametrize("tune", [False, True])
def test_words_that_a_file_of_vectors_lacks_are_learned(tune: bool) -> None:
    vectors = torch.tensor([[torch.nan] * 2, [1.0, 2.0], [torch.nan] * 2, [3.0, 4.0]])
    embedding = encoders.word_embedding(4, 2, Generator().manual_seed(0), vectors, tune)
    assert torch.equal(embedding.weight[[1, 3]], vectors[[1, 3]])
    embedding(torch.tensor([0, 1, 1, 3], dtype=torch.int32)).sum().backward()
    assert embedding.weight.grad.ne(0).all(1).tolist() == [True, tune, False, tune]  # word 2 is in no text


def test_a_word_is_a_fixed_and_a_learned_part() -> None:
    """VSE-C, section 3.1; a word that the file lacks speaks by its learned part alone."""
    vectors = torch.tensor([[torch.nan] * 2, [1.0, 2.0]])
    embedding = encoders.TwoPartEmbedding(2, 2, 1000, Generator().manual_seed(0), vectors)
    joined = embedding(torch.tensor([1, 0, 1], dtype=torch.int32))
    assert joined[:, :2].tolist() == [[1, 2], [0, 0], [1, 2]]
    assert torch.equal(joined[:, 2:], embedding.learned.weight[[1, 0, 1]])
    assert embedding.learned.weight.std().item() == pytest.approx(0.3785, rel=0.05)
    assert [name for name, _ in embedding.named_parameters()] == ["learned.weight"]
    assert "fixed" in embedding.state_dict()
