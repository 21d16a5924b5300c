"""Words, and nouns with an attribute, to unit vectors."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from negcap.pipelines.models.encoders import word_embedding


class WordEncoder(nn.Module):
    """φ(w) = Norm(σ(W₁w + b₁) · tanh(W₂w + b₂)) of w = basic ⊕ modifier embedding (UniVSE, section 3.1).

    A word has its own modifier; a noun with an attribute the noun's basic and the attribute's modifier embedding.
    vectors: (V, word_dim) for the basic embeddings, see `word_embedding`; tune: whether they are trained.
    """

    def __init__(
        self,
        words: int,
        word_dim: int,
        modifier_dim: int,
        joint: int,
        generator: Generator,
        vectors: Tensor | None = None,
        tune: bool = True,
    ) -> None:
        super().__init__()
        self.basic = word_embedding(words, word_dim, generator, vectors, tune)
        self.modifier = word_embedding(words, modifier_dim, generator, None, True)
        self.linear = nn.Linear(word_dim + modifier_dim, 2 * joint)
        nn.init.xavier_uniform_(self.linear.weight, generator=generator)
        nn.init.zeros_(self.linear.bias)

    def forward(self, words: Tensor, modifiers: Tensor | None = None) -> Tensor:
        """Words (n,) with modifiers (n,), or their own, to unit vectors (n, joint) in float32; equal ones once."""
        basic, modifier = self.linear.weight.split([self.basic.embedding_dim, self.modifier.embedding_dim], 1)
        size = self.basic.num_embeddings
        pairs = words.long() * size + (words if modifiers is None else modifiers)
        distinct, which = pairs.unique(return_inverse=True)
        nouns, noun = torch.div(distinct, size, rounding_mode="floor").unique(return_inverse=True)
        said, saying = (distinct % size).unique(return_inverse=True)
        given = functional.linear(self.basic(nouns), basic, self.linear.bias)
        return self._gated(given[noun] + functional.linear(self.modifier(said), modifier)[saying])[which]

    @staticmethod
    def _gated(sums: Tensor) -> Tensor:
        gate, value = sums.float().chunk(2, -1)
        return functional.normalize(torch.sigmoid(gate) * torch.tanh(value), dim=-1)
