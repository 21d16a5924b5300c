"""Attention heads and the encoders that end in them."""

import torch
from torch import Generator

from negcap.pipelines.models.encoders import MAX_WORDS, AttentionHeads, SentenceEncoder, TextShape, word_embedding
from negcap.pipelines.models.mhad.model import RegionEncoder
from tests.pipelines.models.test_encoders import flat


def random_numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.double, generator=Generator().manual_seed(seed))


def sentence_encoder(heads: int = 3) -> SentenceEncoder:
    generator = Generator().manual_seed(0)
    shape = TextShape(5, 4 * heads, heads=heads, attention_dim=6)
    return SentenceEncoder(word_embedding(9, 5, generator, None, True), shape, generator).double()


def test_weights_are_those_of_the_equation() -> None:
    heads = AttentionHeads(4, 6, 2, Generator().manual_seed(0)).double()
    states = random_numbers(1, 3, 4)
    attended = heads(states, torch.ones(1, 3, dtype=torch.bool))
    for k in range(2):
        wanted = torch.tanh(heads.of_context[k] @ heads.context[k])
        scores = torch.stack([wanted @ torch.tanh(heads.of_state[k] @ state) for state in states[0]])
        weights = torch.exp(scores) / torch.exp(scores).sum()
        assert torch.allclose(attended.weights[0, k], weights, atol=1e-6)
        assert torch.allclose(attended.vectors[0, k], weights @ states[0], atol=1e-6)


def test_padding_changes_no_sentence() -> None:
    encoder = sentence_encoder()
    tokens, offsets = flat([[1, 4, 5, 2], [1, 6, 2], [1, 7, 8, 4, 5, 6, 2]])
    together = encoder(tokens, offsets, torch.tensor([1, 2, 0]))
    for place, row in enumerate([1, 2, 0]):
        assert torch.allclose(encoder(tokens, offsets, torch.tensor([row]))[0], together[place], atol=1e-12)
    assert torch.allclose(together.norm(dim=1), torch.ones(3, dtype=torch.double))


def test_padding_changes_no_image() -> None:
    encoder = RegionEncoder(5, 4, 4, 2, "root", True, Generator().manual_seed(0))
    features = random_numbers(2, 3, 5).float()
    padded = torch.cat([features, torch.zeros(2, 4, 5)], 1)
    assert torch.allclose(encoder(features), encoder(padded), atol=1e-6)
    assert encoder.attend(padded).weights[:, :, 3:].eq(0).all()
    assert encoder(torch.zeros(1, 3, 5)).isfinite().all()  # an image without features
    assert torch.allclose(encoder(features[:, 0]), encoder(features[:, :1]))


def test_long_sentences_are_cut() -> None:
    encoder = sentence_encoder()
    words = [1, *[4, 5] * 80, 2]
    tokens, offsets = flat([words, words[: MAX_WORDS + 1]])
    assert torch.equal(*encoder(tokens, offsets, torch.arange(2)))
