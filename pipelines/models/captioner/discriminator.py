"""The discriminator: whether a sentence is a person's caption of an image."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from negcap.pipelines.models.captioner.generator import PAD_ID, Sentences, packed


class Discriminator(nn.Module):
    """r(I, S) = σ(⟨f(I), h(S)⟩) with unit vectors of a linear map of the image and of an LSTM's last state (eq. 1).

    features: size of an image's; words: of the vocabulary; joint: of the space of both vectors.
    """

    def __init__(self, features: int, words: int, *, word_dim: int, joint: int) -> None:
        super().__init__()
        self.image = nn.Linear(features, joint)
        self.embedding = nn.Embedding(words, word_dim, padding_idx=PAD_ID)
        self.lstm = nn.LSTM(word_dim, joint)

    def images(self, features: Tensor) -> Tensor:
        """Unit vectors (B, joint) of features (B, D)."""
        return functional.normalize(self.image(features), dim=1)

    def sentences(self, sentences: Sentences) -> Tensor:
        """Unit vectors (B, joint) of sentences."""
        _, (last, _) = self.lstm(packed(self.embedding(sentences.words), sentences.lengths))
        return functional.normalize(last[0], dim=1)

    def forward(self, images: Tensor, sentences: Sentences) -> Tensor:
        """⟨f(I), h(S)⟩ (B,) of image vectors (B, joint) and their sentences; σ of it is the score."""
        return (images * self.sentences(sentences)).sum(1)
