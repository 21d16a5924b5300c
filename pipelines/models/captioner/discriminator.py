"""The discriminator: the probability that a person wrote this sentence about this image."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from ..vocabulary import PAD_ID
from .generator import PaddedSentences, pack_sentences


class Discriminator(nn.Module):
    """r(I, S) = σ(⟨f(I), h(S)⟩), the probability that a person wrote sentence S about image I (eq. 1).

    f is a linear map of the image's features, h the last state of an LSTM over the words; both are L2-normalized.
    features: the size of an image's feature vector. words: the size of the vocabulary. joint: the dimension of f and h.
    """

    def __init__(self, features: int, words: int, *, word_dim: int, joint: int) -> None:
        super().__init__()
        self.image = nn.Linear(features, joint)
        self.embedding = nn.Embedding(words, word_dim, padding_idx=PAD_ID)
        self.lstm = nn.LSTM(word_dim, joint)

    def images(self, features: Tensor) -> Tensor:
        """f(I): unit vectors (B, joint) of images with features (B, D)."""
        return functional.normalize(self.image(features), dim=1)

    def sentences(self, sentences: PaddedSentences) -> Tensor:
        """h(S): unit vectors (B, joint) of B sentences."""
        _, (last, _) = self.lstm(pack_sentences(self.embedding(sentences.words), sentences.lengths))
        return functional.normalize(last[0], dim=1)

    def forward(self, images: Tensor, sentences: PaddedSentences) -> Tensor:
        """The logits (B,) of r: the dot product of each image vector (B, joint) with its encoded sentence."""
        return (images * self.sentences(sentences)).sum(1)
