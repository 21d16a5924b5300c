"""The discriminator: the probability that a sentence was written by a person about this image."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from negcap.pipelines.models.captioner.generator import PaddedSentences, pack_sentences
from negcap.pipelines.models.vocabulary import PAD_ID


class Discriminator(nn.Module):
    """r(I, S) = σ(⟨f(I), h(S)⟩): f is linear in the image's features, h an LSTM's last state, both normalized (eq. 1).

    features: size of an image's features; words: size of the vocabulary; joint: dimensions of the space of f and h.
    """

    def __init__(self, features: int, words: int, *, word_dim: int, joint: int) -> None:
        super().__init__()
        self.image = nn.Linear(features, joint)
        self.embedding = nn.Embedding(words, word_dim, padding_idx=PAD_ID)
        self.lstm = nn.LSTM(word_dim, joint)

    def images(self, features: Tensor) -> Tensor:
        """f(I): unit vectors (B, joint) of features (B, D)."""
        return functional.normalize(self.image(features), dim=1)

    def sentences(self, sentences: PaddedSentences) -> Tensor:
        """h(S): unit vectors (B, joint) of B sentences."""
        _, (last, _) = self.lstm(pack_sentences(self.embedding(sentences.words), sentences.lengths))
        return functional.normalize(last[0], dim=1)

    def forward(self, images: Tensor, sentences: PaddedSentences) -> Tensor:
        """⟨f(I), h(S)⟩, the logit of r: (B,), of image vectors (B, joint) and a sentence each."""
        return (images * self.sentences(sentences)).sum(1)
