"""The generator: image features and noise to a sentence, word by word."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from negcap.pipelines.models.vocabulary import END, PAD, SPECIALS, START, UNKNOWN

PAD_ID, START_ID, END_ID, UNKNOWN_ID = (SPECIALS.index(name) for name in (PAD, START, END, UNKNOWN))
NEVER = (PAD_ID, START_ID, UNKNOWN_ID)  # no policy writes them


class State(NamedTuple):
    """The LSTM's state after some words: both (B, hidden)."""

    hidden: Tensor
    cell: Tensor

    def of(self, rows: Tensor) -> State:
        """The states of these rows."""
        return State(self.hidden[rows], self.cell[rows])


class Sentences(NamedTuple):
    """B sentences of up to T words: words (B, T) int64, <pad> behind the end; lengths (B,), <end> counted."""

    words: Tensor
    lengths: Tensor

    @property
    def there(self) -> Tensor:
        """(B, T) bool: the places with a word."""
        return torch.arange(self.words.shape[1], device=self.words.device)[None, :] < self.lengths[:, None]

    def of(self, rows: Tensor) -> Sentences:
        """The sentences of these rows."""
        return Sentences(self.words[rows], self.lengths[rows])


class Read(NamedTuple):
    """What the generator thinks of given sentences, word by word; 0 where there is none.

    logarithms: (B, T) log π of each word; entropy: (B, T) of the policy there, in nats.
    """

    logarithms: Tensor
    entropy: Tensor


def packed(values: Tensor, lengths: Tensor) -> PackedSequence:
    """(B, T, d) with lengths (B,) as torch's recurrent nets like it best."""
    return pack_padded_sequence(values, lengths.cpu(), batch_first=True, enforce_sorted=False)


class Generator(nn.Module):
    """π(word | image, noise, words before): image features ⊕ noise set the first state of an LSTM over words.

    features: size of an image's; words: of the vocabulary; noise: z's, standard normal.
    """

    never: Tensor

    def __init__(self, features: int, words: int, *, word_dim: int, hidden: int, noise: int, dropout: float) -> None:
        super().__init__()
        self.noise = noise
        self.embedding = nn.Embedding(words, word_dim)
        self.first = nn.Linear(features + noise, 2 * hidden)
        self.lstm = nn.LSTM(word_dim, hidden)
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(hidden, words)
        never = torch.zeros(words)
        never[list(NEVER)] = -torch.inf
        self.register_buffer("never", never, persistent=False)

    def begin(self, features: Tensor, noise: Tensor) -> State:
        """The state before the first word: features (B, D), noise (B, z)."""
        return State(*self.first(torch.cat([features, noise], 1)).tanh().chunk(2, 1))

    def step(self, state: State, words: Tensor) -> tuple[Tensor, State]:
        """Read a word (B,) each; scores (B, V) of the next one, and the state. No dropout; quicker than `lstm` is."""
        enter_word, enter_state, word_bias, state_bias = self.lstm.all_weights[0]
        gates = linear(self.embedding(words), enter_word, word_bias) + linear(state.hidden, enter_state, state_bias)
        enter, keep, new, show = gates.chunk(4, 1)
        cell = keep.sigmoid() * state.cell + enter.sigmoid() * new.tanh()
        hidden = show.sigmoid() * cell.tanh()
        return self.out(hidden) + self.never, State(hidden, cell)

    def forward(self, state: State, sentences: Sentences) -> Read:
        """Read whole sentences from their first states on. A word that no policy writes counts 0."""
        words, lengths = sentences
        start = torch.full_like(words[:, :1], START_ID)
        given = packed(self.dropout(self.embedding(torch.cat([start, words[:, :-1]], 1))), lengths)
        order = given.sorted_indices
        states, _ = self.lstm(given, (state.hidden[None], state.cell[None]))
        target = packed(words[..., None], lengths).data[:, 0]
        scores = (self.out(self.dropout(states.data)) + self.never).log_softmax(1)
        known = (target[:, None] != torch.tensor(NEVER, device=words.device)).all(1)
        logarithms = scores.gather(1, target[:, None])[:, 0].where(known, 0)
        with torch.no_grad():
            entropy = -(scores.exp() * scores.clamp(min=-1e4)).sum(1)

        def unpacked(data: Tensor) -> Tensor:
            whole = PackedSequence(data, given.batch_sizes, order, given.unsorted_indices)
            return pad_packed_sequence(whole, batch_first=True, total_length=words.shape[1])[0]

        return Read(unpacked(logarithms), unpacked(entropy))
