"""Images and sentences to unit vectors of the joint space."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from pipelines.trainer.prefixes import prefix_tree, states
from pipelines.trainer.sampling import pack, to


def root(features: Tensor) -> Tensor:
    """The signed square root of features, at length 1: (B, D) -> (B, D)."""
    return functional.normalize(features.sign() * features.abs().sqrt(), dim=-1)


TRANSFORMS = {"root": root, "none": lambda features: features}


class ImageEncoder(nn.Module):
    """A linear map of pooled features, L2-normalised: (B, D) -> (B, joint). A grid (B, R, D) is averaged first."""

    def __init__(self, size: int, joint: int, transform: str, generator: Generator) -> None:
        super().__init__()
        self.transform = transform
        self.linear = nn.Linear(size, joint)
        nn.init.xavier_uniform_(self.linear.weight, generator=generator)
        nn.init.zeros_(self.linear.bias)

    def forward(self, features: Tensor) -> Tensor:
        """Features in any float type, (B, D) or (B, R, D), to unit vectors (B, joint) in float32."""
        features = features.float()
        if features.dim() == 3:
            features = features.mean(1)
        return functional.normalize(self.linear(TRANSFORMS[self.transform](features)).float(), dim=-1)


class TextEncoder(nn.Module):
    """A (bidirectional) GRU over words, its states pooled, L2-normalised.

    vectors: (V, word_dim) to begin from, rows of NaN where there is none; tune: whether they are trained.
    """

    def __init__(
        self,
        words: int,
        word_dim: int,
        joint: int,
        generator: Generator,
        *,
        bidirectional: bool = True,
        pooling: str = "max",
        vectors: Tensor | None = None,
        tune: bool = True,
    ) -> None:
        super().__init__()
        self.pooling = pooling
        self.embedding = nn.Embedding(words, word_dim)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1, generator=generator)
        if vectors is not None:
            known = ~vectors.isnan().any(1)
            with torch.no_grad():
                self.embedding.weight[known] = vectors[known]
            self.embedding.weight.requires_grad_(tune)
        hidden = joint // 2 if bidirectional else joint
        self.gru = nn.GRU(word_dim, hidden, bidirectional=bidirectional)
        for parameter in self.gru.parameters():
            bound = hidden**-0.5
            nn.init.uniform_(parameter, -bound, bound, generator=generator)

    def forward(self, tokens: Tensor, offsets: Tensor, rows: Tensor) -> Tensor:
        """Sentences `rows` (B,) of a flat array of words to unit vectors (B, joint) in float32.

        tokens: (total,) on the device of the encoder; offsets: (n + 1,) and rows on the CPU.
        """
        pooled = self._packed if tokens.is_cuda else self._shared
        return functional.normalize(pooled(tokens, offsets, rows).float(), dim=-1)

    def _packed(self, tokens: Tensor, offsets: Tensor, rows: Tensor) -> Tensor:
        """All sentences side by side: what a GPU does best."""
        packed = pack(offsets, rows)
        words = tokens[to(packed.positions, tokens.device)]
        states, last = self.gru(PackedSequence(self.embedding(words), packed.sizes))
        if self.pooling == "last":
            pooled = last.transpose(0, 1).flatten(1)
        else:
            pooled = pad_packed_sequence(states, padding_value=float("-inf"))[0].amax(0)
        return pooled[to(packed.inverse, tokens.device)]

    def _shared(self, tokens: Tensor, offsets: Tensor, rows: Tensor) -> Tensor:
        """What sentences have in common computed once: fewer operations, in more steps."""
        parts = []
        for suffix in ("", "_reverse") if self.gru.bidirectional else ("",):
            tree = prefix_tree(tokens, offsets, rows, backwards=bool(suffix))
            words, which = tree.word.unique(return_inverse=True)
            given, hidden = (
                (getattr(self.gru, f"weight_{x}_l0{suffix}"), getattr(self.gru, f"bias_{x}_l0{suffix}"))
                for x in ("ih", "hh")
            )
            parts.append(states(functional.linear(self.embedding(words), *given), *hidden, which, tree, self.pooling))
        return torch.cat(parts, 1)
