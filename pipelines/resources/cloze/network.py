"""The cloze network in PyTorch; `negcap.augment.cloze.network` computes the same in NumPy.

One GRU reads a caption forward, another backward. The context of a place is the forward state before it and the
backward state after it, and what attention, from these two, finds among all earlier forward and all later backward
states. No state has seen the word at the place itself, so one pass gives the contexts of all places of a caption.
The same network answers for a place of several words, or for an empty one between two words.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

FARTHEST = 7  # distances of this many units and more share one bias of the attention


class Sizes(NamedTuple):
    """words: width of the word vectors. states: of each GRU. hidden: of the layer before the word vectors. heads: of
    the attention, whose keys and values have the width of the states.
    """

    words: int = 160
    states: int = 256
    hidden: int = 384
    heads: int = 4


class Cloze(nn.Module):
    """A cloze model of `units` units. Its parameters' names are those of the arrays in the shipped file.

    Raises ValueError if the states are no multiple of the heads.
    """

    def __init__(self, units: int, sizes: Sizes, dropout: float = 0.0) -> None:
        if sizes.states % sizes.heads:
            raise ValueError(f"states must be a multiple of heads, was: {sizes.states} states, {sizes.heads} heads")
        super().__init__()
        self.sizes = sizes
        self.embedding = nn.Embedding(units, sizes.words)
        nn.init.normal_(self.embedding.weight, std=sizes.words**-0.5)
        self.bias = nn.Parameter(torch.zeros(units))
        self.forward_gru = nn.GRU(sizes.words, sizes.states, batch_first=True)
        self.backward_gru = nn.GRU(sizes.words, sizes.states, batch_first=True)
        self.query = nn.Linear(2 * sizes.states, sizes.states)
        self.memory = nn.ModuleList(nn.Linear(sizes.states, 2 * sizes.states) for _ in range(2))
        self.distance = nn.Parameter(torch.zeros(sizes.heads, 2, FARTHEST + 1))
        self.hidden = nn.Linear(3 * sizes.states, sizes.hidden)
        self.output = nn.Linear(sizes.hidden, sizes.words)
        self.dropout = nn.Dropout(dropout)

    def contexts(self, units: Tensor) -> Tensor:
        """The context vectors of all places but START and END.

        units: (captions, length), captions of equal length with START and END. Returns (captions, length - 2, words).
        """
        sizes, length = self.sizes, units.shape[1]
        vectors = self.dropout(self.embedding(units))
        before, _ = self.forward_gru(vectors[:, :-2])
        after, _ = self.backward_gru(vectors.flip(1)[:, :-2])
        after = after.flip(1)  # row i: the state after reading END back to place i + 2
        before, after = self.dropout(before), self.dropout(after)
        both = torch.cat([before, after], -1)
        n, heads, width = length - 2, sizes.heads, sizes.states // sizes.heads
        query = self.query(both).view(-1, n, heads, width).transpose(1, 2)
        key_value = torch.cat([self.memory[0](before), self.memory[1](after)], 1)
        key, value = key_value.view(-1, 2 * n, heads, 2 * width).transpose(1, 2).chunk(2, -1)
        found = nn.functional.scaled_dot_product_attention(query, key, value, self._bias(n))
        found = found.transpose(1, 2).reshape(-1, n, sizes.states)
        hidden = nn.functional.gelu(self.hidden(torch.cat([both, self.dropout(found)], -1)), approximate="tanh")
        return self.output(self.dropout(hidden))

    def _bias(self, n: int) -> Tensor:
        """What attention adds by distance: (heads, n, 2 n); -inf for states that have seen the place itself."""
        at = torch.arange(n)
        distance = at[:, None] - at[None]
        biases = []
        for side, back in ((0, distance), (1, -distance)):
            bias = self.distance[:, side, back.clamp(0, FARTHEST)]
            biases.append(bias.masked_fill(back < 0, -torch.inf))
        return torch.cat(biases, -1)

    def scores(self, contexts: Tensor, units: Tensor) -> Tensor:
        """The log-probability, up to an error of normalisation that training keeps small, of some units in contexts.

        contexts: (..., words); units: (n,). Returns (..., n).
        """
        return contexts @ self.embedding(units).T + self.bias[units]
