"""How the vectors of a caption's components become one: UniVSE's aggregations (section 3.2 and the ablations)."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence

from ..device import to_device

ATTENTION = 128  # hidden units of the self-attention, which the paper does not state


class Composition(nn.Module):
    """One vector of length 1 of the vectors of a caption's components.

    kind: `average`, `sum` (the same but for its length, which is 1), `max` per dimension, `self-attention`, the mean
    with the weights softmax_j(w₂ᵀ tanh(W₁ u_j)), or `gru`, the last state of a GRU that reads the components. size: d.
    """

    def __init__(self, kind: str, size: int, generator: Generator) -> None:
        super().__init__()
        self.kind = kind
        if kind == "self-attention":
            self.hidden = nn.Linear(size, ATTENTION, bias=False)
            self.weight = nn.Linear(ATTENTION, 1, bias=False)
        if kind == "gru":
            self.gru = nn.GRU(size, size, batch_first=True)
        for parameter in self.parameters():
            bound = parameter.shape[-1] ** -0.5
            nn.init.uniform_(parameter, -bound, bound, generator=generator)

    def forward(self, vectors: Tensor, owner: Tensor, captions: int, order: Tensor | None = None) -> Tensor:
        """The composed vectors (B, d) of B captions; 0 for those without components.

        vectors: (m, d). owner: (m,) the caption of each, on the CPU. order: (m,) numbers by which a GRU reads the
        components of a caption in ascending order; None: as they come.
        """
        if self.kind in ("self-attention", "gru"):
            by = owner.argsort(stable=True) if order is None else _by_owner(owner, order)
            padded, lengths = _padded(vectors[to_device(by, vectors.device)], owner[by], captions)
            composed = self._attended(padded, lengths) if self.kind == "self-attention" else self._read(padded, lengths)
        else:
            at = to_device(owner, vectors.device)
            sums = vectors.new_zeros(captions, vectors.shape[1])
            if self.kind == "max":
                composed = sums.scatter_reduce(0, at[:, None].expand_as(vectors), vectors, "amax", include_self=False)
            else:
                composed = sums.index_add(0, at, vectors)
        return functional.normalize(composed, dim=-1)

    def _attended(self, padded: Tensor, lengths: Tensor) -> Tensor:
        """The weighted means (B, d) of padded components (B, M, d); lengths: (B,), on the CPU."""
        present = torch.arange(padded.shape[1]) < lengths[:, None]
        scores = self.weight(torch.tanh(self.hidden(padded)))[:, :, 0]
        scores = scores.masked_fill(to_device(~present, scores.device), -1e9)
        return (scores.softmax(1)[:, None] @ padded)[:, 0]

    def _read(self, padded: Tensor, lengths: Tensor) -> Tensor:
        """The last states (B, d) of the GRU over padded components (B, M, d); 0 for captions without any."""
        packed = pack_padded_sequence(padded, lengths.clamp(min=1), batch_first=True, enforce_sorted=False)
        return self.gru(packed)[1][0] * to_device(lengths > 0, padded.device)[:, None]


def _by_owner(owner: Tensor, order: Tensor) -> Tensor:
    """The permutation (m,) that sorts by owner, and within one by `order`."""
    by = order.argsort(stable=True)
    return by[owner[by].argsort(stable=True)]


def _padded(vectors: Tensor, owner: Tensor, captions: int) -> tuple[Tensor, Tensor]:
    """Vectors (m, d), sorted by owner, as (B, M, d) with zeros behind those of a caption; and how many each has."""
    lengths = torch.bincount(owner, minlength=captions)
    slot = torch.arange(len(owner)) - (lengths.cumsum(0) - lengths)[owner]
    padded = vectors.new_zeros(captions, max(1, int(lengths.max())), vectors.shape[1])
    where = (to_device(owner, vectors.device), to_device(slot, vectors.device))
    return padded.index_put(where, vectors), lengths
