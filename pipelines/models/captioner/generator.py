"""The generator: writes a sentence word by word, from image features and noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from ..vocabulary import PAD_ID, START_ID, UNKNOWN_ID

FORBIDDEN = (PAD_ID, START_ID, UNKNOWN_ID)  # words with probability 0


class LSTMState(NamedTuple):
    """The state of an LSTM for B sentences: hidden and cell, both (B, hidden)."""

    hidden: Tensor
    cell: Tensor

    def select(self, rows: Tensor) -> LSTMState:
        """The states of the sentences `rows` (b,)."""
        return LSTMState(self.hidden[rows], self.cell[rows])


class PaddedSentences(NamedTuple):
    """B sentences of up to T words: words (B, T) int64, padded with <pad>; lengths (B,), with <end> counted."""

    words: Tensor
    lengths: Tensor

    @property
    def mask(self) -> Tensor:
        """(B, T) bool: True for words, False for padding."""
        return torch.arange(self.words.shape[1], device=self.words.device)[None, :] < self.lengths[:, None]

    def select(self, rows: Tensor) -> PaddedSentences:
        """The sentences `rows` (b,)."""
        return PaddedSentences(self.words[rows], self.lengths[rows])


class WordScores(NamedTuple):
    """The generator's scores of each word of given sentences; 0 for padding.

    log_probs: (B, T) the log-probability log π of each word. entropy: (B, T), in nats, of the distribution at that
    position.
    """

    log_probs: Tensor
    entropy: Tensor


@dataclass(frozen=True)
class GeneratorShape:
    """Sizes of the word vectors, the LSTM's state and the noise z; dropout: of word vectors and states."""

    word_dim: int
    hidden: int
    noise: int
    dropout: float


class Generator(nn.Module):
    """The policy π(word | image, noise z, previous words): an LSTM that starts from image features and noise.

    Its first state is tanh of a linear map of the concatenated features and z, which is standard normal. features: the
    size of an image's feature vector. words: the size V of the vocabulary.
    """

    forbidden: Tensor

    def __init__(self, features: int, words: int, shape: GeneratorShape) -> None:
        super().__init__()
        self.noise = shape.noise
        self.embedding = nn.Embedding(words, shape.word_dim)
        self.first = nn.Linear(features + shape.noise, 2 * shape.hidden)
        self.lstm = nn.LSTM(shape.word_dim, shape.hidden)
        self.dropout = nn.Dropout(shape.dropout)
        self.out = nn.Linear(shape.hidden, words)
        forbidden = torch.zeros(words)
        forbidden[list(FORBIDDEN)] = -torch.inf
        self.register_buffer("forbidden", forbidden, persistent=False)

    def first_state(self, features: Tensor, noise: Tensor) -> LSTMState:
        """The state before the first word; features: (B, D), noise: (B, z)."""
        return LSTMState(*self.first(torch.cat([features, noise], 1)).tanh().chunk(2, 1))

    def step(self, state: LSTMState, words: Tensor) -> tuple[Tensor, LSTMState]:
        """Read one word per sentence (B,); returns the logits (B, V) of the next word and the new state.

        Without dropout. The LSTM's equations are written out, which is faster for one step than a call of `lstm`.
        """
        input_weight, hidden_weight, input_bias, hidden_bias = self.lstm.all_weights[0]
        gates = linear(self.embedding(words), input_weight, input_bias) + linear(
            state.hidden, hidden_weight, hidden_bias
        )
        enter, forget, new, show = gates.chunk(4, 1)
        cell = forget.sigmoid() * state.cell + enter.sigmoid() * new.tanh()
        hidden = show.sigmoid() * cell.tanh()
        return self.out(hidden) + self.forbidden, LSTMState(hidden, cell)

    def forward(self, state: LSTMState, sentences: PaddedSentences) -> WordScores:
        """Score all words of sentences, starting from `state`; the log-probability of a forbidden word is set to 0."""
        words, lengths = sentences
        start = torch.full_like(words[:, :1], START_ID)
        inputs = pack_sentences(self.dropout(self.embedding(torch.cat([start, words[:, :-1]], 1))), lengths)
        order = inputs.sorted_indices
        states, _ = self.lstm(inputs, (state.hidden[None], state.cell[None]))
        target = pack_sentences(words[..., None], lengths).data[:, 0]
        scores = (self.out(self.dropout(states.data)) + self.forbidden).log_softmax(1)
        allowed = (target[:, None] != torch.tensor(FORBIDDEN, device=words.device)).all(1)
        log_probs = scores.gather(1, target[:, None])[:, 0].where(allowed, 0)
        with torch.no_grad():
            entropy = -(scores.exp() * scores.clamp(min=-1e4)).sum(1)

        def pad(data: Tensor) -> Tensor:
            packed = PackedSequence(data, inputs.batch_sizes, order, inputs.unsorted_indices)
            return pad_packed_sequence(packed, batch_first=True, total_length=words.shape[1])[0]

        return WordScores(pad(log_probs), pad(entropy))


def pack_sentences(values: Tensor, lengths: Tensor) -> PackedSequence:
    """Values (B, T, d) of sentences with lengths (B,), packed for torch's recurrent nets."""
    return pack_padded_sequence(values, lengths.cpu(), batch_first=True, enforce_sorted=False)
