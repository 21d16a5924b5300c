"""Attention heads, and the encoder of sentences that ends in them (MHA-D; Huang et al. 2019)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from .device import to_device
from .sampling import pack_sentences
from .similarities import unit

MAX_WORDS = 100  # of a sentence that are read, besides <start>
Finish = Callable[[Tensor], Tensor]  # (…, d) -> (…, d), see Similarity


@dataclass(frozen=True)
class TextShape:
    """The shape of an encoder of sentences.

    word_dim: the size of the word vectors. joint: the dimension of the result. bidirectional: two recurrent nets of
    joint / 2 units, one per reading direction. pooling: of the states, "max" (per dimension, over all words) or "last".
    heads, attention_dim: of attention, see AttentionHeads; attention_dim 0: joint / heads.
    """

    word_dim: int
    joint: int
    bidirectional: bool = True
    pooling: str = "max"
    heads: int = 3
    attention_dim: int = 0


class Attended(NamedTuple):
    """The result of K attention heads over N states of size H, for each of B sequences.

    weights: (B, K, N), 0 for padding; those of a head sum to 1. vectors: (B, K, H), the weighted sums of the states.
    """

    weights: Tensor
    vectors: Tensor


class AttentionHeads(nn.Module):
    """K attention heads, each with a learned context vector c and two matrices W_c and W (Huang et al. 2019).

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


class SentenceEncoder(nn.Module):
    """Maps sentences of one language to vectors (B, joint): word vectors, bidirectional LSTM, K attention heads.

    embedding: word ids (n,) to (n, word_dim). shape: joint, the size of the heads' vectors together, must be a multiple
    of 2 K; a state has joint / K numbers, half of them per reading direction. finish: see Similarity.
    """

    def __init__(self, embedding: nn.Module, shape: TextShape, generator: Generator, finish: Finish = unit) -> None:
        super().__init__()
        self.finish = finish
        self.embedding = embedding
        size = shape.joint // shape.heads
        self.lstm = nn.LSTM(shape.word_dim, size // 2, bidirectional=True)
        for parameter in self.lstm.parameters():
            bound = (size // 2) ** -0.5
            nn.init.uniform_(parameter, -bound, bound, generator=generator)
        self.heads = AttentionHeads(size, shape.attention_dim or size, shape.heads, generator)

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
        """Vectors (B, joint), float32, of sentences; arguments as those of `attend`."""
        return self.finish(self.attend(tokens, offsets, rows).vectors.flatten(1))
