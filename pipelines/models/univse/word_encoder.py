"""UniVSE's encoder of words and attributed nouns."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from ..encoders import word_embedding


@dataclass(frozen=True)
class WordEncoderShape:
    """The size of the vocabulary, and the dimensions of the basic and modifier embeddings and of the joint space."""

    words: int
    word_dim: int
    modifier_dim: int
    joint: int


class WordEncoder(nn.Module):
    """φ(w) = Norm(σ(W₁w + b₁) · tanh(W₂w + b₂)), where w concatenates a basic and a modifier embedding (section 3.1).

    A single word has its own modifier embedding; an attributed noun has the basic embedding of the noun and the
    modifier embedding of the attribute. vectors, tune: initial basic embeddings (words, word_dim) and whether they are
    trained, see `word_embedding`.
    """

    def __init__(
        self, shape: WordEncoderShape, generator: Generator, vectors: Tensor | None = None, tune: bool = True
    ) -> None:
        super().__init__()
        self.basic = word_embedding(shape.words, shape.word_dim, generator, vectors, tune)
        self.modifier = word_embedding(shape.words, shape.modifier_dim, generator, None, True)
        self.linear = nn.Linear(shape.word_dim + shape.modifier_dim, 2 * shape.joint)
        nn.init.xavier_uniform_(self.linear.weight, generator=generator)
        nn.init.zeros_(self.linear.bias)

    def forward(self, words: Tensor, modifiers: Tensor | None = None) -> Tensor:
        """Unit vectors (n, joint), float32, of words (n,) with modifiers (n,), both ids; None: each word's own."""
        vectors, which = self.distinct(words, modifiers)
        return vectors[which]

    def distinct(self, words: Tensor, modifiers: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The vectors (u, joint) of the distinct pairs of a word and a modifier, and which of them each pair is (n,).

        Arguments as those of `forward`. Every distinct word, modifier and pair is computed only once.
        """
        basic, modifier = self.linear.weight.split([self.basic.embedding_dim, self.modifier.embedding_dim], 1)
        size = self.basic.num_embeddings
        pairs = words.long() * size + (words if modifiers is None else modifiers)
        distinct, which = pairs.unique(return_inverse=True)
        nouns, noun = torch.div(distinct, size, rounding_mode="floor").unique(return_inverse=True)
        attributes, attribute = (distinct % size).unique(return_inverse=True)
        from_nouns = functional.linear(self.basic(nouns), basic, self.linear.bias)
        from_attributes = functional.linear(self.modifier(attributes), modifier)
        gate, value = (from_nouns[noun] + from_attributes[attribute]).float().chunk(2, -1)
        return functional.normalize(torch.sigmoid(gate) * torch.tanh(value), dim=-1), which
