"""Attention heads, and the encoders of image regions and of sentences that end in them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from negcap.pipelines.models.device import to_device
from negcap.pipelines.models.encoders import TRANSFORMS
from negcap.pipelines.models.sampling import pack_sentences
from negcap.pipelines.models.similarities import unit

MAX_WORDS = 100  # of a sentence that are read, besides <start>


class Attended(NamedTuple):
    """The result of K attention heads over N states of size H, for each of B sequences.

    weights: (B, K, N), 0 for padding; those of a head sum to 1. vectors: (B, K, H), the weighted sums of the states.
    """

    weights: Tensor
    vectors: Tensor

    def joined(self) -> Tensor:
        """The vectors of all heads one after the other, as one unit vector: (B, K · H), float32 (float64 stays)."""
        return unit(self.vectors.flatten(1))


class AttentionHeads(nn.Module):
    """K attention heads, each with a learned context vector c and two matrices W_c and W (MHA-D, section 2.1).

    A head gives state g_i the weight softmax_i(tanh(W_c c) · tanh(W g_i)). size: H, of states and context vectors.
    width: the number of rows of the matrices.
    """

    def __init__(self, size: int, width: int, heads: int, generator: Generator) -> None:
        super().__init__()
        self.context = nn.Parameter(torch.empty(heads, size).normal_(generator=generator))
        self.of_context = nn.Parameter(torch.empty(heads, width, size))
        self.of_state = nn.Parameter(torch.empty(heads, width, size))
        for weight in (self.of_context, self.of_state):
            for matrix in weight.data:
                nn.init.xavier_uniform_(matrix, generator=generator)

    def forward(self, states: Tensor, present: Tensor) -> Attended:
        """Attend to states (B, N, H) where `present` (B, N), bool, is True; each sequence has at least one such."""
        heads, width, size = self.of_state.shape
        wanted = torch.einsum("kwh,kh->kw", self.of_context, self.context).tanh()
        found = functional.linear(states, self.of_state.view(heads * width, size)).tanh()
        scores = (found.view(*states.shape[:2], heads, width) * wanted).sum(-1)
        scores = scores.to(torch.promote_types(scores.dtype, torch.float)).masked_fill(~present[..., None], -torch.inf)
        weights = scores.softmax(1).transpose(1, 2).to(states.dtype)
        return Attended(weights, weights @ states)


class RegionEncoder(nn.Module):
    """Maps the regions of images (B, R, D) to unit vectors (B, K · joint): transform, linear layer, K attention heads.

    size: D. joint: the size of a head's vector. width, heads: see AttentionHeads. transform: a key of TRANSFORMS. tanh:
    whether it follows the linear layer. Regions whose features are all 0 are padding. Features (B, D) without regions
    count as one region.
    """

    def __init__(
        self, size: int, joint: int, width: int, heads: int, transform: str, tanh: bool, generator: Generator
    ) -> None:
        super().__init__()
        self.transform = transform
        self.tanh = tanh
        self.linear = nn.Linear(size, joint)
        nn.init.xavier_uniform_(self.linear.weight, generator=generator)
        nn.init.zeros_(self.linear.bias)
        self.heads = AttentionHeads(joint, width, heads, generator)

    def attend(self, features: Tensor) -> Attended:
        """The heads over the regions of features (B, R, D) of any float type; an image of zeros attends to all."""
        regions = (features if features.dim() == 3 else features[:, None]).to(self.linear.weight.dtype)
        present = (regions != 0).any(-1)
        states = self.linear(TRANSFORMS[self.transform](regions))
        return self.heads(states.tanh() if self.tanh else states, present | ~present.any(1, keepdim=True))

    def forward(self, features: Tensor) -> Tensor:
        """Unit vectors (B, K · joint), float32, of features (B, R, D) or (B, D)."""
        return self.attend(features).joined()


class SentenceEncoder(nn.Module):
    """Maps sentences of one language to unit vectors (B, K · joint): word vectors, bidirectional LSTM, attention heads.

    embedding: word ids (n,) to (n, word_dim). joint: the size of a state, joint / 2 per reading direction, and of a
    head's vector. width, heads: see AttentionHeads.
    """

    def __init__(
        self, embedding: nn.Module, word_dim: int, joint: int, width: int, heads: int, generator: Generator
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.lstm = nn.LSTM(word_dim, joint // 2, bidirectional=True)
        for parameter in self.lstm.parameters():
            bound = (joint // 2) ** -0.5
            nn.init.uniform_(parameter, -bound, bound, generator=generator)
        self.heads = AttentionHeads(joint, width, heads, generator)

    def attend(self, tokens: Tensor, offsets: Tensor, rows: Tensor) -> Attended:
        """The heads over the words of sentences `rows` (B,), from <start> to <end>.

        tokens: (total,) word ids, on the encoder's device. offsets: (n + 1,), where each sentence starts; on the CPU,
        like rows.
        """
        packed = pack_sentences(offsets, rows, MAX_WORDS + 1)
        words = self.embedding(tokens[to_device(packed.positions, tokens.device)])
        states, _ = self.lstm(PackedSequence(words, packed.sizes))
        padded, lengths = pad_packed_sequence(states, batch_first=True)
        present = torch.arange(padded.shape[1])[None, :] < lengths[:, None]
        attended = self.heads(padded, to_device(present, padded.device))
        inverse = to_device(packed.inverse, tokens.device)
        return Attended(*(part[inverse] for part in attended))

    def forward(self, tokens: Tensor, offsets: Tensor, rows: Tensor) -> Tensor:
        """Unit vectors (B, K · joint), float32, of sentences; arguments as those of `attend`."""
        return self.attend(tokens, offsets, rows).joined()
